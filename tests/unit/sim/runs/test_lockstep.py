"""Groups of programs on several IPUs: one launch of one program, whose IPUs wait for each other as the sync pattern says."""

import itertools
import random

import pytest

from tests.unit.sim.toy import CODE, DISPATCH, LATENCY, LOADED, NUM_TILES, ONE_HOP, Host, collective, program, superstep
from tilestep.machine import SyncPattern
from tilestep.plan.steps import HostCall, Program
from tilestep.sim import Event

PATTERNS: tuple[SyncPattern, ...] = ("full", "singlePipeline", "replicaAndLadder")
TRANSFERS = ("stream-in", "stream-out", "read")
SIZE, COMPUTE = 10, 100


class Stages:
    """A program on each of some IPUs, each with arguments of its own, as a runtime dispatches them: microbatch by microbatch."""

    def __init__(self, pattern: SyncPattern, *, computes: tuple[int, ...]) -> None:
        self.host = Host(len(computes), sync_pattern=pattern)
        self.stages = [program(superstep(cycles), name=f"stage {k}", takes=(SIZE,), gives=(SIZE,)) for k, cycles in enumerate(computes)]
        self.entries = 0

    def run(self, microbatches: int) -> tuple[Event, ...]:
        """One entry into the group, and a wait for what comes out of it; the events of the entry."""
        self.entries += 1
        start = self.host.system.mark()
        for _ in range(microbatches):
            for ipu, stage in enumerate(self.stages):
                self.last = self._stage(stage, ipu)
        end = self.host.system.mark()
        self.host.system.wait(self.last)
        return self.host.system.trace_between(start, end).events

    def _stage(self, stage: Program, ipu: int) -> int:
        [value] = self.host.run(stage, self.host.put(SIZE, ipu=ipu), ipu=ipu, group=("stages", self.entries))
        return value


def lines(events: tuple[Event, ...], ipu: int) -> list[tuple[str, int, int]]:
    """(kind, start, end) on one IPU, from the start of the first event of all."""
    zero = min(event.start_cycle for event in events)
    return [(event.kind, event.start_cycle - zero, event.end_cycle - zero) for event in events if event.ipu == ipu]


def overlaps(events: tuple[Event, ...]) -> set[tuple[int, int]]:
    """(IPU that transfers, another IPU that computes at the same time)."""
    moving = [event for event in events if event.kind in TRANSFERS]
    working = [event for event in events if event.kind in ("compute", "exchange", "sync")]
    return {
        (a.ipu, b.ipu) for a in moving for b in working if a.ipu != b.ipu and a.start_cycle < b.end_cycle and b.start_cycle < a.end_cycle
    }


def test_single_pipeline_runs_stages_side_by_side() -> None:
    stages = Stages("singlePipeline", computes=(COMPUTE, COMPUTE))
    stages.run(1)  # brings the programs
    events = stages.run(2)
    move = SIZE + LATENCY
    assert lines(events, 0) == [
        ("stream-in", 0, move),
        ("compute", 15, 115),
        ("stream-out", 115, 115 + move),
        ("stream-in", 130, 145),
        ("compute", 145, 245),
        ("stream-out", 245, 260),
    ]
    assert lines(events, 1) == [
        ("stream-in", 0, SIZE + move),  # IPU 0's argument has the link first
        ("compute", 25, 125),
        ("stream-out", 125, 140),
        ("stream-in", 140, 155),
        ("compute", 155, 255),
        ("stream-out", 255, 270),
    ]


def test_full_makes_all_stages_move_and_compute_in_turn() -> None:
    stages = Stages("full", computes=(COMPUTE, COMPUTE))
    stages.run(1)
    events = stages.run(2)
    move = SIZE + LATENCY + ONE_HOP
    both = move + SIZE  # one link
    turn = both + COMPUTE + both
    assert lines(events, 0) == [
        ("stream-in", 0, move),
        ("compute", both, both + COMPUTE),  # waits for the other's argument
        ("stream-out", both + COMPUTE, both + COMPUTE + move),
        ("stream-in", turn, turn + move),
        ("compute", turn + both, turn + both + COMPUTE),
        ("stream-out", turn + both + COMPUTE, turn + both + COMPUTE + move),
    ]
    assert lines(events, 1) == [
        ("stream-in", 0, both),
        ("compute", both, both + COMPUTE),
        ("stream-out", both + COMPUTE, turn),
        ("stream-in", turn, turn + both),
        ("compute", turn + both, turn + both + COMPUTE),
        ("stream-out", turn + both + COMPUTE, 2 * turn),
    ]


def test_an_access_waits_for_the_others_to_come_between_two_steps() -> None:
    stages = Stages("full", computes=(COMPUTE, 3 * COMPUTE))
    stages.run(1)
    events = stages.run(3)
    assert overlaps(events) == set()
    waits = [after[1] - before[2] for before, after in itertools.pairwise(lines(events, 0)) if after[0] == "stream-out"]
    assert waits == [2 * COMPUTE] * 3


