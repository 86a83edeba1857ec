"""The emulated machine of a session: figures, reports, memory."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.processes import run_python
from tests.unit.popart.session.emulation.models import Chain, emulated, off_chip, one_stage, options
from tests.unit.popart.session.models import run
from tilestep import popart
from tilestep.errors import SettingsError
from tilestep.figures.reader import open_report
from tilestep.options import PlanOptions
from tilestep.popart.exceptions import OutOfMemoryException
from tilestep.popart.session.emulation import EmulationOptions, emulation_options
from tilestep.popart.session.emulation.session_machine import summary, watched_sessions

PLAIN = Chain(ipus=range(2))
ACCUMULATING = options(accumulation=4)


def test_a_session_that_does_not_fit_says_what_takes_the_memory() -> None:
    chain = Chain(ipus=range(2), width=512, rows=64)
    with pytest.raises(OutOfMemoryException, match="Cannot fit all variable data onto one or more tiles") as caught:
        emulated(chain, options(accumulation=4), tiles=4)
    assert "a smaller microbatch" in str(caught.value)
    assert re.search(r"IPU 0: [\d,]+ B", caught.value.getSummaryReport())


def refused(tiles: int, **changes: Any) -> str:
    """What an exception says of a pipeline that does not fit."""
    with pytest.raises(OutOfMemoryException) as caught:
        emulated(Chain(ipus=range(3), width=256, rows=128, layers=3), options(accumulation=8, **changes), tiles=tiles, calls=0)
    return str(caught.value)


@pytest.mark.slow
def test_a_stash_that_does_not_fit_is_named_with_the_way_out_which_does_what_it_says() -> None:
    said = refused(9)
    assert re.search(r"activations of up to 5 microbatches, which wait for backward [\d,]+ B", said)
    found = re.search(
        r"try: options.autoRecomputation = RecomputationType.Pipeline, with which IPU 0 needs ([\d,]+) B of a tile, and all fit", said
    )
    assert found is not None, said
    chain, chosen = Chain(ipus=range(3), width=256, rows=128, layers=3), options(accumulation=8)
    chosen.autoRecomputation = popart.RecomputationType.Pipeline
    assert f"{emulated(chain, chosen, tiles=9, calls=0).tile_bytes(0):,}" == found[1]


@pytest.mark.slow
def test_recomputation_is_no_way_out_where_it_is_on_or_nothing_waits() -> None:
    assert "which is not enough by itself" in refused(5)
    assert "autoRecomputation" not in refused(5, autoRecomputation=popart.RecomputationType.Pipeline)
    assert "autoRecomputation" not in refused(5, pipelined=False)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("chain", "chosen", "further"),
    [
        (PLAIN, ACCUMULATING, {}),
        (Chain(ipus=range(2), dropped=True, anchors={"loss": "All", "y0": "Sum"}), ACCUMULATING, {"pattern": "singlePipeline"}),
        (Chain(ipus=(0, 1, 0, 1), phased=True), options(phases=4), {}),
    ],
)
def test_equal_calls_in_a_row_have_the_figures_that_each_by_itself_would_have(
    chain: Chain, chosen: popart.SessionOptions, further: dict[str, Any]
) -> None:
    def figures(*, one_by_one: bool) -> list[int]:
        emulation = emulated(chain, chosen, **further)
        for times in [1] * 6 if one_by_one else [6]:
            emulation.ran(times=times)
            emulation.cycles()
        emulation.weights_to_host()
        emulation.ran(times=2)
        emulation.reset_profile()
        emulation.ran()
        runs = len(emulation.report().execution.runs)
        inner = [emulation.inner_cycles(ipu) for ipu in range(emulation.machine.num_ipus)]
        return [emulation.cycles(), emulation.total_cycles(), *inner, runs]

    assert figures(one_by_one=False) == figures(one_by_one=True)


def test_the_command_line_sees_it_and_its_report_is_written_where_the_options_say(tmp_path: Path) -> None:
    settings = emulation_options({"autoReport.outputExecutionProfile": "true", "autoReport.directory": str(tmp_path)})
    with watched_sessions() as found:
        emulation = emulated(PLAIN, ACCUMULATING, name="mine", settings=settings)
    text = summary(found)
    assert text.startswith(f"session 'mine' on {emulation.machine.name}\n")
    assert "stage 1 forward and backward" in " ".join(text.split())
    path = emulation.profile_path
    emulation.close()
    runs = emulation.report().execution.runs
    assert len(open_report(path).execution.runs) == len(runs)
    assert "a step" not in {run.name for run in runs}  # a call of many programs gives its name to none


@pytest.mark.slow
@pytest.mark.process
def test_the_first_sessions_of_a_process_have_equal_figures_and_their_reports_are_written_when_it_ends(tmp_path: Path) -> None:
    program = f"""
