"""Sync patterns: which IPUs of one program wait for whom. A hop of sync takes a cycle, there and back two."""

import pytest

from tests.unit.sim.toy import CODE, DISPATCH, LATENCY, LOAD, NUM_TILES, ONE_HOP, Host, collective, machine, program, superstep
from tilestep.machine import SYNC_PATTERNS, SyncPattern
from tilestep.plan.steps import HostCall, Program
from tilestep.sim.cycles.sync import host_set, sync_cycles

PATTERNS: tuple[SyncPattern, ...] = ("full", "singlePipeline", "replicaAndLadder")
PAIR_LOADED = DISPATCH + LOAD + 2 * NUM_TILES * CODE  # two IPUs have their code over the one link that they share
TWO_HOPS = 2 * ONE_HOP


def test_there_are_three_patterns() -> None:
    assert SYNC_PATTERNS == PATTERNS


@pytest.mark.parametrize(
    ("pattern", "sets"), [("full", [{0, 1, 2, 3}]), ("singlePipeline", [{0}, {1}, {2}, {3}]), ("replicaAndLadder", [{0, 2}, {1, 3}])]
)
def test_who_waits_for_whom_at_an_access_to_the_host(pattern: SyncPattern, sets: list[set[int]]) -> None:
    four = machine(4, pattern)
    numbers = [host_set(four, ipu) for ipu in range(4)]
    assert [{ipu for ipu in range(4) if numbers[ipu] == number} for number in dict.fromkeys(numbers)] == sets


def test_a_sync_goes_to_the_farthest_and_back() -> None:
    four = machine(8)
    assert [sync_cycles(four, ipus) for ipus in ((2,), (0, 1), (0, 3), (0, 1, 2, 3), (0, 4))] == [0, 2, 4, 4, 2]


# One program on several IPUs


def starts(host: Host, kind: str) -> list[tuple[int, int]]:
    """(IPU, start) of its events of one kind, by IPU."""
    return sorted((ipu, start) for ipu, what, start, _ in host.events() if what == kind)


def spans(host: Host, kind: str) -> list[tuple[int, int]]:
    return [(start, end) for _, what, start, end in sorted(host.events()) if what == kind]


def run_on(host: Host, called: Program, *sizes: int) -> list[list[int]]:
    ipus = tuple(range(called.num_ipus))
    return host.run_on(ipus, called, [[host.put(size, ipu=ipu) for size in sizes] for ipu in ipus])


def test_full_lets_nobody_compute_before_all_have_their_arguments() -> None:
    host = Host(2)
    run_on(host, program(superstep(7), takes=(50,), num_ipus=2), 50)
    first, second = PAIR_LOADED + 50 + LATENCY + ONE_HOP, PAIR_LOADED + 100 + LATENCY + ONE_HOP
    assert spans(host, "stream-in") == [(PAIR_LOADED, first), (PAIR_LOADED, second)]
    assert starts(host, "compute") == [(0, second), (1, second)]


def test_single_pipeline_lets_each_begin_with_its_arguments() -> None:
    host = Host(2, sync_pattern="singlePipeline")
    run_on(host, program(superstep(7), takes=(50,), num_ipus=2), 50)
    first, second = PAIR_LOADED + 50 + LATENCY, PAIR_LOADED + 100 + LATENCY
    assert starts(host, "compute") == [(0, first), (1, second)]


def test_replica_and_ladder_lets_the_sides_begin_apart() -> None:
    host = Host(4, sync_pattern="replicaAndLadder")  # IPUs 0, 1 and 2, 3 share a host link; 0, 2 and 1, 3 wait for each other
    run_on(host, program(superstep(7), takes=(50,), num_ipus=4), 50)
    even, odd = PAIR_LOADED + 50 + LATENCY + ONE_HOP, PAIR_LOADED + 100 + LATENCY + ONE_HOP
    assert starts(host, "compute") == [(0, even), (1, odd), (2, even), (3, odd)]


