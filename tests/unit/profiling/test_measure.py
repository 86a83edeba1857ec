"""Profiles: what happened between two marks."""

import json
from dataclasses import replace

import pytest

from tests.unit.sim.toy import CODE, DISPATCH, LATENCY, LOADED, NUM_TILES, Host, collective, program, superstep
from tilestep.figures.records import ProgramCycles
from tilestep.plan.steps import Branch, Counts, HostCall, Loop, Series
from tilestep.profiling.measure import profile_between
from tilestep.sim import Mark
from tilestep.sim.calls import Dispatch
from tilestep.views.profile import Profile

# step(state, batch) -> state', loss
STEP = program(superstep(50, 20, 10), name="step", takes=(200, 30), gives=(200, 4), donates={0: 0})


def train(host: Host, steps: int, state: int) -> int:
    for _ in range(steps):
        state, _loss = host.run(STEP, state, host.put(30))
    return state


def profile_of(host: Host) -> Profile:
    """Everything that the host did."""
    return profile_between(host.system, host.start, host.system.mark())


def test_nothing_happened() -> None:
    profile = profile_of(Host(2))
    assert (profile.emulated_s, profile.programs, profile.timeline, profile.assumptions) == (0, (), (), ())
    assert profile.summary() == ("tilestep: nothing ran on toy (2 IPUs of 4 tiles, 0.001 GHz): no program ran on an IPU.")


def test_a_program_is_a_member_of_the_groups_it_ran_in_since_the_profile_began() -> None:
    """Earlier runs in a group, and later ones outside of it, say nothing about those between."""
    host, called = Host(), program(superstep(5), takes=(200,), gives=(200,), donates={0: 0})

    def since(start: Mark) -> tuple[str, str, int, list[str]]:
        profile = profile_between(host.system, start, host.system.mark())
        [found] = profile.programs
        return found.origin, found.group, profile.dispatches, [group.name for group in profile.groups]

    [result] = host.run(called, host.put(200), group=("loop", 1))
    assert since(host.start) == ("group", "loop", 0, ["loop"])
    start = host.system.mark()
    host.system.read(result)
    assert since(start) == ("group", "loop", 0, ["loop"]), "only its result was read"
    start = host.system.mark()
    for _ in range(3):
        host.run(called, host.put(200))
    assert since(start) == ("user", "", 3, [])
    host.run(called, host.put(200), group=("loop", 2))
    assert since(start) == ("group", "loop", 3, ["loop"])


def test_a_program_in_steady_state(host: Host) -> None:
    state = train(host, 5, host.put(200))
    host.system.read(state)
    profile = profile_of(host)
    [step] = profile.programs
    assert (step.name, step.runs, step.loads) == ("step", 5, 1)
    assert (step.first_run_host_bytes_in, step.host_bytes_in, step.host_bytes_out, step.host_bytes_read) == (230, 30, 4, 200)
    assert (step.donated, step.not_donated) == (("a0",), ())
    assert step.peak_tile_bytes == CODE
    assert step.cycles == ProgramCycles(
        compute=250,
        exchange=100,
        sync=50,
        host=200 + 5 * (30 + LATENCY) + 5 * (4 + LATENCY),
        load=LOADED,
        read=200 + LATENCY,
    )
    assert profile.emulated_cycles == DISPATCH + step.cycles.total == host.system.end_cycle
    assert profile.emulated_s == pytest.approx(profile.emulated_cycles * 1e-6)
    assert profile.idle_cycles == DISPATCH


def test_a_profile_may_begin_in_the_middle(host: Host) -> None:
    state = train(host, 3, host.put(200))
    start = host.system.mark()
    train(host, 2, state)
    end = host.system.mark()
    train(host, 4, host.put(200))
    profile = profile_between(host.system, start, end)
    [step] = profile.programs
    assert (step.runs, step.loads, step.first_run_host_bytes_in, step.host_bytes_in) == (2, 0, 30, 30)  # it lay there before
    assert profile.emulated_cycles == 2 * (30 + LATENCY + 80 + 4 + LATENCY) == end.cycle - start.cycle
    assert len(profile.timeline) == 2 * 5
    assert all(start.cycle <= event.start_cycle < event.end_cycle <= end.cycle for event in profile.timeline)


def test_a_program_that_did_not_run_in_between_is_not_there(host: Host) -> None:
    train(host, 1, host.put(200))
    start = host.system.mark()
    host.run(program(superstep(1), name="other"))
    assert [found.name for found in profile_between(host.system, start, host.system.mark()).programs] == ["other"]


def test_marks_must_be_in_order(host: Host) -> None:
    mark = host.system.mark()
    with pytest.raises(ValueError, match="mark 2 does not come after mark 2"):
        profile_between(host.system, mark, mark)


