"""I/O tiles: arguments come and results leave while the other tiles compute, one run ahead and one behind."""

import itertools
from dataclasses import replace

import pytest

from tests.unit.sim.toy import DISPATCH, LATENCY, LOADED, MACHINE, ONE_HOP, Host, program, superstep
from tilestep.machine import SyncPattern
from tilestep.plan.steps import HostCall, Loop, Program, Series
from tilestep.profiling.measure import profile_between
from tilestep.units import ceil_div

IO_TILES, SYNC = 2, 10


def passed(size_bytes: int, num_io_tiles: int = IO_TILES) -> int:
    """Cycles between I/O tiles and the others: 4 bytes a cycle and I/O tile."""
    return ceil_div(ceil_div(size_bytes, num_io_tiles), 4)


def called(compute: int, *, takes: int, gives: int, num_io_tiles: int = IO_TILES, num_ipus: int = 1) -> Program:
    return program(superstep(compute), takes=(takes,), gives=(gives,), num_io_tiles=num_io_tiles, num_ipus=num_ipus)


def repeated(step: Program, runs: int, *, host: Host | None = None) -> Host:
    host = Host() if host is None else host
    size_bytes = step.arguments[0].size_bytes
    for _ in range(runs):
        host.run(step, host.put(size_bytes))
    return host


def spans(host: Host, kind: str, ipu: int = 0) -> list[tuple[int, int]]:
    return [(start, end) for where, what, start, end in host.events() if what == kind and where == ipu]


def test_the_next_arguments_come_while_the_run_before_computes() -> None:
    host = repeated(called(200, takes=60, gives=20), 3)
    begin = DISPATCH + LOADED + 60 + LATENCY
    body = 200 + passed(60) + passed(20) + 2 * SYNC
    period = body + LATENCY  # the host's part in a transfer is not hidden
    assert spans(host, "compute") == [(begin + k * period, begin + k * period + 200) for k in range(3)]
    taken = begin + passed(60)  # from here on the I/O tiles have room again
    left = begin + body + 20  # the first results; I/O tiles do one thing after the other
    assert spans(host, "io-in") == [(DISPATCH + LOADED, begin - LATENCY), (taken, taken + 60), (left, left + 60)]
    assert spans(host, "io-out") == [(begin + k * period + body, begin + k * period + body + 20) for k in range(3)]
    assert host.system.end_cycle == begin + 2 * period + body + 20 + LATENCY


def test_one_io_tile_is_enough_to_overlap() -> None:
    host = repeated(called(200, takes=60, gives=20, num_io_tiles=1), 3)
    period = 200 + passed(60, 1) + passed(20, 1) + 2 * SYNC + LATENCY
    begin = DISPATCH + LOADED + 60 + LATENCY
    assert spans(host, "compute") == [(begin + k * period, begin + k * period + 200) for k in range(3)]


def test_without_io_tiles_nothing_overlaps() -> None:
    host = repeated(called(200, takes=60, gives=20, num_io_tiles=0), 3)
    begin = DISPATCH + LOADED
    assert host.system.end_cycle == begin + 3 * (60 + LATENCY + 200 + 20 + LATENCY)
    events = sorted((start, end) for _, _, start, end in host.events())
    assert all(a[1] <= b[0] for a, b in itertools.pairwise(events))


def test_the_part_of_a_transfer_that_is_not_hidden_is_seen() -> None:
    host = repeated(called(20, takes=300, gives=0), 3)
    profile = profile_between(host.system, host.start, host.system.mark())
    assert spans(host, "stream-in")[0] == (DISPATCH + LOADED, DISPATCH + LOADED + 300 + LATENCY)
    later = spans(host, "stream-in")[1:]
    hidden = 20 + SYNC  # compute and sync behind the arguments' way to the other tiles
    assert [end - start for start, end in later] == [300 + LATENCY - hidden] * 2
    assert profile.cycles_by_kind["stream-in"] == 3 * (300 + LATENCY) - 2 * hidden
    assert profile.io_tiles_cycles == profile.programs[0].cycles.beside == 3 * 300
    assert profile.idle_cycles == DISPATCH
    assert "beside it, over I/O tiles" in profile.summary()


