"""One conversion of elements for all operators: it gives the same result for known values, eagerly, and in compiled programs.

ONNX leaves some cases open. Here a float that becomes an integer is truncated, NaN becomes 0, and what lies beyond 32 bits (beyond 64
for 64-bit integers) becomes the nearest end. Then integers lose the bits that the new type doesn't have, as ONNX has it:
200.0 becomes -56 as int8. 64-bit integers are 32 bits wide in a program without JAX's 64-bit types.
"""

import math
from collections.abc import Callable
from typing import Any, Final

import jax.numpy as jnp
import ml_dtypes
import numpy as np
from jax import lax

from tilestep.onnx.interpreter.values import Array, has_room, is_known, jax_dtype, known, module_of

_INFINITE: Final = tuple(  # types of 8 bits that may limit what is too large
    map(np.dtype, (ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e4m3fnuz, ml_dtypes.float8_e5m2, ml_dtypes.float8_e5m2fnuz))
)
_UNSIGNED_ZERO: Final = (_INFINITE[1], _INFINITE[3])
_POWERS: Final = np.dtype(ml_dtypes.float8_e8m0fnu)  # it has powers of two only, and no sign
_UNKNOWN_TO_JAX: Final = tuple(map(np.dtype, (ml_dtypes.float6_e2m3fn, ml_dtypes.float6_e3m2fn)))
_TEXT: Final = np.dtype(object)
_SURE_ROOM: Final = 1 << 20  # elements that a result may have, however the operands' shapes meet
_ROUNDINGS: Final = ("up", "down", "nearest")
_NO_POWER, _LARGEST_POWER = 0xFF, 0xFE  # NaN and 2 ** 127


def convert(x: Any, dtype: Any, saturate: bool = True, round_mode: str = "up") -> Any:
    """The elements of `x` as `dtype`, as ONNX's Cast has it.

    Args:
        dtype: NumPy's; `object` is text, which must be known.
        saturate: whether what is too large for 8 bits of a float becomes the largest number, instead of infinity or NaN.
        round_mode: "up" (away from zero), "down" or "nearest" (halves go up), for float8_e8m0fnu.

    Raises: NeedsValueError for text that is not known, ValueError for text that is no number and for an unknown `round_mode`.
    """
    dtype = np.dtype(dtype)
    if x.dtype.kind in "OU" or dtype == _TEXT:
        return _of_text(known(x, "text"), dtype)
    if x.dtype == dtype:
        return x
    if dtype in _UNKNOWN_TO_JAX or x.dtype in _UNKNOWN_TO_JAX:
        x = known(x, "a value of 6 bits")
    if dtype == _POWERS:
        return _power_of_two(x, saturate, round_mode)
    if dtype == np.bool_:
        return (x if x.dtype.kind in "iufc" else _real(x)) != 0
    if _is_integer(dtype) and _is_float(x.dtype):
        return _truncated(x, dtype)
    if saturate and dtype in _INFINITE:
        x = _within(x, float(ml_dtypes.finfo(dtype).max))
    if is_known(x):
        return x.astype(dtype)
    narrow = jnp.asarray(x).astype(jax_dtype(dtype))
    if dtype in _UNSIGNED_ZERO:  # their -0 would be NaN, and XLA:CPU without its fusion emitters makes that of it
        narrow = jnp.where(jnp.abs(x) <= float(ml_dtypes.finfo(dtype).smallest_subnormal) / 2, jnp.zeros((), dtype), narrow)
    return narrow


