"""Gains of findings on a machine of round numbers: how they are worked out, ranked and told."""

import json
import re
from dataclasses import replace

import pytest

from tests.unit.sim.toy import LOADED, MACHINE, Host, program, superstep
from tilestep.advice import Finding, Gain, Line, evidence_of
from tilestep.advice import evidence as evidence_module
from tilestep.advice.evidence import Evidence, Played, work_of
from tilestep.advice.host.donation import donation, never_new
from tilestep.advice.host.reads import results
from tilestep.advice.phrases import left_texts
from tilestep.advice.proposal import Proposal, Way
from tilestep.advice.ranking import ranked
from tilestep.advice.user_code.lines import line_of, line_of_call
from tilestep.figures.intervals import UNSEEN, model_errors
from tilestep.figures.quantities import share_text
from tilestep.options import PlanOptions
from tilestep.plan.steps import Frame, HostCall, Loop, Program, Series
from tilestep.profiling.measure import profile_between
from tilestep.recording.edits.batch_calls import in_fewer_calls
from tilestep.recording.edits.script import Script
from tilestep.recording.history import begin_history, history_since
from tilestep.recording.sources import Source
from tilestep.views.profile import Profile
from tilestep.views.summary import render

BIG = 4096
STEP = program(superstep(50, 20, 10), name="jit_step", takes=(BIG, 30), gives=(BIG, 4))
DONATING = program(superstep(50, 20, 10), name="jit_step", takes=(BIG, 30), gives=(BIG, 4), donates={0: 0})


def trained(called: Program, steps: int, *, on: Host | None = None) -> Profile:
    host = on or Host()
    begin = begin_history(host.system)
    state = host.put(BIG)
    for _ in range(steps):
        before, (state, loss) = state, host.run(called, state, host.put(30))
        host.system.forget(before)
        host.system.forget(loss)
    return profile_between(host.system, host.start, host.system.mark(), history=history_since(host.system, begin))


def test_without_a_history_there_are_no_gains_and_nothing_breaks() -> None:
    profile = replace(trained(STEP, 20), history=None)
    assert {finding.gain for finding in profile.findings} == {None}
    assert profile.steady is None
    assert "donate them" in profile.summary() or "donate it" in profile.summary()
    assert {found["gain_cycles"] for found in profile.as_document()["findings"]} == {None}


def test_a_long_history_is_played_in_part_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = trained(STEP, 200).findings[0].gain
    monkeypatch.setattr(evidence_module, "MOST_PLAYED", 6000)
    last = trained(STEP, 200).findings[0].gain
    monkeypatch.setattr(evidence_module, "MOST_READ", 6000)
    some = trained(STEP, 200).findings[0].gain
    assert whole is not None
    assert last is not None
    assert some is not None
    assert whole.basis == ""
    assert last.basis.startswith("of the last ")
    assert last.basis.endswith(" of 200 runs")
    assert some.basis.startswith("of runs ")
    assert some.basis.endswith(" of 200")
    assert last.share == pytest.approx(whole.share, abs=0.02)
    assert some.share == pytest.approx(whole.share, abs=0.02)


def test_a_warm_step_has_its_own_interval_without_what_set_up_widens() -> None:
    """Its kinds of work are those of the sum above: what the state took on its way to the IPU, and the load, are not in it."""
    profile = trained(DONATING, 20)
    spent = {"host": 30 + 5 + 4 + 5, "toy": 50, "exchange": 20, "sync": 10}
    error, widest = model_errors().of_time({**{kind: cycles / 124 for kind, cycles in spent.items()}, UNSEEN: 1.0}, MACHINE)
    assert widest == "toy"
    steady = profile.steady
    assert steady is not None
    assert (steady.low_cycles, steady.high_cycles, steady.widest) == (round(124 / (1 + error)), round(124 * (1 + error)), "toy rates")
    told = f"A step takes 124 µs ({steady.low_cycles} to {steady.high_cycles}; widest: toy rates) once warm, set-up "
    assert told in profile.summary(width=200)
    assert profile.interval is not None
    assert profile.interval.widest == "the host's link"  # of the state
    without = replace(profile, interval=None).steady
    assert without is not None
    assert (without.low_cycles, without.high_cycles, without.widest) == (None, None, "")


@pytest.mark.parametrize("steps", [6, 60])
def test_a_gain_is_of_a_warm_step_however_few_steps_ran(steps: int) -> None:
    """As a run with the edit takes them."""
    before, after = trained(STEP, steps), trained(DONATING, steps)
    [gain] = [finding.gain for finding in before.findings if finding.kind == "donation"]
    assert gain is not None
    assert before.steady is not None
    assert after.steady is not None
    assert gain.step_cycles == before.steady.step_cycles - after.steady.step_cycles
    assert gain.step_share == gain.step_cycles / before.steady.step_cycles
    assert gain.cycles == before.emulated_cycles - after.emulated_cycles


