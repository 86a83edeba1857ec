"""Profiles that are under way, and the journal that they are taken from."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

from tilestep import hints
from tilestep.pjrt.running.jax_programs import is_jax_program
from tilestep.pjrt.running.journal import Journal
from tilestep.report import Profile, profile_between
from tilestep.settings import read_settings
from tilestep.sim import System

_holders: set[object] = set()  # profiles and sessions of profilers that are under way; the timeline is kept only for them
_current: Journal | None = None  # the platform's, once it has started


def is_recording() -> bool:
    """Whether a profile, or a profiler's session, is under way."""
    return bool(_holders)


def current_journal() -> Journal | None:
    """The journal that profiles are taken from; None where JAX has not started the platform."""
    return _current


def keep_timeline(holder: object) -> None:
    """Keeps the timeline from now on, also that of a platform that starts later, until `holder` lets go of it."""
    _holders.add(holder)
    if _current is not None:
        _current.system.record = True


def let_go_of_timeline(holder: object) -> None:
    """Forgets the timeline if nothing else needs it. May be called more than once."""
    _holders.discard(holder)
    if not _holders and _current is not None and not _current.keeps_timeline:
        _current.system.record = False
        _current.system.clear_trace()


def use(journal: Journal) -> None:
    """Takes profiles from `journal` from now on, and sends it the hints."""
    global _current
    _current = journal
    hints.listen(journal)


@contextlib.contextmanager
def recording() -> Iterator[Callable[[], Profile]]:
    """Keeps the timeline inside the block; yields a function that gives the profile from the block's begin to now.

    The platform need not have started: then the profile begins when it starts, and is empty if it never does.
    """
    journal_before = _current
    start = None if journal_before is None else journal_before.mark()
    holder = object()
    keep_timeline(holder)

    def measure() -> Profile:
        journal = _current
        if journal is None:
            idle = System(read_settings().machine, record=False)
            return profile_between(idle, idle.mark(), idle.mark())
        end = journal.mark()
        begin = start if start is not None and journal is journal_before else journal.origin
        return profile_between(journal.system, begin, end, of_jax=is_jax_program)

    try:
        yield measure
    finally:
        let_go_of_timeline(holder)