def test_two_programs_of_one_name_are_two(host: Host) -> None:
    host.run(program(superstep(100)))
    host.run(program(superstep(200)))
    profile = profile_of(host)
    assert [(found.name, found.key, found.cycles.compute) for found in profile.programs] == [("f", 1, 100), ("f", 2, 200)]
    text = profile.summary()
    assert "of emulated time: f #1 (1), f #2 (1)." in text
    assert text.count("f #2") == 4  # among the loads, as the slowest, in both tables


def test_bytes_of_a_run_are_those_of_most_runs(host: Host) -> None:
    other = program(superstep(1), name="other")
    state = train(host, 4, host.put(200))
    host.run(other)
    train(host, 4, state)  # the first of these saves the state and brings it back
    step = profile_of(host).programs[0]
    assert (step.host_bytes_in, step.host_bytes_out, step.loads) == (30, 4, 2)


def test_state_that_is_saved_and_restored_is_neither_argument_nor_result() -> None:
    """An evaluation between any two steps: each evicts the other, and the state goes to and fro."""
    host = Host(2)
    evaluate = program(superstep(1), name="evaluate", takes=(200,), gives=(4,), num_ipus=2)
    other = program(superstep(1), name="other", takes=(8,), gives=(4,), num_ipus=2)
    step = replace(STEP, num_ipus=2)
    states = [host.put(200), host.put(200, ipu=1)]
    for called in (evaluate, other) * 2:
        found = host.run_on((0, 1), step, [(state, host.put(30, ipu=ipu)) for ipu, state in enumerate(states)])
        states = [state for state, _ in found]
        host.run_on((0, 1), called, [(state if called is evaluate else host.put(8, ipu=ipu),) for ipu, state in enumerate(states)])
    trained, evaluated, others = profile_of(host).programs
    assert (trained.host_bytes_in, trained.host_bytes_out) == (2 * 30, 2 * 4)
    assert (evaluated.host_bytes_in, evaluated.host_bytes_out) == (2 * 200, 2 * 4)
    assert (others.host_bytes_in, others.host_bytes_out) == (2 * 8, 2 * 4)
    # Both evaluations save what they read. After `other` the next step does. The state comes back to three of four steps.
    assert [found.host_bytes_saved for found in (trained, evaluated, others)] == [2 * 200, 2 * 2 * 200, 0]
    assert [found.host_bytes_restored for found in (trained, evaluated, others)] == [3 * 2 * 200, 0, 0]
    document = json.loads(profile_of(host).to_json())["programs"][0]
    assert (document["host_bytes_saved"], document["host_bytes_restored"]) == (400, 1200)


def test_bytes_are_of_all_ipus_and_cycles_of_the_slowest() -> None:
    host = Host(2)
    f = program(Loop(name="while", scope="", body=Series(nodes=(superstep(10),)), trips=None, site=0), takes=(8,), gives=(4,), num_ipus=2)
    host.system.dispatch(
        f,
        Dispatch(
            key=1,
            ipus=(0, 1),
            arguments=[[host.put(8)], [host.put(8, ipu=1)]],
            results=[[100], [101]],
            counts=[Counts(times={(0, 0): 3}), Counts(times={(0, 0): 5})],
        ),
    )
    profile = profile_of(host)
    [found] = profile.programs
    assert (found.host_bytes_in, found.host_bytes_out, found.num_ipus) == (16, 8, 2)
    assert found.cycles.compute == 50
    assert [(step.name, step.executions, step.compute) for step in profile.supersteps] == [("step", 5, 50)]
    assert profile.busiest_ipu == 1


def test_what_could_be_donated_has_a_result_of_its_shape(host: Host) -> None:
    f = program(superstep(1), takes=(8, 8, 16, 8, 4), gives=(8, 8, 32, 4), donates={0: 0}, host_arguments=(4,))
    host.run(f, *(host.put(argument.size_bytes) for argument in f.arguments))
    assert profile_of(host).programs[0].not_donated == ("a1",)  # one free result of 8 bytes for two arguments; a4 is on the host


def test_an_argument_that_is_the_program_s_own_result_is_found(host: Host) -> None:
    f = program(superstep(1), name="f", takes=(100, 8), gives=(100,))
    state, batch = host.put(100), host.put(8)
    for _ in range(4):
        [state] = host.run(f, state, batch)
    [found] = profile_of(host).programs
    assert [(argument.name, argument.calls, argument.cycles, argument.reason) for argument in found.streamed_again] == [
        ("a0", 3, 300, "own result"),
        ("a1", 3, 24, "same value"),
    ]