def test_results_wait_until_those_before_have_left() -> None:
    host = repeated(called(20, takes=4, gives=300), 3)
    out = spans(host, "io-out")
    assert [end - start for start, end in out] == [300] * 3
    assert all(b[0] - a[1] == LATENCY for a, b in itertools.pairwise(out))  # the host has taken them
    assert [end for _, end in spans(host, "stream-out")] == [start for start, _ in out[1:]]


def test_what_leaves_interrupts_what_comes() -> None:
    host = repeated(called(10, takes=300, gives=20), 2)
    body_end = DISPATCH + LOADED + 300 + LATENCY + 10 + passed(300) + passed(20) + 2 * SYNC
    first, *rest = spans(host, "io-in")
    assert first == (DISPATCH + LOADED, DISPATCH + LOADED + 300)
    assert spans(host, "io-out")[0] == (body_end, body_end + 20)
    taken = DISPATCH + LOADED + 300 + LATENCY + passed(300)
    assert rest == [(taken, body_end), (body_end + 20, taken + 300 + 20)]


def test_arguments_that_the_run_before_makes_come_when_they_are_there(host: Host) -> None:
    step = called(200, takes=60, gives=60)
    [value] = host.run(step, host.put(60))
    first = host.system.end_cycle
    host.run(step, value)
    assert spans(host, "io-in")[1] == (first, first + 60)


def test_a_host_that_is_late_makes_the_arguments_late(host: Host) -> None:
    step = called(20, takes=60, gives=4)
    host.run(step, host.put(60))
    [result] = host.run(step, host.put(60))
    host.system.wait(result)
    late = host.system.host_cycle + DISPATCH
    host.run(step, host.put(60))
    assert spans(host, "io-in")[-1] == (late, late + 60)


@pytest.mark.parametrize(("pattern", "beside"), [("full", False), ("singlePipeline", True), ("replicaAndLadder", True)])
def test_an_ipu_that_waits_for_others_at_an_access_does_not_compute_meanwhile(pattern: SyncPattern, beside: bool) -> None:
    host = Host(2, sync_pattern=pattern)  # the two are on different sides of the ladder
    step = called(200, takes=60, gives=20, num_ipus=2)
    for _ in range(3):
        host.run_on((0, 1), step, [[host.put(60, ipu=ipu)] for ipu in (0, 1)])
    assert bool(spans(host, "io-in")) == beside
    assert bool(spans(host, "stream-out")) != beside
    assert [end - start for start, end in spans(host, "exchange")] == [passed(60) + passed(20)] * 3  # over the I/O tiles in any case


def test_io_tiles_of_a_group_serve_its_next_member(host: Host) -> None:
    f, g = (called(200, takes=60, gives=4) for _ in range(2))
    other = called(200, takes=60, gives=4, num_io_tiles=0)
    for member in (f, g, other, f):
        host.run(member, host.put(60), group=("g", 1))
    computed = spans(host, "compute")
    coming = spans(host, "io-in")
    assert coming[1][0] < computed[0][1]  # g's arguments while f computes
    assert coming[2][0] >= computed[2][1]  # a member without I/O tiles computes on them


def test_a_change_of_program_waits_for_what_the_io_tiles_still_send() -> None:
    host = repeated(called(20, takes=4, gives=500), 1)
    host.run(program(superstep(1), name="other"))
    assert spans(host, "load")[1][0] == spans(host, "io-out")[0][1] + LATENCY


def test_ipus_share_their_host_link_over_io_tiles_too() -> None:
    host = Host(2)
    step = called(2000, takes=600, gives=0)
    for _ in range(2):
        for ipu in (0, 1):
            host.run(step, host.put(600, ipu=ipu), ipu=ipu)
    begin = [spans(host, "compute", ipu)[0][0] for ipu in (0, 1)]
    assert begin[1] - begin[0] >= 600


# Infeeds and outfeeds inside of a loop


def feed(*, takes: int = 0, gives: int = 0) -> HostCall:
    return HostCall(name="feed", scope="", bytes_to_host=gives, bytes_from_host=takes, is_feed=True)


