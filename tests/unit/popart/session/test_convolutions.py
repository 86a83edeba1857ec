"""Convolutions of a session that runs several batches in a step: written as XLA:CPU computes them quickly, with the same values."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilestep import popart

BATCHES = 3
LAST = b"dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]"


def numbers(*shape: int) -> Any:
    return np.random.default_rng(sum(shape)).normal(size=shape).astype(np.float32)


def made(batches: int) -> tuple[popart.TrainingSession, str, str]:
    """(a session, its input, its weight)."""
    builder = popart.Builder()
    x = builder.addInputTensor("FLOAT", [2, 3, 8, 7])
    w = builder.addInitializedInputTensor(numbers(4, 3, 3, 3), "w")
    h = builder.aiOnnx.relu([builder.aiOnnx.conv([x, w], pads=[1, 1, 1, 1])])
    loss = builder.aiGraphcore.l1loss([h], 0.5)
    session = popart.TrainingSession(
        fnModel=builder.getModelProto(),
        dataFlow=popart.DataFlow(batches, {loss: popart.AnchorReturnType("All"), w: popart.AnchorReturnType("Final")}),
        loss=loss,
        optimizer=popart.ConstSGD(0.01),
        deviceInfo=popart.DeviceManager().createIpuModelDevice({"numIPUs": 1, "tilesPerIPU": 64}),
    )
    session.prepareDevice()
    session.weightsFromHost()
    return session, x, w


def test_a_step_of_several_batches_gives_what_as_many_steps_give() -> None:
    data = numbers(BATCHES, 2, 3, 8, 7)
    several, x, w = made(BATCHES)
    anchors = several.initAnchorArrays()
    several.run(popart.PyStepIO({x: data}, anchors))
    single, _, _ = made(1)
    each = single.initAnchorArrays()
    for batch in data:
        single.run(popart.PyStepIO({x: batch}, each))
    np.testing.assert_allclose(anchors[w], each[w], rtol=1e-4, atol=1e-5)
    assert several.getSerializedGraph().count(LAST) == 2  # forward, and the gradient by the weight
    assert LAST not in single.getSerializedGraph()  # XLA writes it by itself
