"""The two kinds of values: NumPy arrays are known when a program is made, all others are known when it runs.

Sequences are `SequenceValue`s, absent optionals are None. Known values keep ONNX's dtypes, such as int64. The others have JAX's.
"""

from __future__ import annotations

import contextlib
import contextvars
import functools
import math
from collections.abc import Iterable, Iterator, Sequence
from types import ModuleType
from typing import Any, Final

import jax
import jax.numpy as jnp
import numpy as np

Array = np.ndarray[Any, Any]
MOST_KNOWN_BYTES: Final = 64 << 20  # a larger array that a node makes from a shape is made when the program runs
_most_shaped_bytes: Final = contextvars.ContextVar("_most_shaped_bytes", default=1 << 42)  # for an array whose shape a value gives
_MOST_EAGER_ARRAY_BYTES: Final = 1 << 31
_is_folding: Final = contextvars.ContextVar("_is_folding", default=False)


@jax.tree_util.register_pytree_node_class
class SequenceValue(tuple[Any, ...]):
    """A value that is a sequence of values, told apart from the several outputs of a handler. JAX takes it apart as it does tuples."""

    def tree_flatten(self) -> tuple[tuple[Any, ...], None]:
        return tuple(self), None

    @classmethod
    def tree_unflatten(cls, _: None, elements: Iterable[Any]) -> SequenceValue:
        return cls(elements)


class NeedsValueError(Exception):
    """A handler needs a value that is not known. The interpreter makes a `DynamicShapeError` of it, which names the node.

    Attributes:
        what: the input, in words, such as "the shape".
        value: the input; None if it is not one alone.
        or_bound: whether a bound on the node's results would do, too.
    """

    def __init__(self, what: str, value: Any = None, *, or_bound: bool = False) -> None:
        super().__init__(what)
        self.what, self.value, self.or_bound = what, value, or_bound


class NoRoomError(Exception):
    """A result of known values is too large to be known. The interpreter runs the handler again, outside of `folding`."""


def is_known(x: object) -> bool:
    """Whether a value is known when the program is made. Absent inputs are; a sequence or a map is, if all its elements are."""
    if isinstance(x, tuple | dict):
        return all(is_known(element) for element in (x.values() if isinstance(x, dict) else x))
    return x is None or isinstance(x, np.ndarray | np.generic)


def is_traced(x: object) -> bool:
    """Whether a value is known only when the program runs. JAX's arrays in an eager run are neither known nor traced."""
    return isinstance(x, jax.core.Tracer)


def module_of(*values: object) -> ModuleType:
    """NumPy if all values are known, else `jax.numpy`: the module that a handler computes its result with."""
    return np if all(map(is_known, values)) else jnp


def known(x: Any, what: str) -> Array:
    """The value of `x`, any array.

    Args: what: the input in words, for the error.
    Raises: NeedsValueError if `x` is traced.
    """
    if is_traced(x):
        raise NeedsValueError(what, x)
    return np.asarray(x)


def known_ints(x: Any, what: str) -> list[int]:
    """The integers in an array of any shape, in order. Raises: NeedsValueError if it is traced."""
    return [int(value) for value in known(x, what).ravel()]


def known_scalar(x: Any, what: str) -> Any:
    """The one element of an array, as a Python number. Raises: NeedsValueError if it is traced."""
    return known(x, what).reshape(()).item()


def jax_dtype(dtype: Any) -> np.dtype[Any]:
    """The dtype that JAX gives an array of `dtype`: int32 for int64, unless 64-bit types are on."""
    return jax.dtypes.canonicalize_dtype(dtype)


def has_room(shape: Sequence[int], dtype: Any) -> bool:
    """Whether an array of `shape` may be made when the program is made, because it is small. If not, make it by `jax.numpy`.

    Raises: NoRoomError while known values are folded, because JAX would make the array there and then; ValueError for one that is too
        large in any case.
    """
    size = math.prod(shape) * np.dtype(dtype).itemsize
    if size > _most_shaped_bytes.get():
        raise ValueError(f"a result of {list(shape)} has {size:,} B, and at most {_most_shaped_bytes.get():,} B may be asked for here")
    room = size <= MOST_KNOWN_BYTES
    if not room and _is_folding.get():
        raise NoRoomError(f"{list(shape)} elements of {np.dtype(dtype)}")
    return room


def module_for(shape: Sequence[int], dtype: Any, *values: object) -> ModuleType:
    """NumPy if all values are known and a result of `shape` has room, else `jax.numpy`. Raises: as `has_room` does."""
    if all(map(is_known, values)):
        return np if has_room(shape, dtype) else jnp
    if not _is_folding.get():
        has_room(shape, dtype)  # it may be too large
    return jnp


@functools.cache
def _cpu() -> Any:
    """The CPU, if JAX has it: known values are computed there, so that no emulated device's time counts them."""
    with contextlib.suppress(RuntimeError):
        return jax.local_devices(backend="cpu")[0]
    return None


@contextlib.contextmanager
def node_by_node() -> Iterator[None]:
    """Within it the arrays whose shapes values give are smaller, because each is made at once."""
    token = _most_shaped_bytes.set(_MOST_EAGER_ARRAY_BYTES)
    try:
        yield
    finally:
        _most_shaped_bytes.reset(token)


@contextlib.contextmanager
def folding() -> Iterator[None]:
    """Within it JAX computes at once, on the CPU, with 64-bit types, even while a program is traced. NumPy warns of nothing."""
    token = _is_folding.set(True)
    try:
        with jax.enable_x64(True), jax.ensure_compile_time_eval(), jax.default_device(_cpu()), np.errstate(all="ignore"):
            yield
    finally:
        _is_folding.reset(token)
