"""All sessions of a stretch of a process, for who has made none of them: the command line."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Final, Protocol

from tilestep.machine.spec import MachineSpec


class Session(Protocol):
    """What a session did, which stays when the session is gone.

    Attributes:
        name: of the session.
        machine: that is emulated.
    """

    name: str
    machine: MachineSpec

    def summary(self) -> str:
        """The figures of the whole session as text; '' for one without a program."""
        ...


_watching: Final[list[list[Session]]] = []  # of each block that runs


@contextlib.contextmanager
def watched_sessions() -> Iterator[list[Session]]:
    """Yields a list that takes up what is told of each session that is made in the block. It stays when a session is gone."""
    found: list[Session] = []
    _watching.append(found)
    try:
        yield found
    finally:
        _watching.remove(found)


def begun(session: Session) -> None:
    """Says that a session has been made."""
    for found in _watching:
        found.append(session)


def summary(sessions: list[Session]) -> str:
    """The figures of whole sessions as text, each under its name and its machine. One without a program is left out; '' if all are."""
    told = [(session, session.summary()) for session in sessions]
    return "\n\n".join(f"session '{session.name}' on {session.machine.name}\n{text}" for session, text in told if text)
