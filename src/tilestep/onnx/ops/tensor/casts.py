"""Conversions of types: Cast, CastLike, BitCast."""

from typing import Any

import numpy as np
import onnx
from onnx import helper

from tilestep.onnx.interpreter.convert import bits_as, convert
from tilestep.onnx.interpreter.interpret import Call
from tilestep.onnx.interpreter.registry import op


def dtype_of(number: int) -> np.dtype[Any]:
    """NumPy's dtype for a number of ONNX's `TensorProto.DataType`. Raises: ValueError for an unknown one."""
    try:
        return np.dtype(helper.tensor_dtype_to_np_dtype(number))
    except KeyError:
        raise ValueError(f"type {number} is unknown: ONNX has 1 to {max(onnx.TensorProto.DataType.values())}") from None


@op("Cast", since=1)
def cast_1(call: Call, x: Any, *, to: str) -> Any:
    """The elements as type `to`, which is a name such as "FLOAT16"."""
    numbers = dict(onnx.TensorProto.DataType.items())
    if to.upper() not in numbers:
        raise ValueError(f"type '{to}' is unknown: ONNX has {', '.join(numbers)}")
    return convert(x, dtype_of(numbers[to.upper()]))


@op("Cast", since=6)
def cast(call: Call, x: Any, *, to: int, saturate: int = 1, round_mode: str = "up") -> Any:
    """The elements as type `to`. `saturate` and `round_mode` hold for floats of 8 bits."""
    return convert(x, dtype_of(to), bool(saturate), round_mode)


@op("CastLike")
def cast_like(call: Call, x: Any, like: Any, *, saturate: int = 1, round_mode: str = "up") -> Any:
    """The elements as the type of `like`."""
    return convert(x, like.dtype, bool(saturate), round_mode)


@op("BitCast")
def bit_cast(call: Call, x: Any, *, to: int) -> Any:
    """The elements with their bits read as type `to`, which is as wide."""
    return bits_as(x, dtype_of(to))
