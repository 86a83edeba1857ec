import numpy as np
import onnx
import pytest

from tilestep import popart
from tilestep.popart import Builder, TensorInfo

INFO = TensorInfo("FLOAT", [2])


def test_a_loop_over_operators_of_graphcore_has_a_shape(builder: Builder) -> None:
    a = builder.addInputTensor(INFO, "a")
    trips, condition = builder.aiOnnx.constant(np.array(3, np.int64)), builder.aiOnnx.constant(np.array(True))
    body = builder.createSubgraphBuilder()
    body.addInputTensor(TensorInfo("INT64", []))
    going = body.addInputTensor(TensorInfo("BOOL", []))
    state = body.addUntypedInputTensor()
    body.addOutputTensor(going)
    body.addOutputTensor(body.aiGraphcore.gelu([state]))
    made = builder.aiOnnx.loop([trips, condition, a], 1, body)[0]
    assert builder.getTensorShape(made) == [2]
    assert {one.domain for one in onnx.load_from_string(builder.getModelProto()).opset_import} == {"", "ai.graphcore"}


@pytest.mark.parametrize("way", ["typed", "untyped", "parent"])
def test_a_call_binds_its_inputs_by_position(builder: Builder, way: str) -> None:
    a, b = builder.addInputTensor(INFO, "a"), builder.addInputTensor(TensorInfo("FLOAT", [3, 1]), "b")
    callee = builder.createSubgraphBuilder()
    if way == "parent":
        callee.addInputTensorFromParentGraph(a)
        callee.addInputTensorFromParentGraph(b)
        inside = [a, b]
    elif way == "typed":
        inside = [callee.addInputTensor(INFO), callee.addInputTensor(TensorInfo("FLOAT", [3, 1]))]
    else:
        inside = [callee.addUntypedInputTensor(), callee.addUntypedInputTensor()]
    callee.addOutputTensor(callee.aiGraphcore.scale([callee.aiOnnx.add(inside)], 2.0))
    made = builder.aiGraphcore.call([a, b], 1, callee, debugName="call")
    assert made == ["Call:0"]
    assert builder.getTensorShape("Call:0") == [3, 2]
    node = onnx.load_from_string(builder.getModelProto()).graph.node[0]
    graph = next(attribute.g for attribute in node.attribute if attribute.name == "callee")
    assert [info.name for info in graph.input] == inside
    assert builder.getInt64NodeAttribute("num_outputs", set(made)) == 1


def test_a_call_has_as_many_inputs_and_outputs_as_its_graph(builder: Builder) -> None:
    a = builder.addInputTensor(INFO, "a")
    callee = builder.createSubgraphBuilder()
    callee.addOutputTensor(callee.aiOnnx.exp([callee.addInputTensor(INFO)]))
    with pytest.raises(
        popart.popart_exception, match=r"^For CallOp 'x', number of inputs \(2\) does not match that of the callee subgraph \(1\)"
    ):
        builder.aiGraphcore.call([a, a], 1, callee, "x")
    with pytest.raises(popart.popart_exception, match=r"^For CallOp '', number of outputs \(2\) does not match"):
        builder.aiGraphcore.call([a], 2, callee)
    with pytest.raises(TypeError, match=r"^call\(\): incompatible function arguments"):
        builder.aiGraphcore.call([a], 1, "callee")


def test_packed_data(builder: Builder) -> None:
    rows = builder.addInputTensor(TensorInfo("FLOAT", [20, 4]))
    offsets, lengths = (builder.addInputTensor(TensorInfo("UINT32", [3])) for _ in range(2))
    callback = builder.createSubgraphBuilder()
    callback.addOutputTensor(callback.aiOnnx.exp([callback.addUntypedInputTensor()]))
    made = builder.aiGraphcore.packedDataBlock([rows, offsets, lengths, offsets, lengths], [5], 30, 2, callback)
    assert made == "PackedDataBlock:0"
    assert builder.getTensorShape(made) == [30, 4]
    assert builder.getInt64VectorNodeAttribute("maxSequenceLengths", {made}) == [5]
    assert builder.getInt64NodeAttribute("resultSize", {made}) == 30
    assert builder.getInt64NodeAttribute("callbackBatchSize", {made}) == 2


def test_the_main_graph_has_no_untyped_inputs(builder: Builder) -> None:
    with pytest.raises(popart.popart_exception, match=r"^Can not add untyped tensors to the top-level graph."):
        builder.addUntypedInputTensor()
    builder.createSubgraphBuilder().addUntypedInputTensor()


def test_only_tensors_around_a_graph_become_its_inputs() -> None:
    inner = Builder().createSubgraphBuilder()
    with pytest.raises(popart.popart_exception, match=r"^Failed to add unrecognised Tensor x from higher scope"):
        inner.addInputTensorFromParentGraph("x")


def test_shapes_around_a_graph_are_known_inside(builder: Builder) -> None:
    a = builder.addInputTensor(INFO, "a")
    inner = builder.createSubgraphBuilder().createSubgraphBuilder()
    inner.addInputTensorFromParentGraph(a)
    assert inner.getTensorShape(a) == [2]
    assert inner.getTensorShape(inner.aiOnnx.exp([a])) == [2]
