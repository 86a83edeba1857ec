"""Executes runs: the steps of a run on each IPU, and the cycles of each step.

A step begins once all IPUs of its parts have come to it. It ends for all of them together, or for each by itself. Its scope says
which other IPUs have to be between two steps meanwhile. This module does not choose the cycle at which a step begins: `at_once` does for
a run that no other program's steps can hold up, `sim.play` does for runs of a group on several IPUs.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial
from typing import Final, final

from tilestep.machine.spec import MachineSpec
from tilestep.plan.steps import Counts
from tilestep.sim.channel import Load, Resources
from tilestep.sim.cycles.collective import pass_cost
from tilestep.sim.runs.causes import cause_of, freed_by, note, note_beside, note_link_beside, note_move, note_transfer
from tilestep.sim.runs.run import ProgramRun, RunPart, RunStep, Share
from tilestep.sim.state.ledger import ProgramLedger
from tilestep.sim.state.prepared import PreparedProgram
from tilestep.sim.state.residency import IpuState, Value
from tilestep.sim.trace import KINDS, NO_EVENT, Lane, LaneKind, Recorder
from tilestep.units import ceil_div, cycles_from_seconds

(_LOAD, _SAVE, _STREAM_IN, _COMPUTE, _EXCHANGE, _SYNC, _COLLECTIVE, _HOST_CALL, _STREAM_OUT, _READ, _IO_IN, _IO_OUT) = range(len(KINDS))

Ways = tuple[tuple[tuple[int, int], int], ...]
"""((from, to), bytes) of each message."""

_MAX_KNOWN_TRANSFERS: Final = 4096


@final
class Executor:
    """The clocks of a machine except the host's, and the rules by which a step moves them."""

    def __init__(self, machine: MachineSpec, recorder: Recorder) -> None:
        self.resources = Resources(machine)
        self.horizon = 0  # the latest end so far
        self._machine = machine
        self.recorder = recorder
        resources = self.resources
        self._channels = {"to-ipus": resources.to_ipus, "to-host": resources.to_host, "memory": resources.memories}
        self._latency = cycles_from_seconds(machine.host.link_latency_seconds, machine.ipu.clock_hz)
        self._load_cycles = cycles_from_seconds(machine.host.load_seconds, machine.ipu.clock_hz)
        self._link_cycles: dict[tuple[bool, int], int] = {}  # (whether to the host, bytes) -> cycles over a host link
        # messages, the IPUs beside that are not simulated -> cycles of sync, cycles of exchange, loads of links and gateways
        self._passes: dict[tuple[Ways, frozenset[IpuState]], tuple[int, int, tuple[Load, ...]]] = {}
        self._superstep_sync = machine.ipu.sync_cycles + machine.ipu.superstep_overhead_cycles

    def loads(self, prepared: PreparedProgram, counts: Sequence[Counts]) -> tuple[Load, ...]:
        """The loads of links and gateways in one run.

        Raises: ValueError if a data-dependent part was not counted.
        """
        if prepared.loads is None or prepared.body.traffic_counted:
            prepared.loads = self.resources.loads(prepared.body.traffic(counts[0] if counts else Counts()))
        return prepared.loads

    def at_once(self, run: ProgramRun) -> None:
        """Executes the whole run, on IPUs that synchronise with no others."""
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

    def steps(self, run: ProgramRun, shares: Sequence[Share]) -> Iterator[RunStep]:
        """The steps of a run, each IPU's in order."""
        prepared, parts = run.prepared, run.parts
        for part in parts:
            if not part.brought and (part.saved or part.code_bytes or part.reloads):
                yield self.bring(run, part)
        for share in shares:
            if any(part.bytes_in and not part.beside for part in share.parts):
                yield RunStep(partial(self._stream_in, run, share), share.parts, "host", takes_arguments=True)
        leaves = any(part.streams_out for part in parts)
        ends_here = not (leaves or prepared.body.collective or prepared.calls_host)
        for together in [parts] if prepared.body.collective else [[part] for part in parts]:
            yield RunStep(partial(self._compute, run, together), together, "own", takes_arguments=True, last=ends_here)
        if prepared.body.collective:
            yield RunStep(partial(self._exchange, run), parts, "all", last=not (leaves or prepared.calls_host))
        for share in shares:
            if prepared.calls_host:
                yield RunStep(partial(self._call_host, run, share), share.parts, "host", last=not leaves)
        for share in shares if leaves else ():
            if not any(part.streams_out for part in share.parts):  # all their results stay
                for part in share.parts:
                    yield RunStep(_nothing, [part], "own", last=True)
            elif share.parts[0].beside:
                yield RunStep(partial(self._send, run, share.parts[0]), share.parts, "own", last=True)
            else:
                yield RunStep(partial(self._stream_out, run, share), share.parts, "host", last=True)

    def bring(self, run: ProgramRun, part: RunPart) -> RunStep:
        """The first step of a part whose program is not loaded."""
        part.brought = True
        return RunStep(partial(self._bring, run, part), [part], "own", gives=part.saved)

    def finish(self, part: RunPart) -> None:
        """Says that the results of a part are in their memories."""
        state = part.state
        end, event = (part.end, part.event) if part.end > state.free else (state.free, freed_by(self.recorder, state))
        for value in part.staying:
            value.ready = end
            value.event = event
        for value in part.leaving:
            value.ready = end
            value.event = event
            if value.host_ready >= 0:
                value.host_ready = end
            elif value.memory_ready >= 0:  # else a later run has taken its memory over already
                value.memory_ready = end
        self.horizon = max(self.horizon, end)

    def download(self, value: Value, part: RunPart, ledger: ProgramLedger, sync: int, start: int) -> int:
        """Copies a value that is in SRAM only to the host, between two runs of its IPU."""
        end = self._transfer(part.state, start, value.size_bytes, _READ, ledger, 2 * sync)
        value.host_ready = part.state.free = end
        value.event = part.state.event
        self.horizon = max(self.horizon, end)
        return end

    def pass_on(self, sizes: Mapping[tuple[int, int], int], members: Mapping[IpuState, ProgramLedger], start: int) -> int:
        """Moves bytes between the SRAMs of IPUs, over IPU-Links and gateways, in one exchange of all `members`.

        Args: sizes: (from, to) -> bytes.
        """
        ways = tuple(sizes.items())
        partition = next(iter(members)).partition
        others = frozenset[IpuState]() if partition is None else partition.others
        known = self._passes.get((ways, others))
        if known is None:
            cost = pass_cost(self._machine, self._of_all(ways, others))
            if len(self._passes) >= _MAX_KNOWN_TRANSFERS:
                self._passes.clear()
            known = self._passes[ways, others] = (cost.sync_cycles, cost.exchange_cycles, self.resources.loads(cost.traffic))
        sync, exchange, loads = known
        synced = start + sync
        key = next(iter(members.values())).key
        for state, ledger in members.items():
            self._spend(state, start, synced, _SYNC, ledger)  # which the transfers wait for
        end = synced + exchange + self._delay(loads, synced, key, -1)
        for state, ledger in members.items():
            self._spend(state, synced, end, _COLLECTIVE, ledger)
            state.free = end
        self.horizon = max(self.horizon, end)
        return end

    def _of_all(self, ways: Ways, others: Collection[IpuState]) -> list[tuple[int, int, int]]:
        """(from, to, bytes) of all messages, with those of IPUs that are not simulated."""
        messages = [(source, target, size_bytes) for (source, target), size_bytes in ways]
        numbers = {state.index for state in others}
        for shift in range(self._machine.num_simulated, self._machine.num_ipus, self._machine.num_simulated) if others else ():
            alike = [(source + shift, target + shift, size_bytes) for (source, target), size_bytes in ways]
            messages += [message for message in alike if numbers.issuperset(message[:2])]
        return messages

    def from_memory(self, value: Value, machine_index: int, start: int) -> None:
        """Copies a value from streaming memory to the host; no IPU takes part."""
        channel, begin = self.resources.to_host[machine_index], max(start, value.memory_ready)
        value.host_ready = channel.book(begin, self._on_link(value.size_bytes, to_host=True)) + self._latency
        if self.recorder.enabled:
            note_move(self.recorder, "to-host", machine_index, begin, value.host_ready, value)
        self.horizon = max(self.horizon, value.host_ready)

    def to_memory(self, value: Value, machine_index: int, start: int) -> None:
        """Copies a value from the host to streaming memory; no IPU takes part."""
        channel = self.resources.to_ipus[machine_index]
        value.ready = value.memory_ready = channel.book(start, self._on_link(value.size_bytes)) + self._latency
        if self.recorder.enabled:
            note_move(self.recorder, "to-ipus", machine_index, start, value.ready, value)
        self.horizon = max(self.horizon, value.ready)

    def _on_one_ipu(self, run: ProgramRun, part: RunPart) -> None:
        """The same as `steps` for most runs: on one IPU, without I/O tiles, host calls or collectives."""
        state, share = part.state, Share(run.parts, 0)
        if part.code_bytes or part.saved or part.reloads:
            self._bring(run, part, max(run.host, state.free))
        start = max(run.host, state.free, part.ready)
        if part.bytes_in:
            start = self._stream_in(run, share, start)
        start = self._compute(run, run.parts, start)
        if part.streams_out:
            self._stream_out(run, share, start)
        self.finish(part)

    def _shares(self, run: ProgramRun) -> list[Share]:
        """The shares of a run that has its partition to itself."""
        shares = [Share([run.parts[k] for k in positions], sync) for positions, sync, _ in run.prepared.shares]
        if run.prepared.num_io_tiles:
            for share, (_, _, is_alone) in zip(shares, run.prepared.shares, strict=True):
                share.parts[0].beside = is_alone
        return shares

    # The steps

    def _bring(self, run: ProgramRun, part: RunPart, start: int) -> int:
        """Saves the values of an evicted program that this run needs, and loads the run's own program."""
        state, ledger = part.state, run.prepared.ledger
        clock = max(start, state.io_end) if part.reloads else start
        if part.saved:
            size_bytes = sum(value.size_bytes for value in part.saved)
            clock = self._transfer(state, clock, size_bytes, _SAVE, ledger, run=run, part=part)
            for value in part.saved:
                value.host_ready = clock
                value.event = state.event
        if part.reloads or part.code_bytes:
            begin = clock
            clock += self._load_cycles if part.reloads else 0
            cause = cause_of(self.recorder, state, begin, run, part) if self.recorder.enabled else NO_EVENT
            clock = self._carry("to-ipus", state.machine, clock, self._on_link(part.code_bytes), ledger.key, run.number, cause)
            self._spend(state, begin, clock, _LOAD, ledger, run, part)
        if part.reloads:
            state.inputs_from = clock
        state.free = clock
        return clock

    def _stream_in(self, run: ProgramRun, share: Share, start: int) -> int:
        """All arguments that stream in, as one transfer to each IPU. IPUs that wait for each other go on together."""
        end = start
        for part in share.parts:
            if part.bytes_in:
                ledger = run.prepared.ledger
                arrived = self._transfer(part.state, start, part.bytes_in, _STREAM_IN, ledger, 2 * share.sync, run, part)
                end = max(end, arrived)
        return _release(share.parts, end)

    def _compute(self, run: ProgramRun, parts: Sequence[RunPart], start: int) -> int:
        """The work within an IPU: compute, exchange between tiles, sync."""
        prepared = run.prepared
        starts = {}
        if prepared.num_io_tiles:
            starts = {part: self._take_in(run, part, start) for part in parts if part.beside}
            if starts and prepared.body.collective:
                start = max(starts.values())
                starts = {}
        end, recorder = start, self.recorder
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
                        note(recorder, state, clock, clock + spent, kind, prepared.ledger.key, run, part)
                    clock += spent
            state.free = clock
            if not prepared.num_io_tiles:
                state.inputs_from = clock
            end = max(end, clock)
        return end

    def _exchange(self, run: ProgramRun, start: int) -> int:
        """All exchanges between IPUs. Other traffic on the same links and gateways makes them end later."""
        ledger = run.prepared.ledger
        end = start + max(part.body.collective for part in run.parts) + self._delay(run.loads, start, ledger.key, run.number)
        for part in run.parts:
            self._spend(part.state, start, end, _COLLECTIVE, ledger, run, part)
        return _release(run.parts, end)

    def _call_host(self, run: ProgramRun, share: Share, start: int) -> int:
        """All host calls: first the bytes out, then the bytes in. IPUs that share a link wait for each other's bytes.

        What is infed waits in the machine's streaming memory, if it has one: the host link brings it there while the program computes.
        """
        end, ledger = start, run.prepared.ledger
        for part in share.parts:
            calls, index = part.calls, part.state.machine
            clock, waits, accesses = start, calls.waits, calls.accesses
            arrived = start
            cause = cause_of(self.recorder, part.state, start, run, part) if self.recorder.enabled else NO_EVENT
            if part.beside and calls.turns:
                clock, waits = self._feed_beside(run, part, start)
                accesses -= calls.feed_accesses
                calls = calls._replace(to_host=calls.to_host - calls.outfed, from_host=calls.from_host - calls.infed)
            elif calls.staged:
                arrived = self._book("to-ipus", index, start - part.body.supersteps, calls.infed, ledger.key, run.number)
                calls = calls._replace(from_host=calls.from_host - calls.infed, memory=calls.memory + calls.staged)
            clock = self._book("to-host", index, clock, calls.to_host, ledger.key, run.number, cause)
            clock = self._book("to-ipus", index, clock, calls.from_host, ledger.key, run.number, cause)
            clock = self._book("memory", index, clock, calls.memory, ledger.key, run.number, cause) + waits + 2 * share.sync * accesses
            clock = max(clock, arrived)
            self._spend(part.state, start, clock, _HOST_CALL, ledger, run, part)
            end = max(end, clock)
        return _release(share.parts, end)

    def _stream_out(self, run: ProgramRun, share: Share, start: int) -> int:
        """All results that stream out, as one transfer from each IPU. IPUs that wait for each other go on together."""
        prepared, end = run.prepared, start
        for part in share.parts:
            if part.streams_out:
                ledger = prepared.ledger
                sent = self._transfer(part.state, start, part.bytes_to_host, _STREAM_OUT, ledger, 2 * share.sync, run, part)
                end = max(end, sent)
        return _release(share.parts, end)

    # Beside compute, over I/O tiles

    def _feed_beside(self, run: ProgramRun, part: RunPart, start: int) -> tuple[int, int]:
        """Infeeds and outfeeds of a run that has computed until `start`.

        Compute hides no latency of an infeed, as of arguments that come beside compute, and it hides the latency of all outfeeds but
        the last.

        Returns: the cycle at which they end; the cycles of latency that compute does not hide.
        """
        calls, ledger, state = part.calls, run.prepared.ledger, part.state
        compute, exchange, sync, _, _ = part.body
        begin = start - (calls.infed + calls.outfed - calls.exposed(compute + exchange + sync))
        end = start
        feeds: tuple[tuple[int, LaneKind, int], ...] = ((calls.infed, "to-ipus", _IO_IN), (calls.outfed, "to-host", _IO_OUT))
        for cycles, link, kind in feeds:
            if cycles:
                end = max(end, self._beside(state, link, begin, cycles, kind, ledger, run))
        hidden = max(0, calls.outfeed_waits - self._latency) if calls.outfeed_waits else 0
        return end, calls.waits - hidden

    def _take_in(self, run: ProgramRun, part: RunPart, start: int) -> int:
        """The cycle at which the body can begin. Its arguments may have come to the I/O tiles while the run before computed."""
        state, ledger = part.state, run.prepared.ledger
        earliest = max(run.host, part.ready, state.inputs_from)
        if not part.bytes_in:
            return max(start, part.ready)
        cycles = self._on_link(part.bytes_in)
        arrived = self._beside(state, "to-ipus", earliest, cycles, _IO_IN, ledger, run)
        begin = max(start, arrived) + self._latency
        self._spend(state, max(start, earliest), begin, _STREAM_IN, ledger, run, part)
        return begin

    def _send(self, run: ProgramRun, part: RunPart, start: int) -> int:
        """Sends results from the I/O tiles, once these have sent the results of the run before."""
        state, ledger = part.state, run.prepared.ledger
        begin = max(start, state.io_end)
        self._spend(state, start, begin, _STREAM_OUT, ledger, run, part)
        state.free = begin
        cycles = self._on_link(part.bytes_to_host, to_host=True)
        sent = self._beside(state, "to-host", begin, cycles, _IO_OUT, ledger, run)
        part.end = state.io_end = sent + self._latency
        part.event = self.recorder.ended_at(part.end)
        return begin

    def _beside(self, state: IpuState, link: LaneKind, start: int, cycles: int, kind: int, ledger: ProgramLedger, run: ProgramRun) -> int:
        """A transfer of the I/O tiles alone, which do one transfer after the other."""
        recorder = self.recorder
        if recorder.enabled:
            note_beside(recorder, state, kind, state.io.pieces(start, cycles), ledger.key, run)
        ledger.on(state.index)[kind] += cycles
        arrived = max(state.io.book(start, cycles), self._channels[link][state.machine].book(start, cycles))
        if recorder.enabled:
            note_link_beside(recorder, state, link, (start, arrived + self._latency), ledger.key, run, decides=kind == _IO_OUT)
        return arrived

    def _passed(self, prepared: PreparedProgram, size_bytes: int) -> int:
        """Cycles in which bytes pass between the I/O tiles and the others: each I/O tile exchanges its share of them."""
        return ceil_div(ceil_div(size_bytes, prepared.num_io_tiles), self._machine.ipu.tile.exchange_bytes_per_cycle)

    # Transfers

    def _transfer(
        self,
        state: IpuState,
        start: int,
        size_bytes: int,
        kind: int,
        ledger: ProgramLedger,
        sync: int = 0,
        run: ProgramRun | None = None,
        part: RunPart | None = None,
    ) -> int:
        """Moves bytes between host and one IPU, which waits meanwhile; returns the cycle at which the last byte has arrived."""
        number = NO_EVENT if run is None else run.number
        link: LaneKind = "to-ipus" if kind == _STREAM_IN else "to-host"
        cycles = self._on_link(size_bytes, to_host=link == "to-host")
        end = self._carry(link, state.machine, start, cycles, ledger.key, number) + self._latency + sync
        self._spend(state, start, end, kind, ledger, run, part)
        return end

    def _carry(self, link: LaneKind, machine_index: int, start: int, cycles: int, key: int, run: int, cause: int = NO_EVENT) -> int:
        """Books a host link for the bytes of one IPU, whose event shows them to be under way. Args: cause: of that event."""
        end = self._channels[link][machine_index].book(start, cycles)
        if self.recorder.links and self.recorder.enabled and cycles > 0:
            note_transfer(self.recorder, Lane(link, machine_index), start, end, key, run, cause)
        return end

    def _book(self, link: LaneKind, machine_index: int, start: int, cycles: int, key: int, run: int, cause: int = NO_EVENT) -> int:
        """Books a host link or streaming memory; returns the cycle at which the transfer has had its cycles. Args: as `_carry` has them."""
        end = self._channels[link][machine_index].book(start, cycles)
        if self.recorder.enabled and cycles > 0:
            note_transfer(self.recorder, Lane(link, machine_index), start, end, key, run, cause)
        return end

    def _delay(self, loads: Sequence[Load], start: int, key: int, run: int) -> int:
        """Books links and gateways from cycle `start` on; how much later than undisturbed the last of them is through."""
        late, recorder = 0, self.recorder
        for channel, cycles, (kind, source, target) in loads:
            end = channel.book(start, cycles)
            late = max(late, end - start - cycles)
            if recorder.enabled:
                note_transfer(recorder, Lane(kind, source, target), start, end, key, run)
        return late

    def _spend(
        self,
        state: IpuState,
        start: int,
        end: int,
        kind: int,
        ledger: ProgramLedger,
        run: ProgramRun | None = None,
        part: RunPart | None = None,
    ) -> None:
        if end > start:
            ledger.on(state.index)[kind] += end - start
            if self.recorder.enabled:
                note(self.recorder, state, start, end, kind, ledger.key, run, part)

    def _on_link(self, size_bytes: int, *, to_host: bool = False) -> int:
        """Cycles that bytes take over a host link, to the IPUs or to the host."""
        return self._link_cycles.get((to_host, size_bytes)) or self._of_new_size(size_bytes, to_host)

    def _of_new_size(self, size_bytes: int, to_host: bool) -> int:
        if len(self._link_cycles) >= _MAX_KNOWN_TRANSFERS:
            self._link_cycles.clear()
        cycles = self._machine.host_cycles(to_host=size_bytes) if to_host else self._machine.host_cycles(to_ipus=size_bytes)
        self._link_cycles[to_host, size_bytes] = cycles
        return cycles


def _nothing(start: int) -> int:
    return start


def _release(parts: Sequence[RunPart], end: int) -> int:
    for part in parts:
        part.state.free = end
    return end
