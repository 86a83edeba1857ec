"""Automatic loss scaling in a session."""

import numpy as np
import onnx
import pytest

from tests.unit.popart.session.models import prepared, run
from tilestep import popart


def session_of(*, period: int = 1, dtype: type = np.float16, **settings: object) -> popart.TrainingSession:
    builder = popart.Builder()
    name = "FLOAT16" if dtype is np.float16 else "FLOAT"
    x = builder.addInputTensor(popart.TensorInfo(name, [2, 2]), "x")
    w = builder.addInitializedInputTensor(np.full((2, 2), 0.5, dtype), "w")
    product = builder.aiOnnx.matmul([x, w])
    loss = builder.aiGraphcore.identityloss([product])
    options = popart.SessionOptions()
    options.automaticLossScalingSettings.enabled = True
    options.automaticLossScalingSettings.binEdgeLocation = 0.5
    options.automaticLossScalingSettings.updatePeriod = period
    options.automaticLossScalingSettings.gradientTensorTrackingMethod = popart.GradientTensorTrackingMethod.ConvAndMatmulGradients
    for key, value in settings.items():
        setattr(options.automaticLossScalingSettings, key, value)
    session = popart.TrainingSession(
        builder.getModelProto(),
        popart.DataFlow(4, {name: popart.AnchorReturnType("All") for name in ("finalLossScale", "Accum___autoLossScaleStats")}),
        loss,
        popart.SGD({"lossScaling": (8.0, False), "defaultLearningRate": (1e-3, True)}),
        popart.DeviceManager().createCpuDevice(),
        userOptions=options,
    )
    return prepared(session)


def scales(session: popart.TrainingSession, x: np.ndarray) -> tuple[list[float], np.ndarray]:
    anchors = run(session, {"x": x})
    return anchors["finalLossScale"].ravel().tolist(), anchors["Accum___autoLossScaleStats"]


def test_a_saved_model_keeps_the_factor_and_the_counter(tmp_path: object) -> None:
    session = session_of(period=4)
    assert scales(session, np.ones((4, 2, 2), np.float16))[0] == [8, 16, 16, 16]
    session.modelToHost(f"{tmp_path}/model.onnx")
    saved = {tensor.name: tensor for tensor in onnx.load(f"{tmp_path}/model.onnx").graph.initializer}
    assert list(saved["lossScaleUpdateFactor"].float_data) == [2.0]
    assert list(saved["Histogram_counter"].int32_data) == [3]


def test_float32_gradients_are_not_looked_at() -> None:
    with pytest.raises(popart.popart_exception, match=r"No tracked gradient tensors of type fp16 were found.$"):
        session_of(dtype=np.float32)


def test_a_tensor_that_is_named_has_a_gradient_of_float16() -> None:
    method = popart.GradientTensorTrackingMethod.GradientsOfUserSpecifiedTensors
    assert scales(session_of(toTrackTensors=["MatMul:0"], gradientTensorTrackingMethod=method), np.ones((4, 2, 2), np.float16))[0][1] == 16
    with pytest.raises(popart.popart_exception, match=r"Unsupported data type for to-track tensor 'y'"):
        session_of(toTrackTensors=["y"], gradientTensorTrackingMethod=method)
