"""Laws of virtual time, on machines small enough to follow by hand."""

import itertools
import random
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.sim.mixture import PATTERNS, rack, trace_at_random
from tests.unit.sim.toy import Host, collective, machine, program, superstep
from tilestep.machine import MachineSpec, SyncPattern
from tilestep.plan.steps import Collective, Counts, HostCall, Loop, Node, Program, Series
from tilestep.sim import Event
from tilestep.sim.channel import Channel, Resource
from tilestep.sim.cycles.body import body_cost


@pytest.mark.few(6)
@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("seed", range(4))
def test_no_link_carries_two_messages_at_once(seed: int, pattern: SyncPattern, monkeypatch: pytest.MonkeyPatch) -> None:
    """The spans that a channel is busy are as long as all that it carried: nothing was carried beside anything else."""
    carried: Counter[Channel] = Counter()
    book = Channel.book

    def counted(self: Channel, ready: int, duration: int) -> int:
        carried[self] += duration
        end = book(self, ready, duration)
        assert end >= ready + duration
        return end

    rewind = Channel.rewind

    def forgotten(self: Channel, snapshot: tuple[list[int], list[int]]) -> None:
        """An order that is tried and not taken carries nothing."""
        rewind(self, snapshot)
        carried[self] = sum(end - start for start, end in self.busy_spans())

    monkeypatch.setattr(Channel, "rewind", forgotten)
    monkeypatch.setattr(Channel, "book", counted)
    host = trace_at_random(seed, pattern)
    assert host.system.end_cycle > 0
    used = [channel for channel in carried if carried[channel]]
    assert len(used) > 8  # host links, I/O tiles and IPU-Links
    for channel in used:
        spans = channel.busy_spans()
        assert sum(end - start for start, end in spans) == carried[channel]
        assert all(a[1] < b[0] for a, b in itertools.pairwise(spans))


def test_programs_whose_ways_share_a_link_wait_for_each_other() -> None:
    # 0 -> 4 goes over 0-2 and 2-4; 2 -> 6 over 2-4 and 4-6; 1 -> 5 over the other side
    def end(*pairs: tuple[int, int]) -> int:
        host = Host(on=rack())
        for _ in range(2):  # the second time they are loaded
            for index, ipus in enumerate(pairs):
                way = Collective(name="p", scope="", kind="collective-permute", size_bytes=50_000, groups=(), pairs=((0, 1),))
                host.run_on(ipus, program(way, num_ipus=2, name=f"p{index}"), [[], []])
        return host.system.end_cycle

    alone = max(end((0, 4)), end((2, 6)), end((1, 5)))
    assert end((0, 4), (1, 5)) < alone + 1000
    assert end((0, 4), (2, 6)) > alone + 4000


@pytest.mark.parametrize("seed", range(3))
def test_what_is_dispatched_later_changes_nothing_of_what_was_before(seed: int) -> None:
    choose = random.Random(seed)
    steps = [(choose.randrange(8), choose.randrange(1, 300), choose.randrange(400), choose.randrange(400)) for _ in range(40)]

    def trace(number: int) -> tuple[Event, ...]:
        host = Host(on=rack())
        for ipu, compute, takes, gives in steps[:number]:
            host.run(program(superstep(compute), takes=(takes,), gives=(gives,)), host.put(takes, ipu=ipu), ipu=ipu)
        return host.system.trace.events

    assert trace(40)[: len(trace(20))] == trace(20)


# More work, a slower machine


def spmd_time(step: Program, on: MachineSpec, runs: int = 3) -> int:
    """Cycles of some runs on all IPUs, with arguments and results."""
    host = Host(on=on)
    for _ in range(runs):
        rows = [[host.put(argument.size_bytes, ipu=ipu) for argument in step.arguments] for ipu in range(on.num_ipus)]
        host.run_on(tuple(range(on.num_ipus)), step, rows)
    return host.system.end_cycle


def step_of(compute: int, sizes: tuple[int, int, int, int], num_io_tiles: int) -> Program:
    takes, gives, reduced, called = sizes
    call = HostCall(name="callback", scope="", bytes_to_host=called, bytes_from_host=0)
    return program(
        superstep(compute), collective("all-reduce", reduced), call, takes=(takes,), gives=(gives,), num_ipus=4, num_io_tiles=num_io_tiles
    )


SIZES = st.tuples(*[st.integers(0, 5000)] * 4)


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(PATTERNS), st.integers(0, 5000), SIZES, st.integers(0, 2), st.integers(0, 4), st.integers(0, 5000))
def test_time_never_falls_when_bytes_or_work_grow(
    pattern: SyncPattern, compute: int, sizes: tuple[int, int, int, int], num_io_tiles: int, which: int, more: int
) -> None:
    on = replace(rack(4), sync_pattern=pattern)
    larger = tuple(size + more * (index == which) for index, size in enumerate(sizes))
    before = spmd_time(step_of(compute, sizes, num_io_tiles), on)
    after = spmd_time(step_of(compute + more * (which == 4), larger, num_io_tiles), on)  # type: ignore[arg-type]  # of four
    assert after >= before


@pytest.mark.parametrize("pattern", PATTERNS)
def test_time_never_falls_when_more_ipus_share_a_link(pattern: SyncPattern) -> None:
    step = program(superstep(100), takes=(300,), gives=(300,))
    times: list[int] = []
    for sharers in (1, 2, 4, 8):
        on = replace(rack(), ipus_per_machine=sharers, sync_pattern=pattern)
        times.append(spmd_time(replace(step, num_ipus=8), on))
    assert times == sorted(times)
    assert times[-1] > times[0]


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 50), st.integers(0, 300), st.integers(0, 3000), st.integers(0, 100))
def test_twice_the_iterations_is_twice_the_loop(trips: int, compute: int, reduced: int, called: int) -> None:
    inner: tuple[Node, ...] = (
        superstep(compute, 3, 10),
        collective("all-reduce", reduced),
        HostCall(name="callback", scope="", bytes_to_host=called, bytes_from_host=1),
    )

    def cost(times: int | None) -> tuple[tuple[int, ...], dict[Resource, int], tuple[int, ...]]:
        loop = Loop(name="while", scope="", body=Series(nodes=inner), trips=times, site=None if times is not None else 0)
        found = body_cost(program(loop, num_ipus=8), machine(8), tuple(range(8)))
        counts = Counts(times={(0, 0): 2 * trips})
        return found.cycles(counts), dict(found.traffic(counts)), found.calls(counts)

    cycles, traffic, calls = cost(trips)
    twice = (tuple(2 * part for part in cycles), {key: 2 * part for key, part in traffic.items()}, tuple(2 * part for part in calls))
    assert cost(2 * trips) == twice
    counted = cost(None)  # a loop whose trips depend on data
    assert (counted[0], counted[2]) == (twice[0], twice[2])
    assert {key: part for key, part in counted[1].items() if part} == {key: part for key, part in twice[1].items() if part}
