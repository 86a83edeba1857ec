"""What a step returns: each return type, of each kind of tensor, with batches and accumulation."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from tests.unit.popart.session.models import MOMENTUM, RATE, Arrays, Model, inference, numbers, run, same, squares, trained, training
from tilestep import popart

NAMES = [
    "input",
    "MatMul:0",
    "w",
    "Gradient___input",
    "Gradient___MatMul:0",
    "Gradient___w",
    "loss",
    "Gradient___loss",
    "Accl___w",
    "UpdatedVar___w",
]


def returned(kind: str, values: Any, *, weight: Any, name: str) -> Any:
    """What an anchor of a kind has, of each microbatch's values [batches, microbatches, ...]."""
    batches, accumulation, *shape = values.shape
    if kind == "Sum":
        return values.sum((0, 1))
    if kind == "Final":
        return weight if name == "w" else values[-1, -1]
    leading = [batches, accumulation]
    if kind == "EveryN":
        values, leading = values.reshape(-1, *shape)[batches - 1 :: batches], [1, accumulation]
    return values.reshape([*(size for size in leading if size != 1), *shape])


def anchored(kind: str, batches: int, accumulation: int) -> tuple[Arrays, Arrays]:
    """(what a session returns, each microbatch's values in NumPy); of "EveryN" the period is the number of batches."""
    model = squares()
    art = popart.AnchorReturnType(kind, batches) if kind == "EveryN" else popart.AnchorReturnType(kind)
    anchors = dict.fromkeys([name.replace("loss", model.loss) for name in NAMES], art)
    session = training(model, anchors, batches=batches, accumulation=accumulation)
    inputs = numbers(batches, accumulation)
    found = {name.replace(model.loss, "loss"): value for name, value in run(session, {model.x: inputs}).items()}
    reference = trained(inputs)
    return found, {name: returned(kind, value, weight=reference.weight, name=name) for name, value in reference.values.items()}


@pytest.mark.parametrize(("kind", "batches", "accumulation"), [*itertools.product(["All", "Final", "EveryN", "Sum"], [1, 3], [1, 2])])
def test_each_return_type_has_its_values(kind: str, batches: int, accumulation: int) -> None:
    found, expected = anchored(kind, batches, accumulation)
    assert set(found) == set(NAMES)
    for name in NAMES:
        same(found[name], expected[name].astype(np.float32))


@pytest.mark.parametrize("accumulation", [1, 2])
def test_every_nth_counts_microbatches(accumulation: int) -> None:
    model = squares()
    session = training(model, {model.x: popart.AnchorReturnType("EveryN", 2)}, batches=4, accumulation=accumulation)
    inputs = numbers(4, accumulation)
    found = run(session, {model.x: inputs})[model.x]
    same(found.reshape(-1, 2, 3), inputs.reshape(-1, 2, 3)[1::2])
    assert found.shape == ((2, 2, 3) if accumulation == 1 else (2, 2, 2, 3))


@pytest.mark.parametrize(
    ("batches", "accumulation", "shape"), [(1, 1, (1, 1, 3)), (5, 1, (5, 1, 1, 3)), (1, 2, (2, 1, 1, 3)), (5, 2, (5, 2, 1, 1, 3))]
)
def test_only_leading_dimensions_of_size_1_are_left_out(batches: int, accumulation: int, shape: tuple[int, ...]) -> None:
    builder = popart.Builder()
    x = builder.addInputTensor("FLOAT", [1, 1, 3])
    w = builder.addInitializedInputTensor(np.ones(3, np.float32))
    y = builder.aiOnnx.mul([x, w])
    model = Model(x=x, w=w, y=y, loss=builder.aiGraphcore.identityloss([y]), proto=builder.getModelProto())
    session = training(model, {y: "All"}, batches=batches, accumulation=accumulation, prepare=False)
    assert session.initAnchorArrays()[y].shape == shape


