"""Models as a session runs them: shapes that are given late, norms, dropouts and graphs within graphs."""

import numpy as np
import onnx
import pytest

from tests.unit.popart.session.models import Model, cpu, inference, options, run, same, training, weights_of
from tilestep import popart


def test_open_shapes_come_from_input_shape_info() -> None:
    x, y = "x", "y"
    add = onnx.helper.make_node("Add", [x, x], [y])
    graph = onnx.helper.make_graph([add], "net", [onnx.ValueInfoProto(name=x)], [onnx.ValueInfoProto(name=y)])
    proto = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 10)], ir_version=8).SerializeToString()
    with pytest.raises(popart.popart_exception, match=r"^Could not find tensor x in InputShapeInfo, but no shape is specified"):
        inference(proto, {y: "All"}, prepare=False)
    for shape in ([2], [3, 1]):
        shapes = popart.InputShapeInfo()
        shapes.add(x, popart.TensorInfo("FLOAT", shape))
        session = inference(proto, {y: "All"}, shapes=shapes)
        assert session.getInfo(y).shape() == shape
        same(run(session, {x: np.ones(shape, np.float32)})[y], np.full(shape, 2, np.float32))


def test_a_named_size_is_set_by_input_shape_info() -> None:
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["": 10]> net (float[batch, 2] x) => (float[batch, 2] y) { y = Add(x, x) }'
    )
    proto = model.SerializeToString()
    with pytest.raises(
        popart.popart_exception, match=r"^Input tensor 'x' must be specified in InputShapeInfo, as it has shape \[batch, 2\], which uses"
    ):
        inference(proto, {"y": "All"}, prepare=False)
    shapes = popart.InputShapeInfo()
    shapes.add("x", popart.TensorInfo("FLOAT", [3, 2]))
    same(run(inference(proto, {"y": "All"}, shapes=shapes), {"x": np.ones((3, 2), np.float32)})["y"], np.full((3, 2), 2, np.float32))


def normed(*, trains: bool) -> tuple[bytes, str, str, str]:
    builder = popart.Builder()
    x = builder.addInputTensor("FLOAT", [4, 2, 1])
    names = [
        builder.addInitializedInputTensor(np.full(2, value, np.float32), name)
        for name, value in {"scale": 1, "bias": 0, "mean": 0, "variance": 1}.items()
    ]
    y = builder.aiOnnx.batchnormalization([x, *names], 5 if trains else 1, 1e-5, 0.75)[0]
    loss = builder.aiGraphcore.identityloss([y])
    return builder.getModelProto(), x, y, loss


def test_batch_norms_keep_statistics_in_training_from_batch_to_batch() -> None:
    proto, x, y, loss = normed(trains=True)
    session = training(
        Model(proto=proto, x=x, w="scale", y=y, loss=loss), {y: "All", "mean": "Final"}, batches=2, optimizer=popart.ConstSGD(1 / 64)
    )
    inputs = np.random.default_rng(0).normal(3, 2, (2, 4, 2, 1)).astype(np.float32)
    found = run(session, {x: inputs})
    mean, variance = np.zeros(2), np.ones(2)
    for batch in inputs.astype(np.float64)[..., 0]:
        mean = 0.75 * mean + 0.25 * batch.mean(0)
        variance = 0.75 * variance + 0.25 * batch.var(0)
    first = inputs[0, ..., 0].astype(np.float64)
    np.testing.assert_allclose(found[y][0, ..., 0], (first - first.mean(0)) / np.sqrt(first.var(0) + 1e-5), rtol=1e-5, atol=1e-6)
    kept = weights_of(session, "mean", "variance")
    np.testing.assert_allclose(kept["mean"], mean, rtol=1e-5)
    np.testing.assert_allclose(kept["variance"], variance, rtol=1e-5)
    same(found["mean"], kept["mean"])


