"""What members of a program group pass to each other: it stays on the chip, and goes over IPU-Links to another IPU."""

from dataclasses import replace

import pytest

from tests.unit.sim.toy import CODE, DISPATCH, LATENCY, LOAD, MACHINE, NUM_TILES, Host, machine, program, superstep
from tilestep.machine import SyncPattern
from tilestep.profiling.measure import profile_between
from tilestep.sim import Event, TileUse
from tilestep.sim.trace import TRANSFER

PATTERNS: tuple[SyncPattern, ...] = ("full", "singlePipeline", "replicaAndLadder")
SIZE = 1000
SYNC = 10 + 2  # of tiles, and there and back over one hop
LINK = 10  # bytes a cycle

MAKE = program(superstep(100), name="make", gives=(SIZE,))
TAKE = program(superstep(50), name="take", takes=(SIZE,), gives=(4,))


def lines(events: tuple[Event, ...], ipu: int) -> list[tuple[str, int, int]]:
    """(kind, start, end) on one IPU, from the start of the first event of all."""
    zero = min(event.start_cycle for event in events)
    return [(event.kind, event.start_cycle - zero, event.end_cycle - zero) for event in events if event.ipu == ipu]


def warm(host: Host, ipus: int) -> None:
    """Brings both programs to some IPUs, and waits until all are done."""
    for ipu in range(ipus):
        host.run(MAKE, ipu=ipu, group=("g", 1))
        [last] = host.run(TAKE, host.put(SIZE, ipu=ipu), ipu=ipu, group=("g", 1))
        host.system.wait(last)


def entry(host: Host, number: int, *, giver: int = 0, taker: int = 1) -> tuple[Event, ...]:
    start = host.system.mark()
    [made] = host.run(MAKE, ipu=giver, group=("g", number))
    host.run(TAKE, host.copy(made, ipu=taker) if taker != giver else made, ipu=taker, group=("g", number))
    return host.system.trace_between(start, host.system.mark()).events


def on_ipus(count: int, pattern: SyncPattern = "full") -> Host:
    """The toy machine, on whose ladder of eight all IPUs are."""
    host = Host(on=replace(machine(count, pattern), link=replace(MACHINE.link, ipus_per_rack=8)))
    warm(host, count)
    return host


@pytest.mark.parametrize("pattern", PATTERNS)
def test_a_copy_to_another_ipu_of_the_group_is_an_exchange(pattern: SyncPattern) -> None:
    events = entry(on_ipus(2, pattern), 2)
    passed = 100 + SYNC + SIZE // LINK
    assert lines(events, 0) == [("compute", 0, 100), ("sync", 100, 100 + SYNC), ("collective", 100 + SYNC, passed)]
    out = 4 + LATENCY + (2 * 2 if pattern == "full" else 0)  # IPUs 0 and 1 are on two sides of the ladder
    assert lines(events, 1) == [
        ("sync", 100, 100 + SYNC),
        ("collective", 100 + SYNC, passed),
        ("compute", passed, passed + 50),
        ("stream-out", passed + 50, passed + 50 + out),
    ]
    assert {event.program for event in events if event.ipu == 0} == {"make"}
    assert {event.program for event in events if event.ipu == 1} == {"take"}


@pytest.mark.parametrize("pattern", PATTERNS)
def test_all_ipus_of_the_group_wait_for_it(pattern: SyncPattern) -> None:
    host = on_ipus(3, pattern)
    busy = program(superstep(300), name="busy")
    host.run(busy, ipu=2, group=("g", 1))
    warm(host, 3)
    start = host.system.mark()
    host.run(busy, ipu=2, group=("g", 2))
    [made] = host.run(MAKE, group=("g", 2))
    host.run(TAKE, host.copy(made, ipu=1), ipu=1, group=("g", 2))
    host.run(busy, ipu=2, group=("g", 2))
    events = host.system.trace_between(start, host.system.mark()).events
    passed = 300 + SYNC + SIZE // LINK
    assert lines(events, 0)[1] == ("sync", 300, 300 + SYNC)
    assert [line for line in lines(events, 2) if line[0] == "compute"][1][1] >= passed