def bits_as(x: Any, dtype: Any) -> Any:
    """The elements of `x` with their bits read as `dtype`, which is as wide. Raises: ValueError if it isn't."""
    dtype = np.dtype(dtype)
    if _bits(x.dtype) != _bits(dtype):
        raise ValueError(f"{x.dtype} has {_bits(x.dtype)} bits and {dtype} has {_bits(dtype)}; 64 bits need jax.enable_x64 in a program")
    if is_known(x):
        narrow = x.view(np.uint8) & ((1 << _bits(dtype)) - 1) if _bits(dtype) < 8 else x
        return narrow.astype(_unsigned(dtype)).view(dtype) if _bits(dtype) < 8 and _is_integer(dtype) else narrow.view(dtype)
    x = jnp.asarray(x)
    if x.dtype == np.bool_:
        x = x.astype(np.uint8)
    return lax.bitcast_convert_type(x, np.uint8) != 0 if dtype == np.bool_ else lax.bitcast_convert_type(x, dtype)


def fitting(x: Any, xp: Any = jnp) -> Any:
    """`x`, an operand for a module: `jax.numpy` would silently take 32 bits of known integers of 64.

    Raises: OverflowError if JAX has no 64-bit types, and an element of `x` needs them.
    """
    if xp is np or not is_known(x) or not _is_cut(x):
        return x
    narrow = jax_dtype(x.dtype)
    limits = np.iinfo(narrow)
    beyond = x[(x < limits.min) | (x > limits.max)]
    if beyond.size:
        raise OverflowError(f"the constant {beyond.ravel()[0]} doesn't fit into {narrow}: 64-bit integers need jax.enable_x64 in a program")
    return x.astype(narrow)


def operands(*values: Any, fit: Callable[[Any], Any] = fitting) -> tuple[Any, ...]:
    """The module to compute with, and the values for it, whose shapes broadcast.

    Args: fit: makes operands of `jax.numpy` of them.
    Returns: NumPy if all are known and the result has room, else `jax.numpy`.
    Raises: OverflowError as `fitting` does.
    """
    if all(map(is_known, values)):
        if math.prod(value.size for value in values) <= _SURE_ROOM:
            return np, *values
        if has_room(np.broadcast_shapes(*(value.shape for value in values)), max((value.dtype for value in values), key=_bits)):
            return np, *values
    return jnp, *map(fit, values)


def upper_bound(x: Any) -> Any:
    """`x`, which others may not exceed: what is above JAX's integers bounds nothing, so their end does too. Raises: as `fitting`."""
    return fitting(np.minimum(x, np.iinfo(jax_dtype(x.dtype)).max)) if is_known(x) and _is_cut(x) else x


def lower_bound(x: Any) -> Any:
    """`x`, below which others may not be: what is below JAX's integers bounds nothing, so their end does too. Raises: as `fitting`."""
    return fitting(np.maximum(x, np.iinfo(jax_dtype(x.dtype)).min)) if is_known(x) and _is_cut(x) else x


def _is_cut(x: Any) -> bool:
    """Whether JAX gives an array fewer bits, and it has integers."""
    return x.dtype.kind in "iu" and x.dtype.itemsize == 8 and jax_dtype(x.dtype) != x.dtype


def _is_integer(dtype: Any) -> bool:
    return jnp.issubdtype(dtype, jnp.integer)


def _is_float(dtype: Any) -> bool:
    return dtype.kind == "f" or (dtype.kind == "V" and not _is_integer(dtype))


def _bits(dtype: Any) -> int:
    if dtype.kind != "V":
        return 8 * dtype.itemsize
    return ml_dtypes.iinfo(dtype).bits if _is_integer(dtype) else ml_dtypes.finfo(dtype).bits


def _unsigned(dtype: Any) -> Any:
    return ml_dtypes.uint4 if _bits(dtype) == 4 else ml_dtypes.uint2


def _within(x: Any, largest: float) -> Any:
    """Floats or integers as floats between -largest and largest; NaN stays."""
    return module_of(x).clip(_real(x), -largest, largest)


def _real(x: Any) -> Any:
    """The same numbers as float64 if they are known or of that type, else as float32."""
    if is_known(x):
        return x.astype(np.float64)
    x = jnp.asarray(x)
    return x if x.dtype == np.float64 else x.astype(np.float32)


