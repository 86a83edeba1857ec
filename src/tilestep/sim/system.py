"""The emulated system: virtual clocks of host, IPUs and links, which the actions of the host program move.

Nothing here computes values or reads a real clock. Calls come in the order in which the host program made them, and equal calls
give equal times. docs/explanation/virtual-time.md explains the rules.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Final, final

from tilestep.hints import EffectiveBatch
from tilestep.machine.spec import MachineSpec
from tilestep.machine.topology import machine_of
from tilestep.plan.steps import Program
from tilestep.sim.call_log import CallLog
from tilestep.sim.calls import Accumulated, Copy, Dispatch, HostLine, Moment, MomentCall, Put, Read, Wait
from tilestep.sim.cycles.body import NO_CALLS
from tilestep.sim.cycles.sync import host_set
from tilestep.sim.mark import Mark
from tilestep.sim.recurrence import Standing, Sums, advance, standing
from tilestep.sim.runs.causes import note_dispatch, note_wait
from tilestep.sim.runs.downloads import Downloads
from tilestep.sim.runs.execute import Executor
from tilestep.sim.runs.lockstep import Lockstep
from tilestep.sim.runs.part_builder import PartBuilder
from tilestep.sim.runs.run import ProgramRun, RunPart
from tilestep.sim.snapshot import Parts, Snapshot, restore, take_snapshot
from tilestep.sim.state.prepared import PreparedPrograms
from tilestep.sim.state.residency import (
    IpuState,
    SyncPartition,
    TileUse,
    Value,
    require_new,
    require_not_donated,
    require_value,
    unknown_value,
)
from tilestep.sim.trace import EventTimeline, Lane, Recorder, Rows, RunRow, Trace, Trip
from tilestep.units import cycles_from_seconds

_TIDY_EVERY: Final = 256  # dispatches, at least, between two removals of channel spans that have passed


@final
class System:
    """One machine with its host, in virtual time. All times are cycles of `machine.ipu.clock_hz`.

    A value is one array on one IPU, named by an integer that the caller chooses. A call that raises changes nothing.
    Not safe for use by several threads at once.

    Args:
        machine: the machine to emulate.
        record: whether to keep events for `trace`; may be changed at any time. Sums are always kept.
    """

    def __init__(self, machine: MachineSpec, *, record: bool = True) -> None:
        self.machine = machine
        self._host = 0
        self._ipus = tuple(
            IpuState(index=i, machine=machine_of(machine, i), host_set=host_set(machine, i)) for i in range(machine.num_ipus)
        )
        self._recorder = Recorder(enabled=record, num_ipus=machine.num_ipus)
        self._log: CallLog | None = None
        self._moments = 0
        self._execution = Executor(machine, self._recorder)
        self._lockstep = Lockstep(machine, self._execution)
        self._downloads = Downloads(machine, self._ipus, self._execution, self._lockstep)
        self._partitions: dict[str, SyncPartition] = {}  # by group
        self._values: dict[int, Value] = {}
        self._builder = PartBuilder(machine, self._values, self._lockstep)
        self._programs = PreparedPrograms(machine, self._ipu)
        self._parts = Parts(machine, self._ipus, self._execution, self._builder, self._programs, self._partitions, self._values)
        self._accumulated: dict[EffectiveBatch, int] = {}
        self._gone: set[int | str] = set()  # programs, by key, and groups that are not dispatched any more, but not forgotten yet
        self._marks = 0
        self._dispatches = 0
        self._tidy_at = _TIDY_EVERY
        self._dispatch_cycles = cycles_from_seconds(machine.host.dispatch_seconds, machine.ipu.clock_hz)

    @classmethod
    def restored(cls, snapshot: Snapshot, machine: MachineSpec, programs: Mapping[int, Program], *, record: bool = False) -> System:
        """A system that goes on from a snapshot.

        Args:
            snapshot: of a system with as many IPUs, or fewer.
            machine: the machine to emulate from now on.
            programs: by key, all that the snapshot needs.
            record: as for a new system.

        Raises:
            ValueError: if the snapshot is not of such a system, or needs a program that is missing.
        """
        system = cls(machine, record=record)
        restore(system._parts, snapshot, programs)
        system._host, system._dispatches, system._moments = snapshot.host_cycle, snapshot.dispatches, snapshot.moments
        system._tidy_at = snapshot.dispatches + _TIDY_EVERY
        return system

    def snapshot(self) -> Snapshot:
        """The state of the system now. Takes no emulated time, but plays what a program group has begun."""
        self._lockstep.flush()
        self._tidy()
        return take_snapshot(self._parts, host_cycle=self._host, dispatches=self._dispatches, moments=self._moments)

    def standing(self) -> Standing | None:
        """What of the state equal work may find again; None while events or calls are kept, or work of a program group waits."""
        if self.record or self._log is not None or self._lockstep.partition is not None:
            return None
        counters: Sums = {("dispatches",): self._dispatches, ("moments",): self._moments, ("epochs",): self._builder.epochs}
        counters.update((("accumulated", batch), steps) for batch, steps in self._accumulated.items())
        return standing(self._parts, self._host, counters)

    def advance(self, earlier: Standing, now: Standing, times: int) -> None:
        """Does what has been done since an earlier moment so many times more, see `recurrence`. Args: now: `standing()`, which recurs."""
        grown = advance(self._parts, earlier, now, times)
        self._host += times * (now.host - earlier.host)
        self._dispatches += grown.get(("dispatches",), 0)
        self._moments += grown.get(("moments",), 0)
        self._builder.epochs += grown.get(("epochs",), 0)
        for name, steps in grown.items():
            if name[0] == "accumulated":
                self._accumulated[name[1]] += steps

    # What the host sees

    @property
    def host_cycle(self) -> int:
        """The host's clock."""
        return self._host

    @property
    def end_cycle(self) -> int:
        """The cycle at which all work dispatched so far has finished, on the host as well."""
        self._lockstep.flush()
        return max(self._execution.horizon, self._host)

    @property
    def record(self) -> bool:
        """Whether events are kept."""
        return self._recorder.enabled

    @record.setter
    def record(self, enabled: bool) -> None:
        self._lockstep.flush()
        self._recorder.enabled = enabled

    @property
    def record_links(self) -> bool:
        """Whether transfers over host links are kept beside the events of their IPUs, while events are kept."""
        return self._recorder.links

    @record_links.setter
    def record_links(self, enabled: bool) -> None:
        self._lockstep.flush()
        self._recorder.links = enabled

    @property
    def trace(self) -> Trace:
        """All events that were kept."""
        self._lockstep.flush()
        return Trace(events=self._events(0, self._recorder.position), dropped=self._recorder.dropped)

    def trace_between(self, start: Mark, end: Mark) -> Trace:
        """The events between two marks."""
        return Trace(
            events=self._events(start.position, end.position),
            dropped=end.dropped_events - start.dropped_events,
        )

    def _events(self, start: int, end: int) -> EventTimeline:
        return self._recorder.between(start, end, {key: program.name for key, program in self.programs.items()})

    def rows_between(self, start: Mark, end: Mark) -> Rows:
        """The events of all lanes between two marks, as columns."""
        return self._recorder.rows(start.position, end.position)

    def all_rows(self) -> Rows:
        """The events of all lanes that were kept, as columns."""
        self._lockstep.flush()
        return self._recorder.rows(0, self._recorder.position)

    def runs_between(self, start: Mark, end: Mark) -> tuple[Sequence[RunRow], Sequence[Trip]]:
        """The kept dispatches between two marks, and the counts of their data-dependent parts."""
        recorder = self._recorder
        numbers = range(start.dispatches, end.dispatches)
        return [row for row in recorder.runs if row.number in numbers], [trip for trip in recorder.trips if trip.run in numbers]

    @property
    def lanes(self) -> Sequence[Lane]:
        """All lanes that have had an event; columns of events number them."""
        return tuple(self._recorder.lanes)

    @property
    def programs(self) -> Mapping[int, Program]:
        """All programs that were dispatched and not forgotten, by key."""
        return {key: ledger.program for key, ledger in self._programs.ledgers().items()}

    @property
    def log(self) -> CallLog | None:
        """The log that keeps all calls, or None."""
        return self._log

    def keep_calls(self, keep: bool) -> None:
        """Says whether calls are kept from now on, in a new log."""
        self._log = CallLog(moments=self._moments, simulated_ipus=self.machine.simulated_ipus) if keep else None

    def clear_trace(self) -> None:
        """Forgets all events. Sums, clocks and marks stay."""
        self._lockstep.flush()
        self._recorder.clear()

    def tile_use(self, ipu: int) -> TileUse:
        """Bytes that the loaded program, or group of programs, takes on the fullest tile of `ipu`.

        Raises:
            ValueError: if the machine has no such IPU.
        """
        return self._ipu(ipu).use

    def mark(self) -> Mark:
        """This moment, with the sums so far. Takes no emulated time."""
        self._lockstep.flush()
        self._marks += 1
        return Mark(
            number=self._marks,
            cycle=self.end_cycle,
            host_cycle=self._host,
            position=self._recorder.position,
            dispatches=self._dispatches,
            dropped_events=self._recorder.dropped,
            programs=self._programs.totals(),
            groups=self._builder.groups(),
            accumulated=dict(self._accumulated),
        )

    def loads(self) -> dict[int, int]:
        """How often each program was loaded so far, by key. A mark has this and all other sums, which take longer."""
        self._lockstep.flush()
        return self._programs.loads()

    # What the host does

    def accumulated(self, batch: EffectiveBatch, steps: int) -> None:
        """Notes steps of a loop that accumulates gradients. Takes no time, because the loop's programs do.

        Args:
            batch: what an update of the loop consists of.
            steps: microbatches that each replica has done.
        """
        self._accumulated[batch] = self._accumulated.get(batch, 0) + steps
        if self._log is not None:
            self._log.add(Accumulated(batch, steps))

    def moment(self) -> Moment:
        """This moment of the host's program, for `put`. Takes no time."""
        moment = Moment(self._moments, self._host)
        self._moments += 1
        if self._log is not None:
            self._log.add(MomentCall(moment.number))
        return moment

    def put(self, value: int, *, ipu: int, size_bytes: int, on_host: bool, since: Moment | None = None, contents: int = 0) -> None:
        """Makes a host array a value. It stays in the host's memory until a program streams it in.

        Args:
            value: number of the new value.
            ipu: the IPU that will use it.
            size_bytes: of the array.
            on_host: whether it stays off the chip (pinned_host). Then it goes to streaming memory at once, if the machine has that.
            since: the moment from which the host has had it; None: now.
            contents: number of its bytes, for recordings: equal for equal bytes; 0: unknown.

        Raises:
            ValueError: for a value that exists, an IPU that does not, a negative size, or a moment in the future.
        """
        require_new(self._values, value)
        if size_bytes < 0:
            raise ValueError(f"value {value} has {size_bytes} bytes: it must be 0 or more")
        begin = self._host if since is None else since.cycle
        if not 0 <= begin <= self._host:
            raise ValueError(f"value {value} cannot come at cycle {begin:,}: the host's clock is at {self._host:,}")
        state = self._ipu(ipu)
        self._values[value] = new = Value(state.index, size_bytes, ready=begin, epoch=0, host_ready=begin, made_by=None)
        if self._recorder.enabled:
            new.event = self._recorder.ended_at(begin)
        if on_host and self._builder.in_memory:
            self._execution.to_memory(new, state.machine, begin)
        if self._log is not None:
            self._log.add(Put(value, ipu, size_bytes, on_host, since, contents))

    def copy(self, source: int, target: int, *, ipu: int, on_host: bool, group: tuple[str, int] | None = None) -> None:
        """Makes `target` a copy of `source` for another IPU or memory, by way of the host's memory.

        A source in SRAM only is downloaded first, while its IPU waits and the host goes on. Between IPUs of a program group the copy
        goes over IPU-Links, if a member takes it there in the same entry.

        Args:
            source: the value to copy.
            target: number of the new value.
            ipu: the IPU that will use the copy.
            on_host: whether the copy stays off the chip (pinned_host).
            group: name and entry of the program group around the call, or None.

        Raises:
            ValueError: for an unknown or donated source, a target that exists, or an IPU that does not.
        """
        value = require_value(self._values, source)
        require_new(self._values, target)
        state = self._ipu(ipu)
        to_memory = on_host and self._builder.in_memory
        origin = self._ipus[value.ipu]
        require_not_donated(source, value)
        value.use()
        made = Value(state.index, value.size_bytes, ready=0, epoch=0, host_ready=0, made_by=value.made_by)
        if self._log is not None:
            self._log.add(Copy(source, target, ipu, on_host, group))
        if group is not None and origin.partition is not None and origin.partition is self._partitions.get(group[0]):
            self._lockstep.open(origin.partition, group[1])
        if not to_memory and self._lockstep.knows(value, origin):
            self._values[target] = made
            self._lockstep.add_copy(value, made, origin, state, self._host)
            return
        if value.pending:
            self._lockstep.flush()
        self._downloads.bring(source, value, self._host)
        self._values[target] = made
        made.ready = made.host_ready = max(value.host_ready, self._host)
        if self._recorder.enabled:
            made.event = value.event if made.ready == value.host_ready else self._recorder.host_event
        if to_memory:
            self._execution.to_memory(made, state.machine, made.host_ready)

    def wait(self, value: int, line: HostLine | None = None) -> None:
        """Makes the host wait until `value` is available.

        Args:
            value: to wait for.
            line: of the host program, for recordings.

        Raises:
            ValueError: for an unknown value.
        """
        found = require_value(self._values, value)
        found.use()
        self._lockstep.flush()
        if self._log is not None:
            self._log.add(Wait(value, line))
        self._wait_until(found.ready, found)

    def read(self, value: int, line: HostLine | None = None) -> None:
        """Makes the host wait for `value` and read it. A value in SRAM or streaming memory only is downloaded, once.

        Args:
            value: to read.
            line: of the host program, for recordings.

        Raises:
            ValueError: for an unknown or donated value.
        """
        found = require_value(self._values, value)
        found.use()
        self._lockstep.flush()
        self._downloads.bring(value, found, self._host, alone=True)
        if self._log is not None:
            self._log.add(Read(value, line))
        self._wait_until(found.host_ready, found)

    def knows(self, value: int) -> bool:
        """Whether `value` was made and not yet forgotten."""
        return value in self._values

    def forget(self, value: int) -> None:
        """Forgets `value`, so that its number may be used again. Takes no time and changes none.

        Raises:
            ValueError: for an unknown value.
        """
        if self._values.pop(value, None) is None:
            raise ValueError(unknown_value(value))
        if self._log is not None:
            self._log.add_forgotten([value])

    def forget_known(self, values: Iterable[int]) -> int:
        """The same for each of the values that was made and not yet forgotten. Returns: how many."""
        known = [value for value in values if self._values.pop(value, None) is not None]
        if self._log is not None and known:
            self._log.add_forgotten(known)
        return len(known)

    def forget_programs(self, gone: Iterable[int | str]) -> None:
        """Forgets programs and groups that are not dispatched any more. Takes no time and changes none.

        What somebody may still ask for stays until a later call: all while events or calls are kept, what an IPU has loaded, the members
        of a group that stays, and the programs that have made a value or were the last to take it.

        Args: gone: keys of programs, names of groups.
        """
        self._gone.update(gone)
        if self._log is not None or self._recorder.keeps or not self._gone:
            return
        groups = {name for name in self._gone if isinstance(name, str) and not self._is_loaded(name)}
        self._builder.forget_groups(groups)
        for name in groups:
            self._partitions.pop(name, None)
        needed = self._builder.members()
        for value in chain(self._values.values(), self._builder.staying()):
            needed.update(ledger.key for ledger in (value.made_by, value.streamed_to) if ledger is not None)
        programs = {key for key in self._gone if isinstance(key, int)} - needed
        self._gone -= groups | self._programs.forget(programs)

    def _is_loaded(self, group: str) -> bool:
        return group in self._partitions and bool(self._partitions[group].members)

    def dispatch(self, program: Program, call: Dispatch) -> None:
        """Makes the host start a planned program on IPUs and go on.

        A value that one member of a group makes and another takes in the same entry stays on the chip, on the same IPU or by `copy` on
        another.

        Raises:
            ValueError: for an unknown, donated or misplaced value, a wrong number of arguments, results or IPUs, or a missing count.
        """
        key, ipus, arguments, results, counts, group, task, _ = call
        prepared = self._programs.get(program, key, ipus)
        taken = prepared.take(self._values, arguments, results)
        bodies = prepared.bodies(counts)
        calls = prepared.calls(counts) if prepared.calls_host else None
        loads = self._execution.loads(prepared, counts) if prepared.body.collective else ()

        if self._log is not None:
            self._log.add(call)
        host = self._host
        if group is None:
            identity: int | str = key
            partition = prepared.partition
            self._host += self._dispatch_cycles
            if self._lockstep.partition is not None:
                self._lockstep.flush()
        else:
            identity, entry = group
            partition = self._partitions.setdefault(identity, SyncPartition())
            if entry > partition.paid_entry:
                self._host += self._dispatch_cycles
                partition.paid_entry = entry
            self._lockstep.open(partition, entry)
        recorder = self._recorder
        if recorder.enabled:
            note_dispatch(recorder, prepared, self._dispatches, (host, self._host), group, task, counts)
        run = ProgramRun(prepared, "" if group is None else group[0], self._host, loads, self._dispatches, recorder.host_event)
        if not prepared.others <= partition.others:
            partition.others |= prepared.others
        for position, (state, values) in enumerate(zip(prepared.states, taken, strict=True)):
            if state.partition is not partition:
                state.join(partition)
            part = RunPart(state, bodies[position], NO_CALLS if calls is None else calls[position])
            run.bytes_restored += self._builder.bring_in(part, prepared, identity, values, self._dispatches + 1)
            run.bytes_in += part.bytes_in
            if part.saved:
                run.bytes_saved += sum(value.size_bytes for value in part.saved)
            run.reloads = run.reloads or part.reloads
            self._builder.bring_out(part, prepared, values, results[position])
            run.parts.append(part)
        if group is None:
            self._execution.at_once(run)
            run.note(self._marks)
        else:
            self._lockstep.add_run(run, taken, self._marks)
        if prepared.body.counted:
            for state, counted in zip(prepared.states, counts, strict=True):
                prepared.ledger.count(state.index, counted)
        self._dispatches += 1
        if self._dispatches >= self._tidy_at and self._lockstep.partition is None:
            self._tidy()

    def _wait_until(self, cycle: int, value: Value) -> None:
        """Makes the host wait until `cycle`, when a value is there."""
        if cycle <= self._host:
            return
        begin, self._host = self._host, cycle
        recorder = self._recorder
        if recorder.enabled:
            note_wait(recorder, begin, cycle, value)

    def _ipu(self, ipu: int) -> IpuState:
        if not 0 <= ipu < len(self._ipus):
            raise ValueError(f"IPU {ipu} does not exist: machine '{self.machine.name}' has IPUs 0 to {len(self._ipus) - 1}")
        return self._ipus[ipu]

    def _tidy(self) -> None:
        """Removes spans of channels before the host's clock, which cannot matter any more because all later work is ready later."""
        self._tidy_at = self._dispatches + max(_TIDY_EVERY, 4 * len(self._ipus))
        for channel in self._execution.resources.all():
            channel.drop_before(self._host)
        for state in self._ipus:
            state.io.drop_before(self._host)
