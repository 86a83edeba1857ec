"""PopART sessions that waste time, each with what makes it the version that a finding asks for: what `advice.py` measures."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import numpy as np

from benchmarks.advice_programs import changed, drawn
from tilestep import popart
from tilestep.views.profile import Profile
from tilestep.views.stored import stored_profile

ROWS = 16  # of a microbatch


class Session(NamedTuple):
    """What a session gives: its own profile, and values."""

    profile: Profile
    values: Any


def session(
    steps: int,
    *,
    stages: int = 1,
    times: int = 1,
    accumulation: int = 1,
    batches: int = 1,
    pipelined: bool = True,
    returned: str = "Final",
    reads: bool = False,
    width: int = 512,
    rows: int = ROWS,
    layers: int = 1,
) -> Session:
    """Dense layers on some IPUs, on the same samples however these are divided into calls.

    Args:
        steps: calls, where each has one batch of one microbatch.
        times: as many samples in a microbatch.
        returned: how the last layer's values come back.
        reads: whether the host reads the weights behind each call.
        layers: of each stage.
    """
    builder = popart.Builder()
    value = x = builder.addInputTensor("FLOAT", [times * rows, width], "x")
    weights = {f"w{number}": drawn(width, width, seed=number) for number in range(stages * layers)}
    for number, (name, weight) in enumerate(weights.items()):
        with builder.virtualGraph(number // layers), builder.pipelineStage(number // layers):
            value = builder.aiOnnx.tanh([builder.aiOnnx.matmul([value, builder.addInitializedInputTensor(weight, name)])])
    with builder.virtualGraph(stages - 1), builder.pipelineStage(stages - 1):
        loss = builder.aiGraphcore.identityloss([value], reduction=popart.ReductionType.Sum)
    options = popart.SessionOptions()
    options.virtualGraphMode = popart.VirtualGraphMode.Manual if stages > 1 else popart.VirtualGraphMode.Off
    options.enablePipelining = pipelined and stages > 1
    options.enableGradientAccumulation, options.accumulationFactor = accumulation > 1, accumulation
    flow = popart.DataFlow(batches, {loss: popart.AnchorReturnType("Sum"), value: popart.AnchorReturnType(returned)})
    device = popart.DeviceManager().createIpuModelDevice({"numIPUs": stages, "tilesPerIPU": 1472})
    with jax.default_device(jax.devices("cpu")[0]):  # a session has an emulated machine of its own
        sgd = popart.SGD({"defaultLearningRate": (1e-7, True)})
        made = popart.TrainingSession(builder.getModelProto(), flow, loss, sgd, device, userOptions=options)
        made.prepareDevice()
        made.weightsFromHost()
        each, anchors = times * accumulation * batches, made.initAnchorArrays()
        shape = [count for count in (batches, accumulation) if count > 1]
        samples = drawn(steps * rows, width).reshape(steps // each, *shape, times * rows, width)
        for data in samples:
            made.run(popart.PyStepIO({x: data}, anchors))
            if reads:
                made.weightsToHost()
        profile = stored_profile(made.getReport())
        assert profile is not None
        if not reads:
            made.weightsToHost()
        after = {name: np.zeros_like(weight) for name, weight in weights.items()}
        made.readWeights(popart.PyWeightsIO(after))
        return Session(profile, changed(after, weights))
