"""Cycles, reports and memory of sessions on an emulated machine."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.unit.popart.session.models import Arrays, inference, ipu_model, numbers, run, same, squares, trained, training
from tilestep import popart
from tilestep.popart.session.emulation import emulation_options

Session = popart.InferenceSession | popart.TrainingSession
BOTH = {popart.Instrumentation.Outer, popart.Instrumentation.Inner}


def counting(batches: int = 1, accumulation: int = 1, **changes: Any) -> tuple[popart.TrainingSession, Arrays]:
    """A session that counts cycles, and its inputs."""
    model = squares()
    settings = {"instrumentWithHardwareCycleCounter": True, "hardwareInstrumentations": BOTH, **changes}
    session = training(model, {model.y: "All"}, batches=batches, accumulation=accumulation, device=ipu_model(), **settings)
    return session, {model.x: numbers(batches, accumulation)}


def cycles(batches: int = 1, accumulation: int = 1) -> tuple[int, int]:
    """Of a step after the first: (of the whole, of its computation)."""
    session, inputs = counting(batches, accumulation)
    for _ in range(2):
        run(session, inputs)
    return session.getCycleCount(), session.getCycleCount("inner_ipu_0")


def test_values_are_those_of_a_device_without_a_machine() -> None:
    session, inputs = counting(3, 2)
    (given,) = inputs.values()
    found = run(session, inputs)
    same(found["MatMul:0"], trained(given).values["MatMul:0"])


def test_cycles_repeat_exactly() -> None:
    first = cycles()
    assert first == cycles()
    session, inputs = counting()
    counts: set[int] = set()
    for _ in range(3):
        run(session, inputs)
        counts.add(session.getCycleCount())
    assert counts == {first[0]}
    assert 0 < first[1] < first[0]


def test_cycles_grow_linearly_with_batches_and_microbatches() -> None:
    for inner in ([cycles(batches)[1] for batches in (2, 3, 4)], [cycles(1, accumulation)[1] for accumulation in (2, 3, 4)]):
        assert inner[2] - inner[1] == inner[1] - inner[0] > 0


def test_cycles_need_a_run_the_option_and_a_machine() -> None:
    session, inputs = counting()
    with pytest.raises(popart.popart_runtime_error, match=r"^Must call run before getCycleCount\."):
        session.getCycleCount()
    run(session, inputs)
    with pytest.raises(popart.popart_runtime_error, match=r"^Invalid id for cycle counter, 'outer'"):
        session.getCycleCount("outer")
    session, inputs = counting(hardwareInstrumentations={popart.Instrumentation.Outer})
    run(session, inputs)
    with pytest.raises(popart.popart_runtime_error, match=r"^Invalid id for cycle counter, 'inner_ipu_0'"):
        session.getCycleCount("inner_ipu_0")
    session, inputs = counting(instrumentWithHardwareCycleCounter=False)
    run(session, inputs)
    with pytest.raises(popart.popart_runtime_error, match=r"^SessionOption 'instrumentWithHardwareCycleCounter' must be set"):
        session.getCycleCount()
    model = squares()
    session = training(model, instrumentWithHardwareCycleCounter=True)
    run(session, {model.x: numbers(1)})
    for call in (session.getCycleCount, session.getReport, session.getSummaryReport):
        with pytest.raises(popart.poplar_exception, match=r"^A Cpu device has no tiles and no cycles"):
            call()


def test_reports_are_there_after_preparing_and_not_before() -> None:
    model = squares()
    session = training(model, {model.y: "All"}, device=ipu_model(), prepare=False)
    for call in (session.getReport, session.getSummaryReport, session.getSerializedGraph):
        with pytest.raises(popart.popart_runtime_error, match=r"^Session must have been prepared before a report can be fetched$"):
            call()
    session.prepareDevice()
    session.weightsFromHost()
    assert b"stablehlo.dot_general" in session.getSerializedGraph()
    run(session, {model.x: numbers(1)})
    session.run(popart.PyStepIO({model.x: numbers(1)}, session.initAnchorArrays()), "a step of mine")
    report = session.getReport()
    assert report.target.machine.ipu.num_tiles == 16
    names = [each.name for each in report.execution.runs]
    assert names == ["weights to IPU 0", "run", "a step of mine"]
    assert "3 program runs" in session.getSummaryReport()


def test_a_summary_begins_where_the_last_one_ended_unless_it_is_told_not_to() -> None:
    session, inputs = counting()
    run(session, inputs)
    run(session, inputs)
    first = session.getSummaryReport(resetProfile=False)
    assert session.getSummaryReport() == first
    run(session, inputs)
    assert "1 program run" in session.getSummaryReport()


def large(width: int = 1024) -> tuple[bytes, str]:
    builder = popart.Builder()
    x = builder.addInputTensor("FLOAT", [width, width])
    y = builder.aiOnnx.matmul([x, builder.addInitializedInputTensor(np.ones((width, width), np.float32))])
    return builder.getModelProto(), y


def test_a_model_that_does_not_fit_is_an_error_of_preparing(tmp_path: Path) -> None:
    proto, y = large()
    engine = {"autoReport.directory": str(tmp_path), "autoReport.outputGraphProfile": "true"}
    session = inference(proto, {y: "All"}, device=ipu_model(4), prepare=False, engineOptions=engine)
    with pytest.raises(popart.OutOfMemoryException, match=r"^Out of memory: Cannot fit all variable data onto one or more tiles") as raised:
        session.prepareDevice()
    assert isinstance(raised.value, popart.popart_exception)
    path = Path(raised.value.getProfilePath())
    assert path.is_absolute()
    assert path.exists()
    assert raised.value.getSummaryReport()
    assert "try: a smaller microbatch" in str(raised.value)
    assert str(raised.value).endswith(f"report: {path}")
    session = inference(proto, {y: "All"}, device=ipu_model(4), prepare=False)
    with pytest.raises(popart.OutOfMemoryException) as raised:
        session.prepareDevice()
    assert raised.value.getProfilePath() == ""
    with pytest.raises(popart.popart_runtime_error, match=r"^Devicex::prepare\(\) must be called"):
        run(session, {"input": np.ones((1024, 1024), np.float32)})


def test_more_tiles_take_fewer_cycles() -> None:
    counts: list[int] = []
    for tiles in (4, 64):
        proto, y = large(128)
        session = inference(
            proto, {y: "All"}, device=ipu_model(tiles), instrumentWithHardwareCycleCounter=True, hardwareInstrumentations=BOTH
        )
        run(session, {"input": np.ones((128, 128), np.float32)})
        counts.append(session.getCycleCount("inner_ipu_0"))
    assert counts[1] < counts[0] / 4


def test_more_tiles_that_transfer_than_there_are_is_an_error_of_the_option() -> None:
    with pytest.raises(popart.popart_exception, match=r"^numIOTiles is 16: it must be less than the 16 tiles of an IPU"):
        counting(numIOTiles=16)


def test_names_in_a_summary_have_no_character_that_a_terminal_would_obey() -> None:
    model = squares()
    session = popart.InferenceSession(model.proto, popart.DataFlow(1, [model.y]), ipu_model(), name="a\x1b[2J\nb")
    session.prepareDevice()
    session.run(popart.PyStepIO({model.x: numbers(1)}, session.initAnchorArrays()), "c\x1b[31m")
    assert "\x1b" not in session.getSummaryReport()


@pytest.mark.parametrize("name", ["..", ".", "../up", "/tmp/absolute", "a/../../b", "x" * 400, "n\0ul", "\n" * 90])
def test_a_report_stays_in_its_folder_whatever_the_session_is_called(tmp_path: Path, name: str) -> None:
    folder = emulation_options({"autoReport.directory": str(tmp_path)}).take_directory(name)
    assert folder is not None
    assert folder.parent == tmp_path
    folder.mkdir()
    assert folder.resolve().parent == tmp_path.resolve()


def test_each_session_has_a_folder_of_its_own(tmp_path: Path) -> None:
    options = emulation_options({"autoReport.directory": str(tmp_path)})
    names = [path.name for name in ("accumulates 7", "b", "accumulates 7", "accumulates_7") if (path := options.take_directory(name))]
    assert names == ["accumulates_7", "b", "accumulates_7-2", "accumulates_7-3"]


def test_the_steady_state_counts_runs_and_no_transfers_of_weights() -> None:
    session, inputs = counting()
    for _ in range(20):
        run(session, inputs)
    text = " ".join(session.getSummaryReport(resetProfile=False).split())
    assert re.search(r"A step takes [\d.]+ µs \(\S+ to \S+; widest: [^)]+\) once warm, set-up [\d.]+ µs\. .*; 20 ran\.", text)


def test_nobody_is_told_to_keep_the_inputs_of_a_step_in_the_tiles() -> None:
    session, inputs = counting(batches=5)
    for _ in range(5):
        run(session, inputs)
    text = session.getSummaryReport()
    assert "arguments in" in text
    assert "on the IPU (" not in text
