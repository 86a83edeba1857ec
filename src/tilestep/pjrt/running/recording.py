"""Profiles that are under way, and the journal that they are taken from."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

from tilestep import hints
from tilestep.pjrt.running.journal import Begin, Journal
from tilestep.pjrt.running.measurement import Measurement, measured, measurement_of
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
        _current.stop_recording()


def use(journal: Journal) -> None:
    """Takes profiles from `journal` from now on, and sends it the hints."""
    global _current
    _current = journal
    hints.listen(journal)


@contextlib.contextmanager
def recording() -> Iterator[Callable[[], Measurement]]:
    """Keeps the timeline inside the block; yields a function that measures what happened from the block's begin to now.

    The platform need not have started: then the profile begins when it starts, and is empty if it never does.
    """
    journal_before = _current
    start = None if journal_before is None else journal_before.begin()
    holder = object()
    keep_timeline(holder)

    def measure() -> Measurement:
        journal = _current
        if journal is None:
            settings = read_settings()
            idle = System(settings.machine, record=False)
            return measurement_of(idle, Begin(idle.mark(), None), idle.mark(), settings.engine, {})
        return measured(journal, start if start is not None and journal is journal_before else journal.origin)

    try:
        yield measure
    finally:
        let_go_of_timeline(holder)