def _truncated(x: Any, dtype: np.dtype[Any]) -> Any:
    """Floats as integers, as the module says."""
    wide = dtype.itemsize == 8
    unsigned = dtype.kind == "u" and dtype.itemsize >= 4  # the others fit into int32
    real = _real(x)
    if not is_known(real):
        whole = real.astype(jax_dtype(np.int64) if wide else np.int32)  # XLA goes to the nearest end, and makes 0 of NaN
        if unsigned:
            return jnp.where(real < 0, whole.astype(jax_dtype(dtype)), real.astype(jax_dtype(dtype)))
        return whole.astype(jax_dtype(dtype))
    real = np.nan_to_num(np.trunc(real), nan=0.0, posinf=np.inf, neginf=-np.inf)
    signed = _ended(real, np.dtype(np.int64 if wide else np.int32))
    if unsigned:
        return np.where(real < 0, signed.astype(dtype), _ended(real, dtype))
    return signed.astype(dtype)


def _ended(real: Array, dtype: np.dtype[Any]) -> Array:
    """Whole numbers as integers; what is beyond them becomes the nearest end."""
    limits = np.iinfo(dtype)
    low, high = real <= float(limits.min), real >= float(limits.max)
    inside = np.where(low | high, 0.0, real).astype(dtype)
    return np.where(low, dtype.type(limits.min), np.where(high, dtype.type(limits.max), inside))


def _power_of_two(x: Any, saturate: bool, round_mode: str) -> Any:
    """Magnitudes as powers of two, which are a float32's exponent of 8 bits."""
    if round_mode not in _ROUNDINGS:
        raise ValueError(f"round_mode '{round_mode}' is none of {', '.join(_ROUNDINGS)}")
    if is_known(x):
        xp, bits = np, np.asarray(x).astype(np.float32).view(np.uint32)
    else:
        xp, bits = jnp, lax.bitcast_convert_type(jnp.asarray(x).astype(np.float32), np.uint32)
    exponent, fraction = (bits >> 23) & 0xFF, bits & 0x7FFFFF
    up = {"up": fraction > 0, "down": fraction < 0, "nearest": (fraction > 0x400000) | ((fraction == 0x400000) & (exponent > 0))}[
        round_mode
    ]
    rounded = exponent + up.astype(np.uint32)
    if saturate:
        rounded = xp.minimum(rounded, np.uint32(_LARGEST_POWER))
    is_nan = (exponent == _NO_POWER) & ((fraction > 0) | (not saturate))
    code = xp.where(is_nan, np.uint32(_NO_POWER), rounded).astype(np.uint8)
    return code.view(_POWERS) if is_known(code) else lax.bitcast_convert_type(code, _POWERS)


def _of_text(x: Array, dtype: np.dtype[Any]) -> Array:
    """Conversions from and to text."""
    made = np.empty(x.shape, _TEXT if dtype == _TEXT else _plain(dtype))
    for index in np.ndindex(x.shape):
        made[index] = _written(x[index]) if dtype == _TEXT else _read(str(x[index]), dtype)
    return made if dtype in (_TEXT, made.dtype) else convert(made, dtype)


def _plain(dtype: np.dtype[Any]) -> Any:
    return np.float64 if _is_float(dtype) else np.int64 if dtype.kind != "u" else np.uint64


def _written(value: Any) -> str:
    """One element as text: the shortest digits that give it back."""
    if isinstance(value, str):
        return value
    return str(value if isinstance(value, np.generic) and value.dtype.kind in "biuf" else np.float32(value))


def _read(text: str, dtype: np.dtype[Any]) -> Any:
    """The number in a text. "INF" and "NaN" are known in any case, with a sign."""
    if dtype == np.bool_ and text.lower() in ("true", "false"):
        return text.lower() == "true"
    if _is_float(dtype):
        return float(text)
    try:
        return int(text)
    except ValueError:
        return int(float(text))
