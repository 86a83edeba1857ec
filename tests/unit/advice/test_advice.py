"""When each sentence of the advice applies, and when it stays away, on a machine of round numbers."""

import re
from dataclasses import replace

import pytest

from tests.unit.sim.toy import MACHINE, Host, collective, program, superstep
from tilestep.advice import findings
from tilestep.advice.phrases import group_text
from tilestep.figures.records import ProgramProfile
from tilestep.plan.steps import HostCall, Loop, Program, Series
from tilestep.profiling.measure import profile_between
from tilestep.views.profile import Profile

BIG = 4096  # bytes, which is as many cycles of the host link


def profile_of(host: Host, jax_names: tuple[str, ...] = ()) -> Profile:
    return profile_between(host.system, host.start, host.system.mark(), of_jax=lambda name: name in jax_names)


def told(profile: Profile, kind: str) -> list[str]:
    return [finding.text for finding in findings(profile) if finding.kind == kind]


def step_of(size: int = BIG, **options: object) -> Program:
    return replace(program(superstep(5), name="step", takes=(size,), gives=(size,)), **options)


def streamed(host: Host, called: Program, times: int, *, group: bool = False, before: Program | None = None) -> Profile:
    """A state that goes round; before each run another program may have run."""
    state = host.put(called.arguments[0].size_bytes)
    for entry in range(times):
        if before is not None:
            host.run(before)
        state = host.run(called, state, group=("loop", entry + 1) if group else None)[0]
    return profile_of(host)


def test_a_state_that_goes_round_would_stay() -> None:
    [text] = told(streamed(Host(), step_of(), 5), "donation")
    assert "in at every call (4.00 KiB each time)" in text


def test_it_would_not_if_another_program_evicted_it() -> None:
    profile = streamed(Host(), step_of(), 5, before=program(superstep(5), name="other"))
    assert [found.streamed_again for found in profile.programs] == [(), ()]
    assert told(profile, "donation") == []


def test_the_same_value_would_not_stay_if_another_program_evicted_it() -> None:
    for others in (0, 1):
        host = Host()
        predict, other = program(superstep(5), name="predict", takes=(BIG,), gives=(4,)), program(superstep(5), name="other")
        weights = host.put(BIG)
        for _ in range(3):
            host.run(predict, weights)
            for _ in range(others):
                host.run(other)
        assert len(told(profile_of(host), "donation")) == 1 - others


def test_runs_between_evictions_count(host: Host) -> None:
    step, other = step_of(), program(superstep(5), name="other")
    state = host.put(BIG)
    for index in range(20):
        if index in (10, 12, 14):
            host.run(other)
        [state] = host.run(step, state)
    [found] = profile_of(host).programs[0].streamed_again
    assert found.calls == 20 - 4  # the first after each load has to bring it
    assert "in at every call" in told(profile_of(host), "donation")[0]


def test_a_state_that_goes_round_in_some_runs_only_says_how_many(host: Host) -> None:
    step = step_of()
    state = host.put(BIG)
    for index in range(10):
        [state] = host.run(step, state if index % 2 else host.put(BIG))
    assert "in at 5 of 10 calls (4.00 KiB each time)" in told(profile_of(host), "donation")[0]


def test_a_result_from_another_ipu_would_not_stay() -> None:
    host = Host(2)
    step = step_of()
    other = replace(step, name="step")
    state = host.put(BIG)
    for _ in range(5):
        [state] = host.run(step, state)
        state = host.copy(state, ipu=1)
        [state] = host.run(other, state, ipu=1)
        state = host.copy(state)
    assert told(profile_of(host), "donation") == []


@pytest.mark.parametrize("use", ["read", "wait", "copy", "run"])
def test_what_the_host_program_uses_again_cannot_be_donated(use: str) -> None:
    host = Host(2)
    step, other = step_of(), program(superstep(5), name="other", takes=(BIG,), gives=(4,))
    state = host.put(BIG)
    for _ in range(5):
        before, [state] = state, host.run(step, state)
        match use:
            case "read":
                host.system.read(before)
            case "wait":
                host.system.wait(before)
            case "run":
                host.run(other, before)
            case _:
                host.copy(before, ipu=1)
    assert told(profile_of(host), "donation") == []