def fed_loop(turns: int, compute: int, *, takes: int, gives: int, num_io_tiles: int = IO_TILES, num_ipus: int = 1) -> Program:
    nodes = (feed(takes=takes), superstep(compute), feed(gives=gives))
    loop = Loop(name="loop", scope="", body=Series(nodes=nodes), trips=turns)
    return program(loop, takes=(), gives=(), num_io_tiles=num_io_tiles, num_ipus=num_ipus)


@pytest.mark.parametrize(("compute", "exposed"), [(200, 60 + 20), (20, 60 + 20 + 3 * (60 + 20 - 51))])
def test_feeds_of_a_loop_pass_beside_the_compute_of_other_turns(host: Host, compute: int, exposed: int) -> None:
    """In each turn, I/O tiles give an element and take another (8 + 3 cycles and 2 syncs); the first and the last nothing hides."""
    host.run(fed_loop(4, compute, takes=60, gives=20))
    turn = compute + passed(60) + passed(20) + 2 * SYNC
    assert (passed(60), passed(20)) == (8, 3)
    begin = DISPATCH + LOADED
    latency = 4 * LATENCY + LATENCY  # of each infeed, and of the last outfeed
    assert spans(host, "host-call") == [(begin + 4 * turn, begin + 4 * turn + exposed + latency)]
    first = begin + 4 * turn + exposed - 4 * 80
    assert spans(host, "io-in") == [(first, first + 4 * 60)]
    assert spans(host, "io-out") == [(first + 4 * 60, first + 4 * 80)]
    profile = profile_between(host.system, host.start, host.system.mark())
    assert profile.cycles_by_kind["host-call"] == exposed + latency
    assert profile.io_tiles_cycles == 4 * 80


def test_feeds_stop_an_ipu_without_io_tiles_and_one_that_waits_for_others() -> None:
    alone, together = Host(), Host(2, sync_pattern="full")
    alone.run(fed_loop(4, 200, takes=60, gives=20, num_io_tiles=0))
    assert alone.system.end_cycle == DISPATCH + LOADED + 4 * (60 + LATENCY + 200 + 20 + LATENCY)
    together.run_on((0, 1), fed_loop(4, 200, takes=60, gives=20, num_ipus=2), [[], []])
    assert spans(together, "io-in") == []
    (call,) = spans(together, "host-call", 1)
    # They share a link: IPU 0's outfeeds, then both's infeeds; and synchronise before and after each transfer.
    assert call[1] - call[0] == 4 * 20 + 2 * 4 * 60 + 8 * (LATENCY + ONE_HOP)


@pytest.mark.parametrize(("compute", "stopped"), [(200, 4 * (15 + 2 * LATENCY)), (10, 4 * 60 - 4 * 10)])
def test_what_is_infed_waits_in_streaming_memory(compute: int, stopped: int) -> None:
    """The host link brings it there beside compute, at a byte a cycle. The IPU takes four a cycle, or waits for the link."""
    staged = replace(MACHINE, host=replace(MACHINE.host, streaming_memory_bytes=1000, streaming_memory_bytes_per_second=4e6))
    host = Host(on=staged)
    host.run(fed_loop(4, compute, takes=60, gives=0, num_io_tiles=0))
    (call,) = spans(host, "host-call")
    assert call[1] - call[0] == stopped


def test_several_feeds_in_a_turn_are_one_element(host: Host) -> None:
    """Two infeeds of 30 bytes each hide as one of 60 does, but each has its own latency and superstep."""
    nodes = (feed(takes=30), feed(takes=30), superstep(200))
    host.run(program(Loop(name="loop", scope="", body=Series(nodes=nodes), trips=4), num_io_tiles=IO_TILES))
    (call,) = spans(host, "host-call")
    assert call[1] - call[0] == 60 + 8 * LATENCY
    assert spans(host, "compute") == [(DISPATCH + LOADED, DISPATCH + LOADED + 4 * 200)]


def test_a_feed_outside_of_a_loop_hides_behind_nothing(host: Host) -> None:
    host.run(program(feed(takes=60), superstep(200), num_io_tiles=IO_TILES))
    (call,) = spans(host, "host-call")
    assert call[1] - call[0] == 60 + LATENCY
