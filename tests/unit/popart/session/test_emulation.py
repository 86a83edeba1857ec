"""The machine of a session: what its programs take there, what stays on the device, reports, and what does not fit."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AbstractMesh, NamedSharding
from jax.sharding import PartitionSpec as P

from tilestep import open_report
from tilestep.errors import SettingsError
from tilestep.machine import MachineSpec, load_machine
from tilestep.options import PlanOptions
from tilestep.popart.exceptions import OutOfMemoryException, popart_runtime_error
from tilestep.popart.session.emulation import Emulation, EmulationOptions, Kept, emulation_options
from tilestep.popart.session.emulation import options as emulation_settings

SIZE = 64
W = jax.ShapeDtypeStruct((SIZE, SIZE), np.float32)
X = jax.ShapeDtypeStruct((8, SIZE), np.float32)
W_BYTES, X_BYTES = SIZE * SIZE * 4, 8 * SIZE * 4
STATE = Kept(argument=0, result=0)


def machine(tiles: int = 32, ipus: int = 1) -> MachineSpec:
    return load_machine("m2000", num_ipus=ipus, num_tiles=tiles)


def train(state: Any, x: Any) -> tuple[Any, Any]:
    y = x @ state["w"]
    return {"w": state["w"] - 0.1 * x.T @ y}, y


def infer(state: Any, x: Any) -> Any:
    return x @ state["w"]


def training(on: MachineSpec | None = None, **options: Any) -> Emulation:
    emulation = Emulation(on or machine(), name="training", options=EmulationOptions(**options))
    emulation.prepare("run", jax.jit(train), ({"w": W}, X), kept=[STATE])
    return emulation


def kinds_of(emulation: Emulation, run: int) -> dict[str, int]:
    """Cycles of one run by kind."""
    (on_ipu,) = emulation.report().execution.runs[run].ipus
    found: dict[str, int] = {}
    for event in on_ipu.events:
        found[event.kind] = found.get(event.kind, 0) + event.cycles_to - event.cycles_from
    return found


def test_weights_stay_on_the_device_and_inputs_come_with_each_call() -> None:
    emulation = training(engine=emulation_options({"autoReport.executionProfileProgramRunCount": "9"}).engine)
    emulation.weights_from_host()
    emulation.ran("run", times=3)
    program = next(p for p in emulation.report().profile["programs"] if p["name"] == "run")
    assert (program["host_bytes_in"], program["host_bytes_out"]) == (X_BYTES, X_BYTES)
    first, last = kinds_of(emulation, 1), kinds_of(emulation, 3)
    assert first.pop("load") > 0  # its code, once
    assert first == last


def test_a_weight_that_is_only_read_stays_as_well() -> None:
    emulation = Emulation(machine(), name="inference")
    emulation.prepare("run", jax.jit(infer), ({"w": W}, X), kept=[Kept(argument=0)])
    emulation.weights_from_host()
    emulation.ran("run", times=3)
    program = next(p for p in emulation.report().profile["programs"] if p["name"] == "run")
    assert (program["host_bytes_in"], program["host_bytes_out"]) == (X_BYTES, X_BYTES)


def test_without_the_host_sending_weights_they_come_with_the_first_call_alone() -> None:
    emulation = training()
    emulation.ran("run", times=2)
    first, second = kinds_of(emulation, 0), kinds_of(emulation, 1)
    assert first["stream-in"] > second["stream-in"]


def test_the_host_reads_weights_once_for_each_update() -> None:
    emulation = training()
    emulation.weights_from_host()
    emulation.ran("run")
    before = emulation.total_cycles()
    emulation.weights_to_host()
    read = emulation.total_cycles()
    emulation.weights_to_host()
    assert before < read == emulation.total_cycles()


def test_only_chosen_arrays_come_from_the_host() -> None:
    emulation = Emulation(machine(), name="training")
    state = {"w": W, "rate": jax.ShapeDtypeStruct((), np.float32)}
    step = jax.jit(lambda state, x: ({**train(state, x)[0], "rate": state["rate"]}, x.sum()))
    emulation.prepare("run", step, (state, X), kept=[STATE])
    emulation.weights_from_host()
    emulation.ran("run")
    emulation.weights_from_host(lambda path: path == "state['rate']")
    emulation.ran("run")
    sent = [run.program for run in emulation.report().execution.runs if run.name == "weightsFromHost"]
    assert [[argument.size_bytes for argument in program.planned.arguments] for program in sent] == [[4, W_BYTES], [4]]


def test_programs_of_a_session_share_its_arrays_and_nothing_is_loaded_between_them() -> None:
    emulation = training()
    emulation.prepare("check", jax.jit(infer), ({"w": W}, X), kept=[Kept(argument=0)])
    emulation.weights_from_host()
    emulation.ran("run")
    emulation.ran("check")
    emulation.ran("run")
    emulation.ran("check")
    third, fourth = kinds_of(emulation, 3), kinds_of(emulation, 4)
    assert not {*third, *fourth} & {"load", "save"}
    assert fourth["stream-in"] == third["stream-in"]  # x alone


def test_a_call_of_several_programs_is_one_launch() -> None:
    one, two = training(), training()
    one.ran("run", "run")
    two.ran("run", times=2)
    assert one.inner_cycles() == 2 * two.inner_cycles()
    assert one.total_cycles() < two.total_cycles()


def test_cycles_are_those_of_the_last_call() -> None:
    emulation = training()
    with pytest.raises(popart_runtime_error, match=r"^Must call run before getCycleCount"):
        emulation.cycles()
    emulation.weights_from_host()
    emulation.ran("run")
    first = emulation.cycles()
    emulation.weights_to_host()
    assert emulation.cycles() == first
    emulation.ran("run", times=5)
    assert emulation.cycles() == first  # loading is no part of it
    assert 0 < emulation.inner_cycles() < first
    kinds = kinds_of(emulation, -1)
    assert first == sum(cycles for kind, cycles in kinds.items() if kind not in ("load", "save", "read"))


def test_equal_calls_in_a_row_have_the_figures_that_each_by_itself_would_have() -> None:
    def figures(*, one_by_one: bool) -> tuple[int, ...]:
        emulation = training()
        emulation.weights_from_host()
        for times in [1] * 40 if one_by_one else [40]:
            emulation.ran("run", times=times)
            emulation.total_cycles()
        emulation.weights_to_host()
        emulation.ran("run")
        cycles, total = emulation.cycles(), emulation.total_cycles()
        played = emulation._live.system.mark()
        return cycles, total, played.dispatches, sum(program.runs for program in played.programs.values())

    one_by_one = figures(one_by_one=True)
    assert figures(one_by_one=False) == one_by_one
    assert one_by_one[3] == 42  # one takes the weights


def test_sessions_of_one_process_have_machines_of_their_own() -> None:
    small, large = training(machine(4)), training(machine(400))
    for emulation in (small, large):
        emulation.ran("run")
    assert small.inner_cycles() > large.inner_cycles()
    assert (small.report().target.machine.ipu.num_tiles, large.report().target.machine.ipu.num_tiles) == (4, 400)


def test_a_program_over_three_ipus_of_20_tiles() -> None:
    mesh = AbstractMesh((3,), ("replicas",))

    def step(w: Any, x: Any) -> tuple[Any, Any]:
        y = x @ w
        return w - jax.lax.psum(x.T @ y, "replicas"), y

    sharded = jax.shard_map(step, mesh=mesh, in_specs=(P(), P("replicas")), out_specs=(P(), P("replicas")), check_vma=False)
    w = jax.ShapeDtypeStruct(W.shape, W.dtype, sharding=NamedSharding(mesh, P()))
    x = jax.ShapeDtypeStruct((24, SIZE), X.dtype, sharding=NamedSharding(mesh, P("replicas")))
    emulation = Emulation(machine(20, 3), name="training")
    emulation.prepare("run", jax.jit(sharded), (w, x), kept=[STATE])
    emulation.weights_from_host()
    emulation.ran("run")
    emulation.weights_to_host()
    assert emulation.report().execution.runs[-1].ipu_numbers == (0, 1, 2)
    assert emulation.inner_cycles(0) == emulation.inner_cycles(2) > 0
    with pytest.raises(ValueError, match=r"'run' is for 3 IPUs; m2000 has 1"):
        Emulation(machine(20), name="training").prepare("run", jax.jit(sharded), (w, x))


def test_inputs_that_a_program_loops_over_are_in_the_tiles_one_by_one() -> None:
    batches = 50
    many = jax.ShapeDtypeStruct((batches, *X.shape), X.dtype)

    def steps(state: Any, xs: Any) -> Any:
        return jax.lax.scan(train, state, xs)

    peaks: list[int] = []
    for in_slices in (False, True):
        emulation = Emulation(machine(4), name="training")
        emulation.prepare("run", jax.jit(steps), ({"w": W}, many), kept=[STATE], in_slices=in_slices)
        emulation.weights_from_host()
        emulation.ran("run")
        (program,) = [program for program in emulation.report().compilation.programs if program.name == "run"]
        peaks.append(program.planned.memory.peak_bytes)
        assert emulation.cycles() > 0
    assert peaks[0] - peaks[1] > (batches - 3) * (X_BYTES + X_BYTES) / 4  # inputs and results


def test_an_unused_input_that_a_result_replaces_stays_on_the_device() -> None:
    emulation = Emulation(machine(), name="training")
    emulation.prepare("run", jax.jit(lambda state, x: (x * 2, x.sum())), (X, X), kept=[STATE])
    emulation.ran("run", times=2)
    program = next(p for p in emulation.report().profile["programs"] if p["name"] == "run")
    assert (program["host_bytes_in"], program["host_bytes_out"]) == (X_BYTES, 4)


def test_random_keys_stay_on_the_device() -> None:
    emulation = Emulation(machine(), name="training")
    key = jax.eval_shape(lambda: jax.random.key(0))
    emulation.prepare("run", jax.jit(lambda key, x: (jax.random.fold_in(key, 1), jax.random.bits(key) + x)), (key, X), kept=[STATE])
    emulation.weights_from_host()
    emulation.ran("run")
    emulation.weights_to_host()
    assert emulation.cycles() > 0


@pytest.mark.parametrize(
    ("kept", "message"),
    [
        (Kept(argument=2), "argument 2 does not exist: the program has 2"),
        (Kept(argument=0, result=3), "result 3 does not exist: the program has 2"),
        (Kept(argument=0, result=1), r"no result replaces \"state\['w'\]\""),
        (Kept(argument=1, result=1), r"'state' is float32\[8, 64\], and its result is float16\[8, 64\]"),
    ],
)
def test_what_stays_must_have_a_result_like_it(kept: Kept, message: str) -> None:
    emulation = Emulation(machine(), name="training")
    step = jax.jit(lambda state, x: (state, x.astype(jnp.float16)))
    with pytest.raises(ValueError, match=message):
        emulation.prepare("run", step, ({"w": W}, X), kept=[kept])


def test_a_program_that_was_not_prepared_cannot_run() -> None:
    with pytest.raises(ValueError, match="program 'ruun' was not prepared; the nearest that was is 'run'"):
        training().ran("ruun")


# --------------------------------------------------------------------------------------------------------------- reports


def test_a_report_has_programs_before_they_run_and_runs_by_their_names() -> None:
    emulation = training()
    report = emulation.report()
    assert report.parts == ("compilation",)
    assert [program.name for program in report.compilation.programs] == ["run"]
    assert "run" in emulation.summary()
    emulation.ran("run", name="Test message")
    emulation.ran("run")
    assert [run.name for run in emulation.report().execution.runs] == ["Test message", "run"]
    assert "2 program runs" in emulation.summary()


def test_a_program_takes_the_place_of_one_with_its_label() -> None:
    emulation = training()
    emulation.prepare("run", jax.jit(infer), ({"w": W}, X), kept=[Kept(argument=0)])
    assert len(emulation.report().compilation.programs) == 1
    emulation.ran("run")
    emulation.prepare("run", jax.jit(train), ({"w": W}, X), kept=[STATE])
    emulation.ran("run")
    assert [len(run.program.planned.results) for run in emulation.report().execution.runs] == [2, 2]
    assert len(emulation.report().compilation.programs) == 2  # that of the first call is still in the report


def test_a_profile_that_is_reset_counts_from_there() -> None:
    emulation = training()
    emulation.ran("run", times=2)
    emulation.reset_profile()
    emulation.ran("run")
    (run,) = emulation.report().execution.runs
    assert [event.kind for event in run.ipus[0].events if event.kind in ("load", "save")] == []
    assert run.cycles == emulation.cycles()


def test_reports_are_written_when_the_session_is_gone(tmp_path: Path) -> None:
    emulation = Emulation(machine(), name="inference", options=reports_in(tmp_path))
    emulation.prepare("run", jax.jit(infer), ({"w": W}, X), kept=[Kept(argument=0)])
    emulation.ran("run", name="a call")
    path, cycles = Path(emulation.profile_path), emulation.total_cycles()
    assert path == tmp_path / "inference" / "run.tilestep"
    assert [each.name.split("-")[0] for each in (tmp_path / "inference" / "programs").iterdir()] == ["run"]
    assert not path.exists()
    del emulation
    gc.collect()
    report = open_report(path)
    assert report.execution.total_cycles.total == cycles
    assert [run.name for run in report.in_full().execution.runs] == ["a call"]
    assert {each.name for each in path.parent.iterdir()} == {"report.html", "run.tilestep", "profile.json", "summary.txt", "programs"}


def test_a_second_run_of_a_program_writes_over_the_recordings_of_the_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for calls in ([2, 1], [3]):
        monkeypatch.setattr(emulation_settings, "_taken", set())  # of another process
        sessions = [Emulation(machine(), name="inference", options=reports_in(tmp_path)) for _ in calls]
        for emulation, number in zip(sessions, calls, strict=True):
            emulation.prepare("run", jax.jit(infer), ({"w": W}, X), kept=[Kept(argument=0)])
            for _ in range(number):
                emulation.ran("run")
            emulation.close()
    runs = {each.name: len(open_report(each).in_full().execution.runs) for each in tmp_path.iterdir()}
    assert runs == {"inference": 3, "inference-2": 1}, "the same session has the same folder"


def reports_in(directory: Path) -> EmulationOptions:
    return emulation_options({"autoReport.all": "true", "autoReport.directory": str(directory)})


def test_nothing_is_written_unless_it_is_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    emulation = training()
    emulation.ran("run")
    assert emulation.profile_path == ""
    emulation.close()
    assert list(tmp_path.iterdir()) == []


def test_what_a_program_states_goes_before_the_variable(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("POPLAR_ENGINE_OPTIONS", '{"autoReport.directory":"/elsewhere","debug.allowOutOfMemory":"true"}')
    options = emulation_options({"autoReport.directory": str(tmp_path)})
    assert options.engine.directory == tmp_path
    assert options.allow_out_of_memory
    monkeypatch.setenv("POPLAR_ENGINE_OPTIONS", "{}")
    assert not emulation_options({"debug.allowOutOfMemory": "true"}).allow_out_of_memory
    with pytest.raises(SettingsError, match=r"^the program's engine options has 'autoReport.al'"):
        emulation_options({"autoReport.al": "true"})


# --------------------------------------------------------------------------------------------------------- out of memory


def large(x: Any) -> Any:
    return jnp.tanh(x @ x) @ x


TOO_LARGE = (jax.ShapeDtypeStruct((2048, 2048), np.float32),)


def test_a_program_that_does_not_fit_says_so_and_where_its_report_is(tmp_path: Path) -> None:
    options = emulation_options({"autoReport.directory": str(tmp_path), "autoReport.outputGraphProfile": "true"})
    emulation = Emulation(machine(4), name="inference", options=options)
    with pytest.raises(OutOfMemoryException, match=r"^Out of memory: Cannot fit all variable data onto one or more tiles: tile ") as raised:
        emulation.prepare("run", jax.jit(large), TOO_LARGE)
    path = Path(raised.value.getProfilePath())
    assert path.is_relative_to(tmp_path / "inference")
    assert open_report(path).compilation.programs[0].name == "run"
    assert "dot_general" in raised.value.getSummaryReport()


@pytest.mark.parametrize(("rows", "reported"), [(1 << 22, True), (1 << 29, True), (1 << 31, False)])  # 2**46, 2**60 and 2**64 bytes
def test_a_program_of_any_size_is_out_of_memory(rows: int, reported: bool, tmp_path: Path) -> None:
    options = emulation_options({"autoReport.directory": str(tmp_path), "autoReport.outputGraphProfile": "true"})
    emulation = Emulation(machine(4), name="inference", options=options)
    with pytest.raises(OutOfMemoryException, match="Cannot fit all variable data") as raised:
        emulation.prepare("run", jax.jit(lambda x: x + 1), (jax.ShapeDtypeStruct((rows, rows), np.float32),))
    path = raised.value.getProfilePath()
    assert bool(path) == reported  # what XLA cannot count has no plan
    if path:
        assert open_report(Path(path)).compilation.programs[0].memory.peak.total_bytes > rows * rows  # a quarter of 4 B each, and code


def test_without_a_place_for_reports_the_exception_has_the_summary_alone() -> None:
    with pytest.raises(OutOfMemoryException) as raised:
        Emulation(machine(4), name="inference").prepare("run", jax.jit(large), TOO_LARGE)
    assert raised.value.getProfilePath() == ""
    assert raised.value.getSummaryReport()


def test_the_variable_lets_it_run_all_the_same() -> None:
    emulation = Emulation(machine(4), name="inference", options=EmulationOptions(allow_out_of_memory=True))
    emulation.prepare("run", jax.jit(large), TOO_LARGE)
    emulation.ran("run")
    assert emulation.cycles() > 0


def test_options_of_plans_count() -> None:
    halves = (jax.ShapeDtypeStruct((256, 256), np.float16),) * 2
    cycles: list[int] = []
    for partials in ("float", "half"):
        emulation = Emulation(machine(), name="inference", options=EmulationOptions(plan=PlanOptions(partials_type=partials)))
        emulation.prepare("run", jax.jit(lambda x, y: x @ y), halves)
        emulation.ran("run")
        cycles.append(emulation.inner_cycles())
    assert cycles[0] > cycles[1]
