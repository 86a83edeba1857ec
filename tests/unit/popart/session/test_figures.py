"""Cycles, reports and memory of sessions on an emulated machine, and blocks that watch sessions."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.unit.popart.session.emulation.models import Chain, emulated, one_stage
from tests.unit.popart.session.models import Arrays, inference, ipu_model, numbers, run, squares, training
from tilestep import popart
from tilestep.machine import load_machine
from tilestep.popart.session.emulation import Emulation, emulation_options
from tilestep.popart.session.emulation.session_machine import summary, watched_sessions

BOTH = {popart.Instrumentation.Outer, popart.Instrumentation.Inner}


def counting(batches: int = 1, accumulation: int = 1, **changes: Any) -> tuple[popart.TrainingSession, Arrays]:
    """A session that counts cycles, and its inputs."""
    model = squares()
    settings = {"instrumentWithHardwareCycleCounter": True, "hardwareInstrumentations": BOTH, **changes}
    session = training(model, {model.y: "All"}, batches=batches, accumulation=accumulation, device=ipu_model(), **settings)
    return session, {model.x: numbers(batches, accumulation)}


def test_more_microbatches_than_a_schedule_lists_are_refused() -> None:
    with pytest.raises(
        popart.popart_exception, match=r"^accumulationFactor is 300,000: the emulation of 1 stage takes at most 250,000\. Give a"
    ):
        counting(accumulation=300_000)


@pytest.mark.parametrize(("counts", "name"), [({"batches": 2**31}, "batchesPerStep"), ({"accumulation": 2**31}, "accumulationFactor")])
def test_more_turns_than_a_program_counts_are_refused(counts: dict[str, int], name: str) -> None:
    with pytest.raises(popart.popart_exception, match=rf"^{name} is 2147483648: at most 2,147,483,647 are counted\."):
        counting(**counts)


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


def large(width: int = 1024) -> tuple[bytes, str]:
    builder = popart.Builder()
    x = builder.addInputTensor("FLOAT", [width, width])
    y = builder.aiOnnx.matmul([x, builder.addInitializedInputTensor(np.ones((width, width), np.float32))])
    return builder.getModelProto(), y


@pytest.mark.slow
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


def test_more_tiles_that_transfer_than_there_are_is_an_error_of_the_option() -> None:
    with pytest.raises(popart.popart_exception, match=r"^numIOTiles is 16: it must be less than the 16 tiles of an IPU"):
        counting(numIOTiles=16)


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


def session(name: str) -> Emulation:
    return Emulation(load_machine("m2000", num_ipus=1, num_tiles=4), name=name)


def test_each_block_sees_the_sessions_that_are_made_in_it() -> None:
    session("before")
    with watched_sessions() as outer:
        session("first")
        with watched_sessions() as inner:
            session("second")
        session("third")
    session("after")
    assert [notes.name for notes in outer] == ["first", "second", "third"]
    assert [notes.name for notes in inner] == ["second"]


def test_the_summary_has_each_session_that_was_prepared() -> None:
    with watched_sessions() as found:
        session("without a program")
        made = emulated(Chain(ipus=[0]), one_stage(), name="with one", calls=1)
        del made
    lines = summary(found).splitlines()
    assert lines[0] == "session 'with one' on m2000"
    assert lines[1].startswith("tilestep: fits: program group 'with one', the fullest, ")
    assert lines[3].endswith("2 program runs")  # the first takes the weights
    assert summary(found[:1]) == ""


def test_the_summary_is_of_the_whole_session_also_after_a_reset() -> None:
    with watched_sessions() as found:
        made = emulated(Chain(ipus=[0]), one_stage(), name="read in between")
        made.reset_profile()
        made.ran()
    assert "1 program run" in made.summary()
    assert summary(found).splitlines()[3].endswith("4 program runs")  # that which takes the weights as well
