"""Arrays of a step: sizes, types, names, what is checked, and what each return type gives."""

from typing import Any

import numpy as np
import pytest

from tests.unit.popart.session.models import Array, Model, inference, numbers, run, same, squares, training
from tilestep import popart
from tilestep.popart.session.model.graph import narrowed


def doubled(kind: str = "FLOAT", batches: int = 1, **changes: Any) -> tuple[popart.InferenceSession, str, str]:
    """A session of y = x + x, x's name, y's name."""
    builder = popart.Builder()
    x = builder.addInputTensor(kind, [2])
    y = builder.aiOnnx.add([x, x])
    return inference(builder.getModelProto(), {y: "All"}, batches=batches, **changes), x, y


def test_the_anchors_return_type_is_in_the_error(builder: popart.Builder) -> None:
    x = builder.addInputTensor("FLOAT", [2])
    y = builder.aiOnnx.add([x, x])
    session = inference(builder.getModelProto(), {y: popart.AnchorReturnType("EveryN", 2)}, batches=4)
    with pytest.raises(popart.popart_runtime_error, match=r"The anchor return type is  EveryN\nThe return period is 2$"):
        session.run(popart.PyStepIO({x: np.zeros(8, np.float32)}, {y: np.zeros(8, np.float32)}))


def test_without_checks_an_array_is_read_again_from_its_begin() -> None:
    session, x, y = doubled(batches=4)
    target = np.zeros(8, np.float32)
    io = popart.PyStepIO({x: np.arange(4, dtype=np.float32)}, {y: target})
    io.enableRuntimeAsserts(False)
    session.run(io)
    same(target, [0, 2, 4, 6, 0, 2, 4, 6])
    for size in (1, 3, 6, 0):
        io = popart.PyStepIO({x: np.zeros(size, np.float32)}, {y: target})
        io.enableRuntimeAsserts(False)
        with pytest.raises(popart.popart_runtime_error, match=r"^Unexpected number of input elements for Tensor"):
            session.run(io)


def test_without_checks_unknown_names_are_left_out() -> None:
    session, x, y = doubled()
    target = np.zeros(2, np.float32)
    io = popart.PyStepIO({x: np.ones(2, np.float32), "not there": np.zeros(1)}, {y: target})
    io.enableRuntimeAsserts(False)
    session.run(io)
    same(target, [2, 2])


def test_a_missing_input_and_a_missing_anchor_are_named() -> None:
    session, x, y = doubled()
    with pytest.raises(popart.popart_runtime_error, match=f"^No tensor {x} provided in PyStepIO's inputs: it has none"):
        session.run(popart.PyStepIO({}, session.initAnchorArrays()))
    with pytest.raises(popart.popart_runtime_error, match=f"^No tensor {y} provided in PyStepIO's outputs: it has none"):
        session.run(popart.PyStepIO({x: np.zeros(2, np.float32)}, {}))


def test_an_anchor_that_the_session_does_not_have_is_left_alone() -> None:
    session, x, _ = doubled()
    more = np.full(3, 9, np.float32)
    session.run(popart.PyStepIO({x: np.ones(2, np.float32)}, {**session.initAnchorArrays(), "else": more}))
    same(more, [9, 9, 9])


def test_an_unknown_input_and_a_tensor_that_is_no_input_are_errors() -> None:
    session, x, y = doubled()
    given = {x: np.zeros(2, np.float32)}
    with pytest.raises(popart.popart_runtime_error, match="But there is no Tensor named nothing in the Ir's main Graph"):
        session.run(popart.PyStepIO({**given, "nothing": np.zeros(2)}, session.initAnchorArrays()))
    with pytest.raises(popart.popart_runtime_error, match=f"^The tensor '{y}' has been provided as one of the inputs to the stepIO"):
        session.run(popart.PyStepIO({**given, y: np.zeros(2)}, session.initAnchorArrays()))