def test_what_a_warm_step_saves_comes_before_what_set_up_saves(host: Host) -> None:
    begin = begin_history(host.system)
    init, step = program(superstep(50_000), name="jit_init"), program(superstep(5000), name="jit_step")
    host.run(init)
    for _ in range(20):
        host.run(step)
    profile = profile_between(host.system, host.start, host.system.mark(), history=history_since(host.system, begin))
    evidence = evidence_of(profile)
    assert evidence is not None
    assert profile.steady is not None

    def quicker(key: int, cycles: int) -> Proposal:
        shorter = replace(evidence.programs[key], body=Series(nodes=(superstep(cycles),)))
        way = Way(edit=f"{key}", change=lambda script: script.with_programs({key: shorter}), how="replayed")
        return Proposal(finding=Finding(kind="calls", text=""), ways=(way,))

    proposals = [quicker(host.key(init), 10_000), quicker(host.key(step), 4000)]
    first, second = ranked(proposals, evidence, starts=profile.steady.starts).findings
    assert [first.edit, second.edit] == [str(host.key(step)), str(host.key(init))]
    assert first.gain is not None
    assert second.gain is not None
    assert (first.gain.step_cycles, first.gain.cycles) == (1000, 20_000)
    assert (second.gain.step_cycles, second.gain.cycles) == (0, 40_000)
    assert [found.edit for found in ranked(proposals, evidence).findings] == [second.edit, first.edit]


def looped(*, chunks: int, calls: int) -> Profile:
    """Calls of a loop of this package: chunks of 8 steps, and a rest of 2."""
    chunk, rest = (
        program(
            Loop(name="while", scope="", body=Series(nodes=(superstep(10 * 10),)), trips=trips), name="jit_repeat_step", takes=(800, 80)
        )
        for trips in (8, 2)
    )
    host = Host()
    begin = begin_history(host.system)
    for call in range(calls):
        for place in range(chunks):
            host.run(rest if place == chunks - 1 else chunk, host.put(800), host.put(80), group=("step 1 8+2", call))
    return profile_between(host.system, host.start, host.system.mark(), history=history_since(host.system, begin))


def test_a_step_of_a_loop_is_one_of_its_many() -> None:
    profile = looped(chunks=7, calls=1)
    steady = profile.steady
    assert steady is not None
    assert (steady.label, steady.unit, steady.steps) == ("the loop over step", "step", 6 * 8 + 2)
    chunk = 8 * 100 + 880 + 5 + 5  # its steps, its elements, the latency of each transfer
    assert steady.step_cycles == pytest.approx(chunk / 8, abs=3)


def test_steps_of_one_call_have_a_mean_without_its_load() -> None:
    profile = looped(chunks=2, calls=1)
    steady = profile.steady
    assert steady is not None
    assert steady.steps == 10
    cycles = [of.cycles for of in profile.programs]
    assert steady.step_cycles == round(sum(of.total - of.load for of in cycles) / 10)
    assert sum(steady.starts.values()) == 10


def test_items_a_second_are_told_where_all_that_is_new_at_each_run_has_one_first_size() -> None:
    def summary(*shapes: str) -> str:
        called = program(superstep(100), name="jit_step", takes=(20, 10))
        called = replace(called, arguments=tuple(replace(a, shape=shape) for a, shape in zip(called.arguments, shapes, strict=True)))
        host = Host()
        begin = begin_history(host.system)
        for _ in range(10):
            host.run(called, host.put(20), host.put(10))
        profile = profile_between(host.system, host.start, host.system.mark(), history=history_since(host.system, begin))
        assert profile.steady is not None
        assert profile.steady.samples in (None, 5)
        assert profile.steady.step_cycles == 20 + 10 + 5 + 100  # bytes of both, the latency, the superstep
        return profile.summary(width=200)

    assert ": 37,037 items a second. A step is a run of jit_step (5 items); 10 ran." in summary("f32[5,1]", "s16[5]")
    assert "items" not in summary("f32[5,1]", "s32[2]")


def test_a_program_that_each_run_loads_anew_has_no_steady_state(host: Host) -> None:
    begin = begin_history(host.system)
    longer, other = program(superstep(500), name="jit_step"), program(superstep(5), name="jit_loss")
    for _ in range(20):
        host.run(longer)
        host.run(other)
    profile = profile_between(host.system, host.start, host.system.mark(), history=history_since(host.system, begin))
    assert profile.programs[0].loads == 20
    assert profile.steady is None
    assert "once warm" not in profile.summary()
    assert all(finding.kind != "set-up" for finding in profile.findings)


@pytest.mark.parametrize("every", [None, 4, 2])
def test_what_runs_between_steps_is_told_apart_from_them(host: Host, every: int | None) -> None:
    """Also where it comes so often that half of the steps load their program."""
    begin = begin_history(host.system)
    step, other = program(superstep(500), name="jit_step"), program(superstep(5), name="jit_loss")
    for number in range(40):
        host.run(step)
        if every is not None and number % every == every - 1:
            host.run(other)
    steady = profile_between(host.system, host.start, host.system.mark(), history=history_since(host.system, begin)).steady
    assert steady is not None
    assert (steady.between_share is not None) == (every is not None)
    assert (" of it for other programs between steps and their loads" in steady.text(1e6)) == (every is not None)
    if steady.between_share is not None:
        assert steady.step_cycles * (1 - steady.between_share) == pytest.approx(521, rel=0.1)


