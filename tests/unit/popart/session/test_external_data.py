"""Initialisers in files beside the model: sessions read them, write them back, and move them."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from tests.unit.popart.session.models import prepared, run, weights_of
from tilestep import popart
from tilestep.popart.builder import external

Array = np.ndarray[Any, Any]
W = np.array([[1.0, 2.0], [3.0, 4.0]], np.float32)
B = np.array([5.0, 6.0], np.float32)
SUM = popart.ReductionType.Sum


def training(file: Path, optimizer: popart.Optimizer | None = None) -> popart.TrainingSession:
    """A session whose loss is the sum of W @ B, with both in a file, after one step. Without momentum W becomes W - 0.5 * [B, B]."""
    builder = popart.Builder()
    w, b = builder.addInitializedInputTensor(W, "w"), builder.addInitializedInputTensor(B, "b")
    loss = builder.aiGraphcore.identityloss([builder.aiOnnx.matmul([w, b])], reduction=SUM)
    builder.saveInitializersExternally([w, b], str(file))
    device = popart.DeviceManager().createCpuDevice()
    sgd = popart.SGD({"defaultLearningRate": (0.5, True)})
    session = popart.TrainingSession(builder.getModelProto(), popart.DataFlow(1, {}), loss, optimizer or sgd, device)
    prepared(session)
    session.run(popart.PyStepIO({}, {}))
    return session


def inference(model: bytes | str, out: str) -> Array:
    device = popart.DeviceManager().createCpuDevice()
    session = popart.InferenceSession(model, popart.DataFlow(1, [out]), device)
    session.prepareDevice()
    anchors = run(session, {})
    return anchors[out]


def doubled(file: str) -> tuple[onnx.ModelProto, str]:
    """A model that doubles B, which stands in a file."""
    builder = popart.Builder()
    b = builder.addInitializedInputTensor(B)
    out = builder.aiOnnx.add([b, b])
    builder.saveInitializersExternally([b], file)
    return onnx.ModelProto.FromString(builder.getModelProto()), out


@pytest.fixture
def forgetful(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that has not written the files."""
    for name in ("_written", "_beside"):
        monkeypatch.setattr(external, name, set[Path]())


@pytest.mark.usefixtures("forgetful")
def test_a_model_may_name_a_file_in_its_own_folder_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("model", "elsewhere"):
        (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    model, out = doubled(str(tmp_path / "model" / "b.bin"))
    external._written.clear()  # as in a process that has not written it
    onnx.save_model(model, str(tmp_path / "model" / "model.onnx"))
    with pytest.raises(popart.popart_exception, match=r"outside of the model's folder"):
        inference(model.SerializeToString(), out)
    np.testing.assert_array_equal(inference(str(tmp_path / "model" / "model.onnx"), out), 2 * B)


def test_the_optimisers_state_stands_beside_its_initialiser(tmp_path: Path) -> None:
    momentum = popart.SGD({"defaultLearningRate": (0.5, True), "defaultMomentum": (0.9, True)})
    session = training(tmp_path / "weights.bin", momentum)
    session.modelToHost(str(tmp_path / "model.onnx"))
    session.modelToHost(str(tmp_path / "again.onnx"))
    state = {popart.reservedAcclPrefix() + "b": np.zeros_like(B), popart.reservedAcclPrefix() + "w": np.zeros_like(W)}  # by name
    session.readWeights(popart.PyWeightsIO(state))
    found = np.fromfile(tmp_path / "weights.bin", np.float32)
    assert found.size == 2 * (W.size + B.size)
    np.testing.assert_array_equal(found[W.size + B.size :], np.concatenate([array.ravel() for array in state.values()]))
    assert any(array.any() for array in state.values())
    loss = next(node.output[0] for node in onnx.load_model(str(tmp_path / "model.onnx"), load_external_data=False).graph.node[-1:])
    device = popart.DeviceManager().createCpuDevice()
    again = popart.TrainingSession(str(tmp_path / "model.onnx"), popart.DataFlow(1, {}), loss, momentum, device)
    read = {name: np.zeros_like(array) for name, array in state.items()}
    again.readWeights(popart.PyWeightsIO(read))
    for name, array in state.items():
        np.testing.assert_array_equal(read[name], array)


def test_initialisers_move_to_another_file(tmp_path: Path) -> None:
    session = training(tmp_path / "weights.bin")
    old, new = str(tmp_path / "weights.bin"), str(tmp_path / "moved.bin")
    session.updateExternallySavedTensorLocations(old, new)
    np.testing.assert_array_equal(np.fromfile(new, np.float32), [*W.ravel(), *B])
    session.modelToHost(str(tmp_path / "model.onnx"))
    np.testing.assert_array_equal(np.fromfile(old, np.float32), [*W.ravel(), *B])
    np.testing.assert_array_equal(np.fromfile(new, np.float32)[:4].reshape(2, 2), W - 0.5 * B)
    with pytest.raises(popart.popart_runtime_error, match=r"'.*third.bin', but file '.*weights.bin2' does not exist"):
        session.updateExternallySavedTensorLocations(old + "2", str(tmp_path / "third.bin"))
    with pytest.raises(popart.popart_runtime_error, match=r"^Updating externally saved .* '.*moved.bin' already exists"):
        session.updateExternallySavedTensorLocations(old, new)
    with pytest.raises(popart.popart_runtime_error, match=r"^No ONNX model initializers have external location set to"):
        session.updateExternallySavedTensorLocations(old, str(tmp_path / "third.bin"))


def test_a_file_that_is_gone_is_an_error_of_model_to_host(tmp_path: Path) -> None:
    session = training(tmp_path / "weights.bin")
    (tmp_path / "weights.bin").unlink()
    with pytest.raises(popart.popart_exception, match=r"^Unrecognised file name '.*weights.bin' for externally stored tensor 'w'"):
        session.modelToHost(str(tmp_path / "model.onnx"))
    assert not (tmp_path / "model.onnx").exists()


def test_reset_host_weights_reads_the_file(tmp_path: Path) -> None:
    session = training(tmp_path / "weights.bin")
    session.modelToHost(str(tmp_path / "model.onnx"))
    found = [*(W + 1).ravel(), *(B + 1)]
    np.array(found, np.float32).tofile(tmp_path / "weights.bin")
    session.resetHostWeights(str(tmp_path / "model.onnx"))
    session.weightsFromHost()
    read = weights_of(session, "w")
    np.testing.assert_array_equal(read["w"], W + 1)


@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_a_file_that_this_process_has_not_written_is_not_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, momentum: float) -> None:
    monkeypatch.chdir(tmp_path)  # whose files the model may name
    optimizer = popart.SGD({"defaultLearningRate": (0.5, True), "defaultMomentum": (momentum, True)})
    session = training(tmp_path / "program.py", optimizer)
    before = (tmp_path / "program.py").read_bytes()
    external._written.clear()  # as in a process that has not written it
    with pytest.raises(popart.popart_exception, match=r"which this process has not written before: give the data a file of their own"):
        session.modelToHost(str(tmp_path / "model.onnx"))
    assert (tmp_path / "program.py").read_bytes() == before
    external.allow(tmp_path / "program.py")
    session.modelToHost(str(tmp_path / "model.onnx"))
    assert (tmp_path / "program.py").read_bytes() != before
