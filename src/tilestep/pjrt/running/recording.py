"""Profiles that are under way, and the journal that they are taken from."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from functools import partial

from tilestep import hints
from tilestep.pjrt.jax_private import compat
from tilestep.pjrt.running.jax_programs import is_jax_program
from tilestep.pjrt.running.journal import Journal
from tilestep.record.history import history_since
from tilestep.record.sources import Source
from tilestep.report import Profile, profile_between
from tilestep.settings import read_settings
from tilestep.sim import System

_num_recordings = 0  # profiles that are under way; the timeline is kept only for them
_current: Journal | None = None  # the platform's, once it has started


def is_recording() -> bool:
    """Whether a profile is under way."""
    return _num_recordings > 0


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
    global _num_recordings
    journal_before = _current
    start = None if journal_before is None else journal_before.begin()
    _num_recordings += 1
    if journal_before is not None:
        journal_before.system.record = True

    def measure() -> Profile:
        journal = _current
        if journal is None:
            settings = read_settings()
            idle = System(settings.machine, record=False)
            return profile_between(idle, idle.mark(), idle.mark(), notes=settings.engine.notes)
        end = journal.mark()
        begin = start if start is not None and journal is journal_before else journal.origin
        return profile_between(
            journal.system,
            begin.mark,
            end,
            of_jax=is_jax_program,
            history=None if begin.history is None else history_since(journal.system, begin.history),
            sources={key: Source(text=partial(compat.hlo_text, of.hlo), options=of.options) for key, of in journal.sources.items()},
            notes=journal.settings.engine.notes,
        )

    try:
        yield measure
    finally:
        _num_recordings -= 1
        if not _num_recordings and _current is not None and not _current.keeps_timeline:
            _current.system.record = False
            _current.system.clear_trace()
            _current.system.keep_calls(False)
