"""Collects the dispatches of one entry into a program group, and plays them when a time has to be known.

To the machine, the members of a group are one program, and one entry into the group is one launch of it. The dispatches, IPU by IPU,
are its steps. They are collected until the entry ends or a caller needs a time, and then played in order of time (`sim.play`). Only
then is it known which results stay on the chip: those that another member takes on the same IPU, or on another IPU by a copy, which goes
over IPU-Links.
"""

from collections import defaultdict
from collections.abc import Sequence
from typing import Final, final

from tilestep.machine.spec import MachineSpec
from tilestep.sim.runs.execute import Executor
from tilestep.sim.runs.orders import play_fastest
from tilestep.sim.runs.play import Download, Pass, Work
from tilestep.sim.runs.run import ProgramRun, RunPart
from tilestep.sim.state.ledger import ProgramLedger
from tilestep.sim.state.residency import NOWHERE, IpuState, SyncPartition, Value

MAX_WORK: Final = 2**18  # runs and copies that wait to be played; at this number the first half is played without those that follow


@final
class _Copy:
    """A copy of a value for another IPU: over IPU-Links if a member takes it there, else by way of the host."""

    __slots__ = ("destination", "host", "origin", "position", "source", "taker", "target")

    def __init__(self, source: Value, target: Value, origin: IpuState, destination: IpuState, host: int, position: int) -> None:
        self.position = position  # in the work
        self.source = source
        self.target = target
        self.origin = origin  # the IPU that has the value
        self.destination = destination  # the IPU that gets it
        self.host = host  # cycle at which the host has asked for it
        self.taker: ProgramLedger | None = None  # the member that takes the copy


@final
class _Span:
    """A value is in the tiles behind one position in the work, and to another. Mutable, because it is taken again and again."""

    __slots__ = ("end", "start", "state")

    def __init__(self, state: IpuState, start: int, end: int) -> None:
        self.state = state
        self.start = start
        self.end = end


