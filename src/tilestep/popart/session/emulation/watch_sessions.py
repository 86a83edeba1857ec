"""All sessions of a stretch of a process, for who has made none of them: the command line."""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path
from typing import Final, Protocol

from tilestep.machine.spec import MachineSpec
from tilestep.popart.session.announcements import Announced


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

    @property
    def page(self) -> Path | None:
        """The page of its report, once it is written."""
        ...

    def close(self) -> None:
        """Writes the report that its options ask for, unless that is written."""
        ...


_sessions: Final[Announced[Session]] = Announced()
begun: Final = _sessions.announce  # says that a session has been made


def watched_sessions() -> AbstractContextManager[list[Session]]:
    """Yields a list that takes up what is told of each session that is made in the block. It stays when a session is gone."""
    return _sessions.heard()


def summary(sessions: list[Session]) -> str:
    """The figures of whole sessions as text, each under its name and its machine. One without a program is left out; '' if all are."""
    told = [(session, session.summary()) for session in sessions]
    return "\n\n".join(f"session '{session.name}' on {session.machine.name}\n{text}" for session, text in told if text)