from tests.processes import run_python
from tests.unit.popart.session.emulation.models import Chain, emulated, options
from tilestep.popart.session.emulation import emulation_options
settings = emulation_options({{"autoReport.outputExecutionProfile": "true", "autoReport.directory": {str(tmp_path)!r}}})
for further in ({{}}, {{"settings": settings, "name": "gone"}}):
    session = emulated(Chain(ipus=range(2)), options(accumulation=4), **further)
    print(session.cycles(), session.total_cycles(), session.tile_bytes(0), session.tile_bytes(1))
"""
    done = run_python("-c", program)
    assert (done.returncode, done.stderr) == (0, "")
    first, second = done.stdout.splitlines()
    assert first == second
    assert open_report(tmp_path / "gone" / "run.tilestep").execution.runs


# --------------------------------------------------------------------------------------------------- sessions without stages

ALONE = Chain(ipus=[0])


def test_a_session_without_stages_that_accumulates_nothing_is_one_program() -> None:
    report = emulated(ALONE, one_stage()).report()
    assert [run.name for run in report.execution.runs] == ["weights to IPU 0", "a step", "a step"]
    assert [program.name for program in report.compilation.programs][:2] == ["weights to IPU 0", "run"]
    assert {argument.name for argument in report.compilation.programs[1].planned.arguments} >= {"x", "w0_0"}


@pytest.mark.parametrize("batches", [3, 40, pytest.param(5000, marks=pytest.mark.slow)])
def test_each_batch_of_a_call_is_a_run_also_where_equal_ones_are_counted_at_once(batches: int) -> None:
    found = emulated(ALONE, one_stage(), batches=batches, calls=2)
    one = emulated(ALONE, one_stage(), batches=1, calls=2)
    ran = {program.name: program.runs for program in found.report().compilation.programs}
    assert ran["run"] == 2 * batches
    assert found.inner_cycles() == batches * one.inner_cycles()


def test_every_nth_value_is_a_part_of_what_leaves() -> None:
    """Of 4 batches of 3 microbatches each second one leaves: 6 values, in the bytes that the user gets."""
    sent: dict[str, int] = {}
    for how in ("All", "EveryN"):
        kind = popart.AnchorReturnType("All") if how == "All" else popart.AnchorReturnType("EveryN", 2)
        chain = Chain(ipus=[0], anchors={"y0": kind})
        programs = emulated(chain, one_stage(accumulation=3), batches=4, calls=1).report().profile["programs"]
        sent[how] = sum(program["runs"] * program["host_bytes_out"] for program in programs)
    assert sent["All"] == 12 * 4 * 32 * 4
    assert sent["EveryN"] == sent["All"] // 2


def test_the_first_call_takes_what_the_others_take() -> None:
    for how in ("Final", "Sum"):
        emulation = emulated(Chain(ipus=[0], anchors={"y0": how}), one_stage(), batches=3, calls=1)
        first = emulation.cycles()
        emulation.ran()
        assert emulation.cycles() == first


def test_an_anchor_whose_value_is_known_is_in_no_program(builder: popart.Builder) -> None:
    x = builder.addInputTensor("FLOAT", [4, 4])
    size, y = builder.aiOnnx.shape([x]), builder.aiOnnx.relu([x])
    session = popart.InferenceSession(
        builder.getModelProto(), popart.DataFlow(2, [size, y]), popart.DeviceManager().createIpuModelDevice({"numIPUs": 1})
    )
    session.prepareDevice()
    found = run(session, {x: np.ones((2, 4, 4), np.float32)})
    assert found[size].tolist() == [[4, 4], [4, 4]]


def test_weights_off_chip_take_time_for_memory_without_virtual_graphs() -> None:
    chain = Chain(ipus=[0], width=128)
    inside, outside = emulated(chain, one_stage()), emulated(chain, one_stage(weightTensorLocationSettings=off_chip()))
    assert inside.cycles() < outside.cycles()


# ------------------------------------------------------------------------------------------------------------------ reports


def reports_in(directory: Path) -> EmulationOptions:
    return emulation_options({"autoReport.all": "true", "autoReport.directory": str(directory)})


def test_reports_are_written_when_the_session_is_closed(tmp_path: Path) -> None:
    emulation = emulated(ALONE, one_stage(), name="training", settings=reports_in(tmp_path), calls=1)
    path, cycles = Path(emulation.profile_path), emulation.total_cycles()
    assert path == tmp_path / "training" / "run.tilestep"
    assert any("whole" in each.name for each in (tmp_path / "training" / "programs").iterdir())
    assert not path.exists()
    emulation.close()
    report = open_report(path)
    assert report.execution.total_cycles.total == cycles
    assert [run.name for run in report.in_full().execution.runs] == ["weights to IPU 0", "a step"]
    assert {each.name for each in path.parent.iterdir()} == {"report.html", "run.tilestep", "profile.json", "summary.txt", "programs"}


def test_nothing_is_written_unless_it_is_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    emulation = emulated(ALONE, one_stage())
    assert emulation.profile_path == ""
    emulation.close()
    assert list(tmp_path.iterdir()) == []


def test_what_a_program_states_goes_before_the_variable(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("POPLAR_ENGINE_OPTIONS", '{"autoReport.directory":"/elsewhere","debug.allowOutOfMemory":"true"}')
    chosen = emulation_options({"autoReport.directory": str(tmp_path)})
    assert chosen.engine.directory == tmp_path
    assert chosen.allow_out_of_memory
    monkeypatch.setenv("POPLAR_ENGINE_OPTIONS", "{}")
    assert not emulation_options({"debug.allowOutOfMemory": "true"}).allow_out_of_memory
    with pytest.raises(SettingsError, match=r"^the program's engine options has 'autoReport.al'"):
        emulation_options({"autoReport.al": "true"})


# ------------------------------------------------------------------------------------------------------------ out of memory


def test_a_program_that_does_not_fit_says_so_and_where_its_report_is(tmp_path: Path) -> None:
    chosen = emulation_options({"autoReport.directory": str(tmp_path), "autoReport.outputGraphProfile": "true"})
    lacks = r"^Out of memory: Cannot fit all variable data onto one or more tiles: tile "
    with watched_sessions() as found, pytest.raises(OutOfMemoryException, match=lacks) as raised:
        emulated(Chain(ipus=[0], width=256, rows=8192), one_stage(), tiles=4, name="training", settings=chosen)
    assert summary(found).splitlines()[1].startswith("tilestep: does not fit: tile ")
    path = Path(raised.value.getProfilePath())
    assert path.is_relative_to(tmp_path / "training")
    assert open_report(path).compilation.programs[0].memory.peak.total_bytes > 4 * 624 * 1024
    assert "  largest: x " in str(raised.value) or ", x " in str(raised.value)
    assert "dot_general" in raised.value.getSummaryReport()


@pytest.mark.parametrize("rows", [1 << 36, 1 << 42, 1 << 61])
def test_an_input_of_any_size_is_out_of_memory(rows: int) -> None:
    with pytest.raises(OutOfMemoryException, match="Cannot fit all variable data") as raised:
        emulated(Chain(ipus=[0], rows=rows), one_stage(), tiles=4)
    assert f"x {rows * 32 * 4 // 4:,} B" in str(raised.value)
    assert raised.value.getProfilePath() == ""
    assert raised.value.getSummaryReport()


def test_options_of_plans_count() -> None:
    tiles = [emulated(ALONE, one_stage(), settings=EmulationOptions(plan=PlanOptions(num_io_tiles=each, fusion="none"))) for each in (0, 8)]
    assert tiles[0].inner_cycles() < tiles[1].inner_cycles()
