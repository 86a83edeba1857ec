"""Clocks: the host's, the IPUs', the links'."""

import itertools
import random

import pytest

from tests.unit.sim.toy import CODE, DISPATCH, LATENCY, LOAD, LOADED, NUM_TILES, Host, collective, machine, program, superstep
from tilestep.plan.steps import Counts, Loop, Program, Series
from tilestep.sim import System
from tilestep.sim.calls import Call, Dispatch
from tilestep.sim.trace import MAX_EVENTS


def test_nothing_has_happened_at_first() -> None:
    system = System(machine(1))
    assert (system.host_cycle, system.end_cycle, system.trace.events) == (0, 0, ())


def test_putting_takes_no_time(host: Host) -> None:
    host.put(10**9)
    assert host.system.end_cycle == 0


def test_the_host_runs_ahead_and_waits_when_told(host: Host) -> None:
    slow = program(superstep(1000), gives=(4,))
    results = [host.run(slow)[0] for _ in range(10)]
    assert host.system.host_cycle == 10 * DISPATCH
    host.system.wait(results[0])
    first = DISPATCH + LOADED + 1000 + 4 + LATENCY
    assert host.system.host_cycle == first
    host.system.read(results[9])
    assert host.system.host_cycle == first + 9 * (1000 + 4 + LATENCY)
    host.system.wait(results[0])
    assert host.system.host_cycle == first + 9 * (1000 + 4 + LATENCY)  # never back


def test_a_slow_host_keeps_the_ipu_waiting(host: Host) -> None:
    short = program(superstep(3))
    host.run(short)
    end = host.system.end_cycle
    for _ in range(20):
        host.run(short)
    assert host.system.end_cycle == max(21 * DISPATCH, end) + 3


def test_ipus_work_side_by_side_and_share_the_host_link_of_their_machine() -> None:
    host = Host(4)
    f = program(superstep(100), takes=(50,))
    for ipu in range(4):
        host.run(f, host.put(50, ipu=ipu), ipu=ipu)
    code = NUM_TILES * CODE
    ready = [DISPATCH * (ipu + 1) + LOAD for ipu in range(4)]
    loaded = [ready[0] + code, ready[0] + code + code, ready[2] + code, ready[2] + 2 * code]
    assert [event[3] for event in host.events() if event[1] == "load"] == [
        loaded[0],
        # IPU 1 shares the link with IPU 0, whose code (120..160) and arguments (160..210) were booked before
        ready[0] + code + 50 + code,
        loaded[2],
        ready[2] + code + 50 + code,
    ]


def test_a_program_dispatched_early_but_ready_late_does_not_hold_the_link() -> None:
    host = Host(2)
    long = program(superstep(10_000), name="long", gives=(500,))
    short = program(superstep(1), name="short", gives=(10,))
    host.run(long)
    [result] = host.run(short, ipu=1)
    host.system.read(result)
    assert host.system.host_cycle < 1000


def test_a_program_on_several_ipus_runs_on_each_by_itself_if_they_do_not_synchronise() -> None:
    host = Host(2, sync_pattern="singlePipeline")
    f = program(superstep(7), takes=(50,), gives=(4,), num_ipus=2)
    host.run_on((0, 1), f, [[host.put(50, ipu=0)], [host.put(50, ipu=1)]])
    compute = [event for event in host.events() if event[1] == "compute"]
    both_loaded = DISPATCH + LOAD + 2 * NUM_TILES * CODE  # over the one link of the two
    first, second = both_loaded + 50 + LATENCY, both_loaded + 100 + LATENCY
    assert compute == [(0, "compute", first, first + 7), (1, "compute", second, second + 7)]


def test_a_program_with_collectives_starts_and_ends_together() -> None:
    host = Host(2)
    both = program(superstep(7), collective("all-reduce", 1000), takes=(50,), num_ipus=2)
    host.run_on((0, 1), both, [[host.put(50, ipu=0)], [host.put(50, ipu=1)]])
    compute = [event for event in host.events() if event[1] == "compute"]
    assert compute[0][2] == compute[1][2]
    ends = {event[0]: event[3] for event in host.events()}
    assert ends[0] == ends[1] == compute[0][2] + 7 + 100 + 24


def test_programs_on_other_ipus_of_a_machine_share_its_gateway() -> None:
    # IPUs 0 and 1 share machine 0, 4 and 5 machine 2 in the other rack; two programs each all-reduce one pair.
    def ends(second: bool) -> list[int]:
        host = Host(8)
        pair = program(collective("all-reduce", 100_000), name="pair", num_ipus=2)
        other = program(collective("all-reduce", 100_000), name="other", num_ipus=2)
        host.run_on((0, 4), pair, [[], []])
        if second:
            host.run_on((1, 5), other, [[], []])
        return [host.system.end_cycle]

    assert ends(second=True)[0] > ends(second=False)[0] + 40_000


