"""A model of several stages, its sessions, and how close values must be."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from tests.unit.popart.session import models
from tilestep import popart

Array = np.ndarray[Any, Any]
Arrays = dict[str, Array]
ROWS, WIDTH, RATE = 3, 4, 0.2


class Chain(NamedTuple):
    """A model. Attributes: proto: of a Builder. tensors: of each stage: the product, its tanh, and the result. weights: by name."""

    proto: bytes
    loss: str
    tensors: list[tuple[str, str, str]]
    weights: Arrays


def chain(stages: int, *, ipus: Sequence[int] | None = None) -> Chain:
    """Stages h -> tanh(h @ transpose(w)) * v, and the sum of absolute values as the loss.

    The transposed weight depends on the weight alone, and the product with `v` is one of an activation and a weight, element by element.

    Args: ipus: of each stage; None: each has its own.
    """
    rng = np.random.default_rng(stages)
    builder = popart.Builder()
    last = builder.addInputTensor("FLOAT", [ROWS, WIDTH], "x")
    weights: Arrays = {}
    tensors: list[tuple[str, str, str]] = []
    for stage in range(stages):
        weights[f"w{stage}"] = rng.normal(0, 0.7, (WIDTH, WIDTH)).astype(np.float32)
        weights[f"v{stage}"] = rng.normal(1, 0.2, (WIDTH,)).astype(np.float32)
        w, v = (builder.addInitializedInputTensor(weights[name], name) for name in (f"w{stage}", f"v{stage}"))
        with builder.virtualGraph(stage if ipus is None else ipus[stage]), builder.pipelineStage(stage):
            product = builder.aiOnnx.matmul([last, builder.aiOnnx.transpose([w])])
            tanh = builder.aiOnnx.tanh([product])
            last = builder.aiOnnx.mul([tanh, v])
            tensors.append((product, tanh, last))
            if stage == stages - 1:
                loss = builder.aiGraphcore.l1loss([last], 0.5, reduction=popart.ReductionType.Sum)
    return Chain(builder.getModelProto(), loss, tensors, weights)


def inputs(batches: int, seed: int = 5) -> Array:
    """Inputs of a run."""
    return np.random.default_rng(seed).normal(size=(batches, ROWS, WIDTH)).astype(np.float32)


def options(**changes: Any) -> popart.SessionOptions:
    """Of a pipeline."""
    return models.options(virtualGraphMode=popart.VirtualGraphMode.Manual, enablePipelining=True, **changes)


def without_machine(ipus: int) -> popart.DeviceInfo:
    """A device that computes values alone."""
    return popart.DeviceInfo(popart.DeviceType.Cpu, num_ipus=ipus)


def session(
    model: Chain,
    anchors: Sequence[str],
    batches: int,
    *,
    optimizer: popart.Optimizer | None = None,
    kind: str = "All",
    chosen: popart.SessionOptions | None = None,
    ipus: int = 4,
    emulated: bool = False,
) -> popart.TrainingSession:
    """A session that is ready to run. Args: emulated: whether its device has a machine, for which it is planned."""
    made = popart.TrainingSession(
        fnModel=model.proto,
        dataFlow=popart.DataFlow(batches, dict.fromkeys(anchors, popart.AnchorReturnType(kind))),
        loss=model.loss,
        optimizer=popart.SGD({"defaultLearningRate": (RATE, True)}) if optimizer is None else optimizer,
        deviceInfo=popart.DeviceManager().createIpuModelDevice({"numIPUs": ipus, "tilesPerIPU": 16}) if emulated else without_machine(ipus),
        userOptions=options() if chosen is None else chosen,
    )
    return models.prepared(made)


def run(made: popart.TrainingSession, x: Array) -> Arrays:
    """The anchors of a step."""
    anchors = made.initAnchorArrays()
    made.run(popart.PyStepIO({"x": x}, anchors))
    return anchors


def weights_of(made: popart.TrainingSession, model: Chain) -> Arrays:
    """The weights on the device."""
    made.weightsToHost()
    arrays = {name: np.empty_like(array) for name, array in model.weights.items()}
    made.readWeights(popart.PyWeightsIO(arrays))
    return arrays


def close(found: Array, expected: Any, relative: float = 1e-5) -> None:
    """Fails unless arrays differ by no more than a part of the largest value."""
    expected = np.asarray(expected)
    assert found.shape == expected.shape
    np.testing.assert_allclose(found, expected, rtol=0, atol=relative * max(1e-30, float(np.abs(expected).max())))