@pytest.mark.parametrize("pattern", PATTERNS)
def test_results_that_leave_are_an_access_too(pattern: SyncPattern) -> None:
    host = Host(2, sync_pattern=pattern)
    results = run_on(host, program(superstep(7), gives=(50,), num_ipus=2))
    ends = [end for _, end in spans(host, "stream-out")]
    for [result], end in zip(results, ends, strict=True):
        host.system.wait(result)
        assert host.system.host_cycle == (max(ends) if pattern == "full" else end)  # a sync after the access


@pytest.mark.parametrize("pattern", PATTERNS)
def test_an_exchange_between_ipus_holds_all_of_a_program_under_each_pattern(pattern: SyncPattern) -> None:
    host = Host(2, sync_pattern=pattern)
    run_on(host, program(superstep(7), collective("all-reduce", 1000), takes=(50,), num_ipus=2), 50)
    assert len({start for _, start in starts(host, "collective")}) == 1
    assert len({start for _, start in starts(host, "compute")}) == 1


def test_a_step_within_an_ipu_holds_nobody() -> None:
    host = Host(2)
    run_on(host, program(superstep(7), num_ipus=2))
    before = len(host.events())
    host.run(program(superstep(500), name="other"))  # on IPU 0 alone
    run_on(host, program(superstep(9), name="both", num_ipus=2))
    both = {ipu: start for ipu, kind, start, end in host.events()[before:] if kind == "compute" and end - start == 9}
    assert both[1] < both[0] - 300


@pytest.mark.parametrize("pattern", PATTERNS)
def test_a_host_call_is_an_access_too(pattern: SyncPattern) -> None:
    call = HostCall(name="callback", scope="", bytes_to_host=30, bytes_from_host=0)
    host = Host(2, sync_pattern=pattern)
    run_on(host, program(superstep(700), call, superstep(1), gives=(50,), num_ipus=2))
    calls = spans(host, "host-call")
    if pattern == "full":
        begun = calls[1][0]
        assert calls == [(begun, begun + 30 + LATENCY + ONE_HOP), (begun, begun + 60 + LATENCY + ONE_HOP)]
    else:
        assert [end - start for start, end in calls] == [30 + LATENCY] * 2  # 40 cycles apart, as their code came
    leaving = [start for start, _ in spans(host, "stream-out")]
    assert leaving == [calls[1][1]] * 2 if pattern == "full" else leaving == [end for _, end in calls]


def test_programs_of_their_own_hold_nobody_else() -> None:
    host = Host(2)
    host.run(program(superstep(10_000), name="long", takes=(50,)), host.put(50))
    [result] = host.run(program(superstep(1), name="short", takes=(50,), gives=(4,)), host.put(50, ipu=1), ipu=1)
    host.system.read(result)
    assert host.system.host_cycle < 1000


def test_an_ipu_that_has_gone_on_to_another_program_is_not_waited_for() -> None:
    host = Host(2)
    keeps = program(superstep(7), takes=(50,), gives=(50,), donates={0: 0}, num_ipus=2)
    [[_], [second]] = run_on(host, keeps, 50)
    host.run(program(superstep(10_000), name="other"))  # IPU 0
    host.system.read(second)
    assert host.system.host_cycle < 1000


def test_more_ipus_take_longer_to_synchronise() -> None:
    def first_compute(num_ipus: int) -> int:
        host = Host(num_ipus)
        run_on(host, program(superstep(7), takes=(50,), num_ipus=num_ipus), 50)
        return starts(host, "compute")[0][1]

    assert first_compute(4) - first_compute(2) == TWO_HOPS - ONE_HOP


@pytest.mark.parametrize("num_ipus", [1, 2, 4])
def test_full_is_never_faster_than_the_ladder_nor_that_than_a_single_pipeline(num_ipus: int) -> None:
    def time(pattern: SyncPattern) -> int:
        host = Host(num_ipus, sync_pattern=pattern)
        step = program(superstep(40), takes=(30,), gives=(30, 5), num_ipus=num_ipus)
        for _ in range(4):
            run_on(host, step, 30)
        return host.system.end_cycle

    times = [time(pattern) for pattern in ("singlePipeline", "replicaAndLadder", "full")]
    assert times == sorted(times)
    assert (len(set(times)) == 1) == (num_ipus == 1)
