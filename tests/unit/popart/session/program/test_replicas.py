"""Sessions of several replicas: they train as one with all microbatches, and each has its own inputs, anchors and random numbers."""

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.unit.popart.session.models import (
    Array,
    Kind,
    Model,
    flow,
    ipu_model,
    numbers,
    run,
    same,
    squares,
    trained,
    training,
    weights_of,
)
from tests.unit.popart.session.replica_models import replicated, trained_by
from tilestep import popart


def as_batches(model: Model, inputs: Array) -> Any:
    """What `squares` gives in NumPy. Args: inputs: [batches, microbatches, replicas, 2, 3]."""
    return trained(inputs.reshape(inputs.shape[0], -1, 2, 3))


@pytest.mark.slow
def test_anchors_have_a_dimension_of_replicas() -> None:
    model, inputs = squares(), numbers(4, 2, 2)
    kinds = {model.y: "All", "Gradient___w": "Final", "loss": "Sum", f"Gradient___{model.y}": "EveryN"}
    anchors = {
        model.loss if name == "loss" else name: popart.AnchorReturnType(kind, 2) if kind == "EveryN" else popart.AnchorReturnType(kind)
        for name, kind in kinds.items()
    }
    session = trained_by(model, 2, anchors, batches=4, accumulation=2)
    found = run(session, {model.x: inputs})
    each = as_batches(model, inputs).values
    for name, kind in kinds.items():
        values = each[name].reshape(4, 2, 2, *each[name].shape[2:])
        flat = values.reshape(8, 2, *values.shape[3:])
        expected = {"All": values, "Final": values[-1, -1], "Sum": flat.sum(0), "EveryN": flat[1::2].reshape(2, 2, 2, *values.shape[3:])}
        same(found[model.loss if name == "loss" else name], expected[kind])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("optimizer", "reduction"), [*itertools.product(("Combined", "Separate", "Adam", "Adaptive"), ("Sum", "Post", "Running"))]
)
def test_optimizers_of_replicas_reduce_as_accumulation_does(optimizer: str, reduction: str) -> None:
    values = {"defaultLearningRate": (0.05, False), "lossScaling": (16.0, False)}
    momentum = {**values, "defaultMomentum": (0.5, True)}
    made = {
        "Combined": lambda: popart.SGD(momentum),
        "Separate": lambda: popart.SGD(momentum, accumulatorAndMomentum=popart.SGDAccumulatorAndMomentum.Separate),
        "Adam": lambda: popart.Adam(values),
        "Adaptive": lambda: popart.Adaptive(values),
    }[optimizer]
    model, inputs = squares(), numbers(2, 4)
    mean = popart.ReductionType.Sum if reduction == "Sum" else popart.ReductionType.Mean
    reductions: dict[str, Any] = {"accumulationAndReplicationReductionType": mean}
    if reduction != "Sum":
        reductions["meanAccumulationAndReplicationReductionStrategy"] = popart.MeanReductionStrategy[reduction]
    one = training(model, batches=2, accumulation=4, optimizer=made(), **reductions)
    several = trained_by(model, 2, batches=2, accumulation=2, optimizer=made(), **reductions)
    for session in (one, several):
        run(session, {model.x: inputs})
    np.testing.assert_allclose(weights_of(several, "w")["w"], weights_of(one, "w")["w"], rtol=1e-5)


class Host:
    """Gives microbatches and takes anchors, one replica after the other."""

    def __init__(self, model: Model, inputs: Array) -> None:
        self._inputs = iter(inputs.reshape(-1, 2, 3))
        self._model, self.taken = model, dict[str, list[Array]]()
        self.calls: list[str] = []

    def give(self, name: str, prefetch: bool) -> Array:
        self.calls.append(name)
        return next(self._inputs)

    def take(self, name: str) -> Array:
        self.calls.append(name)
        shape = {self._model.y: (2, 2), self._model.loss: (), "w": (3, 2)}[name]
        self.taken.setdefault(name, []).append(np.full(shape, np.nan, np.float32))
        return self.taken[name][-1]

    def io(self) -> popart.PyStepIOCallback:
        return popart.PyStepIOCallback(self.give, lambda _: None, self.take, lambda _: None)


@pytest.mark.parametrize("accumulation", [pytest.param(1, marks=pytest.mark.slow), 3])
def test_each_replicas_piece_is_a_call(accumulation: int) -> None:
    model, inputs = squares(), numbers(2, accumulation, 2)
    anchors: dict[str, Kind] = {model.y: "All", model.loss: "Sum", "w": "Final"}
    session = trained_by(model, 2, anchors, batches=2, accumulation=accumulation)
    expected, weight = run(session, {model.x: inputs}), weights_of(session, "w")["w"]
    session.weightsFromHost()
    host = Host(model, inputs)
    session.run(host.io())
    assert host.calls == [model.x, model.x, model.y, model.y] * (2 * accumulation) + [model.loss] * 2 + ["w"] * 2
    for name, arrays in host.taken.items():
        np.testing.assert_allclose(np.array(arrays).reshape(expected[name].shape), expected[name], rtol=1e-6)
    same(weights_of(session, "w")["w"], weight)


