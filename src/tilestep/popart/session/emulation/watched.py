"""All sessions of a stretch of a process, for who has made none of them: the command line."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Final

from tilestep.popart.session.emulation.calls import Notes
from tilestep.popart.session.emulation.reports import summary_of

_watching: Final[list[list[Notes]]] = []  # of each block that runs


@contextlib.contextmanager
def watched_sessions() -> Iterator[list[Notes]]:
    """Yields a list that takes up the notes of each session that is made in the block. They stay when a session is gone."""
    found: list[Notes] = []
    _watching.append(found)
    try:
        yield found
    finally:
        _watching.remove(found)


def begun(notes: Notes) -> None:
    """Says that a session has been made."""
    for found in _watching:
        found.append(notes)


def summary(sessions: list[Notes]) -> str:
    """The figures of whole sessions as text, each under its name and its machine. One without a program is left out; '' if all are."""
    told = [notes for notes in sessions if notes.programs]
    return "\n\n".join(f"session '{notes.name}' on {notes.machine.name}\n{summary_of(notes, whole=True)}" for notes in told)