def test_batch_norms_of_inference_keep_nothing() -> None:
    proto, x, y, _ = normed(trains=False)
    session = inference(proto, {y: "All"}, constantWeights=False)
    session.weightsFromHost()
    inputs = np.random.default_rng(0).normal(3, 2, (4, 2, 1)).astype(np.float32)
    np.testing.assert_allclose(run(session, {x: inputs})[y], inputs / np.sqrt(1 + 1e-5), rtol=1e-6)
    same(weights_of(session, "mean")["mean"], [0, 0])


# ------------------------------------------------------------------------------------------------------- graphs in graphs


def test_a_loop_has_values_and_gradients(builder: popart.Builder) -> None:
    x = builder.addInputTensor("FLOAT", [2])
    w = builder.addInitializedInputTensor(np.array([2, 3], np.float32), "w")
    trips, going = builder.aiOnnx.constant(np.array(3, np.int64)), builder.aiOnnx.constant(np.array(True))
    body = builder.createSubgraphBuilder()
    body.setGraphName("body")
    body.addInputTensor(popart.TensorInfo("INT64", []))
    inner = body.addInputTensor(popart.TensorInfo("BOOL", []))
    state = body.addUntypedInputTensor(x)
    body.addInputTensorFromParentGraph(w)
    body.addOutputTensor(inner)
    body.addOutputTensor(body.aiOnnx.mul([state, w]))
    y = builder.aiOnnx.loop([trips, going, x], 1, body)[0]
    loss = builder.aiGraphcore.identityloss([y], reduction=popart.ReductionType.Sum)
    model = Model(proto=builder.getModelProto(), x=x, w=w, y=y, loss=loss)
    found = run(training(model, {y: "All", "Gradient___w": "All", "Gradient___" + x: "All"}), {x: np.array([1, 2], np.float32)})
    same(found[y], [8, 54])
    same(found["Gradient___w"], [3 * 4, 3 * 2 * 9])
    same(found["Gradient___" + x], [8, 27])


def test_a_graph_that_is_called_twice_has_the_sum_of_both_gradients(builder: popart.Builder) -> None:
    x = builder.addInputTensor("FLOAT", [2])
    w = builder.addInitializedInputTensor(np.array([2, 3], np.float32), "w")
    callee = builder.createSubgraphBuilder()
    callee.setGraphName("callee")
    a, b = callee.addUntypedInputTensor(), callee.addUntypedInputTensor()
    callee.addOutputTensor(callee.aiOnnx.mul([a, b]))
    once = builder.aiGraphcore.call([x, w], 1, callee)[0]
    y = builder.aiGraphcore.call([once, w], 1, callee)[0]
    loss = builder.aiGraphcore.identityloss([y], reduction=popart.ReductionType.Sum)
    model = Model(proto=builder.getModelProto(), x=x, w=w, y=y, loss=loss)
    found = run(training(model, {once: "All", y: "All", "Gradient___w": "All"}), {x: np.array([1, 2], np.float32)})
    same(found[once], [2, 6])
    same(found[y], [4, 18])
    same(found["Gradient___w"], [4, 12])


def test_a_shape_that_depends_on_an_input_is_refused_by_its_name(builder: popart.Builder) -> None:
    x = builder.addInputTensor("FLOAT", [4])
    shape = builder.addInputTensor("INT64", [2])
    y = builder.aiOnnx.reshape([x, shape])
    with pytest.raises(popart.popart_exception, match=r"^Need the value of .* Could not work out tensor data for input/1"):
        inference(builder.getModelProto(), {y: "All"}, prepare=False)


def test_a_shape_that_is_an_initialiser_is_a_constant(builder: popart.Builder) -> None:
    x = builder.addInputTensor("FLOAT", [4])
    shape = builder.addInitializedInputTensor(np.array([2, 2], np.int64), "shape")
    y = builder.aiOnnx.reshape([x, shape])
    session = popart.InferenceSession(builder.getModelProto(), popart.DataFlow(1, [y]), cpu(), userOptions=options(constantWeights=False))
    session.prepareDevice()
    same(run(session, {x: np.arange(4, dtype=np.float32)})[y], [[0, 1], [2, 3]])