def test_an_array_that_is_two_arguments_cannot_be_donated(host: Host) -> None:
    both = program(superstep(5), name="both", takes=(BIG, BIG), gives=(BIG,))
    state = host.put(BIG)
    for _ in range(5):
        [state] = host.run(both, state, state)
    assert profile_of(host).programs[0].streamed_again == ()


def test_an_own_result_needs_a_free_result_of_its_shape(host: Host) -> None:
    """Two arguments are its results by turns, but the memory of one is as much as its result can take over."""
    f = program(superstep(5), name="f", takes=(BIG, BIG), gives=(BIG,))
    state = host.put(BIG)
    for index in range(6):
        other = host.put(BIG)
        [state] = host.run(f, *((state, other) if index % 2 else (other, state)))
    [found] = profile_of(host).programs[0].streamed_again
    assert found.reason == "own result"


def test_nobody_can_donate_to_jax_s_programs_and_to_members_of_a_group() -> None:
    profile = streamed(Host(), step_of(), 5)
    assert told(profile, "donation")
    assert told(profile_of_names(Host(), "step"), "donation") == []
    grouped = streamed(Host(), step_of(), 5, group=True)
    assert [found.origin for found in grouped.programs] == ["group"]
    assert grouped.programs[0].streamed_again
    assert told(grouped, "donation") == []


def profile_of_names(host: Host, *names: str) -> Profile:
    streamed(host, step_of(), 5)
    return profile_of(host, names)


def test_a_few_bytes_and_a_busy_host_are_no_reason_to_donate() -> None:
    few = streamed(Host(), replace(step_of(8), body=program(superstep(5000)).body), 5)
    assert few.programs[0].streamed_again
    assert told(few, "donation") == []
    busy = Host(on=replace(MACHINE, host=replace(MACHINE.host, dispatch_seconds=20e-3)))
    profile = streamed(busy, step_of(2000), 200)
    assert profile.programs[0].streamed_again[0].cycles > 0.01 * profile.emulated_cycles
    assert told(profile, "donation") == []


def test_loads_are_those_of_the_busiest_ipu() -> None:
    """Each IPU has its own program: to put them into one function would not help."""
    host = Host(4)
    for ipu in range(4):
        host.run(program(superstep(5 + ipu), name=f"f{ipu}"), ipu=ipu)
    assert told(profile_of(host), "fixed") == [
        "1 program load took 65 % of emulated time: a program is loaded once and pays for it by running often; f3 ran once."
    ]


def test_values_saved_are_no_load(host: Host) -> None:
    step, evaluate = step_of(), program(superstep(5), name="evaluate", takes=(BIG,), gives=(4,))
    step = program(superstep(5), name="step", takes=(BIG,), gives=(BIG,), donates={0: 0})
    state = host.put(BIG)
    for _ in range(3):
        [state] = host.run(step, state)
        host.run(evaluate, state)
    assert told(profile_of(host), "loads")[0].startswith("6 program loads and the values saved for them took ")


def test_groups_that_evict_each_other_are_not_told_to_become_one_function(host: Host) -> None:
    train, test = program(superstep(5), name="train"), program(superstep(5), name="test")
    for entry in range(1, 4):
        host.run(train, group=("train", entry))
        host.run(test, group=("test", entry))
    [text] = told(profile_of(host), "loads")
    assert text.endswith(
        "switching reloads. Most loads: program group 'train' with train (3), program group 'test' with test (3). "
        "Run more steps between two switches."
    )


def test_members_of_a_group_are_one_program_already() -> None:
    host = Host(2)
    for ipu, name in enumerate(("first", "second")):
        host.run(program(superstep(5), name=name), ipu=ipu, group=("pipeline", 1))
    [text] = told(profile_of(host), "fixed")
    assert "Each function is a program of its own" not in text


def test_a_group_is_named_by_itself_and_not_by_the_helper_that_is_loaded_first(host: Host) -> None:
    for called in (program(superstep(1), name="convert"), program(superstep(50), name="repeat"), program(superstep(40), name="repeat")):
        host.run(called, group=("loop 1", 1))
    profile = profile_of(host)
    assert [(found.group, found.loads) for found in profile.programs] == [("loop 1", 1), ("loop 1", 0), ("loop 1", 0)]
    [text] = told(profile, "fixed")
    assert text.startswith("1 program load took 66 % of emulated time: a program is loaded once and ")
    assert text.endswith("pays for it by running often; program group 'loop 1' with repeat and 1 more ran once.")


