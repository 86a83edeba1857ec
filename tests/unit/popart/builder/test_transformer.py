from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from tests.together import each
from tilestep import popart
from tilestep.popart import Builder, GraphTransformer, TensorInfo

Type = onnx.TensorProto


def model_of(dtype: str) -> onnx.ModelProto:
    """x + constant + w, with all values of a type."""
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    constant = numpy_helper.from_array(np.array([1, 2]).astype(dtype), "c")
    infos = {name: helper.make_tensor_value_info(name, kind, [2]) for name in ("x", "w", "y")}
    nodes = [
        helper.make_node("Constant", [], ["c"], value=constant),
        helper.make_node("Sum", ["x", "w", "c"], ["y"]),
    ]
    weights = numpy_helper.from_array(np.array([3, 4]).astype(dtype), "w")
    graph = helper.make_graph(nodes, "g", [infos["x"], infos["w"]], [infos["y"]], [weights])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)])
    model.ir_version = 8
    return model


@each(
    "method, old, new",
    [
        ("convertFloatsToHalfs", "float32", "float16"),
        ("convertDoublesToFloats", "float64", "float32"),
        ("convertDoublesToHalfs", "float64", "float16"),
        ("convertBFloats16ToFloat32", ml_dtypes.bfloat16, "float32"),
        ("convertINT64ToINT32", "int64", "int32"),
        ("convertINT16ToINT32", "int16", "int32"),
        ("convertINT8ToINT32", "int8", "int32"),
        ("convertUINT16ToINT32", "uint16", "int32"),
        ("convertUINT8ToINT32", "uint8", "int32"),
    ],
)
def test_each_conversion_changes_all_of_a_type(method: str, old: str, new: str) -> None:
    transformer = GraphTransformer(model_of(old).SerializeToString())
    getattr(transformer, method)()
    graph = onnx.load_from_string(transformer.getModelProto()).graph
    number = helper.np_dtype_to_tensor_dtype(np.dtype(new))
    assert {info.type.tensor_type.elem_type for info in (*graph.input, *graph.output)} == {number}
    constant, weights = numpy_helper.to_array(graph.node[0].attribute[0].t), numpy_helper.to_array(graph.initializer[0])
    assert (constant.dtype, constant.tolist(), weights.dtype, weights.tolist()) == (np.dtype(new), [1, 2], np.dtype(new), [3, 4])


def test_numbers_beyond_32_bits_are_clipped_on_demand(builder: Builder) -> None:
    builder.addInitializedInputTensor(np.array([-(2**40), 5, 2**40]), "v")
    builder.addOutputTensor("v")
    transformer = GraphTransformer(builder.getModelProto())
    with pytest.raises(popart.popart_exception, match="cannot cast int64 to int32: number is too large"):
        transformer.convertINT64ToINT32()
    transformer.convertINT64ToINT32(clip=True)
    held = numpy_helper.to_array(onnx.load_from_string(transformer.getModelProto()).graph.initializer[0])
    assert held.tolist() == [-(2**31), 5, 2**31 - 1]


def test_casts_and_subgraphs_are_converted_too(builder: Builder) -> None:
    x, c = builder.addInputTensor(TensorInfo("FLOAT", [2])), builder.addInputTensor(TensorInfo("BOOL", []))
    branches = [builder.createSubgraphBuilder() for _ in range(2)]
    for branch in branches:
        branch.addOutputTensor(branch.aiOnnx.add([x, branch.aiOnnx.constant(np.ones(2, np.float32))]))
    builder.addOutputTensor(builder.aiOnnx.cast([builder.aiOnnx.logical_if([c], 1, *branches)[0]], "FLOAT"))
    transformer = GraphTransformer(builder.getModelProto())
    transformer.convertFloatsToHalfs()
    graph = onnx.load_from_string(transformer.getModelProto()).graph
    inner = next(attribute.g for attribute in graph.node[0].attribute if attribute.HasField("g"))
    tensor = next(attribute.t for node in inner.node for attribute in node.attribute if attribute.HasField("t"))
    assert tensor.data_type == Type.FLOAT16
    assert next(attribute.i for attribute in graph.node[1].attribute if attribute.name == "to") == Type.FLOAT16


def reshaping() -> Builder:
    builder = Builder()
    x = builder.addInputTensor(TensorInfo("FLOAT", [2, 3]), "x")
    shape = builder.addInitializedInputTensor(np.array([1, 6], np.int64), "shape")
    w = builder.addInitializedInputTensor(np.ones((1, 6), np.float32), "w")
    builder.addOutputTensor(builder.aiOnnx.add([builder.aiOnnx.reshape([x, shape]), w]))
    return builder


def test_initialisers_become_constants() -> None:
    transformer = GraphTransformer(reshaping().getModelProto())
    with pytest.raises(popart.popart_exception, match=r"^TensorId unknown not in the model initalizers$"):
        transformer.convertInitializersToConstants(["unknown"])
    transformer.convertInitializersToConstants(["w"])
    assert Builder(transformer.getModelProto()).getInputTensorIds() == ["x", "shape"]
    transformer.convertAllFixedPointInitializersToConstants()
    builder = Builder(transformer.getModelProto())
    assert builder.getInputTensorIds() == ["x"]
    nodes = onnx.load_from_string(transformer.getModelProto()).graph.node
    assert [(node.op_type, node.output[0]) for node in nodes[:2]] == [("Constant", "shape"), ("Constant", "w")]


def test_unused_inputs_are_removed() -> None:
    builder = reshaping()
    builder.addInputTensor(TensorInfo("FLOAT", [2]), "unused")
    builder.addInitializedInputTensor(np.ones(2, np.float32), "unread")
    builder.addInitializedInputTensor(np.ones(2, np.float32), "given back")
    builder.addOutputTensor("given back")
    transformer = GraphTransformer(builder.getModelProto())
    transformer.removeUnusedInputs()
    assert Builder(transformer.getModelProto()).getInputTensorIds() == ["x", "shape", "w", "given back"]


def test_batch_norms_get_the_outputs_of_training(builder: Builder) -> None:
    x = builder.addInputTensor(TensorInfo("FLOAT", [3, 4]))
    statistics = [builder.addInputTensor(TensorInfo("FLOAT", [4])) for _ in range(4)]
    builder.addOutputTensor(builder.aiOnnx.batchnormalization([x, *statistics], 1)[0])
    transformer = GraphTransformer(builder.getModelProto())
    transformer.prepareNodesForTraining()
    outputs = onnx.load_from_string(transformer.getModelProto()).graph.node[0].output
    assert len(set(outputs)) == 5
    assert outputs[0] == "BatchNormalization:0"


def test_external_initialisers_are_not_converted(tmp_path: Path) -> None:
    transformer = GraphTransformer(reshaping().getModelProto())
    transformer.saveInitializersExternally(["w"], str(tmp_path / "w.bin"))
    assert (tmp_path / "w.bin").read_bytes() == np.ones((1, 6), np.float32).tobytes()
    with pytest.raises(popart.popart_exception, match="Cannot convert tensor 'w', as it is stored externally"):
        transformer.convertFloatsToHalfs()
