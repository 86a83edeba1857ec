"""What the host dispatches in one entry into a program group: collected, and played when a time has to be known.

Members of a group are one program to the machine. What the host dispatches in one entry into the group is one launch of it,
and the dispatches, IPU by IPU, are its steps. They are collected until the entry is over, or somebody needs to know a time,
and then played in order of time (`sim.play`). Only then is it known what stays on the chip: a result of one member that
another takes, on the same IPU, or on another by a copy, which goes over IPU-Links.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final, final

from tilestep.machine.spec import MachineSpec
from tilestep.sim.execute import Execution, Part, Run
from tilestep.sim.ledger import ProgramLedger
from tilestep.sim.play import Download, Pass, Play, Work
from tilestep.sim.residency import NOWHERE, IpuState, Partition, Value

MAX_WORK: Final = 4096  # runs and copies that wait to be played; with more, what there is is played without the rest


@final
class _Copy:
    """A value of one IPU that is to be had on another, too: over IPU-Links if a member takes it there, else by way of the host."""

    __slots__ = ("giver", "host", "position", "source", "state", "taker", "target")

    def __init__(self, source: Value, target: Value, giver: IpuState, state: IpuState, host: int, position: int) -> None:
        self.position = position  # among the work
        self.source = source
        self.target = target
        self.giver = giver  # the IPU that has it
        self.state = state  # the one that is to have it
        self.host = host  # cycle at which the host has asked for it
        self.taker: ProgramLedger | None = None  # the member that takes it there


@final
class Lockstep:
    """The work of one entry into a group that has not been played yet."""

    def __init__(self, machine: MachineSpec, execution: Execution) -> None:
        self.partition: Partition | None = None  # whose work it is; None: there is none
        self.entry = 0
        self._machine = machine
        self._execution = execution
        self._mark = 0
        self._work: list[Run | _Copy] = []
        self._makers: dict[Value, Part] = {}  # of results that would leave the chip
        self._open: dict[Value, _Copy] = {}  # target -> copy that nobody has taken yet
        self._loading: dict[int, tuple[Run, Part]] = {}  # by IPU that has another program loaded
        self._spans: dict[Value, tuple[IpuState, int, int]] = {}  # values that stay between members: positions in the work, both excluded

    def add_run(self, run: Run, taken: Sequence[Sequence[Value]], mark: int) -> None:
        """A run of a member, in the entry that is open. What it makes or saves is pending from now on.

        Args: taken: its arguments, per part. mark: the number of the latest mark.
        """
        self._mark = mark
        for values in taken:
            for value in values:
                if value in self._spans:
                    state, start, _ = self._spans[value]
                    self._spans[value] = (state, start, len(self._work))
        self._work.append(run)
        for part in run.parts:
            if part.reloads:
                self._loading[part.state.index] = (run, part)
            for value in part.saved:
                value.pending = True
            for value in part.leaving:
                value.pending = True
                if not value.written:
                    self._makers[value] = part
                    self._spans[value] = (part.state, len(self._work) - 1, len(self._work) - 1)
        self._bound()

    def open(self, partition: Partition, entry: int) -> None:
        """An entry begins, if this is another than that of the work so far."""
        if self.partition is not partition or self.entry != entry:
            self.flush()
            self.partition, self.entry = partition, entry

    def knows(self, value: Value, state: IpuState) -> bool:
        """Whether a value, which is for the IPU `state`, is on its chip, or comes with what is to be played."""
        if self.partition is None:
            return False
        if value.pending:
            return value.host_ready >= 0  # else it comes to streaming memory
        return state.partition is self.partition and value.epoch > 0 and value.epoch == state.epoch

    def add_copy(self, source: Value, target: Value, giver: IpuState, state: IpuState, host: int) -> None:
        """`target`, for the IPU `state`, is a copy of `source`, which `knows` is true of."""
        copy = _Copy(source, target, giver, state, host, len(self._work))
        target.pending = True
        if giver is not state and not (source.pending and source not in self._makers):
            self._open[target] = copy
        self._work.append(copy)
        self._bound()

    def keep(self, value: Value, part: Part, ledger: ProgramLedger) -> bool:
        """A member takes a pending value, in a run that is not added yet: keeps it on the chip, if it can be.

        Returns: whether it lies in the SRAM of the member's IPU when the run begins.
        """
        copy = self._open.pop(value, None)
        if copy is not None:
            copy.taker = ledger
            self._stay(copy.source)
            if copy.source in self._spans:
                state, start, end = self._spans[copy.source]
                self._spans[copy.source] = (state, start, max(end, copy.position))
            self._spans[value] = (part.state, copy.position, copy.position)
            value.pending = False
            value.epoch = part.state.epoch
            value.host_ready = NOWHERE
            return True
        return self._stay(value)

    def flush(self) -> None:
        """Plays all of it."""
        if self.partition is None:
            return
        self._count_what_stays()
        copies: dict[Value, list[tuple[Value, int]]] = {}
        work: list[Work] = []
        for entry in self._work:
            if isinstance(entry, Run):
                entry.note(self._mark)
                work.append(entry)
            elif entry.taker is not None:
                self._pass_on(entry, entry.taker, work)
            else:
                self._by_way_of_the_host(entry, copies, work)
        partition, loading = self.partition, self._loading
        self._work, self._makers, self._open, self._loading, self._spans = [], {}, {}, {}, {}
        self.partition = None
        Play(self._machine, self._execution, partition, copies, loading).play(work)

    def _bound(self) -> None:
        if len(self._work) >= MAX_WORK:
            self.flush()

    def _stay(self, value: Value) -> bool:
        """A result that would leave stays in SRAM, if it is one of those; whether it was."""
        part = self._makers.pop(value, None)
        if part is None:
            return False
        part.leaving.remove(value)
        part.staying.append(value)
        part.bytes_to_host -= value.size_bytes
        value.pending = False
        value.epoch = part.state.epoch
        value.host_ready = NOWHERE
        return True

    @staticmethod
    def _pass_on(copy: _Copy, taker: ProgramLedger, work: list[Work]) -> None:
        """Values that are asked for one after the other go together."""
        maker = copy.source.made_by
        assert maker is not None  # it lies in SRAM
        before = work[-1] if work else None
        if not isinstance(before, Pass):
            before = Pass()
            work.append(before)
        before.add((copy.giver, maker), (copy.state, taker), copy.target.size_bytes, copy.host)

    @staticmethod
    def _by_way_of_the_host(copy: _Copy, copies: dict[Value, list[tuple[Value, int]]], work: list[Work]) -> None:
        source, target = copy.source, copy.target
        if not source.pending and source.host_ready >= 0:
            target.ready = target.host_ready = max(source.host_ready, copy.host)
            target.pending = False
            return
        if not source.pending:
            assert source.made_by is not None  # it lies in SRAM
            work.append(Download(source, Part(copy.giver), source.made_by, copy.host))
            source.made_by.bytes_read += source.size_bytes
            source.host_ready = 0
            source.pending = True
        copies.setdefault(source, []).append((target, copy.host))

    def _count_what_stays(self) -> None:
        """Adds what stays on the chip between members to what the groups need on their tiles."""
        changes: dict[int, list[tuple[IpuState, int]]] = {}  # by position in the work
        for value, (state, start, end) in self._spans.items():
            if end > start + 1:
                changes.setdefault(start + 1, []).append((state, value.size_bytes))
                changes.setdefault(end, []).append((state, -value.size_bytes))
        if not changes:
            return
        live: Counter[IpuState] = Counter()
        for position, entry in enumerate(self._work):
            for state, size_bytes in changes.get(position, ()):
                live[state] += size_bytes
            if isinstance(entry, Run):
                for part in entry.parts:
                    if live[part.state] and part.group is not None:
                        part.group.hold(entry.prepared.ledger.program, live[part.state], self._machine.ipu.num_tiles)
                        part.state.use = part.group.use
