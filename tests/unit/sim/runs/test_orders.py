"""Launches under the three sync patterns: who waits for whom, and that no pattern is slower than `full`."""

import random
from dataclasses import replace
from typing import Final

import pytest

from tests.unit.sim.toy import LATENCY, MACHINE, ONE_HOP, Host, collective, machine, program, superstep
from tilestep.machine import MachineSpec, SyncPattern
from tilestep.plan.steps import HostCall, Program
from tilestep.sim import Event

PATTERNS: tuple[SyncPattern, ...] = ("full", "singlePipeline", "replicaAndLadder")
SIDES: Final = ((0, 2), (1, 3))
TWO_HOPS: Final = 2 * ONE_HOP  # of the syncs before and after an access of IPUs 0 to 3; those of one side are one hop apart
SYNC, LINK = 10, 10  # cycles between tiles; bytes a cycle of a link


def rack(num_ipus: int, pattern: SyncPattern) -> MachineSpec:
    """IPUs of one IPU-Machine with streaming memory, of which each access takes a byte a cycle."""
    memory = replace(MACHINE.host, streaming_memory_bytes=10**9)
    return replace(machine(num_ipus, pattern), ipus_per_machine=4, host=memory)


def loading(size: int) -> Program:
    """Brings a stage's weights from streaming memory, which is all that it does."""
    call = HostCall(name="load", scope="", bytes_to_host=0, bytes_from_host=size, in_memory=True)
    return program(call, name="load", takes=(size,), gives=(size,), host_arguments=(0,), num_ipus=2)


def phases(pattern: SyncPattern, *, stages: int, compute: int, load: int, size: int = 20) -> int:
    """Cycles from the end of the first stage's compute to that of the last one's, of stages in turn on two pairs of IPUs: one launch."""
    host = Host(on=rack(4, pattern))
    fetch = loading(load)
    work = program(superstep(compute), name="work", takes=(size, load), gives=(size,), num_ipus=2)
    weights = {ipu: host.put(load, ipu=ipu, on_host=True) for ipu in range(4)}

    def launch(number: int) -> tuple[Event, ...]:
        group = ("phases", number)

        def fetched(stage: int) -> list[int]:
            side = SIDES[stage % 2]
            return [values[0] for values in host.run_on(side, fetch, [[weights[ipu]] for ipu in side], group=group)]

        begin = host.system.mark()
        values, there = [host.put(size, ipu=ipu) for ipu in SIDES[0]], {stage: fetched(stage) for stage in (0, 1)}
        for stage in range(stages):
            side, other = SIDES[stage % 2], SIDES[(stage + 1) % 2]
            rows = [list(row) for row in zip(values, there.pop(stage), strict=True)]
            values = [made[0] for made in host.run_on(side, work, rows, group=group)]
            if stage + 1 < stages:
                values = [host.copy(value, ipu=ipu, group=group) for value, ipu in zip(values, other, strict=True)]
            if stage + 2 < stages:
                there[stage + 2] = fetched(stage + 2)
        for value in values:
            host.system.wait(value)
        return host.system.trace_between(begin, host.system.mark()).events

    launch(1)
    events = launch(2)
    works = [event for event in events if event.kind == "compute"]
    assert len(works) == 2 * stages
    ends = sorted(event.end_cycle for event in works)
    return ends[-1] - ends[1]  # stage 0 is on two IPUs


@pytest.mark.parametrize("stages", [2, 3, 8])
@pytest.mark.parametrize(("compute", "load"), [(400, 200), (1000, 500), (3000, 500)])
def test_phases_alternate_between_loading_and_computing(stages: int, compute: int, load: int) -> None:
    """Both IPUs of a pair load over one streaming memory: their loads take twice as long as one of them.

    Under `full` all wait for each load. Else a pair loads while the other one computes. Each stage but the first gets what the one before
    has made in one exchange, which all wait for.
    """
    size = 20
    passed = SYNC + 2 + size // LINK  # one hop, there and back
    both, passes = 2 * load + LATENCY, (stages - 1) * passed
    full = phases("full", stages=stages, compute=compute, load=load)
    assert full == passes + (stages - 1) * compute + (stages - 2) * (both + TWO_HOPS)
    ladder = phases("replicaAndLadder", stages=stages, compute=compute, load=load)
    assert ladder == passes + (stages - 2) * max(compute, both + ONE_HOP) + compute
    assert phases("singlePipeline", stages=stages, compute=compute, load=load) <= ladder


def test_an_exchange_within_a_side_holds_only_that_side() -> None:
    """IPUs 0 and 2 sum, while 1 and 3 compute; under the other patterns they come to the sum between two steps."""
    spans: dict[SyncPattern, tuple[int, int]] = {}
    for pattern in PATTERNS:
        host = Host(on=rack(4, pattern))
        summing = program(superstep(100), collective("all-reduce", 400), name="sum", num_ipus=2)
        longer = program(superstep(900), name="long", num_ipus=2)
        for number in (1, 2):
            begin = host.system.mark()
            host.run_on(SIDES[1], longer, [[], []], group=("g", number))
            host.run_on(SIDES[0], summing, [[], []], group=("g", number))
            events = host.system.trace_between(begin, host.system.mark()).events
        zero = next(event.start_cycle for event in events if (event.ipu, event.kind) == (0, "compute"))
        [(start, end)] = {(event.start_cycle - zero, event.end_cycle - zero) for event in events if event.kind == "collective"}
        spans[pattern] = start, end
    assert spans["replicaAndLadder"][0] == 100 + 2 * (SYNC + 2)  # the syncs of its two steps are at the end of the body
    assert spans["full"][0] == spans["singlePipeline"][0] > 800  # at the end of the others' compute
    assert len({end - start for start, end in spans.values()}) == 1