@pytest.mark.parametrize(
    ("kind", "array"), [("FLOAT", np.zeros(2)), ("INT32", np.zeros(2, np.float32)), ("FLOAT16", np.zeros(2, np.float32))]
)
def test_another_type_is_an_error_that_says_both(kind: str, array: Array) -> None:
    session, x, _ = doubled(kind)
    wanted = {"FLOAT": "FLOAT32"}.get(kind, kind)
    message = (
        f"^Type discrepancy for tensor {x}. User provided : {array.dtype.name.upper()} and expected : {wanted}. Consider a custom copy"
    )
    with pytest.raises(popart.popart_runtime_error, match=message):
        session.run(popart.PyStepIO({x: array}, session.initAnchorArrays()))


@pytest.mark.parametrize("kind", ["INT64", "INT32"])
def test_64_bit_integers_are_narrowed_if_they_fit(kind: str) -> None:
    session, x, y = doubled(kind)
    assert session.getInfo(x).data_type() == "INT32"
    found = run(session, {x: np.array([-(2**30), 2**30 - 1], np.int64)})
    same(found[y], [-(2**31), 2**31 - 2])
    assert found[y].dtype == np.int32
    with pytest.raises(popart.popart_exception, match=r"^Tensor 'input' has a value outside of int32: it is from 0 to 2147483648"):
        run(session, {x: np.array([0, 2**31], np.int64)})


def test_the_checks_of_a_step_are_made_once_for_each_stepio() -> None:
    session, x, y = doubled()
    io = popart.PyStepIO({x: np.ones(2, np.float32)}, session.initAnchorArrays())
    session.run(io)
    io.inputs[x][:] = 4  # a program may write the next step's inputs into the same array
    session.run(io)
    same(io.outputs[y], [8, 8])
    with pytest.raises(popart.popart_runtime_error, match=r"^Unexpected number of input elements"):
        session.run(popart.PyStepIO({x: np.ones(3, np.float32)}, io.outputs))


def test_scalars_and_lists_are_taken_as_arrays(builder: popart.Builder) -> None:
    x = builder.addInputTensor("FLOAT", [])
    y = builder.aiOnnx.add([x, x])
    session = inference(builder.getModelProto(), {y: "All"})
    assert session.initAnchorArrays()[y].shape == ()
    same(run(session, {x: np.float32(3)})[y], 6)


def test_64_bit_floats_are_narrowed_if_they_fit() -> None:
    np.testing.assert_array_equal(narrowed("x", np.array([1.5, -np.inf]), casts=True), np.array([1.5, -np.inf], np.float32))
    with pytest.raises(popart.popart_exception, match=r"^Tensor 'x' has a value beyond float32: 1e\+300"):
        narrowed("x", np.array([1.0, -1e300]), casts=True)


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
def test_only_leading_dimensions_of_size_1_are_left_out(
    builder: popart.Builder, batches: int, accumulation: int, shape: tuple[int, ...]
) -> None:
    x = builder.addInputTensor("FLOAT", [1, 1, 3])
    w = builder.addInitializedInputTensor(np.ones(3, np.float32))
    y = builder.aiOnnx.mul([x, w])
    model = Model(x=x, w=w, y=y, loss=builder.aiGraphcore.identityloss([y]), proto=builder.getModelProto())
    session = training(model, {y: "All"}, batches=batches, accumulation=accumulation, prepare=False)
    assert session.initAnchorArrays()[y].shape == shape


def test_arrays_of_anchors_have_the_tensors_types(builder: popart.Builder) -> None:
    x = builder.addInputTensor("FLOAT16", [2, 2])
    top, places = builder.aiOnnx.topk([x, builder.aiOnnx.constant(np.array([1], np.int64))])
    equal = builder.aiOnnx.equal([x, x])
    session = inference(builder.getModelProto(), {top: "All", places: "All", equal: "All"})
    found = run(session, {x: np.array([[1, 3], [5, 2]], np.float16)})
    same(found[top], np.array([[3], [5]], np.float16))
    same(found[places], np.array([[1], [0]], np.int32))
    assert [found[name].dtype for name in (top, places, equal)] == [np.float16, np.int32, np.bool_]
    assert found[equal].all()
