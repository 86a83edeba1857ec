"""A session that is pipelined and accumulates gives what the same session without stages does: every anchor, and every weight.

The models, the optimisers, replicas and recomputation are crossed. Arrays may differ by 1e-5 of their largest value.
"""

import functools
import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pytest

from tilestep import popart
from tilestep.popart.devices.device_info import DeviceInfo

Array = np.ndarray[Any, Any]
BATCHES, ACCUMULATION, STAGES = 2, 5, 3


@dataclass(frozen=True, kw_only=True)
class Model:
    """A model of three stages.

    Attributes:
        proto: of a Builder.
        anchors: activations and gradients that are returned.
        weights: names of its variables.
        feeds: input -> a function that makes an array of a shape. shapes: input -> its shape.
    """

    proto: bytes
    loss: str
    anchors: list[str]
    weights: list[str]
    shapes: dict[str, tuple[int, ...]]
    feeds: dict[str, Callable[..., Any]]


class Stages:
    """Builds a model whose operators say where they run."""

    def __init__(self) -> None:
        self.builder, self.rng = popart.Builder(), np.random.default_rng(3)
        self.weights: list[str] = []

    def at(self, stage: int) -> Any:
        return self.builder.virtualGraph(stage)

    def weight(self, *shape: int) -> str:
        name = f"w{len(self.weights)}"
        values = self.rng.normal(0, 0.4, shape).astype(np.float32)
        self.weights.append(self.builder.addInitializedInputTensor(values, name))
        return self.weights[-1]

    def model(self, loss: str, activations: list[str], **shapes: tuple[int, ...]) -> Model:
        floats = [name for name in activations if name not in shapes]
        gradients = [f"Gradient___{name}" for name in (*self.weights, *floats)]
        feeds: dict[str, Callable[..., Any]] = {"x": lambda rng, shape: rng.normal(size=shape).astype(np.float32)}
        feeds["labels"] = lambda rng, shape: rng.integers(0, 3, shape).astype(np.int32)
        return Model(
            proto=self.builder.getModelProto(),
            loss=loss,
            anchors=[loss, *activations, *gradients, *self.weights],
            weights=self.weights,
            shapes=shapes,
            feeds=feeds,
        )


@functools.cache
def dense() -> Model:
    """Dense layers with biases and a softmax."""
    made = Stages()
    onnx, core = made.builder.aiOnnx, made.builder.aiGraphcore
    h = made.builder.addInputTensor("FLOAT", [4, 6], "x")
    labels = made.builder.addInputTensor("INT32", [4], "labels")
    kept: list[str] = []
    for stage in range(STAGES - 1):
        with made.at(stage):
            h = onnx.tanh([onnx.add([onnx.matmul([h, made.weight(6, 6)]), made.weight(6)])])
            kept.append(h)
    with made.at(STAGES - 1):
        scores = onnx.softmax([onnx.gemm([h, made.weight(6, 3), made.weight(3)])])
        loss = core.nllloss([scores, labels])
    return made.model(loss, [*kept, scores], x=(4, 6), labels=(4,))


@functools.cache
def embedding() -> Model:
    """A table of rows, a product of activations, a dropout that keeps all, and a weight that is read twice in its stage."""
    made = Stages()
    onnx, core = made.builder.aiOnnx, made.builder.aiGraphcore
    labels = made.builder.addInputTensor("INT32", [4, 2], "labels")
    with made.at(0):
        rows = onnx.reducemean([onnx.gather([made.weight(3, 6), labels])], axes=[1], keepdims=0)
    with made.at(1):
        shared = made.weight(6, 6)
        h = onnx.tanh([onnx.matmul([onnx.matmul([rows, shared]), onnx.transpose([shared])])])
        product = onnx.mul([h, rows])
    with made.at(2):
        out = onnx.exp([onnx.matmul([product, made.weight(6, 2)])])
        loss = core.identityloss([out], reduction=popart.ReductionType.Mean)
    return made.model(loss, [rows, h, product], labels=(4, 2))


MODELS: Final = {"dense": dense, "embedding": embedding}
OPTIMIZERS: Final[dict[str, Callable[[], popart.Optimizer]]] = {
    "momentum": lambda: popart.SGD({"defaultLearningRate": (0.1, True), "defaultMomentum": (0.9, True), "lossScaling": (4.0, True)}),
    "adam": lambda: popart.Adam({"defaultLearningRate": (0.02, True), "defaultEps": (1e-3, True)}),
}


def trained(model: Model, optimizer: str, *, replicas: int, pipelined: bool, recompute: bool) -> dict[str, Array]:
    """Anchors of two steps and the weights after them."""
    options = popart.SessionOptions()
    options.enableGradientAccumulation, options.accumulationFactor = True, ACCUMULATION
    if replicas > 1:
        options.enableReplicatedGraphs, options.replicatedGraphCount = True, replicas
    if pipelined:
        options.virtualGraphMode, options.enablePipelining = popart.VirtualGraphMode.Manual, True
    if recompute:
        options.autoRecomputation = popart.RecomputationType.Pipeline if pipelined else popart.RecomputationType.Standard
    ipus = (STAGES if pipelined else 1) * replicas
    session = popart.TrainingSession(
        fnModel=model.proto,
        dataFlow=popart.DataFlow(BATCHES, dict.fromkeys(model.anchors, popart.AnchorReturnType("All"))),
        loss=model.loss,
        optimizer=OPTIMIZERS[optimizer](),
        deviceInfo=DeviceInfo(popart.DeviceType.Cpu, num_ipus=ipus),  # values alone
        userOptions=options,
    )
    session.prepareDevice()
    session.weightsFromHost()
    rng, found = np.random.default_rng(11), dict[str, Array]()
    for step in range(2):
        leading = (BATCHES, ACCUMULATION, *([replicas] if replicas > 1 else []))
        inputs = {name: model.feeds[name](rng, (*leading, *shape)) for name, shape in model.shapes.items()}
        anchors = session.initAnchorArrays()
        session.run(popart.PyStepIO(inputs, anchors))
        found |= {f"step {step}: {name}": array for name, array in anchors.items()}
    session.weightsToHost()
    weights = {name: np.empty(session.getInfo(name).shape(), np.float32) for name in model.weights}
    session.readWeights(popart.PyWeightsIO(weights))
    return found | weights


@functools.cache
def plain(model: str, optimizer: str, replicas: int) -> dict[str, Array]:
    return trained(MODELS[model](), optimizer, replicas=replicas, pipelined=False, recompute=False)


@pytest.mark.slow
@pytest.mark.parametrize(("model", "optimizer", "replicas", "recompute"), [*itertools.product(MODELS, OPTIMIZERS, (1, 2), (False, True))])
def test_pipelined_and_accumulated_is_plain(model: str, optimizer: str, replicas: int, recompute: bool) -> None:
    expected = plain(model, optimizer, replicas)
    found = trained(MODELS[model](), optimizer, replicas=replicas, pipelined=True, recompute=recompute)
    assert found.keys() == expected.keys()
    for name, array in expected.items():
        assert found[name].shape == array.shape
        np.testing.assert_allclose(found[name], array, rtol=0, atol=1e-5 * np.abs(array).max(), err_msg=name)