def test_on_one_ipu_it_stays_where_it_is() -> None:
    events = entry(on_ipus(2), 2, taker=0)
    assert [kind for kind, _, _ in lines(events, 0)] == ["compute", "compute", "stream-out"]


def test_the_way_and_the_gateways_count() -> None:
    host = on_ipus(5)
    far = lines(entry(host, 2, taker=4), 0)[1:]
    assert [end - start for _, start, end in far] == [10 + 2 * 2, SIZE // LINK]  # two hops up one side
    racks = Host(8)  # four to a rack
    warm(racks, 8)
    across = lines(entry(racks, 2, taker=4), 0)[1:]
    assert [end - start for _, start, end in across] == [SYNC, SIZE // 2]  # 2 bytes a cycle through the gateway


def test_passes_that_share_a_link_go_one_after_the_other() -> None:
    host = on_ipus(6)
    start = host.system.mark()
    made = [host.run(MAKE, ipu=ipu, group=("g", 2))[0] for ipu in (0, 2)]
    for source in made:  # both over the link from 2 to 4
        host.run(TAKE, host.copy(source, ipu=4), ipu=4, group=("g", 2))
    events = host.system.trace_between(start, host.system.mark()).events
    exchanges = sorted({(event.start_cycle, event.end_cycle) for event in events if event.kind == "collective"})
    assert sum(end - start for start, end in exchanges) >= 2 * SIZE // LINK
    assert exchanges[0][1] <= exchanges[1][0]  # IPU 4 takes part in both


def test_what_one_direction_is_asked_for_at_once_goes_in_one_exchange() -> None:
    host = on_ipus(2)
    two = program(superstep(100), name="two", gives=(SIZE, 500))
    both = program(superstep(50), name="both", takes=(SIZE, 500))
    for number in (1, 2):
        start = host.system.mark()
        made = host.run(two, group=("g", number))
        host.run(both, *[host.copy(value, ipu=1) for value in made], ipu=1, group=("g", number))
        events = host.system.trace_between(start, host.system.mark()).events
    assert lines(events, 0)[1:] == [("sync", 100, 100 + SYNC), ("collective", 100 + SYNC, 100 + SYNC + 1500 // LINK)]


@pytest.mark.parametrize("pattern", PATTERNS)
def test_what_goes_several_ways_is_one_exchange_too(pattern: SyncPattern) -> None:
    """Of a chain of IPUs each makes, then all pass on: to the next one and back. Ways that share a link add up."""
    host = on_ipus(4, pattern)
    group = ("g", 2)
    start = host.system.mark()
    made = [host.run(MAKE, ipu=ipu, group=group)[0] for ipu in range(4)]
    copies = [(host.copy(made[a], ipu=b), b) for a, b in ((0, 1), (1, 2), (2, 3), (1, 0), (3, 2))]
    for value, ipu in copies:
        host.run(TAKE, value, ipu=ipu, group=group)
    events = host.system.trace_between(start, host.system.mark()).events
    spans = {(event.ipu, event.start_cycle, event.end_cycle) for event in events if event.kind == "collective"}
    (begin,), (end,) = ({span[place] for span in spans} for place in (1, 2))
    assert len(spans) == 4
    # IPU 1 reaches 2 over 0 or 3: two hops, one of them a link that another message uses.
    assert end - begin == 2 * SIZE // LINK
    assert {event.end_cycle - event.start_cycle for event in events if event.kind == "sync"} == {10 + 2 * 2}


def test_what_is_dispatched_in_between_parts_exchanges() -> None:
    host = on_ipus(3)
    start = host.system.mark()
    made = [host.run(MAKE, ipu=ipu, group=("g", 2))[0] for ipu in (0, 1)]
    for ipu, value in enumerate(made):
        host.run(TAKE, host.copy(value, ipu=ipu + 1), ipu=ipu + 1, group=("g", 2))
    events = host.system.trace_between(start, host.system.mark()).events
    assert len({event.start_cycle for event in events if event.kind == "collective"}) == 2


def test_what_no_member_takes_goes_to_the_host() -> None:
    host = on_ipus(3)
    start = host.system.mark()
    [made] = host.run(MAKE, group=("g", 2))
    copied = host.copy(made, ipu=2)
    host.run(MAKE, ipu=1, group=("g", 2))
    host.system.wait(copied)
    events = host.system.trace_between(start, host.system.mark()).events
    assert [kind for kind, _, _ in lines(events, 0)] == ["compute", "stream-out"]


def test_a_value_that_was_passed_on_can_still_be_read() -> None:
    host = on_ipus(2)
    start = host.system.mark()
    [made] = host.run(MAKE, group=("g", 2))
    there = host.copy(made, ipu=1)
    host.run(TAKE, there, ipu=1, group=("g", 2))
    end = host.system.end_cycle
    host.system.read(there)
    host.system.read(made)
    events = host.system.trace_between(start, host.system.mark()).events
    assert [(event.ipu, event.kind) for event in events if event.start_cycle >= end] == [(1, "read"), (0, "read")]
    again = host.system.end_cycle
    host.system.read(made)
    assert host.system.end_cycle == again


def test_a_value_that_is_on_the_chip_anyway_is_passed_too() -> None:
    host = on_ipus(2)
    keeps = program(superstep(30), name="keeps", takes=(SIZE,), gives=(SIZE,), donates={0: 0})
    [state] = host.run(keeps, host.put(SIZE), group=("g", 1))
    start = host.system.mark()
    moved = host.copy(state, ipu=1)  # no member ran in this entry so far, and the host does not say that it is in one
    host.run(TAKE, moved, ipu=1, group=("g", 2))
    assert "read" in {event.kind for event in host.system.trace_between(start, host.system.mark()).events}
    [state] = host.run(keeps, state, group=("g", 3))
    start = host.system.mark()
    moved = host.copy(state, ipu=1, group=("g", 4))
    host.run(keeps, state, group=("g", 4))
    host.run(TAKE, moved, ipu=1, group=("g", 4))
    events = host.system.trace_between(start, host.system.mark()).events
    assert [kind for kind, _, _ in lines(events, 0)] == ["sync", "collective", "compute"]


def test_a_copy_on_the_same_ipu_goes_by_way_of_the_host() -> None:
    host = on_ipus(2)
    start = host.system.mark()
    [made] = host.run(MAKE, group=("g", 2))
    host.run(TAKE, host.copy(made, ipu=0), group=("g", 2))
    events = host.system.trace_between(start, host.system.mark()).events
    assert [kind for kind, _, _ in lines(events, 0)] == ["compute", "stream-out", "stream-in", "compute", "stream-out"]


def test_the_program_of_the_taker_is_there_before_the_value() -> None:
    host = Host(2)
    [made] = host.run(MAKE, group=("g", 1))
    host.run(TAKE, host.copy(made, ipu=1), ipu=1, group=("g", 1))
    assert [kind for kind, _, _ in lines(host.system.trace.events, 1)] == ["load", "sync", "collective", "compute", "stream-out"]


def test_a_result_that_is_donated_to_the_next_member_is_gone() -> None:
    host = on_ipus(2)
    over = program(superstep(30), name="over", takes=(SIZE,), gives=(SIZE,), donates={0: 0})
    [made] = host.run(MAKE, group=("g", 2))
    there = host.copy(made, ipu=1)
    [kept] = host.run(over, there, ipu=1, group=("g", 2))
    with pytest.raises(ValueError, match=f"value {there} was donated"):
        host.copy(there)
    host.system.read(kept)
    host.system.read(made)  # the original is still on its own IPU


def test_programs_on_several_ipus_pass_from_each_to_each() -> None:
    host = Host(on=replace(machine(4), link=replace(MACHINE.link, ipus_per_rack=8)))
    make, take = replace(MAKE, num_ipus=2), replace(TAKE, num_ipus=2)
    for number in (1, 2):
        start = host.system.mark()
        made = host.run_on((0, 1), make, [[], []], group=("g", number))
        host.run_on((2, 3), take, [[host.copy(row[0], ipu=ipu)] for row, ipu in zip(made, (2, 3), strict=True)], group=("g", number))
        events = host.system.trace_between(start, host.system.mark()).events
    spans = {event.ipu: (event.start_cycle, event.end_cycle) for event in events if event.kind == "collective"}
    assert len(spans) == 4
    assert len(set(spans.values())) == 1  # on both sides of the ladder at once


# What a profile says of it


def test_bytes_that_stay_on_the_chip_do_not_pass_the_host_link() -> None:
    host = Host(2)
    for number in (1, 2, 3):
        [made] = host.run(MAKE, group=("g", number))
        host.run(TAKE, host.copy(made, ipu=1), ipu=1, group=("g", number))
    profile = profile_between(host.system, host.start, host.system.mark())
    assert [(p.name, p.runs, p.host_bytes_in, p.host_bytes_out) for p in profile.programs] == [("make", 3, 0, 0), ("take", 3, 0, 4)]


def test_values_that_wait_for_another_member_take_room_on_the_tiles() -> None:
    host = Host(2)
    forward = program(superstep(10), name="forward", takes=(8,), gives=(SIZE, 8), transient_bytes=40)
    backward = program(superstep(10), name="backward", takes=(SIZE, 8), gives=(4,), transient_bytes=300)
    warm(host, 2)
    stash = [host.run(forward, host.put(8), group=("g", 2)) for _ in range(3)]
    for kept, small in reversed(stash):
        host.run(backward, kept, small, group=("g", 2))
    host.system.mark()
    # Both results of two runs wait while the first backward step runs, which counts its own arguments among its 300 bytes.
    waiting = -(-2 * (SIZE + 8) // NUM_TILES)
    assert host.system.tile_use(0) == TileUse(code_bytes=4 * CODE, transient_bytes=300 + waiting)
    assert host.system.tile_use(1) == TileUse(code_bytes=2 * CODE)


def test_what_a_member_keeps_lies_beside_the_others_between_its_runs_and_is_counted_once() -> None:
    """Accumulators of two stages on one IPU, each made by a program of zeros, and weights that both parts of a stage take."""
    kept, weights = 4 * NUM_TILES, 100 * NUM_TILES
    state = program(superstep(1), name="state", takes=(weights,), gives=(weights,), donates={0: 0}, resident_bytes=100)
    zeros = program(superstep(1), name="zeros", gives=(kept,), transient_bytes=4)
    forward = program(superstep(1), name="forward", takes=(weights, 8), gives=(8,), transient_bytes=130)
    backward = program(
        superstep(1), name="backward", takes=(weights, kept, 8), gives=(kept,), donates={1: 0}, resident_bytes=4, transient_bytes=150
    )
    other = program(superstep(1), name="other", takes=(kept, 8), gives=(kept,), donates={0: 0}, resident_bytes=4, transient_bytes=200)
    host = Host(1)
    [stays] = host.run(state, host.put(weights), group=("g", 1))
    sums, others = host.run(zeros, group=("g", 2)), host.run(zeros, group=("g", 2))
    for _ in range(3):
        [small] = host.run(forward, stays, host.put(8), group=("g", 2))
        others = host.run(other, *others, host.put(8), group=("g", 2))
        sums = host.run(backward, stays, *sums, small, group=("g", 2))
    host.system.mark()
    # While the other stage's program runs, which counts its own sums, this stage's weights, sums and the value for backward lie beside.
    together = 4 + 200 + 100 + 4 + 8 // NUM_TILES
    assert host.system.tile_use(0) == TileUse(code_bytes=5 * CODE, resident_bytes=4, transient_bytes=together - 4)
    looks = program(superstep(1), name="looks", takes=(kept,), gives=(4,), transient_bytes=300)
    for _ in range(2):
        host.run(looks, *sums, group=("g", 3))  # takes what backward has kept, which is in its own memory
        sums = host.run(backward, stays, *sums, host.put(8), group=("g", 3))
        host.run(looks, *sums, group=("g", 3))
    host.system.mark()
    # `looks` has the sums of one stage as arguments. Those of the other stage, which nobody has taken, and the weights lie beside.
    assert host.system.tile_use(0) == TileUse(code_bytes=6 * CODE, resident_bytes=0, transient_bytes=300 + 4 + 100)


def test_what_one_entry_keeps_and_a_later_one_takes_lies_beside_all_between() -> None:
    """A state that an update keeps, such as an optimiser's, is in the tiles during the forward pass of the next entry."""
    state = 100 * NUM_TILES
    update = program(superstep(1), name="update", takes=(state,), gives=(state,), donates={0: 0}, resident_bytes=100, transient_bytes=10)
    forward = program(superstep(1), name="forward", takes=(8,), gives=(8,), transient_bytes=130)
    host = Host(1)
    kept = host.run(update, host.put(state), group=("g", 1))
    host.system.mark()
    assert host.system.tile_use(0) == TileUse(code_bytes=CODE, resident_bytes=100, transient_bytes=10)
    for entry in (2, 3):
        host.run(forward, host.put(8), group=("g", entry))
        host.system.mark()  # the rest of the entry is played by itself
        assert host.system.tile_use(0) == TileUse(code_bytes=2 * CODE, resident_bytes=0, transient_bytes=130 + 100)
        kept = host.run(update, *kept, group=("g", entry))


def test_weights_that_a_program_takes_and_another_updates_count_once() -> None:
    """Backward has weights as arguments, and update keeps them: there are no two copies at any time."""
    weights, sums = 100 * NUM_TILES, 50 * NUM_TILES
    backward = program(superstep(1), name="backward", takes=(weights, 8), gives=(sums,), transient_bytes=180)
    update = program(
        superstep(1), name="update", takes=(weights, sums), gives=(weights,), donates={0: 0}, resident_bytes=100, transient_bytes=60
    )
    host = Host(1)
    kept = host.put(weights)
    for entry in (1, 2, 3):
        [made] = host.run(backward, kept, host.put(8), group=("g", entry))
        [kept] = host.run(update, kept, made, group=("g", entry))
    host.system.mark()
    assert host.system.tile_use(0) == TileUse(code_bytes=2 * CODE, resident_bytes=0, transient_bytes=180)


def test_members_have_a_codelet_once_but_each_loads_it() -> None:
    codes = [replace(superstep(1), codelet=name, codelet_bytes=size) for name, size in (("dot", 30), ("add", 5), ("exp", 7))]
    host = Host(2)
    for number, steps in enumerate((codes[:2], codes[:1], codes)):
        called = program(*steps, name=f"member{number}")
        host.run(replace(called, memory=replace(called.memory, code_bytes=50)), group=("g", 1))
    use = host.system.tile_use(0)
    assert use == TileUse(code_bytes=150, shared_bytes=30 + 35)
    assert use.peak_bytes == 150 - 65
    host.run(program(superstep(1)), ipu=1)  # a history that begins behind it must know of the codelets
    assert host.system.tile_use(0) == use


def transfers(host: Host) -> list[tuple[int, int]]:
    """(begin, end of what it waited for) of each transfer over a link, but those of the first load."""
    recorder = host.system._recorder
    rows = recorder.rows(0, recorder.position)
    ends = dict(zip(rows.number.tolist(), rows.end.tolist(), strict=True))
    found = zip(rows.kind.tolist(), rows.start.tolist(), rows.cause.tolist(), strict=True)
    return [(start, ends.get(cause, -1)) for kind, start, cause in found if kind == TRANSFER and start > DISPATCH + LOAD]


def test_what_a_later_load_s_transfer_waited_for_is_kept(host: Host) -> None:
    host.system.record_links = True
    for called in (MAKE, program(superstep(10), name="other"), MAKE):
        host.run(called)
    loads = [start for _, kind, start, _ in host.events() if kind == "load"][1:]
    of_loads = [(start, end) for start, end in transfers(host) if start - LOAD in loads]
    assert of_loads == [(start + LOAD, start) for start in loads], "it ended when the load began, whose bytes come behind a fixed cost"


def test_a_transfer_between_ipus_waited_for_the_sync_of_its_exchange() -> None:
    host = on_ipus(2)
    first = host.system.mark().cycle
    events = entry(host, 2)
    synced = next(event.end_cycle for event in events if event.kind == "sync")
    assert (synced, synced) in transfers(host)
    assert all(end == start for start, end in transfers(host) if start > first + DISPATCH)
