"""What a step returns: each return type, of each kind of tensor, with batches and accumulation."""

from __future__ import annotations

import numpy as np
import pytest

from tests.unit.popart.session.models import Model, inference, numbers, run, same, squares, training
from tilestep import popart


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