def test_a_copy_within_a_side_holds_only_that_side() -> None:
    for pattern, begins in (("replicaAndLadder", 100), ("full", 900), ("singlePipeline", 900)):
        host = Host(on=rack(4, pattern))
        make, take = program(superstep(100), name="make", gives=(50,)), program(superstep(10), name="take", takes=(50,), gives=(4,))
        longer = program(superstep(900), name="long", num_ipus=2)
        for number in (1, 2):
            group = ("g", number)
            begin = host.system.mark()
            host.run_on(SIDES[1], longer, [[], []], group=group)
            [made] = host.run(make, ipu=0, group=group)
            [last] = host.run(take, host.copy(made, ipu=2, group=group), ipu=2, group=group)
            host.system.wait(last)
            events = host.system.trace_between(begin, host.system.mark()).events
        zero = min(event.start_cycle for event in events if event.kind == "compute")
        assert {event.start_cycle - zero for event in events if event.kind == "collective"} == {begins + SYNC + 2}


# ------------------------------------------------------------------------------------------------ no pattern is slower than full


class Fed:
    """A pipeline at random: stages with an infeed, outputs, loads and a backward pass, microbatches in one of three orders."""

    def __init__(self, seed: int) -> None:
        choose = random.Random(seed)
        self.stages, self.microbatches = choose.choice((2, 3, 4)), choose.choice((1, 2, 4, 6))
        forward, backward = ([choose.randrange(1, most) for _ in range(self.stages)] for most in (400, 600))
        sizes = [choose.choice((1, 10, 50, 200, 800)) for _ in range(self.stages)]
        self.element, self.training = choose.choice((5, 50, 300, 900)), choose.random() < 0.6
        loads = [choose.choice((0, 0, 100, 400)) for _ in range(self.stages)]
        self.order = choose.choice(("slots", "serial", "turns"))
        takes = [self.element, *sizes[:-1]]
        calls = [[HostCall(name="l", scope="", bytes_to_host=0, bytes_from_host=size, in_memory=True)] if size else [] for size in loads]
        self.programs = [
            program(superstep(cycles), *call, name=f"forward {k}", takes=(takes[k],), gives=(sizes[k],))
            for k, (cycles, call) in enumerate(zip(forward, calls, strict=True))
        ]
        if self.training:
            self.programs += [
                program(superstep(backward[k]), name=f"backward {k}", takes=(sizes[k],), gives=(takes[k],))
                for k in reversed(range(self.stages))
            ]

    def tasks(self) -> list[tuple[int, int, int]]:
        """(slot, microbatch, step), the last step of a slot first."""
        steps = len(self.programs)
        slot = {"slots": lambda m, s: m + s, "serial": lambda m, s: m * steps + s, "turns": lambda m, s: 2 * m + s}[self.order]
        every = [(slot(m, s), -s, m) for m in range(self.microbatches) for s in range(steps)]
        return [(when, m, -minus) for when, minus, m in sorted(every)]

    def cycles(self, pattern: SyncPattern) -> int:
        """Of two launches after a first one."""
        host = Host(on=replace(rack(self.stages, pattern), link=replace(MACHINE.link, ipus_per_rack=8)))
        self._launch(host, 1)
        begin = host.system.end_cycle
        for number in (2, 3):
            self._launch(host, number)
        return host.system.end_cycle - begin

    def _launch(self, host: Host, number: int) -> None:
        group, values, results = ("fed", number), dict[tuple[int, int], int](), list[int]()
        moves: list[tuple[tuple[int, int], int]] = []
        latest = -1
        for slot, microbatch, step in self.tasks():
            if slot != latest:
                for key, ipu in moves:
                    values[key] = host.copy(values[key], ipu=ipu, group=group)
                moves, latest = [], slot
            value = values[microbatch, step] if step else host.put(self.element)
            [made] = host.run(self.programs[step], value, ipu=self._ipu(step), group=group)
            if step + 1 == len(self.programs):
                results.append(made)
                continue
            values[microbatch, step + 1] = made
            if self._ipu(step + 1) != self._ipu(step):
                moves.append(((microbatch, step + 1), self._ipu(step + 1)))
        for value in results:
            host.system.wait(value)

    def _ipu(self, step: int) -> int:
        return step if step < self.stages else 2 * self.stages - 1 - step


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, 160, 20))
def test_no_pattern_is_slower_than_full(first: int) -> None:
    for seed in range(first, first + 20):
        fed = Fed(seed)
        full, single, ladder = (fed.cycles(pattern) for pattern in PATTERNS)
        assert max(single, ladder) <= full, f"seed {seed}"


def test_a_trial_leaves_no_trace() -> None:
    """Bytes, cycles by kind and events are those of the order that was taken, and a second play of the same work is the same."""
    for seed in range(4):
        fed = Fed(seed)
        hosts = [Host(on=rack(fed.stages, "singlePipeline"), record=record) for record in (True, True, False)]
        for host in hosts:
            for number in (1, 2):
                fed._launch(host, number)
        one, other, unrecorded = hosts
        assert one.events() == other.events()
        assert len({host.system.end_cycle for host in hosts}) == 1
        totals = [host.system.mark().programs for host in hosts]
        assert [total.cycles for total in totals[0].values()] == [total.cycles for total in totals[2].values()]
        spent = sum(event.end_cycle - event.start_cycle for event in one.system.trace.events)
        assert spent == sum(sum(kinds.values()) for total in totals[0].values() for kinds in total.cycles.values())
        assert unrecorded.events() == []