@pytest.mark.parametrize("evicted", [True, False])
def test_a_step_of_a_pipeline_that_other_programs_evict_is_told_with_its_loads(host: Host, evicted: bool) -> None:
    begin = begin_history(host.system)
    stage, other = program(superstep(500), name="jit_stage"), program(superstep(5), name="jit_loss")
    for step in range(20):
        host.run(stage, group=("pipeline 1", step))
        if evicted:
            host.run(other)
    profile = profile_between(host.system, host.start, host.system.mark(), history=history_since(host.system, begin))
    assert profile.steady is not None
    assert profile.steady.reloads == evicted
    assert (" with the loads of its programs, which other programs evict, set-up " in profile.steady.text(1e6)) == evicted
    assert (" once warm, set-up " in profile.steady.text(1e6)) != evicted
    if evicted:
        assert profile.steady.step_cycles == pytest.approx(profile.emulated_cycles / 20, rel=0.1)


@pytest.mark.parametrize("evaluated", [True, False])
def test_an_evaluation_behind_the_steps_is_not_said_to_be_set_up(host: Host, evaluated: bool) -> None:
    begin = begin_history(host.system)
    state = host.put(BIG)
    step = program(superstep(80), name="jit_step", takes=(BIG,), gives=(BIG,), donates={0: 0})
    for _ in range(12):
        [state] = host.run(step, state)
    if evaluated:
        host.run(program(superstep(5), name="jit_score"))
    profile = profile_between(host.system, host.start, host.system.mark(), history=history_since(host.system, begin))
    [finding] = [finding for finding in profile.findings if finding.kind == "set-up"]
    assert finding.text.startswith("Set-up and other programs took ") == finding.text.endswith(", if they come no more often.") == evaluated
    assert re.match("Set-up took .* once,", finding.text) is None or not evaluated
    assert (" once warm, set-up and other programs " in profile.summary()) == evaluated


def test_what_does_not_fit_comes_first() -> None:
    profile = trained(replace(STEP, memory=replace(STEP.memory, peak_bytes=1200, resident_bytes=1190)), 20)
    assert (profile.findings[0].kind, profile.findings[0].urgent) == ("memory", True)


@pytest.mark.parametrize("used_again", [True, False])
def test_an_argument_is_donated_as_a_whole_only_if_nothing_of_it_is_used_again(used_again: bool) -> None:
    tree = program(superstep(5), name="jit_step", takes=(BIG, 30, 4), gives=(BIG,))
    names = ("p['w']", "p['table']", "x")
    tree = replace(tree, arguments=tuple(replace(a, name=name) for a, name in zip(tree.arguments, names, strict=True)))
    host = Host()
    begin = begin_history(host.system)
    state, table = host.put(BIG), host.put(30)
    for _ in range(20):
        before, (state,) = state, host.run(tree, state, table, host.put(4))
        host.system.forget(before)
        table = table if used_again else host.put(30)
    profile = profile_between(host.system, host.start, host.system.mark(), history=history_since(host.system, begin))
    finding = next(finding for finding in profile.findings if finding.kind == "donation")
    assert finding.edit == ("donate p['w'] as an argument of its own" if used_again else "donate p")
    assert ("p cannot be donated as a whole, because other parts are used again or come twice" in finding.text) == used_again