@final
class Lockstep:
    """The work of one entry into a group that has not been played yet."""

    def __init__(self, machine: MachineSpec, execution: Executor) -> None:
        self.partition: SyncPartition | None = None  # whose work is collected; None: there is no work
        self.entry = 0
        self._machine = machine
        self._execution = execution
        self._mark = 0
        self._work: list[ProgramRun | _Copy] = []
        self._makers: dict[Value, RunPart] = {}  # results that would leave the chip, and the parts that make them
        self._open: dict[Value, _Copy] = {}  # target -> copy that no member has taken yet
        self._loading: dict[int, tuple[ProgramRun, RunPart]] = {}  # by IPU, for those that load another program
        self._staying_spans: dict[Value, _Span] = {}
        self._kept: dict[tuple[IpuState, ProgramLedger], tuple[int, int, int]] = {}  # (its first run, the last that takes it, bytes)
        self._left: dict[tuple[IpuState, ProgramLedger], tuple[int, list[Value]]] = {}  # (its latest run, what that keeps)

    def add_run(self, run: ProgramRun, taken: Sequence[Sequence[Value]], mark: int) -> None:
        """Adds a run of a member to the open entry. The values that it makes or saves are pending from now on.

        Args: taken: its arguments, per part; mark: the number of the latest mark.
        """
        self._mark = mark
        for part, values in zip(run.parts, taken, strict=True):
            part.own_bytes = self._take(run, part.state, values) + self._keep_on(run, part)
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
                    self._staying_spans[value] = _Span(part.state, len(self._work) - 1, len(self._work) - 1)
        self._bound()

    def _take(self, run: ProgramRun, state: IpuState, values: Sequence[Value]) -> int:
        """Notes that the next run takes its arguments on an IPU; returns bytes of those that are on the chip before."""
        position, spans, own = len(self._work), self._staying_spans, 0
        stays = state.group.stays if state.group is not None else {}
        for value in values:
            span, maker = spans.get(value), value.made_by
            if span is not None:
                if span.end == position:  # it is two arguments
                    continue
                span.end = position
            elif value in stays or (value.epoch == state.epoch and value.ready):  # it has stayed there since an earlier entry
                spans[value] = _Span(state, -1, position)
            elif maker is not None and maker is not run.prepared.ledger and not value.ready and (state, maker) in self._kept:
                first, _, size_bytes = self._kept[state, maker]
                self._kept[state, maker] = (first, position, size_bytes)
            else:
                continue
            own += value.size_bytes
        return own

    def _keep_on(self, run: ProgramRun, part: RunPart) -> int:
        """Notes that the next run keeps donated arguments on an IPU; returns bytes of those that its program has kept in this entry."""
        size_bytes, position = run.prepared.interface.kept_bytes, len(self._work)
        if not size_bytes:
            return 0
        kept = (part.state, run.prepared.ledger)
        self._left[kept] = (position, list(part.staying))
        first, _, _ = self._kept.setdefault(kept, (position, position, size_bytes))
        self._kept[kept] = (first, position, size_bytes)
        return size_bytes if first < position else 0

    def open(self, partition: SyncPartition, entry: int) -> None:
        """Begins an entry, unless the work so far is of this entry."""
        if self.partition is not partition or self.entry != entry:
            self.flush()
            self.partition, self.entry = partition, entry

    def knows(self, value: Value, state: IpuState) -> bool:
        """Whether a value of the IPU `state` is on its chip, or comes there with the work that is to be played."""
        if self.partition is None:
            return False
        if value.pending:
            return value.host_ready >= 0  # else it goes to streaming memory
        return state.partition is self.partition and value.epoch > 0 and value.epoch == state.epoch

    def add_copy(self, source: Value, target: Value, origin: IpuState, destination: IpuState, host: int) -> None:
        """Adds a copy of `source`, of which `knows` is true, from one IPU to another."""
        copy = _Copy(source, target, origin, destination, host, len(self._work))
        target.pending = True
        if origin is not destination and not (source.pending and source not in self._makers):
            self._open[target] = copy
        self._work.append(copy)
        self._bound()

    def keep(self, value: Value, part: RunPart, ledger: ProgramLedger) -> bool:
        """Keeps a pending value on the chip, if that is possible, because a member takes it in a run that is not added yet.

        Returns: whether the value is in the SRAM of the member's IPU when the run begins.
        """
        copy = self._open.pop(value, None)
        if copy is not None:
            copy.taker = ledger
            self._stay(copy.source)
            span = self._staying_spans.get(copy.source)
            if span is not None:
                span.end = max(span.end, copy.position)
            self._staying_spans[value] = _Span(part.state, copy.position, copy.position)
            value.pending = False
            value.epoch = part.state.epoch
            value.host_ready = NOWHERE
            return True
        return self._stay(value)

    def flush(self) -> None:
        """Plays all work that was collected."""
        self._play_first(len(self._work))

    def _play_first(self, count: int) -> None:
        """Plays the first `count` runs and copies. Results of theirs that none of the others takes leave the chip."""
        if self.partition is None:
            return
        self._count_what_stays()
        self._leave(count)
        copies: dict[Value, list[tuple[Value, int]]] = {}
        work: list[Work] = []
        now, later = self._work[:count], self._work[count:]
        for entry in now:
            if isinstance(entry, ProgramRun):
                entry.note(self._mark)
                work.append(entry)
            elif entry.taker is not None:
                self._pass_on(entry, entry.taker, work)
            else:
                self._by_way_of_the_host(entry, copies, work)
        partition, loading = self.partition, self._loading
        self._keep_only(later)
        loads = {ipu: of for ipu, of in loading.items() if ipu not in self._loading}
        play_fastest(self._machine, self._execution, partition, copies, loads, work)

    def _keep_only(self, later: list[ProgramRun | _Copy]) -> None:
        """Forgets all work but this, which is the last that was added."""
        played = len(self._work) - len(later)
        self._work = later
        if not later:
            self._makers, self._open, self._loading, self._staying_spans, self._kept, self._left = {}, {}, {}, {}, {}, {}
            self.partition = None
            return
        parts = {id(part) for entry in later if isinstance(entry, ProgramRun) for part in entry.parts}
        self._makers = {value: part for value, part in self._makers.items() if id(part) in parts}
        self._loading = {ipu: (run, part) for ipu, (run, part) in self._loading.items() if id(part) in parts}
        self._open = {target: copy for target, copy in self._open.items() if copy.position >= played}
        self._staying_spans = {
            value: _Span(span.state, max(span.start - played, -1), span.end - played)
            for value, span in self._staying_spans.items()
            if span.end >= played
        }
        self._kept = {
            kept: (max(first - played, -1), last - played, size_bytes)
            for kept, (first, last, size_bytes) in self._kept.items()
            if last >= played
        }
        self._left = {kept: (last - played, values) for kept, (last, values) in self._left.items() if last >= played}
        for entry in later:
            if not isinstance(entry, ProgramRun):
                entry.position -= played

    def _leave(self, count: int) -> None:
        """Notes what the first `count` runs and copies leave in the tiles for later entries: what is kept, and nobody took or donated."""
        for (state, ledger), (latest, values) in self._left.items():
            if state.group is not None and latest < count:
                stays = state.group.stays
                for value in [each for each in stays if each.made_by is ledger]:
                    del stays[value]
                if self._kept[state, ledger][1] == latest:
                    stays.update(dict.fromkeys(values))

    def _bound(self) -> None:
        if len(self._work) >= MAX_WORK:
            self._play_first(len(self._work) // 2)

    def _stay(self, value: Value) -> bool:
        """Keeps a result in SRAM that would leave the chip; returns whether the value is such a result."""
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
        """Adds the value to the exchange before, if there is one, because values requested one after the other go together."""
        maker = copy.source.made_by
        assert maker is not None  # it is in SRAM
        before = work[-1] if work else None
        if not isinstance(before, Pass):
            before = Pass()
            work.append(before)
        before.add((copy.origin, maker), (copy.destination, taker), copy.target.size_bytes, copy.host)

    @staticmethod
    def _by_way_of_the_host(copy: _Copy, copies: dict[Value, list[tuple[Value, int]]], work: list[Work]) -> None:
        source, target = copy.source, copy.target
        if not source.pending and source.host_ready >= 0:
            target.ready = target.host_ready = max(source.host_ready, copy.host)
            target.pending = False
            return
        if not source.pending:
            assert source.made_by is not None  # it is in SRAM
            work.append(Download(source, RunPart(copy.origin), source.made_by, copy.host))
            source.made_by.host.read += source.size_bytes
            source.host_ready = 0
            source.pending = True
        copies.setdefault(source, []).append((target, copy.host))

    def _count_what_stays(self) -> None:
        """Adds the values that stay on the chip between members to the tile memory of the groups, without what a run counts as its own."""
        assert self.partition is not None  # there is work
        changes: defaultdict[int, list[tuple[IpuState, int]]] = defaultdict(list)  # by position in the work
        for state in self.partition.members.values():
            stays = {} if state.group is None else state.group.stays
            for value in list(stays):
                if value in self._staying_spans:  # the last that takes it may be the last that needs it
                    del stays[value]
                else:
                    changes[0].append((state, value.size_bytes))
        for value, span in self._staying_spans.items():
            if span.end > span.start:
                changes[span.start + 1].append((span.state, value.size_bytes))
                changes[span.end + 1].append((span.state, -value.size_bytes))
        for (state, ledger), (first, taken, size_bytes) in self._kept.items():
            last = len(self._work) if taken == self._left[state, ledger][0] else taken  # nobody has taken it, so that it stays
            if last > first:
                changes[first + 1].append((state, size_bytes))
                changes[last + 1].append((state, -size_bytes))
        if not changes:
            return
        live: defaultdict[IpuState, int] = defaultdict(int)
        for position, entry in enumerate(self._work):
            for state, size_bytes in changes.get(position, ()):
                live[state] += size_bytes
            if isinstance(entry, ProgramRun):
                for part in entry.parts:
                    state = part.state
                    beside = live[state] - part.own_bytes
                    if beside > 0 and state.group is not None:
                        state.group.hold(entry.prepared.ledger.program, beside, self._machine.ipu.num_tiles)
                        state.use = state.group.use