@pytest.mark.parametrize(
    ("pattern", "allowed"),
    [
        ("full", set[tuple[int, int]]()),
        ("singlePipeline", set(itertools.permutations(range(4), 2))),
        ("replicaAndLadder", {(a, b) for a, b in itertools.permutations(range(4), 2) if (a - b) % 2}),
    ],
)
def test_who_computes_while_another_accesses_the_host(pattern: SyncPattern, allowed: set[tuple[int, int]]) -> None:
    stages = Stages(pattern, computes=(90, 150, 60, 110))
    stages.run(1)
    found = overlaps(stages.run(12))
    assert found <= allowed
    assert bool(found) == bool(allowed)


# Exchanges between some IPUs of the group


@pytest.mark.parametrize("pattern", PATTERNS)
def test_an_exchange_between_two_holds_a_third_between_its_steps(pattern: SyncPattern) -> None:
    host = Host(4, sync_pattern=pattern)
    pair = program(superstep(50), collective("all-reduce", 1000), name="pair", num_ipus=2)
    other = program(superstep(80), name="other")
    for entry in (1, 2):
        start = host.system.mark()
        host.run(other, ipu=2, group=("stages", entry))
        host.run_on((0, 1), pair, [[], []], group=("stages", entry))
        host.run(other, ipu=2, group=("stages", entry))
        end = host.system.mark()
    events = host.system.trace_between(start, end).events
    exchange = next(event for event in events if event.kind == "collective")
    first, second = (event for event in events if event.ipu == 2)
    assert exchange.start_cycle == first.end_cycle  # the step that it was in
    assert second.start_cycle == exchange.end_cycle


# What the host sees of it


@pytest.mark.parametrize("pattern", PATTERNS)
def test_a_look_between_two_entries_changes_nothing(pattern: SyncPattern) -> None:
    def traced(*, looks: bool) -> tuple[tuple[Event, ...], int]:
        host = Host(3, sync_pattern=pattern)
        stages = [program(superstep(40 + 30 * k), name=f"stage {k}", takes=(SIZE,), gives=(SIZE,)) for k in range(3)]
        for entry in range(1, 6):
            value = host.put(SIZE)
            for ipu, stage in enumerate(stages):
                value = host.copy(value, ipu=ipu)
                [value] = host.run(stage, value, ipu=ipu, group=("pipeline", entry))
            if looks:
                host.system.mark()
                assert host.system.end_cycle
        return host.system.trace.events, host.system.end_cycle

    assert traced(looks=True) == traced(looks=False)


def test_the_host_waits_for_what_has_not_been_played() -> None:
    host = Host(2)
    f = program(superstep(COMPUTE), gives=(SIZE,))
    [first] = host.run(f, group=("g", 1))
    [second] = host.run(f, ipu=1, group=("g", 1))
    assert host.system.host_cycle == DISPATCH
    host.system.wait(first)
    assert host.system.host_cycle > DISPATCH + LOADED + COMPUTE
    host.system.read(second)
    assert host.system.host_cycle == host.system.end_cycle


def test_a_copy_of_a_copy_is_there_when_the_first_is() -> None:
    host = Host(3, sync_pattern="singlePipeline")
    f = program(superstep(COMPUTE), takes=(), gives=(SIZE,))
    g = program(superstep(1), name="g", takes=(SIZE,))
    [value] = host.run(f, group=("g", 1))
    there = host.copy(host.copy(value, ipu=1), ipu=2)
    host.run(g, there, ipu=2, group=("g", 1))
    events = host.system.trace.events
    sent = next(event for event in events if event.kind == "stream-out")
    assert next(event for event in events if event.kind == "stream-in").start_cycle == sent.end_cycle


def test_what_a_program_writes_to_pinned_host_is_there_when_it_has_been_written() -> None:
    host = Host(2, sync_pattern="singlePipeline")
    write = HostCall(name="write", scope="", bytes_to_host=SIZE, bytes_from_host=0, in_memory=True)
    make = program(superstep(COMPUTE), write, name="make", gives=(SIZE,), host_results=(0,))
    take = program(superstep(1), name="take", takes=(SIZE,))
    [value] = host.run(make, group=("g", 1))
    host.run(take, host.copy(value, ipu=1), ipu=1, group=("g", 1))
    events = host.system.trace.events
    written = next(event for event in events if event.kind == "host-call")
    assert next(event for event in events if event.kind == "stream-in").start_cycle == written.end_cycle


