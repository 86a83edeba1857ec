"""Weights between the host and the device, between sessions, and in files."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from tests.unit.popart.session.models import (
    WEIGHT,
    Array,
    Model,
    cpu,
    inference,
    numbers,
    run,
    same,
    squares,
    trained,
    training,
)
from tilestep import popart

OTHER = np.array([[1, 2], [3, 4], [5, 6]], np.float32)
ONES = np.ones((2, 3), np.float32)


def read(session: popart.TrainingSession | popart.InferenceSession) -> Array:
    """What the host has received last."""
    arrays = {"w": np.zeros((3, 2), np.float32)}
    session.readWeights(popart.PyWeightsIO(arrays))
    return arrays["w"]


def write(session: popart.TrainingSession | popart.InferenceSession, value: Array) -> None:
    session.writeWeights(popart.PyWeightsIO({"w": value}))


def saved(path: Path) -> dict[str, Array]:
    return {tensor.name: numpy_helper.to_array(tensor) for tensor in onnx.load(str(path)).graph.initializer}


def test_of_weights_that_do_not_all_fit_none_is_taken() -> None:
    session = training(squares())
    model = onnx.load_from_string(squares().proto)
    model.graph.initializer[0].CopyFrom(numpy_helper.from_array(OTHER, "w"))
    model.graph.initializer.append(numpy_helper.from_array(ONES, "w_"))
    with pytest.raises(popart.popart_runtime_error, match="no tensor 'w_' in tensors"):
        session.resetHostWeights(model)
    session.weightsFromHost()
    session.weightsToHost()
    same(read(session), WEIGHT)


def test_wrong_shapes_and_types_are_errors_and_unknown_names_are_left_out() -> None:
    session = training(squares())
    for value in (np.ones((2, 3), np.float32), np.ones((3, 2), np.float16), np.ones((3, 2), np.int32)):
        with pytest.raises(
            popart.popart_runtime_error, match=r"^Trying to reset weights using tensor with non matching tensor info. Tensor ID: w"
        ):
            write(session, value)
    session.writeWeights(popart.PyWeightsIO({"nothing": np.ones(1)}))
    with pytest.raises(popart.popart_runtime_error, match=r"^sizes \(in bytes\) of src \(24\) and dst \(20\) differ"):
        session.readWeights(popart.PyWeightsIO({"w": np.zeros(5, np.float32)}))
    untouched = np.full(3, 7)
    session.readWeights(popart.PyWeightsIO({"nothing": untouched}))
    same(untouched, [7, 7, 7])


def test_constant_weights_of_inference_cannot_be_replaced() -> None:
    model = squares()
    session = inference(model.proto, {model.y: "All"})
    with pytest.raises(popart.popart_runtime_error, match=r"^Cannot call writeWeights when constantWeights is set"):
        write(session, OTHER)
    with pytest.raises(popart.popart_runtime_error, match=r"^Cannot call resetHostWeights when constantWeights is set"):
        session.resetHostWeights(model.proto)
    session = inference(model.proto, {model.y: "All"}, constantWeights=False)
    session.weightsFromHost()
    write(session, OTHER)
    session.weightsFromHost()
    same(run(session, {model.x: ONES})[model.y], ONES @ OTHER)


def test_a_model_s_weights_take_the_place_of_the_host_s() -> None:
    model = squares()
    session = training(model, {model.y: "All"})
    session.resetHostWeights(squares(start=OTHER).proto)
    with pytest.raises(popart.popart_runtime_error, match=r"^Must call weightsFromHost before run"):
        run(session, {model.x: ONES})
    session.weightsFromHost()
    same(run(session, {model.x: ONES})[model.y], ONES @ OTHER)


def test_a_model_with_other_weights_is_an_error() -> None:
    session = training(squares())
    builder = popart.Builder()
    builder.addInitializedInputTensor(OTHER, "v")
    with pytest.raises(popart.popart_runtime_error, match=r"^resetWeights, no tensor 'v' in tensors"):
        session.resetHostWeights(builder.getModelProto())
    session.resetHostWeights(builder.getModelProto(), ignoreWeightsInModelWithoutCorrespondingHostWeight=True)
    builder = popart.Builder()
    builder.addInitializedInputTensor(np.ones(2, np.float32), "w")
    with pytest.raises(
        popart.popart_runtime_error, match=r"^Trying to reset weights using tensor with non matching tensor info. Tensor ID: w"
    ):
        session.resetHostWeights(builder.getModelProto())


@pytest.mark.slow
def test_a_saved_model_has_the_weights_and_the_optimisers_state(tmp_path: Path) -> None:
    model, inputs, path = squares(), numbers(2, 1), tmp_path / "model.onnx"
    session = training(model, {"w": "Final"}, batches=2)
    run(session, {model.x: inputs})
    session.modelToHost(str(path))
    expected = trained(inputs)
    same(saved(path)["w"], expected.weight)
    same(saved(path)["Accl___w"], expected.velocity)
    whole = trained(np.concatenate([inputs, inputs])).weight
    for start in (str(path), path.read_bytes()):
        again = training(Model(proto=start, x=model.x, w="w", y=model.y, loss=model.loss), {"w": "Final"}, batches=2)
        same(run(again, {model.x: inputs})["w"], whole)
    session.weightsFromHost()  # modelToHost has made the received weights those that go out
    same(run(session, {model.x: inputs})["w"], whole)


def test_integers_of_64_bits_come_back_to_the_model_as_such(tmp_path: Path) -> None:
    builder = popart.Builder()
    x = builder.addInputTensor("INT64", [2])
    k = builder.addInitializedInputTensor(np.array([3, -4], np.int64), "k")
    y = builder.aiOnnx.add([x, k])
    session = inference(builder.getModelProto(), {y: "All"})
    assert session.getInfo("k").data_type() == "INT32"
    same(run(session, {x: np.array([1, 2])})[y], [4, -2])
    session.modelToHost(str(tmp_path / "model.onnx"))
    assert saved(tmp_path / "model.onnx")["k"].dtype == np.int64
    builder = popart.Builder()
    builder.addOutputTensor(builder.aiOnnx.identity([builder.addInitializedInputTensor(np.array([2**40], np.int64), "k")]))
    with pytest.raises(popart.popart_exception, match=r"^Tensor 'k' has a value outside of int32"):
        popart.InferenceSession(builder.getModelProto(), popart.DataFlow(1, ["k"]), cpu())