def test_counts_of_each_ipu_time_its_own_run() -> None:
    system = System(machine(2))
    body = Loop(name="while", scope="", body=Series(nodes=(superstep(10),)), trips=None, site=0)
    system.dispatch(
        program(body, num_ipus=2),
        Dispatch(key=1, ipus=(0, 1), arguments=[[], []], results=[[], []], counts=[Counts(times={(0, 0): 3}), Counts(times={(0, 0): 5})]),
    )
    assert [event.end_cycle - event.start_cycle for event in system.trace.events if event.kind == "compute"] == [30, 50]


# Program groups


def test_members_of_a_group_are_one_program(host: Host) -> None:
    f = program(superstep(10), name="f", takes=(100,), gives=(100,), donates={0: 0})
    g = program(superstep(10), name="g", takes=(100,), gives=(100,), donates={0: 0})
    [value] = host.run(f, host.put(100), group=("pipeline", 1))
    [value] = host.run(g, value, group=("pipeline", 1))
    [value] = host.run(f, value, group=("pipeline", 1))
    assert host.system.host_cycle == DISPATCH  # one for the entry
    # the code of g comes when g is first met, without the fixed cost of a load; the value stays where it is
    assert [(kind, end - start) for _, kind, start, end in host.events()] == [
        ("load", LOADED),
        ("stream-in", 105),
        ("compute", 10),
        ("load", NUM_TILES * CODE),
        ("compute", 10),
        ("compute", 10),
    ]


def test_each_entry_into_a_group_is_dispatched_once(host: Host) -> None:
    f = program(superstep(1), name="f")
    for entry in (1, 1, 2, 2, 3):
        host.run(f, group=("loop", entry))
    assert host.system.host_cycle == 3 * DISPATCH
    assert host.kinds().count("load") == 1


def test_a_group_that_was_evicted_loads_the_code_of_all_its_members(host: Host) -> None:
    f, g, other = (program(superstep(1), name=name) for name in ("f", "g", "other"))
    host.run(f, group=("two", 1))
    host.run(g, group=("two", 1))
    host.run(other)
    host.run(f, group=("two", 2))
    loads = [end - start for _, kind, start, end in host.events() if kind == "load"]
    assert loads == [LOADED, NUM_TILES * CODE, LOADED, LOAD + 2 * NUM_TILES * CODE]


def test_a_group_takes_its_residents_the_code_of_all_and_the_largest_transient(host: Host) -> None:
    host.run(program(superstep(1), name="f", resident_bytes=300, transient_bytes=50), group=("two", 1))
    host.run(program(superstep(1), name="g", resident_bytes=100, transient_bytes=200), group=("two", 1))
    use = host.system.tile_use(0)
    assert (use.code_bytes, use.resident_bytes, use.transient_bytes, use.peak_bytes) == (2 * CODE, 300, 50, 370)


# Laws


def replay(seed: int, *, forget: float, record: bool = True) -> System:
    """A host program that a seed decides; values are forgotten at random once nothing needs them."""
    choose, forgetful = random.Random(seed), random.Random(forget)
    host = Host(2, record=record)
    step = program(superstep(40, 3, 10), name="step", takes=(60, 9), gives=(60, 2), donates={0: 0})
    evaluate = program(superstep(11), name="evaluate", takes=(60,), gives=(4,))
    states = [host.put(60, ipu=ipu) for ipu in (0, 1)]
    for _ in range(60):
        ipu = choose.randrange(2)
        match choose.randrange(4):
            case 0 | 1:
                state, loss = host.run(step, states[ipu], host.put(9, ipu=ipu), ipu=ipu)
                if forgetful.random() < forget:
                    host.system.forget(states[ipu])
                states[ipu] = state
                if forgetful.random() < forget:
                    host.system.forget(loss)
            case 2:
                host.run(evaluate, states[ipu], ipu=ipu)
            case _:
                host.system.read(states[ipu])
    return host.system


@pytest.mark.parametrize("seed", range(5))
def test_equal_calls_give_equal_traces(seed: int) -> None:
    assert replay(seed, forget=0).trace == replay(seed, forget=0).trace


@pytest.mark.parametrize("seed", range(5))
def test_forgetting_changes_nothing(seed: int) -> None:
    assert replay(seed, forget=0).trace == replay(seed, forget=0.7).trace


def test_values_that_are_forgotten_together_are_kept_as_those_that_are_one_by_one() -> None:
    def forgotten(*, together: bool) -> list[Call]:
        host = Host()
        values = [host.put(8) for _ in range(4)]
        if together:
            assert host.system.forget_known([99, *values, values[0]]) == len(values)
        else:
            for value in values:
                host.system.forget(value)
        assert not any(map(host.system.knows, values))
        host.put(8)
        assert host.system.log is not None
        return list(host.system.log.calls())

    assert forgotten(together=True) == forgotten(together=False)


@pytest.mark.parametrize("seed", range(5))
def test_recording_changes_no_clock(seed: int) -> None:
    silent, loud = replay(seed, forget=0, record=False), replay(seed, forget=0)
    assert (silent.host_cycle, silent.end_cycle) == (loud.host_cycle, loud.end_cycle)
    assert silent.trace.events == ()


