"""Tensors with their elements in the field of their type."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from tests.together import each
from tilestep.popart.tensors import typed_tensor, unpacked


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


def test_an_array_in_another_order_is_read_in_its_own() -> None:
    array = np.arange(6, dtype=np.float32).reshape(2, 3).T
    np.testing.assert_array_equal(numpy_helper.to_array(typed_tensor(array, "w")), array)


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