@pytest.mark.parametrize("accumulation", [1, 2])
def test_all_replicas_get_a_broadcast_input(builder: popart.Builder, accumulation: int) -> None:
    x = builder.addInputTensor(popart.TensorInfo("FLOAT", [2]), popart.InputSettings(popart.ReplicatedStreamMode.Broadcast), "x")
    own = builder.addInputTensor(popart.TensorInfo("FLOAT", [2]), "own")
    y = builder.aiOnnx.add([x, own])
    session = popart.InferenceSession(
        builder.getModelProto(), flow(3, {y: "All", x: "Sum"}), ipu_model(ipus=2), userOptions=replicated(2, constantWeights=False)
    )
    session.prepareDevice()
    shared, owned = np.arange(6, dtype=np.float32), np.arange(12, dtype=np.float32)
    found = run(session, {x: shared, own: owned})
    same(found[y], shared.reshape(3, 1, 2) + owned.reshape(3, 2, 2))
    same(found[x], np.stack([shared.reshape(3, 2).sum(0)] * 2))
    given = {x: iter(shared.reshape(3, 2)), own: iter(owned.reshape(6, 2))}
    taken: list[Array] = []

    def take(name: str) -> Array:
        taken.append(np.zeros(2, np.float32))
        return taken[-1]

    session.run(popart.PyStepIOCallback(lambda name, _: next(given[name]), lambda _: None, take, lambda _: None))
    same(np.array(taken[:6]).reshape(3, 2, 2), found[y])


def dropped(count: int) -> tuple[popart.TrainingSession, str, str]:
    """A session of one dropout. Returns: it, its input and its anchor [replicas, 1000]."""
    builder = popart.Builder()
    x = builder.addInputTensor(popart.TensorInfo("FLOAT", [1000]))
    [y] = builder.aiOnnx.dropout([x], 1, 0.5)
    loss = builder.aiGraphcore.identityloss([y])
    model = Model(proto=builder.getModelProto(), x=x, w="", y=y, loss=loss)
    return trained_by(model, count, {y: "All"}, batches=2), x, y


@pytest.mark.slow
def test_replicas_draw_different_numbers_that_a_seed_brings_back() -> None:
    session, x, y = dropped(2)
    ones = np.ones((2, 2, 1000), np.float32)
    session.setRandomSeed(7)
    first = run(session, {x: ones})[y]
    kept = first.reshape(4, 1000) > 0
    for one, other in itertools.combinations(kept, 2):
        assert 400 < (one != other).sum() < 600  # half of 1000, and six standard deviations of 16
    assert (run(session, {x: ones})[y] != first).any()
    session.setRandomSeed(7)
    same(run(session, {x: ones})[y], first)


def test_an_input_that_no_operator_reads_need_not_be_given(builder: popart.Builder) -> None:
    x = builder.addInputTensor(popart.TensorInfo("FLOAT", [2]), "x")
    builder.addInputTensor(popart.TensorInfo("FLOAT", [3]), "unread")
    y = builder.aiOnnx.neg([x])
    session = popart.InferenceSession(builder.getModelProto(), flow(1, {y: "All"}), ipu_model(), userOptions=replicated(1))
    session.prepareDevice()
    same(run(session, {x: np.ones(2, np.float32)})[y], np.full(2, -1, np.float32))


def made_of(build: Callable[[popart.Builder, str], str]) -> tuple[popart.InferenceSession, str, str]:
    """A session of two replicas. Args: build: makes an output of an input [2]. Returns: it, its input and its anchor."""
    builder = popart.Builder()
    x = builder.addInputTensor(popart.TensorInfo("FLOAT", [2]), "x")
    y = build(builder, x)
    session = popart.InferenceSession(builder.getModelProto(), flow(1, {y: "All"}), ipu_model(ipus=2), userOptions=replicated(2))
    session.prepareDevice()
    return session, x, y


@pytest.mark.slow
def test_each_replica_prints(capfd: pytest.CaptureFixture[str]) -> None:
    session, x, _ = made_of(lambda builder, x: builder.aiGraphcore.printtensor([x], title="seen", digits=0))
    run(session, {x: np.arange(4, dtype=np.float32)})
    assert capfd.readouterr().err == "seen: [0 1]\nseen: [2 3]\n"


@pytest.mark.parametrize("act", ["abort", "printtensor"])
def test_what_acts_outside_of_the_program_is_not_in_a_branch_of_replicas(act: str) -> None:
    def build(builder: popart.Builder, x: str) -> str:
        arms: list[popart.Builder] = []
        for _ in range(2):
            arm = builder.createSubgraphBuilder()
            arm.addInputTensorFromParentGraph(x)
            if act == "abort":
                arm.aiGraphcore.abort([])
            arm.addOutputTensor(arm.aiGraphcore.printtensor([x]) if act == "printtensor" else arm.aiOnnx.neg([x]))
            arms.append(arm)
        condition = builder.aiOnnx.greater([builder.aiOnnx.reducesum([x], keepdims=0), builder.aiOnnx.constant(np.float32(0))])
        return builder.aiOnnx.logical_if([condition], 1, arms[0], arms[1])[0]

    with pytest.raises(popart.popart_exception, match="set replicatedGraphCount to 1"):
        made_of(build)