def test_families_and_supersteps_come_largest_first() -> None:
    host = Host(2)
    f = program(
        superstep(5, 1, 1, name="add", family="elementwise"),
        superstep(100, 30, 2, name="dot", family="matmul"),
        Loop(name="while", scope="", body=Series(nodes=(superstep(40, name="dot.1", family="matmul"),)), trips=2),
        Branch(name="cond", scope="", arms=(Series(), Series(nodes=(superstep(9, name="rare"),))), site=None),
        HostCall(name="callback", scope="", bytes_to_host=8, bytes_from_host=0),
        collective("all-reduce", 1000),
        num_ipus=2,
    )
    host.run_on((0, 1), f, [[], []])
    host.run_on((0, 1), f, [[], []])
    profile = profile_of(host)
    [found] = profile.programs
    assert [(family.family, family.total) for family in found.families] == [
        ("matmul", 2 * (132 + 80)),
        ("all-reduce", 2 * (100 + 24)),
        ("host call", 2 * (16 + 5)),  # two IPUs share the link
        ("toy", 2 * 9),
        ("elementwise", 2 * 7),
    ]
    assert [(step.name, step.executions, step.total) for step in profile.supersteps[:3]] == [
        ("dot", 2, 264),
        ("all-reduce", 2, 248),
        ("dot.1", 4, 160),
    ]
    assert "The host answers a callback, infeed or outfeed at once; only the transfers take time." in profile.assumptions
    assert sum(family.compute for family in found.families) == found.cycles.compute
    assert sum(family.exchange for family in found.families) == found.cycles.exchange
    assert sum(family.sync for family in found.families) == found.cycles.sync


def test_a_group_s_memory_is_that_of_one_program() -> None:
    host = Host(2)
    f = program(superstep(1), name="f", resident_bytes=300, transient_bytes=50)
    g = program(superstep(1), name="g", resident_bytes=100, transient_bytes=200)
    host.run(f, group=("pipeline", 1))
    host.run(f, ipu=1, group=("pipeline", 1))
    host.run(g, ipu=1, group=("pipeline", 1))
    [group] = profile_of(host).groups
    assert (group.name, group.ipu, group.programs, group.peak_tile_bytes) == (
        "pipeline",
        1,
        ("f", "g"),
        2 * CODE + 300 + 50,
    )  # of the larger


def test_time_by_kind_adds_up(host: Host) -> None:
    state = train(host, 3, host.put(200))
    host.system.read(state)
    host.run(program(superstep(1), name="other"))
    profile = profile_of(host)
    assert sum(profile.cycles_by_kind.values()) + profile.idle_cycles == profile.emulated_cycles
    assert profile.cycles_by_kind["load"] == 2 * LOADED
    assert profile.cycles_by_kind == {
        kind: sum(event.end_cycle - event.start_cycle for event in profile.timeline if event.kind == kind)
        for kind in profile.cycles_by_kind
    }


def test_assumptions_are_listed_once(host: Host) -> None:
    f = replace(program(superstep(1), name="f"), assumptions=("loop while.1 runs once", "sort is bitonic"))
    g = replace(program(superstep(1), name="g"), assumptions=("sort is bitonic",))
    host.run(f)
    host.run(g)
    assert profile_of(host).assumptions[:2] == ("loop while.1 runs once", "sort is bitonic")
    assert profile_of(host).assumptions[2].startswith("Assumed figures of toy: ")  # it has no sources


def test_a_cut_timeline_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tilestep.sim.trace.MAX_EVENTS", 5)  # a dispatch among them
    host = Host()
    train(host, 2, host.put(200))
    profile = profile_of(host)
    assert len(profile.timeline) == 4
    assert profile.assumptions[-1] == "The timeline leaves out the last 7 events; all figures count them."
    assert profile.programs[0].cycles.compute == 100


def test_json_holds_everything(host: Host) -> None:
    state = train(host, 3, host.put(200))
    host.system.read(state)
    profile = profile_of(host)
    document = json.loads(profile.to_json())
    assert document["schema"] == "tilestep-profile"
    assert document["version"] == 2
    assert document["emulated_s"] == profile.emulated_s
    assert document["machine"]["name"] == "toy"
    [step] = document["programs"]
    assert (step["name"], step["runs"], step["host_bytes_in"], step["cycles"]["compute"]) == ("step", 3, 30, 150)
    assert document["timeline"]["columns"] == ["ipu", "start_cycle", "end_cycle", "kind", "program"]
    assert document["timeline"]["rows"][0] == [0, DISPATCH, DISPATCH + LOADED, "load", "step"]
    assert len(document["timeline"]["rows"]) == len(profile.timeline)
    assert sum(document["cycles_by_kind"].values()) == document["emulated_cycles"]
    assert document["findings"]


def test_a_load_is_the_code_of_all_tiles(host: Host) -> None:
    host.run(STEP, host.put(200), host.put(30))
    assert profile_of(host).cycles_by_kind["load"] == 100 + NUM_TILES * CODE
