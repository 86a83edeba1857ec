from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from tests.together import each
from tilestep import popart
from tilestep.popart import DataType, InputShapeInfo, TensorInfo
from tilestep.popart.tensors import data_type_of_numpy, data_type_of_onnx, is_fixed_point, numpy_dtype, onnx_number, typed_tensor, unpacked


@each(
    "args",
    [
        ("FLOAT16", [2, 3]),
        ("FLOAT16", (2, 3)),
        ("FLOAT16", "(2,3)"),
        (DataType.FLOAT16, np.array([2, 3])),
        (np.float16, [2, 3]),
        (np.dtype("float16"), [2, 3]),
        (np.zeros((2, 3), np.float16),),
    ],
)
def test_each_way_to_make_one(args: tuple[Any, ...]) -> None:
    info = TensorInfo(*args)
    assert (info.data_type(), info.data_type_lcase(), info.dataType()) == ("FLOAT16", "float16", DataType.FLOAT16)
    assert (info.shape(), info.rank(), info.nelms(), info.nbytes(), info.dim(1)) == ([2, 3], 2, 6, 12, 3)
    assert info == TensorInfo("FLOAT16", [2, 3])
    assert info != TensorInfo("FLOAT16", [3, 2])
    assert info != TensorInfo("FLOAT", [2, 3])


@each("args", [(), ("FLOAT",), (1, 2, 3, 4), ([2, 3],), (3, [2]), ("FLOAT", 3), ("FLOAT", [2.0]), ("FLOAT", ["2"])])
def test_other_arguments_are_type_errors(args: tuple[Any, ...]) -> None:
    with pytest.raises(TypeError, match="Can not create TensorInfo with"):
        TensorInfo(*args)


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("FLOAT15", [2]), "no ONNX type FLOAT15"),
        (("FLOAT", "2,3"), "invalid string for shape"),
        (("FLOAT", "(2, 3)"), "contains a space"),
        ((object, [2]), "No numpy type object"),
        ((np.dtype("complex256"), [2]), "No numpy type complex256"),
    ],
)
def test_unknown_types_and_texts_are_refused(args: tuple[Any, ...], message: str) -> None:
    with pytest.raises(popart.popart_exception, match=message):
        TensorInfo(*args)


def test_meta_shapes_strides_and_changes() -> None:
    info = TensorInfo("FLOAT", [4], [2, 2])
    assert (info.metaShape(), TensorInfo("FLOAT", [4]).metaShape()) == ([2, 2], [])
    assert TensorInfo("INT32", [2, 3, 4]).strides() == [48, 16, 4]
    info.set(DataType.INT8, [2])
    assert (info.data_type(), info.shape()) == ("INT8", [2])
    with pytest.raises(popart.popart_exception, match="invalid input dimension 1"):
        info.dim(1)


def test_types_of_numpy_and_onnx() -> None:
    arrays = [kind for kind in DataType if kind.name not in ("STRING", "UNDEFINED")]
    for kind in arrays:
        assert data_type_of_numpy(numpy_dtype(kind)) is kind
        if not kind.name.startswith("FLOAT8"):
            assert data_type_of_onnx(onnx_number(kind)) is kind
    assert numpy_dtype(DataType.BFLOAT16) == ml_dtypes.bfloat16
    assert [kind.name for kind in DataType if is_fixed_point(kind)] == [
        *("UINT8", "INT8", "UINT16", "INT16", "INT32", "INT64", "UINT32", "UINT64", "BOOL")
    ]
    with pytest.raises(popart.popart_exception, match="have no NumPy arrays"):
        numpy_dtype(DataType.STRING)
    with pytest.raises(popart.popart_exception, match="unrecognised ONNX DataType 17"):
        data_type_of_onnx(17)


def test_shapes_of_inputs() -> None:
    infos = InputShapeInfo()
    infos.add("x", TensorInfo("FLOAT", [2]))
    assert infos.has("x")
    assert not infos.has("y")
    assert infos.get("x").shape() == [2]
    assert infos.getAllTensorIds() == ["x"]
    with pytest.raises(popart.popart_exception, match="No input shape info for Tensor `y'"):
        infos.get("y")


@each("shape", [(), (0,), (3, 5), (200,)])
@each(
    "dtype, field",
    [(np.float32, "float_data"), (np.int32, "int32_data"), (np.int64, "int64_data"), (np.float16, "raw_data"), (np.uint8, "raw_data")],
)
def test_elements_are_where_programs_look(shape: tuple[int, ...], dtype: Any, field: str) -> None:
    array = (np.arange(np.prod(shape, dtype=int)).reshape(shape) - 2).astype(dtype)
    tensor = typed_tensor(array, "w")
    assert tensor.name == "w"
    read = numpy_helper.to_array(tensor)
    assert read.dtype == array.dtype
    np.testing.assert_array_equal(read, array)
    assert array.size == 0 or len(getattr(tensor, field)) > 0


@pytest.mark.parametrize("shape", [(1,), (5,), (2, 3)])
def test_popart_s_pairs_of_halves_are_unpacked(shape: tuple[int, ...]) -> None:
    array = np.random.default_rng(0).normal(size=shape).astype(np.float16)
    pairs = np.append(array.ravel(), np.zeros(array.size % 2, np.float16)).view(np.int32)
    tensor = onnx.TensorProto(name="w", data_type=onnx.TensorProto.FLOAT16, dims=shape, int32_data=pairs.tolist())
    model = onnx.ModelProto()
    model.graph.initializer.append(tensor)
    unpacked(model)
    np.testing.assert_array_equal(numpy_helper.to_array(model.graph.initializer[0]), array)


def test_onnxs_own_form_of_halves_stays() -> None:
    array = np.array([1.5, -2.0], np.float16)
    tensor = onnx.helper.make_tensor("w", onnx.TensorProto.FLOAT16, [2], array)
    model = onnx.ModelProto()
    model.graph.initializer.append(tensor)
    unpacked(model)
    np.testing.assert_array_equal(numpy_helper.to_array(model.graph.initializer[0]), array)
