"""Systems that a test of this folder simulates are played again from their calls, and each of their events must have a cause."""

from collections.abc import Iterator

import numpy as np
import pytest

from tilestep.machine.spec import MachineSpec
from tilestep.recording.history import HistoryBegin, begin_history, history_since
from tilestep.recording.replay import replay
from tilestep.sim.system import System
from tilestep.sim.trace import KINDS, TRANSFER, WAIT, Rows

BESIDE = (KINDS.index("io-in"), KINDS.index("io-out"), TRANSFER)
_MOST = 60  # systems of one test that are played again: of more, every second or third one, and so on
_SNAPSHOT_AT = 3  # the dispatch behind which a second history begins


@pytest.fixture(autouse=True)
def played_again(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    systems: list[tuple[System, list[HistoryBegin]]] = []
    create, dispatch = System.__init__, System.dispatch

    def created(self: System, machine: MachineSpec, *, record: bool = True) -> None:
        create(self, machine, record=record)
        systems.append((self, [begin_history(self)]))

    def dispatched(self: System, *args: object, **kwargs: object) -> None:
        dispatch(self, *args, **kwargs)  # type: ignore[arg-type]
        begins = next((begins for system, begins in systems if system is self), [])
        # a snapshot in the midst of a group's entry would play what the group has begun
        if len(begins) == 1 and self._dispatches >= _SNAPSHOT_AT and self._lockstep.partition is None:
            begins.append(begin_history(self))

    monkeypatch.setattr(System, "__init__", created)
    monkeypatch.setattr(System, "dispatch", dispatched)
    yield
    monkeypatch.undo()
    for system, begins in systems[:: len(systems) // _MOST + 1]:
        for begin in begins:
            again = replay(history_since(system, begin), record=True, links=True)
            assert (again.host_cycle, again.end_cycle) == (system.host_cycle, system.end_cycle)
            for ipu in range(system.machine.num_ipus):
                assert again.tile_use(ipu) == system.tile_use(ipu)
            if begin is begins[0]:
                check_causes(again)
                assert sums_of(again) == sums_of(system)


def sums_of(system: System) -> dict[int, tuple[object, ...]]:
    """The sums of each program that ran."""
    programs = system.mark().programs.items()
    return {key: (of.runs, of.loads, of.cycles, of.host, of.refed, of.repeated) for key, of in programs if of.runs}


def check_causes(system: System) -> None:
    """Each event begins when its cause ended, or with the simulation; a wait ends when its cause did."""
    rows = system._recorder.rows(0, system._recorder.position)
    broken = wrong_causes(rows)
    assert broken == [], broken[:5]


def _explains(end: int, at: int, kind: int) -> bool:
    """Whether an end decided a time. A transfer within an event of an IPU may begin later than what that event waited for."""
    return end == at or (kind in BESIDE and 0 <= end < at)


def wrong_causes(rows: Rows) -> list[tuple[int, ...]]:
    """(number, lane, kind, start, end, cause, end of the cause) of the events whose cause does not explain their time."""
    ends = dict(zip(rows.number.tolist(), rows.end.tolist(), strict=True))
    decided = np.where(rows.kind == WAIT, rows.end, rows.start)
    causes = set(rows.cause.tolist())
    # a transfer within an event of an IPU begins at any time in it, and decides nothing
    matters = [
        kind not in BESIDE or cause >= 0 or number in causes for number, kind, cause in zip(rows.number, rows.kind, rows.cause, strict=True)
    ]
    return [
        (number, lane, kind, start, end, cause, ends.get(cause, -1))
        for number, lane, kind, start, end, cause, at, matters_here in zip(
            rows.number.tolist(), rows.lane.tolist(), rows.kind.tolist(), rows.start.tolist(), rows.end.tolist(), rows.cause.tolist(),
            decided.tolist(), matters, strict=True,
        )
        if matters_here and not _explains(ends.get(cause, -1) if cause >= 0 else 0, at, kind)
    ]  # fmt: skip