def test_a_loop_is_named_by_its_body_and_a_group_of_the_user_by_its_name() -> None:
    assert group_text("step 1 64+0") == "the loop over step"
    assert group_text("pipeline 1") == "program group 'pipeline 1'"
    host = Host()
    host.run(program(superstep(5), name="repeat_step"), group=("step 1 64+0", 1))
    [text] = told(profile_of(host), "fixed")
    assert text.endswith("the loop over step with repeat_step ran once.")
    assert "64+0" not in profile_of(host).summary()


def shaped(name: str, *shapes: str, family: str = "add") -> Program:
    """A program whose arguments are weights of one shape and those."""
    called = program(superstep(5, name=family), name=name, takes=(64, *(8 * (len(shapes) - k) for k in range(len(shapes)))))
    shape_of = dict(enumerate(("f32[16]", *shapes)))
    return replace(called, arguments=tuple(replace(argument, shape=shape_of[argument.index]) for argument in called.arguments))


def called_by_turns(*programs: Program, times: int = 3) -> Profile:
    host = Host()
    for turn in range(times):
        for index, called in enumerate(programs):
            if turn or not index:  # the first ran most
                host.run(called, *(host.put(argument.size_bytes) for argument in called.arguments))
    return profile_of(host)


TO_ONE_SHAPE = "pad to one shape (with a mask, where results sum over what would be padded), or make these calls in one jitted function."


@pytest.mark.parametrize(
    ("shapes", "was", "way_out"),
    [
        (
            [("f32[128,64]", "s32[128]"), ("f32[30,64]", "s32[30]")],
            "f32[128,64] and f32[30,64]",
            "pad (with a mask, where results sum over what would be padded) or drop the smaller batch.",
        ),
        (
            [(f"f32[{n},64]",) for n in (128, 30, 20, 10)],
            "f32[128,64], f32[30,64], f32[20,64] and 1 more",
            "pad (with a mask, where results sum over what would be padded) or drop the smaller batch.",
        ),
        ([("f32[128,64]",), ("f32[128,30]",)], "f32[128,64] and f32[128,30]", TO_ONE_SHAPE),
        ([("f32[128]",), ("f32[]",)], "f32[128] and f32[]", TO_ONE_SHAPE),
        ([("f32[128,64]",), ("f16[128,64]",)], "f32[128,64] and f16[128,64]", "call it with one dtype."),
    ],
)
def test_one_function_that_was_called_with_other_shapes_is_told_so(shapes: list[tuple[str, ...]], was: str, way_out: str) -> None:
    profile = called_by_turns(*(shaped("f", *of_program) for of_program in shapes))
    [text] = told(profile, "loads")
    assert text.endswith(f"f is {len(shapes)} programs, because its argument a1 was {was}: {way_out}")
    assert "Put them into" not in text  # they are one jitted function
    [function] = profile.reshaped
    assert function.shapes[0] == shapes[0][0]
    assert set(function.keys) == {found.key for found in profile.programs}
    assert len(profile.as_document()["reshaped"][0]["keys"]) == len(shapes)


def test_arguments_that_all_differ_are_no_batch() -> None:
    """A function that is called for each array of a model."""
    first, second = shaped("f", "f32[128]"), shaped("f", "f32[30]")
    second = replace(second, arguments=(replace(second.arguments[0], shape="f32[4]"), second.arguments[1]))
    [text] = told(called_by_turns(first, second), "loads")
    assert text.endswith(TO_ONE_SHAPE)


@pytest.mark.parametrize("other", [shaped("f", "f32[30]", family="mul"), shaped("g", "f32[30]"), shaped("f", "f32[30]", "f32[4]")])
def test_functions_that_only_look_alike_are_not_one(other: Program) -> None:
    """Another operation, another name, another number of arguments."""
    profile = called_by_turns(shaped("f", "f32[128]"), other)
    assert profile.reshaped == ()
    [text] = told(profile, "loads")
    assert "programs, because" not in text
    assert text.endswith("Put them into one jitted function.")


def test_other_shapes_and_other_functions_have_a_sentence_each() -> None:
    [text] = told(called_by_turns(shaped("f", "f32[128]"), shaped("f", "f32[30]"), shaped("g", "f32[128]")), "loads")
    assert "what would be padded) or drop the smaller batch. Put them into one jitted function." in text


