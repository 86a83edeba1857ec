"""Methods of sessions that few programs call, and what is refused by name."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.together import each
from tilestep import popart

W = np.array([1.0, 2.0], np.float32)


def training(device: popart.DeviceInfo | None = None) -> Any:
    """loss = sum(w), so that each step takes 0.5 from w."""
    builder = popart.Builder()
    w = builder.addInitializedInputTensor(W, "w")
    loss = builder.aiGraphcore.identityloss([builder.aiOnnx.identity([w])], reduction=popart.ReductionType.Sum)
    sgd = popart.SGD({"defaultLearningRate": (0.5, True)})
    device = device or popart.DeviceManager().createOfflineIPUDevice({})
    return popart.TrainingSession(builder.getModelProto(), popart.DataFlow(1, {}), loss, sgd, device)


def ready() -> Any:
    session = training(popart.DeviceManager().createCpuDevice())
    session.prepareDevice()
    session.weightsFromHost()
    session.run(popart.PyStepIO({}, {}))
    return session


def weights(session: Any) -> np.ndarray[Any, Any]:
    read = {"w": np.zeros(2, np.float32)}
    session.readWeights(popart.PyWeightsIO(read))
    return read["w"]


@each("method", ["getIr", "_serializeIr", "connectStreamToCallback", "connectStream", "connectHostFunction", "_setDeviceInfo"])
def test_what_has_no_meaning_is_refused_with_a_way_out(method: str) -> None:
    with pytest.raises(popart.popart_exception, match=rf"^Session\.{method} is not supported by tilestep: .*\. To go on: .*\.$"):
        getattr(training(), method)(popart.IrSerializationFormat.JSON)


def test_weights_are_received_once_until_a_run_changes_them() -> None:
    session = ready()
    assert not session.areHostWeightsInSync()
    session.copyDeviceWeightsToHost()
    assert session.areHostWeightsInSync()
    np.testing.assert_array_equal(weights(session), W - 0.5)
    session.run(popart.PyStepIO({}, {}))
    assert not session.areHostWeightsInSync()
    session.markHostWeightsInSync()
    session.copyDeviceWeightsToHost()
    np.testing.assert_array_equal(weights(session), W - 0.5)
    session.markHostWeightsOutOfSync()
    session.copyDeviceWeightsToHost()
    np.testing.assert_array_equal(weights(session), W - 1.0)
    session.weightsFromHost()
    session.weightsToHost()
    np.testing.assert_array_equal(weights(session), W - 1.0)


def test_an_engine_that_is_not_loaded_is_loaded_by_the_next_run() -> None:
    session = ready()
    session.setEngineIsLoaded(False)
    session.run(popart.PyStepIO({}, {}))
    session.weightsToHost()
    np.testing.assert_array_equal(weights(session), W - 1.0)


def test_variables_alone_go_to_a_file_and_back(tmp_path: Path) -> None:
    session = training()
    session.prepareDevice(loadEngine=False)
    session.writeWeights(popart.PyWeightsIO({"w": W + 7}))
    session.saveVariables(str(tmp_path / "variables.popef"))
    other = training()
    other.loadExecutable(str(tmp_path / "variables.popef"))
    other.prepareDevice(loadEngine=False)
    other.weightsFromHost()
    other.weightsToHost()
    np.testing.assert_array_equal(weights(other), W + 7)
    with pytest.raises(popart.popart_exception, match=r"cannot be saved"):
        ready().saveVariables(str(tmp_path / "variables.popef"))


@pytest.mark.parametrize(
    ("mode", "factor", "message"),
    [
        ("input_channels", 4, r"^Invalid serialisation factor 4 for input channels dim 2\. input_channels dim should be a multiple"),
        ("reducing_dim", 2, r"^Invalid serialisation factor 2 for reducing dimension 3\. reducing_dim dim should be"),
    ],
)
def test_a_factor_that_does_not_divide_is_an_error(builder: popart.Builder, mode: str, factor: int, message: str) -> None:
    x, y = (builder.addInputTensor(popart.TensorInfo("FLOAT", shape)) for shape in ([2, 3], [3, 4]))
    out = builder.aiOnnx.matmul([x, y])
    builder.setSerializeMatMul({out}, mode, factor)
    with pytest.raises(popart.popart_exception, match=message):
        popart.InferenceSession(builder.getModelProto(), popart.DataFlow(1, [out]), popart.DeviceManager().createCpuDevice())


def test_a_pattern_that_does_not_exist_is_an_error(builder: popart.Builder) -> None:
    x = builder.addInputTensor(popart.TensorInfo("FLOAT", [2]))
    out = builder.aiOnnx.identity([x])
    builder.excludePatterns(out, ["ThisPatternDoesNotExist"])
    with pytest.raises(popart.popart_exception, match=r"^Invalid pattern name 'ThisPatternDoesNotExist'"):
        popart.InferenceSession(builder.getModelProto(), popart.DataFlow(1, [out]), popart.DeviceManager().createCpuDevice())
