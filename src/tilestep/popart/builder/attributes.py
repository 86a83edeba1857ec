"""Attributes of nodes: from Python values, and back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx

from tilestep.popart.exceptions import popart_exception
from tilestep.popart.tensors import data_type_of_numpy, name_lcase, numpy_dtype
from tilestep.popart.typed_tensors import typed_tensor

Array = np.ndarray[Any, Any]
AttributeValue = bool | int | float | str | Sequence[int] | Sequence[float] | Sequence[str] | Array | onnx.GraphProto


def tensor_of(array: Array, name: str) -> onnx.TensorProto:
    """An initialiser or a tensor of an attribute.

    Raises: popart_exception for elements that a model can't hold as data: doubles, and what ONNX has no type for.
    """
    kind = data_type_of_numpy(array.dtype)
    if array.dtype.names is not None or name_lcase(kind) == "float64":
        raise popart_exception(f"No numpy type {array.dtype} registered in map to DataType: convert '{name}' to float32")
    if array.dtype != numpy_dtype(kind):
        array = array.astype(numpy_dtype(kind))  # of the other byte order
    return typed_tensor(array, name)


def written(name: str, value: AttributeValue) -> onnx.AttributeProto:
    """The attribute `name`. A list of no items is one of integers.

    Raises: popart_exception for a value that no attribute can hold.
    """
    attribute = onnx.AttributeProto(name=name)
    if isinstance(value, (bool, int)):
        attribute.type, attribute.i = onnx.AttributeProto.INT, _wrapped(int(value))
    elif isinstance(value, float):
        attribute.type, attribute.f = onnx.AttributeProto.FLOAT, float(np.float32(value))
    elif isinstance(value, str):
        attribute.type, attribute.s = onnx.AttributeProto.STRING, value.encode()
    elif isinstance(value, np.ndarray):
        attribute.type = onnx.AttributeProto.TENSOR
        attribute.t.CopyFrom(tensor_of(value, name))
    elif isinstance(value, onnx.GraphProto):
        attribute.type = onnx.AttributeProto.GRAPH
        attribute.g.CopyFrom(value)
    else:
        _write_list(attribute, list(value))
    return attribute


def _write_list(attribute: onnx.AttributeProto, items: list[Any]) -> None:
    if all(isinstance(item, (bool, int)) for item in items):
        attribute.type = onnx.AttributeProto.INTS
        attribute.ints.extend(_wrapped(int(item)) for item in items)
    elif all(isinstance(item, (bool, int, float)) for item in items):
        attribute.type = onnx.AttributeProto.FLOATS
        attribute.floats.extend(float(np.float32(item)) for item in items)
    elif all(isinstance(item, str) for item in items):
        attribute.type = onnx.AttributeProto.STRINGS
        attribute.strings.extend(item.encode() for item in items)
    else:
        raise popart_exception(f"Unsupported attribute value type of '{attribute.name}': {items!r}")


def _wrapped(number: int) -> int:
    """An unsigned 64-bit number as the signed one with its bits, which is what attributes hold."""
    return number - (1 << 64) if number >= 1 << 63 else number


def read(attribute: onnx.AttributeProto, kind: int, wanted: str) -> Any:
    """The value of an attribute that should be of a kind.

    Args: kind: of AttributeProto's types; wanted: in words, with its article, as "an integer".
    Raises: popart_exception if it is of another kind.
    """
    if attribute.type != kind:
        raise popart_exception(f"Attribute {attribute.name} is not {wanted}.")
    value = onnx.helper.get_attribute_value(attribute)
    if kind == onnx.AttributeProto.STRING:
        return value.decode()
    if kind == onnx.AttributeProto.STRINGS:
        return [item.decode() for item in value]
    return value if kind in (onnx.AttributeProto.INT, onnx.AttributeProto.FLOAT) else list(value)
