"""The history of a simulated system: its state when a recording began, and every call since. It can be played again."""

from collections.abc import Mapping
from dataclasses import dataclass

from tilestep.machine.spec import MachineSpec
from tilestep.plan.steps import Program
from tilestep.sim.call_log import CallLog
from tilestep.sim.calls import Calls, LogPosition
from tilestep.sim.snapshot import Snapshot
from tilestep.sim.system import System


@dataclass(frozen=True, kw_only=True)
class History:
    """A snapshot and the calls after it."""

    machine: MachineSpec  # the machine that was emulated
    programs: Mapping[int, Program]  # programs that the snapshot or a call needs, by key
    snapshot: Snapshot  # the state before the first call
    calls: Calls  # in order

    @property
    def complete(self) -> bool:
        """Whether no call is missing at the end."""
        return self.calls.names.complete


@dataclass(frozen=True, kw_only=True)
class HistoryBegin:
    """The moment from which a history goes."""

    snapshot: Snapshot
    log: CallLog
    position: LogPosition


def begin_history(system: System) -> HistoryBegin:
    """The moment now. The system keeps its calls from now on, until `System.keep_calls` ends that."""
    snapshot = system.snapshot()
    if system.log is None:
        system.keep_calls(True)
    log = system.log
    assert log is not None  # it keeps them now
    return HistoryBegin(snapshot=snapshot, log=log, position=log.position())


def history_since(system: System, begin: HistoryBegin) -> History:
    """The history from a moment of the system to now."""
    return History(machine=system.machine, programs=system.programs, snapshot=begin.snapshot, calls=begin.log.calls(begin.position))
