from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from tests.together import each
from tilestep import popart
from tilestep.popart import Builder, InputSettings, TensorInfo, VariableSettings

DTYPES = ("float32", "float16", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "bool")


def test_each_way_to_add_an_input(builder: Builder) -> None:
    info, settings = TensorInfo("FLOAT16", [2, 3]), InputSettings(popart.ReplicatedStreamMode.Broadcast)
    ids = [
        builder.addInputTensor(info),
        builder.addInputTensor(info, "a"),
        builder.addInputTensor("FLOAT16", [2, 3]),
        builder.addInputTensor("FLOAT16", (2, 3), "b"),
        builder.addInputTensor(info, settings),
        builder.addInputTensor(info, settings, "c"),
        builder.addInputTensor("FLOAT16", np.array([2, 3]), settings, "d"),
        builder.addInputTensor(tensorInfo=info, debugContext="e"),
        builder.addInputTensor(dataType="FLOAT16", shape=[2, 3], settings=settings, debugContext="f"),
    ]
    assert ids == ["input", "a", "input/1", "b", "input/2", "c", "d", "e", "f"]
    assert builder.getInputTensorIds() == ids
    assert all(builder.getTensorShape(id) == [2, 3] and builder.getTensorDtypeString(id) == "float16" for id in ids)


@each("args", [(), (3,), ("FLOAT",), ([2, 3],), ("FLOAT", 3), ("FLOAT", [2], 3), ("FLOAT", [2.5])])
def test_other_arguments_are_type_errors(args: tuple[Any, ...]) -> None:
    with pytest.raises(TypeError, match=r"^addInputTensor\(\): incompatible function arguments"):
        Builder().addInputTensor(*args)


@each("dtype", DTYPES)
def test_a_variable_holds_its_values(dtype: str) -> None:
    values = np.array([[0, 1], [1, 0], [1, 1]]).astype(dtype)
    builder = Builder()
    id = builder.addInitializedInputTensor(values.T)  # not contiguous
    model = onnx.load_from_string(builder.getModelProto())
    held = numpy_helper.to_array(model.graph.initializer[0])
    assert held.dtype == values.dtype
    np.testing.assert_array_equal(held, values.T)
    assert (builder.getTensorShape(id), builder.getTensorDtypeString(id)) == ([2, 3], dtype)
    assert builder.getTrainableTensorIds() == builder.getInputTensorIds() == [id]
    assert builder.isInitializer(id)


def test_scalars_and_lists_are_arrays(builder: Builder) -> None:
    assert builder.getTensorShape(builder.addInitializedInputTensor(np.float32(3))) == []
    assert builder.getTensorShape(builder.aiOnnx.constant(np.array(3, np.int64))) == []
    assert builder.getTensorDtypeString(builder.addInitializedInputTensor([1, 2])) == "int64"
    values = np.ones(3, ml_dtypes.bfloat16)
    assert builder.getTensorDtypeString(builder.addInitializedInputTensor(values)) == "bfloat16"


def test_arrays_of_the_other_byte_order_keep_their_values(builder: Builder) -> None:
    builder.addInitializedInputTensor(np.array([1, 2], ">i4"))
    held = numpy_helper.to_array(onnx.load_from_string(builder.getModelProto()).graph.initializer[0])
    assert held.tolist() == [1, 2]


def test_doubles_and_objects_are_refused() -> None:
    with pytest.raises(popart.popart_exception, match="No numpy type float64 registered in map to DataType"):
        Builder().addInitializedInputTensor(np.ones(3))
    with pytest.raises(TypeError, match=r"addInitializedInputTensor\(\): incompatible function arguments"):
        Builder().addInitializedInputTensor(np.array([None]))


def test_lists_of_ids_keep_their_order(builder: Builder) -> None:
    x = builder.addInputTensor(TensorInfo("FLOAT", [2]), "x")
    w = builder.addInitializedInputTensor(np.ones(2, np.float32), "w")
    y = builder.aiOnnx.add([x, w])
    z = builder.aiOnnx.exp([y])
    builder.addOutputTensor(z)
    builder.addOutputTensor(y)
    assert builder.getInputTensorIds() == [x, w]
    assert builder.getOutputTensorIds() == [z, y]
    assert builder.getValueTensorIds() == [y, z]
    assert builder.getTrainableTensorIds() == [w]
    assert [builder.hasValueInfo(id) for id in (x, w, y, z, "other")] == [True] * 4 + [False]
    assert not builder.isInitializer(x)


def test_outputs_have_their_types_in_the_model(builder: Builder) -> None:
    x = builder.addInputTensor(TensorInfo("FLOAT", [2]), "x")
    for id in (x, builder.aiOnnx.cast([x], "INT32")):
        builder.addOutputTensor(id)
    onnx.checker.check_model(builder.getModelProto())
    outputs = onnx.load_from_string(builder.getModelProto()).graph.output
    assert [output.type.tensor_type.elem_type for output in outputs] == [onnx.TensorProto.FLOAT, onnx.TensorProto.INT32]


def test_unknown_tensors_are_named(builder: Builder) -> None:
    builder.addInputTensor(TensorInfo("FLOAT", [2]), "x")
    with pytest.raises(
        popart.popart_exception, match=r"^other is not an known tensor. Must be one of \(inputs:x\) \(outputs:\) \(values:\)"
    ):
        builder.getTensorShape("other")