def test_a_group_s_values_outlive_a_change_of_program() -> None:
    host = Host(2)
    f = program(superstep(COMPUTE), name="f", takes=(SIZE,), gives=(SIZE,), donates={0: 0})
    state = host.put(SIZE)
    for ipu in (0, 1):
        host.run(program(superstep(5), name=f"warm {ipu}"), ipu=ipu, group=("g", 1))
    [state] = host.run(f, state, group=("g", 1))
    host.run(program(superstep(1), name="other"))
    [state] = host.run(f, state, group=("g", 2))
    saved = [event for event in host.system.trace.events if event.kind == "save"]
    assert [event.end_cycle - event.start_cycle for event in saved] == [SIZE + LATENCY]
    loads = [event.end_cycle - event.start_cycle for event in host.system.trace.events if event.kind == "load" and event.ipu == 0]
    assert loads[-1] == LOADED + NUM_TILES * CODE  # both members


# Laws


def at_random(seed: int, pattern: SyncPattern, *, on: Host | None = None) -> Host:
    """A group of one-IPU and two-IPU programs on four IPUs, that pass values on as a seed decides."""
    choose = random.Random(seed)
    host = on or Host(4, sync_pattern=pattern)

    def made(num_ipus: int, index: int) -> Program:
        steps = [superstep(choose.randrange(200))]
        if num_ipus == 2 and choose.random() < 0.7:
            steps += [collective("all-reduce", choose.randrange(2000))]  # type: ignore[list-item]  # both are nodes
        return program(
            *steps,
            name=f"p{num_ipus}{index}",
            takes=(SIZE, 30),
            gives=(SIZE, 20),
            num_ipus=num_ipus,
            num_io_tiles=choose.choice((0, 0, 2)),
        )

    keeps = program(superstep(25), name="keeps", takes=(40,), gives=(40,), donates={0: 0})
    programs = {1: [made(1, k) for k in range(4)], 2: [made(2, k) for k in range(2)]}
    values = [host.put(SIZE) for _ in range(3)]
    states = [host.put(40, ipu=ipu) for ipu in range(4)]
    for turn in range(60):
        group = ("g", 1 + turn // 25)
        num_ipus = choose.choice((1, 1, 1, 2))
        ipus = tuple(choose.sample(range(4), num_ipus))
        called = choose.choice(programs[num_ipus])
        rows = [[host.copy(choose.choice(values), ipu=ipu), host.put(30, ipu=ipu)] for ipu in ipus]
        values += [results[0] for results in host.run_on(ipus, called, rows, group=group)]
        ipu = choose.randrange(4)
        if choose.random() < 0.3:
            [states[ipu]] = host.run(keeps, states[ipu], ipu=ipu, group=group)
        if choose.random() < 0.1:
            values.append(host.copy(states[ipu], ipu=choose.randrange(4)))
        if choose.random() < 0.05:
            host.system.read(choose.choice(values))
    return host


@pytest.mark.few(9)
@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("seed", range(6))
def test_whatever_is_dispatched_is_played_to_its_end(seed: int, pattern: SyncPattern) -> None:
    host = at_random(seed, pattern)
    events = host.system.trace.events
    assert events == at_random(seed, pattern).system.trace.events
    assert host.system.end_cycle >= max(event.end_cycle for event in events)
    for ipu in range(4):
        mine = sorted(
            (event for event in events if event.ipu == ipu and not event.kind.startswith("io-")), key=lambda event: event.start_cycle
        )
        assert all(a.end_cycle <= b.start_cycle for a, b in itertools.pairwise(mine))
        passing = sorted((event.start_cycle, event.end_cycle) for event in events if event.ipu == ipu and event.kind.startswith("io-"))
        assert all(a[1] <= b[0] for a, b in itertools.pairwise(passing))
    if pattern == "full":
        later = tuple(event for event in events if event.kind != "load")
        assert overlaps(later) == set()


def test_only_so_much_waits_to_be_played(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tilestep.sim.runs.lockstep.MAX_WORK", 5)
    host = Host(2)
    f = program(superstep(COMPUTE))
    for turn in range(12):
        host.run(f, ipu=turn % 2, group=("g", 1))
    assert len(vars(host.system)["_lockstep"]._work) == 4  # the first half went when a fifth came
    assert sum(event.kind == "compute" for event in host.system.trace.events) == 12


def in_turns(turns: int) -> tuple[Event, ...]:
    """A value goes to and fro between two IPUs in one entry."""
    host = Host(2, sync_pattern="singlePipeline")
    f = program(superstep(COMPUTE), name="f", takes=(SIZE,), gives=(SIZE,))
    value = host.put(SIZE)
    for turn in range(turns):
        [value] = host.run(f, value, ipu=turn % 2, group=("g", 1))
        value = host.copy(value, ipu=1 - turn % 2)
    return host.system.trace.events


def test_values_stay_on_the_chips_when_the_first_half_is_played(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = in_turns(40)
    monkeypatch.setattr("tilestep.sim.runs.lockstep.MAX_WORK", 12)
    halves = in_turns(40)
    assert [event.kind for event in halves].count("stream-out") == [event.kind for event in whole].count("stream-out") <= 1
    assert halves == whole