def test_arrays_of_anchors_have_the_tensors_types() -> None:
    builder = popart.Builder()
    x = builder.addInputTensor("FLOAT16", [2, 2])
    top, places = builder.aiOnnx.topk([x, builder.aiOnnx.constant(np.array([1], np.int64))])
    equal = builder.aiOnnx.equal([x, x])
    session = inference(builder.getModelProto(), {top: "All", places: "All", equal: "All"})
    found = run(session, {x: np.array([[1, 3], [5, 2]], np.float16)})
    same(found[top], np.array([[3], [5]], np.float16))
    same(found[places], np.array([[1], [0]], np.int32))
    assert [found[name].dtype for name in (top, places, equal)] == [np.float16, np.int32, np.bool_]
    assert found[equal].all()


def test_a_sum_of_integers_and_halves_keeps_the_type() -> None:
    builder = popart.Builder()
    x, k = builder.addInputTensor("FLOAT16", [2]), builder.addInputTensor("INT32", [2])
    y, n = builder.aiOnnx.add([x, x]), builder.aiOnnx.add([k, k])
    found = run(
        inference(builder.getModelProto(), {y: "Sum", n: "Sum"}, batches=3),
        {x: np.arange(6, dtype=np.float16), k: np.arange(6, dtype=np.int32)},
    )
    same(found[y], np.array([12, 18], np.float16))
    same(found[n], np.array([12, 18], np.int32))
    assert (found[y].dtype, found[n].dtype) == (np.float16, np.int32)


def test_gradients_with_a_loss_scaling_are_scaled() -> None:
    model = squares()
    optimizer = popart.SGD({"defaultLearningRate": (RATE, True), "lossScaling": (8, True)})
    session = training(model, {"Gradient___w": "All", f"Gradient___{model.loss}": "All", "w": "Final"}, optimizer=optimizer)
    inputs = numbers(1, 1)
    found, expected = run(session, {model.x: inputs}), trained(inputs, momentum=0)
    same(found["Gradient___w"], 8 * expected.values["Gradient___w"][0, 0])
    same(found[f"Gradient___{model.loss}"], 8)
    same(found["w"], expected.weight)


def test_the_state_of_adam_is_anchored_by_its_reserved_names() -> None:
    model = squares()
    optimizer = popart.Adam({"defaultLearningRate": (RATE, True)})
    names = ["Accum___w", "Accl1___w", "Accl2___w", "Step___w"]
    session = training(model, dict.fromkeys(names, "All"), optimizer=optimizer, batches=3, accumulation=2)
    inputs = numbers(3, 2)
    found = run(session, {model.x: inputs})
    first = trained(inputs[:1])
    gradients = first.values["Gradient___w"][0]
    same(found["Accum___w"][0], np.cumsum(gradients, 0))
    same(found["Step___w"].reshape(3, 2), [[0, 0], [1, 1], [2, 2]])
    one_minus_beta1, one_minus_beta2 = np.float32(1) - np.float32([0.9, 0.999])
    np.testing.assert_allclose(found["Accl1___w"][1, 0], one_minus_beta1 * gradients.sum(0), rtol=1e-6)
    np.testing.assert_allclose(found["Accl2___w"][1, 1], one_minus_beta2 * gradients.sum(0) ** 2, rtol=1e-6)


def test_separate_accumulators_have_both_names() -> None:
    model = squares()
    optimizer = popart.SGD(
        {"defaultLearningRate": (RATE, True), "defaultMomentum": (MOMENTUM, True)},
        accumulatorAndMomentum=popart.SGDAccumulatorAndMomentum.Separate,
    )
    session = training(model, {"Accum___w": "All", "Accl1___w": "Final", "w": "Final"}, optimizer=optimizer, accumulation=2)
    inputs = numbers(1, 2)
    found, expected = run(session, {model.x: inputs}), trained(inputs)
    same(found["Accum___w"], np.cumsum(expected.values["Gradient___w"][0], 0))
    same(found["Accl1___w"], expected.values["Gradient___w"][0].sum(0))
    same(found["w"], expected.weight)