def test_a_negative_size_is_refused(builder: Builder) -> None:
    x = builder.addInputTensor(TensorInfo("FLOAT", [2, 2]))
    with pytest.raises(popart.popart_exception, match=r"has invalid shape, \[-1 2\]. Values must be non-negative"):
        builder.aiOnnx.pad([x], [-2, 0, -1, 0])


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"num_outputs": 2, "split": [1, 1]}, r"Mismatch between the sum of 'split' \(2\) and the split dimension of the input \(3\)"),
        ({"num_outputs": 2, "split": [1, 1, 1]}, r"Mismatch between number of splits \(3\) and outputs \(2\)"),
        ({"num_outputs": 2}, "The input is not evenly splittable"),
        ({"num_outputs": 2, "axis": 2}, "Invalid value of attribute 'axis'. Rank=2 Value=2"),
    ],
)
def test_a_split_must_fit(builder: Builder, given: dict[str, Any], message: str) -> None:
    x = builder.addInputTensor(TensorInfo("FLOAT", [3, 5]))
    with pytest.raises(popart.popart_exception, match=message):
        builder.aiOnnx.split([x], **given)


def test_splits_and_batch_norms_have_shapes(builder: Builder) -> None:
    x = builder.addInputTensor(TensorInfo("FLOAT", [3, 4]))
    assert [builder.getTensorShape(id) for id in builder.aiOnnx.split([x], 2, -1, [1, 3])] == [[3, 1], [3, 3]]
    assert [builder.getTensorShape(id) for id in builder.aiOnnx.split([x], 3, -2)] == [[1, 4]] * 3
    statistics = [builder.addInputTensor(TensorInfo("FLOAT", [4])) for _ in range(4)]
    made = builder.aiOnnx.batchnormalization([x, *statistics], 5)
    assert [builder.getTensorShape(id) for id in made] == [[3, 4], [4], [4], [4], [4]]


def test_shapes_are_inferred_for_types_that_the_operator_lacks(builder: Builder) -> None:
    x = builder.addInputTensor(TensorInfo("FLOAT", [3, 4]))
    assert builder.getTensorShape(builder.aiOnnx.logical_and([x, x])) == [3, 4]


def test_settings_come_back_from_the_model(builder: Builder) -> None:
    builder.addInputTensor(TensorInfo("FLOAT", [2]), InputSettings(popart.TileSet.IO, popart.ExchangeStrategy.OverlapLoops), "a/b")
    builder.addInputTensor(TensorInfo("FLOAT", [2]), InputSettings(popart.ReplicatedStreamMode.Broadcast), "c")
    groups = VariableSettings(popart.CommGroup(popart.CommGroupType.Consecutive, 2), popart.VariableRetrievalMode.AllReplicas)
    strided = VariableSettings(2, 4, popart.VariableRetrievalMode.OnePerGroup)
    builder.addInitializedInputTensor(np.ones(2, np.float32), groups, "v")
    builder.addInitializedInputTensor(np.ones(2, np.float32), strided, "w")
    builder.addInitializedInputTensor(np.ones(2, np.float32), "u")
    builder.embedReplicationFactor(8)
    settings = popart.builder.settings_of(onnx.load_from_string(builder.getModelProto()))
    assert list(settings.inputs) == ["a/b", "c"]
    assert settings.inputs["a/b"].tileSet() is popart.TileSet.IO
    assert settings.inputs["a/b"].exchangeStrategy() is popart.ExchangeStrategy.OverlapLoops
    assert settings.inputs["c"].replicatedStreamMode() is popart.ReplicatedStreamMode.Broadcast
    assert settings.variables == {"v": groups, "w": strided, "u": VariableSettings()}
    assert settings.replication_factor == 8
    assert popart.builder.settings_of(onnx.ModelProto()) == popart.builder.ModelSettings()


def test_damaged_settings_are_an_error() -> None:
    model = onnx.ModelProto(metadata_props=[onnx.StringStringEntryProto(key="__tile_set/x", value="many")])
    with pytest.raises(popart.popart_exception, match="the model's metadata has an entry that can't be read"):
        popart.builder.settings_of(model)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"strides": [1]}, "Length of strides vector 1 != number of spatial dimensions 2"),
        ({"pads": [0, 0]}, r"Padding vector \(length 2\) does not have 2 values for each spatial dimension 2"),
        ({"dilations": [1]}, "Length of dilations vector 1 != number of spatial dimensions 2"),
        ({"kernel_shape": [5, 5]}, r"^kernel_shape, \[5 5\], does not match inferred shape from weight input 'w', \[3 3\]$"),
        ({"dilations": [8, 8]}, r"^Window parameter values combine to give invalid spatial output shape: \[-8 -8\]$"),
    ],
)
def test_convolutions_are_checked(builder: Builder, given: dict[str, list[int]], message: str) -> None:
    x = builder.addInputTensor(TensorInfo("FLOAT", [1, 2, 8, 8]), "x")
    w = builder.addInputTensor(TensorInfo("FLOAT", [4, 2, 3, 3]), "w")
    with pytest.raises(popart.popart_exception, match=message):
        builder.aiOnnx.conv([x, w], **given)
    assert builder.getTensorShape(builder.aiOnnx.conv([x, w], pads=[1] * 4)) == [1, 4, 8, 8]