def test_single_operations_are_told_apart_from_the_user_s_programs(host: Host) -> None:
    operations = [program(superstep(5), name=f"jax{k}") for k in range(5)]
    f, g = program(superstep(5), name="f"), program(superstep(5), name="g")
    for called in (*operations, *operations, f, g, f, g):
        host.run(called)
    names = tuple(called.name for called in operations)
    first, second = told(profile_of(host, names), "loads")
    assert first.startswith("14 program loads took 96 % of emulated time")
    assert (
        "; 10 of them are of single operations outside of jit: each is a program of its own, "
        "5 programs in 10 calls (jax0, jax1 and 3 more). Put " in first
    )
    assert second.startswith("4 of the 14 program loads are of jitted functions: an IPU keeps one program and switching reloads. ")
    assert second.count("jax") == second.count("jax.d")  # none of JAX's among those with most loads
    [alone] = told(profile_of(host, (*names, "f", "g")), "loads")
    assert re.match(r"14 program loads took \d+ % of emulated time, all of single operations outside of jit: each is ", alone)
    [alone] = told(profile_of(host), "loads")
    assert "outside of jit" not in alone


def test_one_single_operation_is_named(host: Host) -> None:
    host.run(program(superstep(5), name="add"))
    [text] = told(profile_of(host, ("add",)), "loads")
    assert re.match(
        r"1 program load took \d+ % of emulated time, all of single operations outside of jit: add is a program of its own", text
    )


def test_a_function_that_is_loaded_once_beside_single_operations_is_not_told_to_change(host: Host) -> None:
    for name in ("jax0", "jax1", "jax2", "f"):
        host.run(program(superstep(5), name=name))
    [text] = told(profile_of(host, ("jax0", "jax1", "jax2")), "loads")
    assert "; 3 of them are of single operations" in text


def oversized(**options: object) -> Program:
    return replace(program(superstep(5), name="f", resident_bytes=1200), **options)


def test_a_dry_run_allows_what_does_not_fit() -> None:
    for dry, why in ((False, "and ran only because running out of memory was allowed."), (True, "and in a dry run this is no error.")):
        host = Host()
        host.run(oversized(dry=dry))
        profile = profile_of(host)
        assert profile.programs[0].dry == dry
        assert why in told(profile, "memory")[0]
        assert why in told(profile_of(host, ("f",)), "memory")[0]


def test_jax_s_operations_do_not_crowd_out_the_user_s_programs(host: Host) -> None:
    for size in (900, 1300, 1400):
        host.run(program(superstep(5), name=f"zeros{size}", resident_bytes=size))
    host.run(oversized())
    names = ("zeros900", "zeros1300", "zeros1400")
    first, second = told(profile_of(host, names), "memory")
    assert first.startswith("program f does not fit")
    assert second.startswith(
        "program zeros1400, a single operation outside of jit, does not fit (nor does 1 other): it needs 141 % of a tile,"
    )


def test_ipus_that_did_nothing_are_told_last_and_only_if_they_were_asked_for() -> None:
    host = Host(4)
    host.run(program(superstep(5)))
    profile = profile_of(host)
    assert profile.num_ipus_used == profile.as_document()["num_ipus_used"] == 1
    assert findings(profile)[-1].text.startswith("1 of 4 IPUs was used. Divide arrays over all of them (jax.sharding), or use Replicas")
    assert told(replace(profile, machine=replace(profile.machine, name="bow-2000")), "unused") == []  # the default machine
    assert told(replace(profile, machine=replace(profile.machine, name="bow-2000", num_ipus=16)), "unused")
    host.run_on((0, 1, 2, 3), program(superstep(5), num_ipus=4), [[]] * 4)
    assert told(profile_of(host), "unused") == []
    single = Host()
    single.run(program(superstep(5)))
    assert told(profile_of(single), "unused") == []


def test_a_group_that_does_not_fit_was_not_allowed_to(host: Host) -> None:
    """A group's memory is what its members add up to: compiling them refuses none."""
    for name in ("f", "g"):
        host.run(program(superstep(1), name=name, resident_bytes=500, transient_bytes=480), group=("pipeline", 1))
    host.run(replace(program(superstep(1), name="h", resident_bytes=600)), group=("pipeline", 1))
    text = told(profile_of(host), "memory")[0]
    assert text.startswith("program group 'pipeline' on IPU 0 does not fit: it needs 101 % of a tile")
    assert "and nothing refused it, because which programs are in a group is known only when they run." in text


