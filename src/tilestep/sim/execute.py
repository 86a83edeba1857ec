"""How one run goes: its steps on each IPU, and the time that each of them takes.

A step begins once the IPUs that take part in it have come to it, and ends for all of them together or for each by itself.
Who else has to be between two steps meanwhile is the step's scope. When a step begins is for others to say: `at_once` for a
run that no other program's steps can hold up, `sim.lockstep` for runs of a group on several IPUs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Final, Literal, NamedTuple, final

from tilestep.machine.spec import MachineSpec
from tilestep.plan.steps import Counts
from tilestep.sim.body import NO_CALLS, BodyCycles, Calls
from tilestep.sim.channel import Channel
from tilestep.sim.collective import pass_cost
from tilestep.sim.ledger import ProgramLedger
from tilestep.sim.prepared import Prepared
from tilestep.sim.residency import Group, IpuState, Value
from tilestep.sim.resources import Load, Resources, delay
from tilestep.sim.trace import KINDS, Recorder
from tilestep.units import ceil_div, cycles_from_bytes, cycles_from_seconds

(_LOAD, _SAVE, _STREAM_IN, _COMPUTE, _EXCHANGE, _SYNC, _COLLECTIVE, _HOST_CALL, _STREAM_OUT, _READ, _IO_IN, _IO_OUT) = range(len(KINDS))

Scope = Literal[
    "own",  # nobody else: a step within an IPU
    "host",  # all that wait for it at an access to the host
    "all",  # all IPUs of the partition: an exchange between IPUs
]

_NO_BODY: Final = BodyCycles()
_MAX_SIZES: Final = 4096  # whose cycles over the host link, or from one IPU to another, are remembered


@final
class Part:
    """What one IPU does in one run, and how far it is."""

    __slots__ = (
        "awaits",
        "beside",
        "body",
        "brought",
        "bytes_in",
        "bytes_to_host",
        "calls",
        "code_bytes",
        "end",
        "group",
        "leaving",
        "ready",
        "reloads",
        "saved",
        "state",
        "staying",
    )

    def __init__(self, state: IpuState, body: BodyCycles = _NO_BODY, calls: Calls = NO_CALLS) -> None:
        self.state = state
        self.body = body
        self.calls = calls
        self.beside = False  # arguments and results pass beside its compute, over I/O tiles
        self.reloads = False  # another program was loaded
        self.brought = False  # its program has been loaded ahead of its other steps
        self.group: Group | None = None  # whose member the program is
        self.code_bytes = 0  # that have to come
        self.saved: list[Value] = []  # of an evicted program, that go to the host first
        self.bytes_in = 0  # arguments that stream in
        self.ready = 0  # cycle at which all arguments can be had whose cycle is known
        self.awaits: list[Value] = []  # arguments whose cycle is not
        self.bytes_to_host = 0  # of the results that leave
        self.staying: list[Value] = []  # results in SRAM
        self.leaving: list[Value] = []  # results that are at the host or in streaming memory when it is over
        self.end = 0  # cycle at which its results are there; 0: when it is free again


@final
class Run:
    """One dispatch of a program."""

    __slots__ = ("bytes_in", "bytes_restored", "bytes_saved", "host", "loads", "parts", "prepared", "reloads")

    def __init__(self, prepared: Prepared, host: int, loads: tuple[Load, ...]) -> None:
        self.prepared = prepared
        self.bytes_in = 0  # all that its parts bring in
        self.bytes_restored = 0  # the part of it that lay in the SRAM of an evicted program, and is to lie there again
        self.bytes_saved = 0
        self.reloads = False  # some part does
        self.host = host  # cycle at which the host has dispatched it
        self.loads = loads  # of links and gateways
        self.parts: list[Part] = []

    def note(self, mark: int) -> None:
        """Adds it to the sums of its program; `mark` is the number of the latest mark before it."""
        bytes_out = 0
        for part in self.parts:
            bytes_out += part.bytes_to_host
        self.prepared.ledger.ran(
            mark=mark,
            bytes_in=self.bytes_in - self.bytes_restored,
            bytes_out=bytes_out,
            bytes_saved=self.bytes_saved,
            bytes_restored=self.bytes_restored,
            loaded=self.reloads,
        )


class Share(NamedTuple):
    """Parts of one run whose IPUs wait for each other when one of them accesses the host."""

    parts: Sequence[Part]
    sync: int  # cycles of a sync of all IPUs that wait, whether they are in the run or not


class Step(NamedTuple):
    """One thing that IPUs do. `act(start)` does it, moves their clocks and returns the cycle at which all have done it."""

    act: Callable[[int], int]
    parts: Sequence[Part]
    scope: Scope
    takes_arguments: bool = False  # those of its parts have to be there first
    last: bool = False  # the parts' results are there when it is over
    gives: Sequence[Value] = ()  # what the host has a copy of when it is over


@final
class Execution:
    """The clocks of a machine but for the host's, and the rules by which a step moves them."""

    def __init__(self, machine: MachineSpec, recorder: Recorder) -> None:
        self.resources = Resources(machine)
        self.horizon = 0  # the latest end of anything so far
        self._machine = machine
        self._recorder = recorder
        self._latency = cycles_from_seconds(machine.host.link_latency_seconds, machine.ipu.clock_hz)
        self._load_cycles = cycles_from_seconds(machine.host.load_seconds, machine.ipu.clock_hz)
        self._link_cycles: dict[int, int] = {}  # of so many bytes over a host link
        # ((from, to), bytes) of all messages -> cycles of sync and of exchange, and what is used for it
        self._passes: dict[tuple[tuple[tuple[int, int], int], ...], tuple[int, int, tuple[Load, ...]]] = {}
        self._superstep_sync = machine.ipu.sync_cycles + machine.ipu.superstep_overhead_cycles

    def loads(self, prepared: Prepared, counts: Sequence[Counts]) -> tuple[Load, ...]:
        """What one run puts on links and gateways.

        Raises: ValueError if something that depends on data was not counted.
        """
        if prepared.loads is None or prepared.body.traffic_counted:
            prepared.loads = self.resources.loads(prepared.body.traffic(counts[0] if counts else Counts()))
        return prepared.loads

    def at_once(self, run: Run) -> None:
        """The whole run, on IPUs that nothing else synchronises with."""
        if len(run.parts) == 1 and not run.prepared.is_special:
            self._on_one_ipu(run, run.parts[0])
            return
        for step in self.steps(run, self._shares(run)):
            start = run.host
            for part in step.parts:
                start = max(start, part.state.free)
                if step.takes_arguments and not part.beside:
                    start = max(start, part.ready)
            step.act(start)
        for part in run.parts:
            self.finish(part)

    def steps(self, run: Run, shares: Sequence[Share]) -> Iterator[Step]:
        """The steps of a run, each IPU's in order."""
        prepared, parts = run.prepared, run.parts
        for part in parts:
            if not part.brought and (part.saved or part.code_bytes or part.reloads):
                yield self.bring(run, part)
        for share in shares:
            if any(part.bytes_in and not part.beside for part in share.parts):
                yield Step(partial(self._stream_in, run, share), share.parts, "host", takes_arguments=True)
        leaves = any(_leaves(part) for part in parts)
        ends_here = not (leaves or prepared.body.collective or prepared.calls_host)
        for together in [parts] if prepared.body.collective else [[part] for part in parts]:
            yield Step(partial(self._compute, run, together), together, "own", takes_arguments=True, last=ends_here)
        if prepared.body.collective:
            yield Step(partial(self._exchange, run), parts, "all", last=not (leaves or prepared.calls_host))
        for share in shares:
            if prepared.calls_host:
                yield Step(partial(self._call_host, run, share), share.parts, "host", last=not leaves)
        for share in shares if leaves else ():
            if not any(_leaves(part) for part in share.parts):  # all that they have made stays
                for part in share.parts:
                    yield Step(_nothing, [part], "own", last=True)
            elif share.parts[0].beside:
                yield Step(partial(self._send, run, share.parts[0]), share.parts, "own", last=True)
            else:
                yield Step(partial(self._stream_out, run, share), share.parts, "host", last=True)

    def bring(self, run: Run, part: Part) -> Step:
        """The first step of a part whose program is not loaded."""
        part.brought = True
        return Step(partial(self._bring, run, part), [part], "own", gives=part.saved)

    def finish(self, part: Part) -> None:
        """The results of a part are where they are to lie."""
        end = max(part.end, part.state.free)
        for value in part.staying:
            value.ready = end
        for value in part.leaving:
            value.ready = end
            if value.host_ready >= 0:
                value.host_ready = end
            elif value.memory_ready >= 0:  # else a later run has taken its place over already
                value.memory_ready = end
        self.horizon = max(self.horizon, end)

    def download(self, value: Value, part: Part, ledger: ProgramLedger, sync: int, start: int) -> int:
        """Copies a value that lives in SRAM only to the host, between two runs of its IPU."""
        end = self._transfer(self.resources.to_host, part.state, start, value.size_bytes, _READ, ledger, 2 * sync)
        value.host_ready = part.state.free = end
        self.horizon = max(self.horizon, end)
        return end

    def pass_on(self, sizes: Mapping[tuple[int, int], int], members: Mapping[IpuState, ProgramLedger], start: int) -> int:
        """Bytes from the SRAM of IPUs to that of others, over IPU-Links and gateways: one exchange, in which all `members` take part.

        Args: sizes: (from, to) -> bytes.
        """
        ways = tuple(sizes.items())
        known = self._passes.get(ways)
        if known is None:
            cost = pass_cost(self._machine, [(source, target, size_bytes) for (source, target), size_bytes in ways])
            if len(self._passes) >= _MAX_SIZES:
                self._passes.clear()
            known = self._passes[ways] = (cost.sync_cycles, cost.exchange_cycles, self.resources.loads(cost.traffic))
        sync, exchange, loads = known
        synced = start + sync
        end = synced + exchange + delay(loads, synced)
        for state, ledger in members.items():
            self._spend(state, start, synced, _SYNC, ledger)
            self._spend(state, synced, end, _COLLECTIVE, ledger)
            state.free = end
        self.horizon = max(self.horizon, end)
        return end

    def from_memory(self, value: Value, machine_index: int, start: int) -> None:
        """Copies a value from streaming memory to the host; no IPU takes part."""
        channel = self.resources.to_host[machine_index]
        value.host_ready = channel.book(max(start, value.memory_ready), self._from_bytes(value.size_bytes)) + self._latency
        self.horizon = max(self.horizon, value.host_ready)

    def to_memory(self, value: Value, machine_index: int, start: int) -> None:
        """Copies a value from the host to streaming memory; no IPU takes part."""
        channel = self.resources.to_ipus[machine_index]
        value.ready = value.memory_ready = channel.book(start, self._from_bytes(value.size_bytes)) + self._latency
        self.horizon = max(self.horizon, value.ready)

    def _on_one_ipu(self, run: Run, part: Part) -> None:
        """The same as `steps`, for what most runs are: on one IPU, with no I/O tiles, host calls or collectives."""
        state, share = part.state, Share(run.parts, 0)
        if part.code_bytes or part.saved or part.reloads:
            self._bring(run, part, max(run.host, state.free))
        start = max(run.host, state.free, part.ready)
        if part.bytes_in:
            start = self._stream_in(run, share, start)
        start = self._compute(run, run.parts, start)
        if _leaves(part):
            self._stream_out(run, share, start)
        self.finish(part)

    def _shares(self, run: Run) -> list[Share]:
        """The shares of a run that has its partition for itself."""
        shares = [Share([run.parts[k] for k in positions], sync) for positions, sync in run.prepared.shares]
        if run.prepared.num_io_tiles:
            for share in shares:
                share.parts[0].beside = len(share.parts) == 1
        return shares

    # The steps

    def _bring(self, run: Run, part: Part, start: int) -> int:
        """Saves what this run needs of an evicted program, and loads its own."""
        state, ledger = part.state, run.prepared.ledger
        clock = max(start, state.io_end) if part.reloads else start
        if part.saved:
            clock = self._transfer(self.resources.to_host, state, clock, sum(value.size_bytes for value in part.saved), _SAVE, ledger)
            for value in part.saved:
                value.host_ready = clock
        if part.reloads or part.code_bytes:
            begin = clock
            clock += self._load_cycles if part.reloads else 0
            clock = self.resources.to_ipus[state.machine].book(clock, self._from_bytes(part.code_bytes))
            self._spend(state, begin, clock, _LOAD, ledger)
        if part.reloads:
            state.inputs_from = clock
        state.free = clock
        return clock

    def _stream_in(self, run: Run, share: Share, start: int) -> int:
        """All arguments that have to come, as one transfer to each IPU; those that wait for each other go on together."""
        end = start
        for part in share.parts:
            if part.bytes_in:
                arrived = self._transfer(
                    self.resources.to_ipus, part.state, start, part.bytes_in, _STREAM_IN, run.prepared.ledger, 2 * share.sync
                )
                end = max(end, arrived)
        return _release(share.parts, end)

    def _compute(self, run: Run, parts: Sequence[Part], start: int) -> int:
        """All that happens within an IPU: compute, exchange between tiles, sync."""
        prepared = run.prepared
        starts = {}
        if prepared.num_io_tiles:
            starts = {part: self._take_in(run, part, start) for part in parts if part.beside}
            if starts and prepared.body.collective:
                start = max(starts.values())
                starts = {}
        end, recorder = start, self._recorder
        for part in parts:
            state, clock = part.state, starts.get(part, start)
            compute, exchange, sync, _, _ = part.body
            if prepared.num_io_tiles:
                passed = [self._passed(prepared, size) for size in (part.bytes_in, part.bytes_to_host)]
                state.inputs_from = clock + passed[0]
                exchange += sum(passed)
                sync += sum(cycles > 0 for cycles in passed) * self._superstep_sync
            row = prepared.ledger.on(state.index)
            for kind, spent in ((_COMPUTE, compute), (_EXCHANGE, exchange), (_SYNC, sync)):
                if spent:
                    row[kind] += spent
                    if recorder.enabled:
                        recorder.add(state.index, clock, clock + spent, KINDS[kind], prepared.name)
                    clock += spent
            state.free = clock
            if not prepared.num_io_tiles:
                state.inputs_from = clock
            end = max(end, clock)
        return end

    def _exchange(self, run: Run, start: int) -> int:
        """All exchanges between IPUs; who else uses the same links and gateways makes them later."""
        end = start + max(part.body.collective for part in run.parts) + delay(run.loads, start)
        for part in run.parts:
            self._spend(part.state, start, end, _COLLECTIVE, run.prepared.ledger)
        return _release(run.parts, end)

    def _call_host(self, run: Run, share: Share, start: int) -> int:
        """All host calls: first what goes out, then what comes back; IPUs that share a link wait for each other's bytes."""
        end = start
        for part in share.parts:
            calls, index = part.calls, part.state.machine
            clock, waits, accesses = start, calls.waits, calls.accesses
            if part.beside and calls.turns:
                clock, waits = self._feed_beside(run, part, start)
                accesses -= calls.feed_accesses
                calls = calls._replace(to_host=calls.to_host - calls.outfed, from_host=calls.from_host - calls.infed)
            clock = self.resources.to_host[index].book(clock, calls.to_host)
            clock = self.resources.to_ipus[index].book(clock, calls.from_host)
            clock = self.resources.memories[index].book(clock, calls.memory) + waits + 2 * share.sync * accesses
            self._spend(part.state, start, clock, _HOST_CALL, run.prepared.ledger)
            end = max(end, clock)
        return _release(share.parts, end)

    def _stream_out(self, run: Run, share: Share, start: int) -> int:
        """All results that go back, as one transfer from each IPU; those that wait for each other go on together."""
        prepared, end = run.prepared, start
        for part in share.parts:
            if _leaves(part):
                sent = self._leave(part, start) + 2 * share.sync
                self._spend(part.state, start, sent, _STREAM_OUT, prepared.ledger)
                end = max(end, sent)
        return _release(share.parts, end)

    # Beside compute, over I/O tiles

    def _feed_beside(self, run: Run, part: Part, start: int) -> tuple[int, int]:
        """Infeeds and outfeeds of a run that has computed until `start`: the cycle at which they are over, and what of all latency is seen.

        That of each infeed is, as of arguments that come beside compute; and that of the last outfeed.
        """
        calls, ledger, state = part.calls, run.prepared.ledger, part.state
        compute, exchange, sync, _, _ = part.body
        begin = start - (calls.infed + calls.outfed - calls.exposed(compute + exchange + sync))
        end = start
        for cycles, links, kind in (
            (calls.infed, self.resources.to_ipus, _IO_IN),
            (calls.outfed, self.resources.to_host, _IO_OUT),
        ):
            if cycles:
                end = max(end, self._beside(state, links[state.machine], begin, cycles, kind, ledger))
        hidden = max(0, calls.outfeed_waits - self._latency) if calls.outfeed_waits else 0
        return end, calls.waits - hidden

    def _take_in(self, run: Run, part: Part, start: int) -> int:
        """The cycle at which the body can begin: its arguments may have come to the I/O tiles while the run before computed."""
        state, ledger = part.state, run.prepared.ledger
        earliest = max(run.host, part.ready, state.inputs_from)
        if not part.bytes_in:
            return max(start, part.ready)
        cycles = self._from_bytes(part.bytes_in)
        arrived = self._beside(state, self.resources.to_ipus[state.machine], earliest, cycles, _IO_IN, ledger)
        begin = max(start, arrived) + self._latency
        self._spend(state, max(start, earliest), begin, _STREAM_IN, ledger)
        return begin

    def _send(self, run: Run, part: Part, start: int) -> int:
        """Results leave from the I/O tiles, once these have sent those of the run before."""
        state, ledger = part.state, run.prepared.ledger
        begin = max(start, state.io_end)
        self._spend(state, start, begin, _STREAM_OUT, ledger)
        state.free = begin
        cycles = self._from_bytes(part.bytes_to_host)
        sent = self._beside(state, self.resources.to_host[state.machine], begin, cycles, _IO_OUT, ledger)
        part.end = state.io_end = sent + self._latency
        return begin

    def _beside(self, state: IpuState, link: Channel, start: int, cycles: int, kind: int, ledger: ProgramLedger) -> int:
        """A transfer that only I/O tiles take part in; they do one thing after the other."""
        if self._recorder.enabled:
            for begin, end in state.io.pieces(start, cycles):
                self._recorder.add(state.index, begin, end, KINDS[kind], ledger.program.name)
        ledger.on(state.index)[kind] += cycles
        return max(state.io.book(start, cycles), link.book(start, cycles))

    def _passed(self, prepared: Prepared, size_bytes: int) -> int:
        """Cycles for bytes to pass between the I/O tiles and the others: each I/O tile exchanges its share of them."""
        return ceil_div(ceil_div(size_bytes, prepared.num_io_tiles), self._machine.ipu.tile.exchange_bytes_per_cycle)

    # Transfers

    def _transfer(
        self, links: Sequence[Channel], state: IpuState, start: int, size_bytes: int, kind: int, ledger: ProgramLedger, sync: int = 0
    ) -> int:
        """Bytes between host and one IPU, which waits meanwhile; returns the cycle at which the last has arrived."""
        end = links[state.machine].book(start, self._from_bytes(size_bytes)) + self._latency + sync
        self._spend(state, start, end, kind, ledger)
        return end

    def _leave(self, part: Part, start: int) -> int:
        """Results to the host."""
        return self.resources.to_host[part.state.machine].book(start, self._from_bytes(part.bytes_to_host)) + self._latency

    def _spend(self, state: IpuState, start: int, end: int, kind: int, ledger: ProgramLedger) -> None:
        if end > start:
            ledger.on(state.index)[kind] += end - start
            if self._recorder.enabled:
                self._recorder.add(state.index, start, end, KINDS[kind], ledger.program.name)

    def _from_bytes(self, size_bytes: int) -> int:
        return self._link_cycles.get(size_bytes) or self._from_new_bytes(size_bytes)

    def _from_new_bytes(self, size_bytes: int) -> int:
        if len(self._link_cycles) >= _MAX_SIZES:
            self._link_cycles.clear()
        cycles = cycles_from_bytes(size_bytes, self._machine.host.link_bytes_per_second, self._machine.ipu.clock_hz)
        self._link_cycles[size_bytes] = cycles
        return cycles


def _leaves(part: Part) -> bool:
    """Whether bytes of its results leave the chip."""
    return part.bytes_to_host > 0


def _nothing(start: int) -> int:
    return start


def _release(parts: Sequence[Part], end: int) -> int:
    for part in parts:
        part.state.free = end
    return end
