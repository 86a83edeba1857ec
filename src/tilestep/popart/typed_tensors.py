"""Tensors of a model with their elements in the field of their type, as PopART writes them and programs read them.

`numpy_helper.from_array` fills `raw_data`, so that a program that looks into `float_data` finds nothing. PopART's files have float16 in a
form of their own: two elements in each number of `int32_data`, where ONNX has one. Nothing is written so here, because ONNX's readers take
it for garbage. `unpacked` makes of such a tensor one that they understand.
"""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np
import onnx
from onnx import helper, numpy_helper

Array = np.ndarray[Any, Any]
_FLOAT_DATA_TAG: Final = b"\x22"  # field 4 of TensorProto, packed


def typed_tensor(array: Array, name: str) -> onnx.TensorProto:
    """A tensor with its elements in the field of its type; a type that has none, and float16, is in `raw_data`."""
    contiguous = np.ascontiguousarray(array).reshape(array.shape)
    kind = helper.np_dtype_to_tensor_dtype(contiguous.dtype)
    proto = onnx.TensorProto(name=name, data_type=kind, dims=list(array.shape))
    if contiguous.dtype == np.float32:
        data = contiguous.astype("<f4", copy=False).tobytes()
        # A packed field of floats is their bytes: no Python number is made of any.
        return onnx.TensorProto.FromString(proto.SerializeToString() + _FLOAT_DATA_TAG + _varint(len(data)) + data) if data else proto
    if contiguous.dtype == np.int32:
        proto.int32_data.extend(contiguous.ravel().tolist())
    elif contiguous.dtype == np.int64:
        proto.int64_data.extend(contiguous.ravel().tolist())
    else:
        return numpy_helper.from_array(contiguous, name)
    return proto


def unpacked(model: onnx.ModelProto) -> None:
    """Makes ONNX's form of each initialiser in `model` that has PopART's form of float16."""
    for tensor in model.graph.initializer:
        if tensor.data_type != onnx.TensorProto.FLOAT16 or tensor.HasField("raw_data"):
            continue
        size = math.prod(tensor.dims)
        if len(tensor.int32_data) == (size + 1) // 2 and size > 1:
            data = np.asarray(tensor.int32_data, np.int32).tobytes()[: 2 * size]
            del tensor.int32_data[:]
            tensor.raw_data = data


def _varint(number: int) -> bytes:
    digits = bytearray()
    while number > 0x7F:
        digits.append(number & 0x7F | 0x80)
        number >>= 7
    digits.append(number)
    return bytes(digits)