def slowest(profile: Profile) -> ProgramProfile:
    return max(profile.programs, key=lambda found: found.cycles.total)


def test_a_collective_is_an_exchange_between_ipus() -> None:
    host = Host(2)
    f = program(collective("all-reduce", 10_000), num_ipus=2)
    host.run_on((0, 1), f, [[], []])
    [text] = told(profile_of(host), "limit")
    assert "that is all-reduce, limited by exchange between IPUs (9" in text
    assert ": send less between IPUs (" in text
    assert "tiles" not in text


def test_small_collectives_are_too_many() -> None:
    host = Host(2)
    host.run_on((0, 1), program(collective("all-reduce", 4), num_ipus=2), [[], []])
    assert "its exchanges are too small (fewer and larger ones)" in told(profile_of(host), "limit")[0]


@pytest.mark.parametrize(
    ("in_memory", "limit"), [(False, "the host link (100 %): it stops for the host"), (True, "values in pinned_host (100 %)")]
)
def test_stops_for_values_in_pinned_host_are_not_the_host_s(host: Host, in_memory: bool, limit: str) -> None:
    call = HostCall(name="call", scope="", bytes_to_host=0, bytes_from_host=1000, in_memory=in_memory)
    host.run(program(call))
    assert limit in told(profile_of(host), "limit")[0]


def test_what_takes_less_than_a_hundredth_is_not_limited(host: Host) -> None:
    short = program(superstep(5), takes=(BIG,))
    host.run(short, host.put(BIG))
    assert told(profile_of(host), "limit") == []


def test_a_program_with_the_longest_supersteps_need_not_be_the_slowest(host: Host) -> None:
    host.run(program(superstep(100), name="compute"))
    host.run(program(superstep(10), name="stream", takes=(BIG,)), host.put(BIG))
    profile = profile_of(host)
    assert slowest(profile).name == "stream"
    assert told(profile, "limit")[0].startswith("The supersteps of compute, the longest of any program, take 2.")


def test_feeds_beside_compute_stop_for_what_is_left_of_them(host: Host) -> None:
    """Of four elements that come while the turn before computes, the program stops for the first alone, and the latencies."""
    feed = HostCall(name="feed", scope="", bytes_to_host=0, bytes_from_host=100, is_feed=True)
    host.run(program(Loop(name="loop", scope="", body=Series(nodes=(superstep(200), feed)), trips=4), num_io_tiles=1))
    [found] = profile_of(host).programs
    [stops] = [family.host for family in found.families if family.family == "host call"]
    assert found.cycles.host == stops < 4 * 105
    assert sum(family.total for family in found.families) <= found.cycles.total


def chain(host: Host, items: int, *, microbatches: bool) -> None:
    """Each item goes through three IPUs; without microbatches the next one needs what came out of the last."""
    stages = [program(superstep(2000), name=f"stage {ipu}", takes=(4,), gives=(4,)) for ipu in range(3)]
    x = host.put(4)
    for _ in range(items):
        for ipu, stage in enumerate(stages):
            [x] = host.run(stage, host.copy(x, ipu=ipu), ipu=ipu)
        x = host.put(4) if microbatches else x


def test_ipus_that_wait_for_each_other_need_independent_work() -> None:
    serial, parallel = Host(4), Host(4)
    chain(serial, 20, microbatches=False)
    chain(parallel, 20, microbatches=True)
    [text] = told(profile_of(serial), "idle")
    assert text.endswith("or give the IPUs work that does not wait for each other's (microbatches).")
    assert told(profile_of(parallel), "idle") == []
    assert profile_of(parallel).emulated_cycles < 0.5 * profile_of(serial).emulated_cycles


def test_dispatching_that_ipus_hide_is_not_the_reason_to_wait() -> None:
    """The host is ahead: fewer dispatches would not be quicker."""
    host = Host(4, on=replace(MACHINE, num_ipus=4, host=replace(MACHINE.host, dispatch_seconds=800e-6)))
    chain(host, 20, microbatches=False)
    profile = profile_of(host)
    assert 2 * profile.dispatch_cycles > profile.idle_cycles > profile.emulated_cycles // 2
    assert "The host spends" not in told(profile, "idle")[0]
