"""All sessions of a stretch of a process, and the stages that are proposed for them: for the command line."""

from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Final

from tilestep.machine import MachineSpec
from tilestep.popart.devices.device_info import DeviceInfo
from tilestep.popart.exceptions import popart_exception
from tilestep.popart.session.announcements import Announced
from tilestep.popart.session.model.graph import SessionGraph
from tilestep.popart.session.proposals.proposal import StageProposal
from tilestep.popart.session.proposals.propose import proposal_for


@dataclass(frozen=True, kw_only=True)
class RegisteredSession:
    """A session, as far as stages are proposed for it.

    Attributes:
        name: of the session.
        graph: its model.
        loss: the tensor that it makes small; None in inference.
        differentiable: tensors that have a gradient.
        device: that it was made for.
        num_io_tiles: of each IPU, which compute nothing.
    """

    name: str
    graph: SessionGraph
    loss: str | None
    differentiable: frozenset[str]
    device: DeviceInfo
    num_io_tiles: int = 0


_sessions: Final[Announced[RegisteredSession]] = Announced()
announce_made: Final = _sessions.announce


def seen_sessions() -> AbstractContextManager[list[RegisteredSession]]:
    """Yields a list that takes up each session that is made in the block. What it holds stays when a session is gone."""
    return _sessions.heard()


@dataclass(frozen=True, kw_only=True)
class Told:
    """What is said of a session. Attributes: name: of the session. proposal: None: there is none, and `why` says why."""

    name: str
    proposal: StageProposal | None
    why: str = ""

    def as_dict(self) -> dict[str, Any]:
        """The same as plain data."""
        return {"session": self.name} | ({"why_none": self.why} if self.proposal is None else self.proposal.as_dict())

    def __str__(self) -> str:
        said = self.why if self.proposal is None else f"proposed stages\n{self.proposal}"
        return f"session '{self.name}': {said}"


def proposals(sessions: list[RegisteredSession], num_stages: int) -> list[Told]:
    """The stages that are proposed for each session. Equal operators of all of them are planned once."""
    from tilestep.popart.session.emulation.costs import Prices  # it brings the emulator with it

    prices: dict[tuple[MachineSpec, int], Prices] = {}
    told: list[Told] = []
    for session in sessions:
        machine = session.device.machine()
        if machine is None:
            told.append(Told(name=session.name, proposal=None, why="no stages are proposed, because a Cpu device has no cycles"))
            continue
        known = prices.setdefault((machine, session.num_io_tiles), Prices(machine, num_io_tiles=session.num_io_tiles))
        try:
            proposal = proposal_for(session.graph, session.loss, session.differentiable, num_stages, machine, known)
        except popart_exception as error:
            told.append(Told(name=session.name, proposal=None, why=f"no stages are proposed: {error}"))
        else:
            told.append(Told(name=session.name, proposal=proposal))
    return told
