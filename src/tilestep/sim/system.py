"""The emulated system: virtual clocks of host, IPUs and links, moved by what the host program does.

Nothing here computes values or looks at a real clock. Calls come in the order in which the host program made them;
equal calls give equal times. docs/explanation/virtual-time.md explains the rules.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, final

from tilestep.cost import relaid
from tilestep.hints import EffectiveBatch
from tilestep.machine.spec import MachineSpec
from tilestep.machine.topology import machine_of
from tilestep.plan.steps import Counts, Program
from tilestep.sim.body import NO_CALLS, BodyCycles, body_cost, has_streaming_memory
from tilestep.sim.execute import Execution, Part, Run
from tilestep.sim.ledger import ProgramLedger, ProgramTotals
from tilestep.sim.lockstep import Lockstep
from tilestep.sim.prepared import Prepared, donated_value, existing_value, unknown_value
from tilestep.sim.residency import NOWHERE, Group, IpuState, Partition, TileUse, Value
from tilestep.sim.sync import host_set, sync_cycles
from tilestep.sim.trace import Recorder, Trace
from tilestep.units import cycles_from_seconds

_TIDY_EVERY: Final = 256  # dispatches, at least, between looks at spans of channels that have passed


@dataclass(frozen=True, kw_only=True)
class Mark:
    """A moment of a simulation and all sums up to it."""

    number: int
    cycle: int  # when all that was dispatched so far has finished
    host_cycle: int
    position: int  # in the trace
    dropped_events: int
    programs: Mapping[int, ProgramTotals]  # by key, in order of first dispatch
    groups: Mapping[tuple[str, int], Group]  # (group, ipu)
    accumulated: Mapping[EffectiveBatch, int]  # steps of loops that accumulate gradients


@final
class System:
    """One machine with its host, in virtual time. All times are cycles of `machine.ipu.clock_hz`.

    A value is one array on one IPU, named by an integer that the caller chooses. A call that raises changes nothing.
    Not safe for use by several threads at once.

    Args: record: keep events for `trace`; may be changed at any time. Sums are kept in any case.
    """

    def __init__(self, machine: MachineSpec, *, record: bool = True) -> None:
        self.machine = machine
        self._host = 0
        self._ipus = tuple(
            IpuState(index=i, machine=machine_of(machine, i), host_set=host_set(machine, i)) for i in range(machine.num_ipus)
        )
        self._recorder = Recorder(enabled=record)
        self._execution = Execution(machine, self._recorder)
        self._lockstep = Lockstep(machine, self._execution)
        self._partitions: dict[str, Partition] = {}  # by group
        self._values: dict[int, Value] = {}
        self._ledgers: dict[int, ProgramLedger] = {}
        self._prepared: dict[tuple[int, tuple[int, ...]], Prepared] = {}
        self._groups: dict[tuple[str, int], Group] = {}
        self._paid_entries: dict[str, int] = {}  # group -> latest entry whose dispatch the host has paid
        self._accumulated: dict[EffectiveBatch, int] = {}
        self._epochs = 0
        self._marks = 0
        self._dispatches = 0
        self._tidy_at = _TIDY_EVERY
        self._dispatch_cycles = cycles_from_seconds(machine.host.dispatch_seconds, machine.ipu.clock_hz)
        self._in_memory = has_streaming_memory(machine)

    # What the host can see

    @property
    def host_cycle(self) -> int:
        """The host's clock."""
        return self._host

    @property
    def end_cycle(self) -> int:
        """When all that was dispatched so far has finished, the host included."""
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
    def trace(self) -> Trace:
        """All events that are kept."""
        self._lockstep.flush()
        return Trace(events=self._recorder.between(0, self._recorder.position), dropped=self._recorder.dropped)

    def trace_between(self, start: Mark, end: Mark) -> Trace:
        """Events between two marks."""
        return Trace(
            events=self._recorder.between(start.position, end.position),
            dropped=end.dropped_events - start.dropped_events,
        )

    def clear_trace(self) -> None:
        """Forget all events; sums, clocks and marks stay."""
        self._lockstep.flush()
        self._recorder.clear()

    def tile_use(self, ipu: int) -> TileUse:
        """What the program, or group of programs, that is loaded on `ipu` takes on its fullest tile."""
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
            dropped_events=self._recorder.dropped,
            programs={key: ledger.totals() for key, ledger in self._ledgers.items()},
            groups={key: Group(members=dict(group.members), use=group.use) for key, group in self._groups.items()},
            accumulated=dict(self._accumulated),
        )

    # What the host does

    def accumulated(self, batch: EffectiveBatch, steps: int) -> None:
        """A loop that accumulates gradients has done so many steps. Takes no time: its programs do."""
        self._accumulated[batch] = self._accumulated.get(batch, 0) + steps

    def put(self, value: int, *, ipu: int, size_bytes: int, on_host: bool, since: int | None = None) -> None:
        """A host array becomes a value. It stays in the host's memory until a program streams it in.

        Args:
            on_host: it is meant to stay off the chip (pinned_host): it goes to streaming memory at once, if the machine has that.
            since: the cycle from which the host has had it, if that is past; None: now.
        Raises: ValueError for a value that exists, an IPU that does not, a negative size, or a cycle that is to come.
        """
        self._require_new(value)
        if size_bytes < 0:
            raise ValueError(f"value {value} has {size_bytes} bytes: it must be 0 or more")
        begin = self._host if since is None else since
        if not 0 <= begin <= self._host:
            raise ValueError(f"value {value} cannot come at cycle {begin:,}: the host's clock is at {self._host:,}")
        state = self._ipu(ipu)
        self._values[value] = made = Value(state.index, size_bytes, ready=begin, epoch=0, host_ready=begin, made_by=None)
        if on_host and self._in_memory:
            self._execution.to_memory(made, state.machine, begin)

    def copy(self, source: int, target: int, *, ipu: int, on_host: bool, group: tuple[str, int] | None = None) -> None:
        """`target` becomes a copy of `source` for another IPU or memory, by way of the host's memory.

        A source that lives in SRAM only is downloaded first, while its IPU waits and the host goes on. Between IPUs of a program group it
        goes over IPU-Links, if a member takes it there in the same entry.

        Args: group: name and entry of the program group around the call, or None.

        Raises: ValueError for an unknown or donated source, a target that exists, an IPU that does not.
        """
        value = self._value(source)
        self._require_new(target)
        state = self._ipu(ipu)
        to_memory = on_host and self._in_memory
        giver = self._ipus[value.ipu]
        self._require_not_donated(source, value)
        value.use()
        made = Value(state.index, value.size_bytes, ready=0, epoch=0, host_ready=0, made_by=value.made_by)
        if group is not None and giver.partition is not None and giver.partition is self._partitions.get(group[0]):
            self._lockstep.open(giver.partition, group[1])
        if not to_memory and self._lockstep.knows(value, giver):
            self._values[target] = made
            self._lockstep.add_copy(value, made, giver, state, self._host)
            return
        if value.pending:
            self._lockstep.flush()
        self._download(source, value)
        self._values[target] = made
        made.ready = made.host_ready = max(value.host_ready, self._host)
        if to_memory:
            self._execution.to_memory(made, state.machine, made.host_ready)

    def wait(self, value: int) -> None:
        """The host waits until `value` is there.

        Raises: ValueError for an unknown value.
        """
        found = self._value(value)
        found.use()
        self._lockstep.flush()
        self._host = max(self._host, found.ready)

    def read(self, value: int) -> None:
        """The host waits for `value` and reads it: a download if it lives in SRAM or streaming memory only, once.

        Raises: ValueError for an unknown or donated value.
        """
        found = self._value(value)
        found.use()
        self._lockstep.flush()
        self._download(value, found)
        self._host = max(self._host, found.host_ready)

    def knows(self, value: int) -> bool:
        """Whether `value` was made and not yet forgotten."""
        return value in self._values

    def forget(self, value: int) -> None:
        """No one can name `value` any more. Takes no time and changes none.

        Raises: ValueError for an unknown value.
        """
        if self._values.pop(value, None) is None:
            raise ValueError(unknown_value(value))

    def dispatch(
        self,
        program: Program,
        *,
        key: int,
        ipus: tuple[int, ...],
        arguments: Sequence[Sequence[int]],
        results: Sequence[Sequence[int]],
        counts: Sequence[Counts],
        group: tuple[str, int] | None = None,
    ) -> None:
        """The host starts `program` on `ipus` and goes on.

        Args:
            key: identity of the loaded program; dispatches with one key share residency.
            ipus: the IPU of each device position.
            arguments: per position, the values in the order of `program.arguments`.
            results: per position, new values in the order of `program.results`.
            counts: per position, how often data-dependent parts were taken; may be empty if there are none.
            group: name and entry of the program group around the call, or None. What one member of it makes and another takes in the same
                entry, on the same IPU or by `copy` on another, stays on the chip.
        Raises: ValueError for unknown, donated or misplaced values, wrong numbers of anything, missing counts.
        """
        prepared = self._prepared.get((key, ipus))
        if prepared is None or prepared.ledger.program is not program:
            prepared = self._prepare(program, key, ipus)
        taken = prepared.take(self._values, arguments, results)
        bodies = prepared.bodies(counts)
        calls = prepared.calls(counts) if prepared.calls_host else None
        loads = self._execution.loads(prepared, counts) if prepared.body.collective else ()

        if group is None:
            self._host += self._dispatch_cycles
            identity: int | str = key
            entry = 0
        else:
            identity, entry = group
            if entry > self._paid_entries.get(identity, 0):
                self._host += self._dispatch_cycles
                self._paid_entries[identity] = entry

        if group is None:
            partition = prepared.partition
            if self._lockstep.partition is not None:
                self._lockstep.flush()
        else:
            partition = self._partitions.setdefault(group[0], Partition())
            self._lockstep.open(partition, entry)
        run = Run(prepared, self._host, loads)
        for position, (state, values) in enumerate(zip(prepared.states, taken, strict=True)):
            if state.partition is not partition:
                state.join(partition)
            part = Part(state, bodies[position], NO_CALLS if calls is None else calls[position])
            run.bytes_restored += self._bring_in(part, prepared, key, identity, values)
            run.bytes_in += part.bytes_in
            if part.saved:
                run.bytes_saved += sum(value.size_bytes for value in part.saved)
            run.reloads = run.reloads or part.reloads
            self._bring_out(part, prepared, values, results[position])
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

    # What a dispatch changes, whenever it happens

    def _bring_in(self, part: Part, prepared: Prepared, key: int, identity: int | str, values: Sequence[Value]) -> int:
        """What one IPU has to load, save and stream in for a run.

        Returns: bytes of what streams in that lay in the SRAM of an evicted program, and is to lie there again.
        """
        state, ledger = part.state, prepared.ledger
        restored = 0
        part.code_bytes, part.reloads = self._code_to_load(part, prepared, key, identity)
        if part.reloads:
            self._epochs += 1
            state.epoch = self._epochs
        epoch, dispatch = state.epoch, self._dispatches + 1
        for index, value in enumerate(values):
            if value.epoch == epoch:  # lies in the SRAM of the loaded program
                wanted = prepared.layouts[index]
                if value.layout and wanted and value.layout != wanted:  # as another member of its group laid it out
                    part.body = part.body.plus(self._relaying(value.size_bytes, prepared.num_io_tiles))
                continue
            if value.pending:
                if not prepared.inputs[index][1] and self._lockstep.keep(value, part, ledger):
                    continue
                part.awaits.append(value)
            elif value.host_ready < 0 and value.memory_ready < 0:
                part.saved.append(value)
                value.host_ready = 0  # when, is known when it has been saved
            elif value.off_chip_ready > part.ready:
                part.ready = value.off_chip_ready
            size_bytes, stays_on_host, is_kept = prepared.inputs[index]
            if stays_on_host:
                continue
            part.bytes_in += size_bytes
            if is_kept and value.epoch:
                restored += size_bytes
            value.streams_to(ledger, index, epoch, dispatch)
        return restored

    def _code_to_load(self, part: Part, prepared: Prepared, key: int, identity: int | str) -> tuple[int, bool]:
        """Bytes of code that must come to one IPU, and whether that replaces what was loaded."""
        state = part.state
        program, num_tiles = prepared.ledger.program, self.machine.ipu.num_tiles
        reloaded = state.loaded != identity
        state.loaded = identity
        if isinstance(identity, int):
            if reloaded:
                state.use = TileUse().with_member(program)
            return (program.memory.code_bytes * num_tiles if reloaded else 0), reloaded
        group = part.group = self._groups.setdefault((identity, state.index), Group())
        is_new = group.add(key, program)
        state.use = group.use
        if reloaded:
            return group.use.code_bytes * num_tiles, True
        return (program.memory.code_bytes * num_tiles if is_new else 0), False

    def _relaying(self, size_bytes: int, num_io_tiles: int) -> BodyCycles:
        """Laying out a value that stays in SRAM as another program of the group wants it, before its first superstep."""
        ipu = self.machine.ipu
        step = relaid(size_bytes, replace(ipu, num_tiles=ipu.num_tiles - num_io_tiles))
        return BodyCycles(compute=step.compute_cycles, exchange=step.exchange_cycles, sync=step.sync_cycles)

    def _bring_out(self, part: Part, prepared: Prepared, values: Sequence[Value], new: Sequence[int]) -> None:
        """The results of a run on one IPU, and what becomes of the arguments that it took over."""
        state, known = part.state, self._values
        part.bytes_to_host = prepared.bytes_to_host
        for index in prepared.donated:
            values[index].epoch = 0  # its memory is the result's now
        for index in prepared.vacated:
            values[index].memory_ready = NOWHERE
        for index, (name, (size_bytes, stays, is_written)) in enumerate(zip(new, prepared.outputs, strict=True)):
            if stays:
                part.staying.append(value := Value(state.index, size_bytes, 0, state.epoch, NOWHERE, prepared.ledger))
                value.layout = prepared.kept_layouts[index]
            else:  # at which cycle, is known when the run is over
                in_memory = is_written and self._in_memory
                part.leaving.append(value := Value(state.index, size_bytes, 0, 0, NOWHERE if in_memory else 0, prepared.ledger))
                value.made_in = state.epoch
                value.memory_ready = 0 if in_memory else NOWHERE
                value.written = is_written
            known[name] = value

    def _download(self, name: int, value: Value) -> None:
        """Copy a value that the host has not to the host."""
        if value.host_ready >= 0:
            return
        state = self._ipus[value.ipu]
        if value.memory_ready >= 0:
            self._execution.from_memory(value, state.machine, self._host)
        else:
            self._require_not_donated(name, value)
            assert value.made_by is not None  # else the host would have it
            if self._lockstep.partition is not None and self._lockstep.partition is state.partition:
                self._lockstep.flush()
            waiting = state.waits_with()
            start = max(self._host, *(member.free for member in waiting))
            sync = sync_cycles(self.machine, tuple(member.index for member in waiting))
            end = self._execution.download(value, Part(state), value.made_by, sync, start)
            for member in waiting:
                member.free = end
        if value.made_by is not None:
            value.made_by.bytes_read += value.size_bytes

    # Checks and look-ups

    def _prepare(self, program: Program, key: int, ipus: tuple[int, ...]) -> Prepared:
        ledger = self._ledgers.get(key)
        if ledger is not None and ledger.program != program:
            raise ValueError(f"key {key} is program '{ledger.program.name}': it cannot also be program '{program.name}'")
        if len(ipus) != program.num_ipus or len(set(ipus)) != len(ipus):
            raise ValueError(f"program '{program.name}' runs on {program.num_ipus} different IPUs, but was dispatched on {ipus}")
        states = tuple(self._ipu(ipu) for ipu in ipus)
        body = body_cost(program, self.machine, ipus)
        if ledger is None:
            ledger = self._ledgers[key] = ProgramLedger(program, key, body)
        prepared = self._prepared[key, ipus] = Prepared(ledger, body, states, self.machine)
        return prepared

    def _value(self, value: int) -> Value:
        found = self._values.get(value)
        if found is None:
            raise ValueError(unknown_value(value))
        return found

    def _require_not_donated(self, name: int, value: Value) -> None:
        if value.host_ready < 0 and value.memory_ready < 0 and (not value.epoch or value.made_by is None):
            raise ValueError(donated_value(name))

    def _ipu(self, ipu: int) -> IpuState:
        if not 0 <= ipu < len(self._ipus):
            raise ValueError(f"IPU {ipu} does not exist: machine '{self.machine.name}' has IPUs 0 to {len(self._ipus) - 1}")
        return self._ipus[ipu]

    def _require_new(self, value: int) -> None:
        if value in self._values:
            raise ValueError(existing_value(value))

    def _tidy(self) -> None:
        """Spans of channels before the host's clock cannot matter any more: whatever comes is ready later."""
        self._tidy_at = self._dispatches + max(_TIDY_EVERY, 4 * len(self._ipus))
        for channel in self._execution.resources.all():
            channel.drop_before(self._host)
        for state in self._ipus:
            state.io.drop_before(self._host)