@pytest.mark.parametrize("state_every", [0, 4])
@pytest.mark.parametrize("donates", [None, {0: 0}])
def test_fewer_calls_take_as_long_as_a_host_program_that_makes_fewer(donates: dict[int, int] | None, state_every: int) -> None:
    """Dispatches, transfers and reads of the calls that are left out are spared."""
    small, large = (
        program(superstep(50 * size), name="jit_step", takes=(BIG, 30 * size), gives=(BIG, 4), donates=donates) for size in (1, 4)
    )

    def stepped(called: Program, steps: int, state_every: int) -> Profile:
        host = Host()
        begin = begin_history(host.system)
        state = host.put(BIG)
        for number in range(1, steps + 1):
            batch = host.put(called.arguments[1].size_bytes)
            before, (state, loss) = state, host.run(called, state, batch)
            for value in (loss, state) if state_every and number % state_every == 0 else (loss,):
                host.system.wait(value)
                host.system.read(value)
            for value in (before, batch, loss):
                host.system.forget(value)
        host.system.read(state)
        return profile_between(host.system, host.start, host.system.mark(), history=history_since(host.system, begin))

    many, few = stepped(small, 20, state_every), stepped(large, 5, state_every // 4)
    evidence = evidence_of(many)
    assert evidence is not None
    assert evidence.played_for(1).saved(in_fewer_calls(1, large, 4)) == many.emulated_cycles - few.emulated_cycles


def test_a_batch_is_no_state_and_never_the_same() -> None:
    step = program(superstep(5), name="jit_step", takes=(64, 4, 30), gives=(64,))
    ask = program(superstep(5), name="jit_ask", takes=(64, 30), gives=(4,))
    host = Host()
    begin = begin_history(host.system)
    state, rate = host.put(64), host.put(4)
    for _ in range(6):
        batch = host.put(30)
        host.run(ask, state, batch)
        [state] = host.run(step, state, rate, batch)
    profile = profile_between(host.system, host.start, host.system.mark(), history=history_since(host.system, begin))
    evidence = evidence_of(profile)
    assert evidence is not None
    assert {found.name: never_new(evidence, found) for found in profile.programs} == {"jit_step": {0, 1}, "jit_ask": {0}}


def test_parameters_that_are_renewed_at_few_calls_have_no_batch() -> None:
    """Also where another program evicts the one that takes them, so that nothing of it could have stayed."""
    act, split = program(superstep(5), name="jit_act", takes=(64, 4), gives=(4,)), program(superstep(5), name="jit_split")
    host = Host()
    begin = begin_history(host.system)
    for _ in range(3):
        state = host.put(64)
        for _ in range(4):
            host.run(act, state, host.put(4))
            host.run(split)
    profile = profile_between(host.system, host.start, host.system.mark(), history=history_since(host.system, begin))
    evidence = evidence_of(profile)
    assert evidence is not None
    assert {found.name: never_new(evidence, found) for found in profile.programs}["jit_act"] == {0}


@pytest.mark.parametrize("batches", [True, False])
def test_bytes_of_callbacks_are_no_arguments(batches: bool) -> None:
    """Without an argument that comes with each call nothing is said to wait for one."""
    call = HostCall(name="call", scope="", bytes_to_host=0, bytes_from_host=500)
    called = program(superstep(5), call, name="jit_step", takes=(BIG, 500), gives=(BIG,), donates={0: 0})
    called = replace(called, arguments=(called.arguments[0], replace(called.arguments[1], shape="f32[125]")))
    host = Host()
    begin = begin_history(host.system)
    state, batch = host.put(BIG), host.put(500)
    for _ in range(20):
        batch = host.put(500) if batches else batch
        [state] = host.run(called, state, batch)
    profile = profile_between(host.system, host.start, host.system.mark(), history=history_since(host.system, begin))
    found = [finding.text for finding in profile.findings if finding.kind == "streaming"]
    assert [text.partition(" callbacks")[0] for text in found] == (
        ["jit_step waits for a1 f32[125], which comes with each call (1000 B, 500 B of them by"] if batches else []
    )


@pytest.mark.parametrize(("every", "told"), [(2, False), (3, True)])
def test_what_another_program_makes_for_at_least_half_of_the_calls_comes_not_with_each_call(every: int, told: bool) -> None:
    make, step = program(superstep(5), name="jit_make", gives=(BIG,)), program(superstep(5), name="jit_step", takes=(BIG,))
    step = replace(step, arguments=(replace(step.arguments[0], shape="f32[1024]"),))
    host = Host()
    begin = begin_history(host.system)
    for number in range(24):
        host.run(step, host.put(BIG) if number % every else host.run(make)[0])
    profile = profile_between(host.system, host.start, host.system.mark(), history=history_since(host.system, begin))
    found = [finding.text for finding in profile.findings if finding.kind == "streaming"]
    assert [text.startswith("jit_step waits for a0 f32[1024], which comes with each call") for text in found] == [True] * told


@pytest.mark.parametrize("sharded_later", [True, False])
def test_programs_that_differ_in_shardings_only_are_told_so(sharded_later: bool) -> None:
    """An argument that comes from the host first, and has the program's own sharding later; other copies are told of as before."""
    text = '%x = f32[4] parameter(0), metadata={op_name="w"}\n'
    frames = (Frame(file="a.py", function="f", line=3, column=1, parent=0),)
    copies = [
        replace(program(replace(superstep(5), frame=1), name="jit_f", takes=(16,), gives=(16,), num_ipus=2), frames=frames)
        for _ in range(2)
    ]
    host = Host(2)
    begin = begin_history(host.system)
    state = [[host.put(16, ipu=ipu)] for ipu in range(2)]
    for turn in range(4):
        given = state if sharded_later else [[host.put(16, ipu=ipu)] for ipu in range(2)]
        state = host.run_on((0, 1), copies[bool(turn)], given)
    profile = profile_between(host.system, host.start, host.system.mark(), history=history_since(host.system, begin))
    sources = {found.key: Source(text=lambda: text, options=PlanOptions()) for found in profile.programs}
    [finding] = [finding for finding in replace(profile, sources=sources).findings if finding.kind == "loads"]
    assert finding.edit.startswith("put a0 with its sharding before the first call" if sharded_later else "make jit_f one program")
    assert ("of equal code: a0 came first without" in finding.text) == sharded_later


def test_a_state_that_is_used_again_later_comes_not_with_each_call(host: Host) -> None:
    called = program(superstep(5), name="jit_step", takes=(BIG,), gives=(BIG,))
    called = replace(called, arguments=(replace(called.arguments[0], shape="f32[1024]"),))
    begin = begin_history(host.system)
    states = [host.put(BIG)]
    for _ in range(10):
        states += host.run(called, states[-1])
    for state in states:
        host.system.read(state)
    profile = profile_between(host.system, host.start, host.system.mark(), history=history_since(host.system, begin))
    assert [finding for finding in profile.findings if finding.kind == "streaming"] == []


def test_findings_in_json_are_objects() -> None:
    document = json.loads(trained(STEP, 20).to_json())
    found = document["findings"][0]
    assert found["kind"] == "donation"
    assert found["headline"].startswith("donate a0: saves 99 % of a warm step, ")
    assert found["gain_share"] == found["gain_cycles"] / document["emulated_cycles"]
    assert (found["line"], found["how"], found["gain_tile_bytes"]) == (None, "within 2 %", None)
    assert found["gain_step_share"] == pytest.approx(found["gain_step_cycles"] / document["steady"]["step_cycles"])
    assert document["steady"]["steps"] == 20


@pytest.mark.parametrize(
    ("gain", "text"),
    [
        (Gain(cycles=67, share=0.67, seconds=46.2e-3, how="replayed"), "saves 67 %, 46.2 ms"),
        (Gain(cycles=67, share=0.67, seconds=46.2e-3, how="within 2 %"), "saves 67 %, 46.2 ms (within 2 %)"),
        (Gain(cycles=12, share=0.123, seconds=1, how="about", basis="as one program"), "saves about 12 %, 1.00 s (as one program)"),
        (
            Gain(cycles=22, share=0.22, seconds=0.03, step_cycles=3, step_share=0.66, step_seconds=2.95e-3, how="about"),
            "saves about 66 % of a warm step, 2.95 ms; of all 22 %, 30.0 ms",
        ),
        (
            Gain(cycles=22, share=0.22, seconds=0.03, step_cycles=0, step_share=0.0, how="replayed"),
            "saves 22 %, 30.0 ms, once: a warm step stays as it is",
        ),
        (
            Gain(cycles=22, share=0.22, seconds=0.03, step_cycles=-1, step_share=-0.1, how="replayed"),
            "saves 22 %, 30.0 ms, once: a warm step takes 10 % longer",
        ),
        (Gain(step_cycles=3, step_share=0.1, step_seconds=1, how="replayed"), "saves 10 % of a warm step, 1.00 s; of all nothing yet"),
        (Gain(tile_bytes=12288, how="about", basis="of its fullest tile"), "frees about 12.0 KiB a tile (of its fullest tile)"),
    ],
)
def test_a_gain_in_words(gain: Gain, text: str) -> None:
    assert str(gain) == text
    line = Line(file="/home/me/train.py", number=41)
    finding = Finding(kind="donation", text="...", edit="donate state", line=line, gain=gain)
    assert finding.headline == f"donate state (train.py:41): {text}"


def frame(function: str, line: int, parent: int, file: str = "/home/me/train.py") -> Frame:
    return Frame(file=file, function=function, line=line, column=1, parent=parent)


FRAMES = (
    frame("<module>", 9, 0),
    frame("step", 3, 1),
    frame("step", 4, 1),
    frame("tanh", 77, 3, "/usr/lib/python3.11/site-packages/optax/_src/x.py"),
)


def called(*numbers: int, name: str = "jit_step") -> Program:
    return replace(program(*(replace(superstep(5), frame=number) for number in numbers), name=name), frames=FRAMES)


def test_a_function_is_called_where_the_user_calls_it() -> None:
    for numbers, line in (((2, 3), 9), ((2,), 9), ((4, 4, 2), 9), ((1,), 9), ((0, 0), None), ((), None), ((2, 2, 2, 3, 0), 9)):
        found = line_of_call(called(*numbers))
        assert (None if found is None else found.number) == line, numbers


def test_a_finding_names_the_line_that_calls_its_program() -> None:
    step = replace(STEP, body=called(2, 3).body, frames=FRAMES)
    assert {str(finding.line) for finding in trained(step, 20).findings if finding.kind == "donation"} == {"train.py:9"}


def test_a_step_of_a_library_is_of_the_line_that_calls_the_library() -> None:
    found = line_of(called(4), 4)
    assert found is not None
    assert str(found) == "train.py:4"
    assert line_of(called(4), 0) is None


def test_evidence_needs_calls() -> None:
    host = Host(on=MACHINE)
    begin = begin_history(host.system)
    idle = profile_between(host.system, host.start, host.system.mark(), history=history_since(host.system, begin))
    assert evidence_of(idle) is None
    assert idle.findings == ()


def kept_away(peak_bytes: int, *, group: str = "") -> Profile:
    """A program that stops for an argument in pinned_host, on tiles that are so full without it."""
    call = HostCall(name="call", scope="", bytes_to_host=0, bytes_from_host=400, in_memory=True)
    called = program(
        superstep(5), call, name="jit_step", takes=(400,), gives=(400,), donates={0: 0}, host_arguments=(0,), host_results=(0,)
    )
    called = replace(called, memory=replace(called.memory, peak_bytes=peak_bytes))
    host = Host()
    begin = begin_history(host.system)
    away = host.put(400, on_host=True)
    for entry in range(5):
        [away] = host.run(called, away, group=(group, entry + 1) if group else None)
    return profile_between(host.system, host.start, host.system.mark(), history=history_since(host.system, begin))


def test_values_are_kept_in_the_tiles_only_where_there_is_room() -> None:
    """A quarter of 400 bytes comes on each of four tiles, of 1,000 bytes each."""
    [finding] = [finding for finding in kept_away(700).findings if finding.kind == "offload"]
    assert finding.edit == "keep a0 on the IPU"
    assert finding.text.endswith("keep it on the IPU, donated.")
    assert "would be 80 % full" in finding.text
    assert [finding for finding in kept_away(800).findings if finding.kind == "offload"] == []
    [finding] = [finding for finding in kept_away(700, group="pipeline 1").findings if finding.kind == "offload"]
    assert finding.text == (
        "The optimiser's state of program group 'pipeline 1' (400 B) is offloaded, the default on platform ipu. It fits: the fullest tile "
        "would be 80 % full with it."
    )
    assert finding.edit == "keep the optimiser's state on the IPUs (offload_optimizer_state=False)"


def test_a_line_of_a_notebook_is_said_to_be_of_a_cell() -> None:
    assert str(Line(file="/tmp/ipykernel_17/1999190837.py", number=8)) == "line 8 of a cell"
    assert str(Line(file="/home/me/ipykernel.py", number=8)) == "ipykernel.py:8"


def two_faults(*, donates: bool, returns: bool, steps: int = 20) -> Profile:
    """Steps on a state that comes again at each call, and a result that nobody reads."""
    called = program(
        superstep(50), name="jit_step", takes=(BIG, 30), gives=(BIG, *([BIG // 2] if returns else [])), donates={0: 0} if donates else None
    )
    host = Host()
    begin = begin_history(host.system)
    state = host.put(BIG)
    for _ in range(steps):
        before, (state, *rest) = state, host.run(called, state, host.put(30))
        for value in (before, *rest):
            host.system.forget(value)
    return profile_between(host.system, host.start, host.system.mark(), history=history_since(host.system, begin))


def test_findings_that_are_all_followed_save_what_is_told_of_them_together() -> None:
    before, after = two_faults(donates=False, returns=True), two_faults(donates=True, returns=False)
    first = [finding for finding in before.findings if finding.part == "first"]
    together = before.together
    assert together is not None
    assert [finding.kind for finding in first] == ["donation", "results"]
    assert (together.numbers, together.left) == ((1, 2), ())
    assert together.gain.cycles == before.emulated_cycles - after.emulated_cycles
    assert before.steady is not None
    assert after.steady is not None
    assert together.gain.step_cycles == before.steady.step_cycles - after.steady.step_cycles
    assert before.as_document()["together"] == {
        "gain_cycles": together.gain.cycles,
        "gain_share": together.gain.share,
        "gain_step_cycles": together.gain.step_cycles,
        "gain_step_share": together.gain.step_share,
        "gain_after": [],
        "gain_after_share": None,
        "gain_tile_bytes": None,
        "how": "about",
        "basis": "",
        "numbers": [1, 2],
        "left": [],
        "why": [],
    }
    told = before.summary()
    assert "All together (1, 2, played one after the other): saves about " in told
    assert "Not in it" not in told


def test_an_edit_that_is_not_played_with_the_others_says_why() -> None:
    profile = two_faults(donates=False, returns=True)
    evidence = evidence_of(profile)
    lines = [Line(file="/home/me/train.py", number=number) for number in (1, 2, 3)]
    [donate], [leave] = donation(profile, evidence), results(profile, evidence)
    found = zip((donate, leave, donate, donate), (*lines[:2], lines[0], lines[2]), strict=True)
    placed = [replace(each, finding=replace(each.finding, line=line)) for each, line in found]
    told = ranked(placed, evidence)
    assert told.together is not None
    left = dict(zip(told.together.left, told.together.why, strict=True))
    assert {told.findings[number - 1].line: why for number, why in left.items()} == {lines[0]: "same line", lines[2]: "not played"}
    text = render(profile, told.findings, None, together=told.together, width=120, color=False)
    shown = {why: number for number, why in left.items()}
    assert f"  Not in it: {shown['same line']}, another edit at a line that one of them changes\n" in text
    assert f"  Not in it: {shown['not played']}, which cannot be played with them\n" in text


@pytest.mark.parametrize("warm_only", ["results", "left"])
def test_of_all_together_a_warm_step_alone_is_known_if_that_is_so_of_one_that_is_in_it(warm_only: str) -> None:
    profile = two_faults(donates=False, returns=True)
    evidence = evidence_of(profile)
    [donate], [leave] = donation(profile, evidence), results(profile, evidence)
    found = {"donation": donate, "results": leave, "left": donate}  # an argument is not donated twice
    found[warm_only] = replace(found[warm_only], ways=(replace(found[warm_only].ways[0], warm_only=True),))
    assert profile.steady is not None
    told = ranked(list(found.values()), evidence, starts=profile.steady.starts)
    assert told.together is not None
    assert (told.together.numbers, told.together.why) == ((1, 3), ("not played",))
    assert told.together.gain.step_cycles
    assert told.together.gain.warm_only == (told.together.gain.cycles == 0) == (warm_only == "results")


@pytest.mark.parametrize("spoils", [True, False])
def test_an_edit_that_makes_the_best_one_impossible_is_left_and_all_together_save_no_less_than_one(spoils: bool) -> None:
    profile = two_faults(donates=False, returns=True)
    evidence = evidence_of(profile)
    assert evidence is not None
    [donate], [leave] = donation(profile, evidence), results(profile, evidence)
    [key], [program_before] = evidence.programs.keys(), evidence.programs.values()
    quicker = replace(program_before, body=Series(nodes=(superstep(40),)))

    def donated(script: Script) -> Script:
        if spoils and script.programs[key] == quicker:
            raise ValueError("there is no such argument any more")
        return donate.ways[0].change(script)

    first = replace(donate, ways=(replace(donate.ways[0], change=donated),))
    way = Way(edit="plan again", change=lambda script: script.with_programs({key: quicker}), how="replayed", plans=True)
    planned = Proposal(finding=Finding(kind="steps", text="The steps are short."), ways=(way,), least_share=0)
    told = ranked([first, leave, planned], evidence, all=True)
    assert [finding.kind for finding in told.findings] == ["donation", "results", "steps"]
    assert told.together is not None
    assert all(finding.gain is None or finding.gain.cycles <= told.together.gain.cycles for finding in told.findings)
    assert told.together.numbers == ((1, 2) if spoils else (1, 2, 3))
    assert (told.together.left, told.together.why) == (((3,), ("saves nothing",)) if spoils else ((), ()))


def test_reasons_are_told_once_for_all_findings_that_have_them() -> None:
    left = [(3, "saves nothing"), (5, "same line"), (4, "saves nothing"), (6, "saves nothing"), (7, "a new reason"), (8, "same line")]
    assert left_texts(left) == [
        "3, 4 and 6, which save nothing beside them",
        "5 and 8, other edits at lines that they change",
        "7, which cannot be played with them or saves nothing beside them",
    ]
    assert left_texts([(number, "not played") for number in (2, 3, 4)]) == ["2 to 4, which cannot be played with them"]
    assert left_texts([]) == []


def test_one_finding_alone_is_not_told_of_together() -> None:
    profile = two_faults(donates=True, returns=True)
    assert [finding.kind for finding in profile.findings if finding.part == "first"] == ["results"]
    assert profile.together is None
    assert "All together" not in profile.summary()


def called_in_turn(*programs: Program, times: int) -> Profile:
    host = Host()
    begin = begin_history(host.system)
    for _ in range(times):
        for each in programs:
            host.run(each)
    return profile_between(host.system, host.start, host.system.mark(), history=history_since(host.system, begin))


def test_a_first_load_is_a_fixed_cost_and_loads_by_turns_are_not() -> None:
    first, second = (program(superstep(5), name=name) for name in ("jit_f", "jit_g"))
    alone = called_in_turn(first, times=3)
    [fixed] = [finding for finding in alone.findings if finding.kind == "fixed"]
    assert (fixed.part, fixed.gain, fixed.unknown, fixed.edit) == ("fixed", None, "", "")
    assert "a program is loaded once and pays for it by running often" in fixed.text
    assert not [finding for finding in alone.findings if finding.kind == "loads"]
    assert "Fixed costs" in alone.summary()
    by_turns = called_in_turn(first, second, times=3)
    [loads] = [finding for finding in by_turns.findings if finding.kind == "loads"]
    assert loads.part == "first"
    assert loads.gain is not None
    assert not [finding for finding in by_turns.findings if finding.kind == "fixed"]


def of_single_operations(*operations: Program, by_turns_with: Program | None = None) -> list[str]:
    """The edits that spare loads of JAX's own programs, each on as many IPUs as it has."""
    host = Host(2)
    begin = begin_history(host.system)
    for _ in range(20):
        for each in (*operations, *([] if by_turns_with is None else [by_turns_with])):
            arguments = [[host.put(argument.size_bytes, ipu=ipu) for argument in each.arguments] for ipu in range(each.num_ipus)]
            host.run_on(tuple(range(each.num_ipus)), each, arguments)
    profile = profile_between(
        host.system,
        host.start,
        host.system.mark(),
        of_jax=lambda name: name.startswith("jax"),
        history=history_since(host.system, begin),
    )
    found = [finding for finding in profile.findings if finding.kind == "loads"]
    return [edit for finding in found for edit in (finding.edit, *(other.edit for other in finding.others))]


def test_three_of_the_programs_that_would_be_one_are_named() -> None:
    operations = [program(superstep(5), name=f"jax{number}") for number in range(3)]
    edits = of_single_operations(*operations, by_turns_with=program(superstep(5), name="jit_f"))
    assert edits[0] == "put jit_f, jax0, jax1 and 1 more into one jitted function"


@pytest.mark.parametrize(("num_ipus", "movable"), [(1, True), (2, False)])
def test_a_single_operation_that_makes_an_array_of_several_ipus_stays_on_them(num_ipus: int, movable: bool) -> None:
    """It has no argument that the host could read in its place."""
    made = [program(superstep(5), name=f"jax{number}", gives=(4,), num_ipus=num_ipus) for number in range(2)]
    assert any("jax.default_device" in edit for edit in of_single_operations(*made)) == movable


@pytest.mark.parametrize("waits", [True, False])
def test_loads_of_another_ipu_than_the_busiest_are_told_where_an_edit_spares_time(waits: bool) -> None:
    """IPU 0 steps for long, and waits for two programs that evict each other on IPU 1, or does not."""
    step, first, second = (
        program(superstep(work), name=f"jit_{name}", takes=(4,), gives=(4,)) for work, name in ((600, "s"), (5, "f"), (5, "g"))
    )
    host = Host(2)
    begin = begin_history(host.system)
    here, there = host.put(4), host.put(4, ipu=1)
    for _ in range(10):
        [here] = host.run(step, here)
        [there] = host.run(second, *host.run(first, host.copy(here, ipu=1) if waits else there, ipu=1), ipu=1)
        here = host.copy(there) if waits else here
    profile = profile_between(host.system, host.start, host.system.mark(), history=history_since(host.system, begin))
    [elsewhere] = profile.loaded_elsewhere
    loads = sum(found.cycles.load for found in profile.programs if found.name != "jit_s")
    assert loads >= 20 * LOADED
    assert (profile.busiest_ipu, elsewhere.ipu, elsewhere.load_cycles, elsewhere.save_cycles) == (0, 1, loads, 0)
    assert [profile.label(key) for key in elsewhere.keys] == ["jit_f", "jit_g"]
    found = [finding for finding in profile.findings if finding.kind == "loads"]
    assert len(found) == waits
    if waits:
        share = share_text(loads, profile.emulated_cycles)
        assert found[0].text.startswith(
            f"20 program loads on IPU 1 took {share} of emulated time, though it is not the busiest, all of jitted functions: "
        )
        gains = [found[0].gain, *(other.gain for other in found[0].others)]
        assert all(gain is not None and gain.cycles > 8 * LOADED for gain in gains)
    assert not [finding for finding in replace(profile, history=None).findings if finding.kind == "loads"]  # nobody knows whether it pays


def test_a_gain_of_the_last_runs_is_of_as_many_runs_as_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """Long set-up lies before the runs that are played, and nothing of it is saved."""
    slow = replace(STEP, memory=replace(STEP.memory, code_bytes=200))

    def set_up_and_trained() -> Profile:
        host = Host()
        begin = begin_history(host.system)
        for number in range(20):
            host.run(program(superstep(3000), name=f"jit_init{number}"))
        state = host.put(BIG)
        for _ in range(100):
            before, (state, loss) = state, host.run(slow, state, host.put(30))
            host.system.forget(before)
            host.system.forget(loss)
        return profile_between(host.system, host.start, host.system.mark(), history=history_since(host.system, begin))

    [whole] = [finding.gain for finding in set_up_and_trained().findings if finding.kind == "donation"]
    monkeypatch.setattr(evidence_module, "MOST_PLAYED", 6000)
    [last] = [finding.gain for finding in set_up_and_trained().findings if finding.kind == "donation"]
    assert whole is not None
    assert last is not None
    assert last.basis.startswith("of the last ")
    assert last.cycles == pytest.approx(whole.cycles, rel=0.25)


def test_the_bound_on_work_counts_all_replays(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of each way by itself, and those of one way of each finding behind the others."""
    profile = two_faults(donates=True, returns=False)
    evidence, played_for = evidence_of(profile), Evidence.played_for
    asked: list[int] = []

    def noted(evidence: Evidence, changes: int) -> Played:
        asked.append(changes)
        return played_for(evidence, changes)

    monkeypatch.setattr(Evidence, "played_for", noted)
    one = Way(edit="", change=lambda script: script, how="replayed")
    two = Proposal(finding=Finding(kind="reads", text=""), ways=(one, one))
    ranked([two, replace(two, ways=(one,)), replace(two, ways=())], evidence)
    assert asked == [(2 + 1) + 2]


def test_as_many_of_the_last_runs_are_played_as_the_bound_on_work_allows() -> None:
    evidence = evidence_of(trained(STEP, 20))
    assert evidence is not None
    fifth_last = evidence.runs_of(evidence.dispatches[0].key)[-5]
    work = work_of(evidence.calls[fifth_last:])
    told = [evidence.played_for(1, most=3 * allowed).basis for allowed in (work - 1, work)]
    assert told == ["of the last 4 of 20 runs", "of the last 5 of 20 runs"]


def test_a_share_of_a_step_is_of_the_step_that_is_told() -> None:
    """What is played for a gain may be shorter than that, as where the host waits; of a longer one it is the same share."""
    profile = trained(STEP, 20)
    evidence, steady = evidence_of(profile), profile.steady
    assert steady is not None

    def share(step_cycles: float) -> float | None:
        [donate] = ranked(list(donation(profile, evidence)), evidence, starts=steady.starts, step_cycles=step_cycles).findings
        return None if donate.gain is None else donate.gain.step_share

    whole, of_a_longer_one = share(steady.step_cycles), share(2 * steady.step_cycles)
    assert whole is not None
    assert of_a_longer_one == whole / 2
    assert share(steady.step_cycles / 2) == pytest.approx(whole, abs=0.02)