def test_events_of_one_ipu_never_overlap() -> None:
    events = replay(1, forget=0).trace.events
    for ipu in (0, 1):
        mine = [event for event in events if event.ipu == ipu]
        assert all(a.end_cycle <= b.start_cycle for a, b in itertools.pairwise(mine))
        assert all(event.start_cycle < event.end_cycle for event in mine)


# What is kept


def test_a_trace_keeps_a_bounded_number_of_events_and_says_what_it_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    assert MAX_EVENTS >= 100_000
    monkeypatch.setattr("tilestep.sim.trace.MAX_EVENTS", 4)  # the dispatch among them
    host = Host()
    host.run(program(superstep(1, 1, 1)))
    assert len(host.system.trace.events) == 3
    assert host.system.trace.dropped == 1


def test_of_too_many_events_the_first_and_at_least_half_of_the_latest_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("MAX_EVENTS", "MAX_LATEST"):
        monkeypatch.setattr(f"tilestep.sim.trace.{name}", 4)
    host, step = Host(), program(superstep(1))
    for _ in range(20):
        host.run(step)
        rows, count = host.system.all_rows().number.tolist(), host.system.mark().position
        latest = rows[4:]
        assert rows[:4] == list(range(min(count, 4)))
        assert latest == list(range(count - len(latest), count))
        assert min(count - 4, 2) <= len(latest) <= 4


def test_of_too_many_runs_the_first_and_the_latest_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("MAX_RUNS", "MAX_LATEST"):
        monkeypatch.setattr(f"tilestep.sim.trace.{name}", 4)
    host, step = Host(), program(superstep(1))
    start = host.system.mark()
    for _ in range(9):
        host.run(step)
    runs, _ = host.system.runs_between(start, host.system.mark())
    assert [run.number - runs[0].number for run in runs] == [0, 1, 2, 3, 7, 8]


def test_recording_can_be_turned_on_and_off() -> None:
    host = Host(record=False)
    f = program(superstep(1))
    host.run(f)
    host.system.record = True
    start = host.system.mark()
    host.run(f)
    end = host.system.mark()
    host.system.record = False
    host.run(f)
    assert [event.kind for event in host.system.trace_between(start, end).events] == ["compute"]
    host.system.clear_trace()
    assert host.system.trace.events == ()
    host.system.record = True
    later = host.system.mark()
    host.run(f)
    assert len(host.system.trace_between(later, host.system.mark()).events) == 1  # places hold after clearing


# Mistakes

EMPTY = program(superstep(1))
TAKES_ONE = program(superstep(1), name="g", takes=(8,), gives=(8,))


def dispatch(system: System, called: Program, *, key: int = 1, ipus: tuple[int, ...] = (0,), takes: list[int], gives: list[int]) -> None:
    system.dispatch(called, Dispatch(key=key, ipus=ipus, arguments=[takes], results=[gives], counts=()))


@pytest.mark.parametrize("call", ["read", "wait", "forget"])
def test_an_unknown_value_is_refused(call: str) -> None:
    with pytest.raises(ValueError, match="value 7 is unknown: it was never made, or it was forgotten"):
        getattr(System(machine(1)), call)(7)


def test_an_unknown_argument_is_refused_and_nothing_moves() -> None:
    system = System(machine(1))
    with pytest.raises(ValueError, match="program 'g': value 7 is unknown"):
        dispatch(system, TAKES_ONE, takes=[7], gives=[8])
    assert (system.host_cycle, system.trace.events) == (0, ())


def test_an_argument_on_another_ipu_is_refused() -> None:
    system = System(machine(2))
    system.put(1, ipu=1, size_bytes=8, on_host=False)
    with pytest.raises(ValueError, match="takes value 1 on IPU 0, but it is for IPU 1: copy it"):
        dispatch(system, TAKES_ONE, takes=[1], gives=[2])


def test_a_key_names_one_program() -> None:
    system = System(machine(1))
    dispatch(system, EMPTY, takes=[], gives=[])
    dispatch(system, program(superstep(1)), takes=[], gives=[])  # equal: the same program
    with pytest.raises(ValueError, match="key 1 is program 'f': it cannot also be program 'g'"):
        dispatch(system, TAKES_ONE, takes=[], gives=[])


def test_a_missing_count_is_refused_before_anything_moves() -> None:
    system = System(machine(1))
    body = Loop(name="while", scope="", body=Series(nodes=(superstep(10),)), trips=None, site=0)
    with pytest.raises(ValueError, match="site 0, arm 0 has no count"):
        system.dispatch(program(body), Dispatch(key=1, ipus=(0,), arguments=[[]], results=[[]], counts=[Counts()]))
    with pytest.raises(ValueError, match="program 'f' runs on 1 IPUs, but has counts for 0"):
        system.dispatch(program(body), Dispatch(key=1, ipus=(0,), arguments=[[]], results=[[]], counts=()))
    assert system.host_cycle == 0


def test_a_snapshot_has_no_booking_that_is_over(host: Host) -> None:
    step = program(superstep(50), takes=(8,), gives=(8,))
    [result] = host.run(step, host.put(8))
    assert len(host.system.snapshot().channels) == 2  # the host link, both ways
    host.system.wait(result)
    assert not host.system.snapshot().channels
