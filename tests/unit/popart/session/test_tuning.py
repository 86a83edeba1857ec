"""Tuning of single operators reaches the emulated machine's plan, and changes no shapes."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest

from tilestep import popart

HALF = np.float16


def model_device() -> popart.DeviceInfo:
    return popart.DeviceManager().createIpuModelDevice({"numIPUs": 1, "tilesPerIPU": 16})


def cycles(*, partials: str = "", train: bool = False, by_option: bool = False) -> int:
    """Of a product of halves, and of its gradient's two products."""
    builder = popart.Builder()
    x = builder.addInputTensor(popart.TensorInfo("FLOAT16", [64, 64]))
    w = builder.addInitializedInputTensor(np.ones((64, 64), HALF))
    out = builder.aiOnnx.matmul([builder.aiOnnx.mul([x, w]), w])
    options = popart.SessionOptions()
    options.instrumentWithHardwareCycleCounter = True
    if by_option:
        options.matmulOptions = {"partialsType": partials}
    elif partials:
        builder.setPartialsType(out, partials)
    if train:
        loss = builder.aiGraphcore.l1loss([out], 0.1)
        sgd = popart.SGD({"defaultLearningRate": (0.5, True)})
        session: Any = popart.TrainingSession(
            builder.getModelProto(), popart.DataFlow(1, {}), loss, sgd, model_device(), userOptions=options
        )
    else:
        session = popart.InferenceSession(builder.getModelProto(), popart.DataFlow(1, [out]), model_device(), userOptions=options)
    session.prepareDevice()
    session.weightsFromHost()
    session.run(popart.PyStepIO({x: np.ones((64, 64), HALF)}, session.initAnchorArrays()))
    return session.getCycleCount()


def test_partials_of_one_product_change_the_plan() -> None:
    saved = cycles() - cycles(partials="HALF")
    assert saved > 0
    assert cycles(partials="half", by_option=True) == cycles(partials="HALF")


def test_partials_hold_for_the_products_of_the_gradient() -> None:
    saved, saved_in_training = (cycles(train=train) - cycles(partials="half", train=train) for train in (False, True))
    assert saved_in_training > 2 * saved > 0


def session_with(attribute: str, value: object) -> None:
    builder = popart.Builder()
    x = builder.addInputTensor(popart.TensorInfo("FLOAT16", [4, 4]))
    out = builder.aiOnnx.matmul([x, x])
    model = onnx.ModelProto.FromString(builder.getModelProto())
    model.graph.node[0].attribute.append(onnx.helper.make_attribute(attribute, value))
    popart.InferenceSession(model, popart.DataFlow(1, [out]), model_device())


@pytest.mark.parametrize(
    ("attribute", "value", "message"),
    [
        ("__partials_type", "quarter", r"from string 'quarter'\. Possible values are 'float' and 'half'"),
        ("__available_memory", 0.0, r"^availableMemoryProportion must be in \(0,1\], and is 0\.0 at node"),
        ("__available_memory", 1.5, r"^availableMemoryProportion must be in \(0,1\]"),
    ],
)
def test_a_value_that_is_not_allowed_is_an_error(attribute: str, value: object, message: str) -> None:
    with pytest.raises(popart.popart_exception, match=message):
        session_with(attribute, value)


def test_available_memory_changes_the_program() -> None:
    texts: list[str] = []
    for proportion in (None, 0.25):
        builder = popart.Builder()
        x = builder.addInputTensor(popart.TensorInfo("FLOAT16", [4, 4]))
        out = builder.aiOnnx.matmul([x, x])
        if proportion is not None:
            builder.setAvailableMemoryProportion(out, proportion)
        session = popart.InferenceSession(builder.getModelProto(), popart.DataFlow(1, [out]), model_device())
        session.prepareDevice()
        texts.append(session.getSerializedGraph() if isinstance(session.getSerializedGraph(), str) else str(session.getSerializedGraph()))
    assert "0.25" in texts[1]
    assert "0.25" not in texts[0]
