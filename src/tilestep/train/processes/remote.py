"""Arrays and programs of other processes: here only their shapes, dtypes and shardings are known."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, final

import numpy as np
from jax.experimental import transfer
from jax.sharding import Sharding

from tilestep.train.untyped import jax as _jax

_transfer: Any = transfer

Put = Callable[[Sequence[Any], Sequence[Any]], Sequence[Any]]  # (arrays, shardings) -> the arrays there


@functools.lru_cache(maxsize=4096)
def remote_array(shape: tuple[int, ...], dtype: Any, sharding: Sharding) -> Any:
    """An array of which this process has nothing: other processes' devices have it.

    On devices of this process it is an error, which comes out of everything that is computed with it.
    """
    if sharding.is_fully_addressable:
        return _transfer.make_error_array(
            _jax.ShapeDtypeStruct(shape, dtype, sharding=sharding), "the stage that should make it has failed"
        )
    return _jax.make_array_from_single_device_arrays(shape, sharding, [], dtype=dtype)


def remote_like(tree: Any, sharding: Sharding) -> Any:
    """Arrays of other processes' devices, of such shapes and dtypes."""
    return _jax.tree.map(lambda leaf: remote_array(tuple(leaf.shape), leaf.dtype, sharding), tree)


def put_local(values: Sequence[Any], shardings: Sequence[Sharding]) -> list[Any]:
    """Values that every process has, on the devices of those shardings that are this process's."""
    found = [
        value if sharding.is_fully_addressable else remote_array(np.shape(value), _jax.dtypes.canonicalize_dtype(value.dtype), sharding)
        for value, sharding in zip(values, shardings, strict=True)
    ]
    here = [index for index, sharding in enumerate(shardings) if sharding.is_fully_addressable]
    for index, value in zip(here, _jax.device_put([found[index] for index in here], [shardings[index] for index in here]), strict=True):
        found[index] = value
    return found


@final
class RemoteProgram:
    """A program that another process runs: here its results are known by their shapes only.

    Args: function: what it computes. whole: where.
    """

    def __init__(self, function: Callable[..., Any], whole: Sharding) -> None:
        self._function, self._whole = function, whole
        self._made: tuple[list[Any], Any] | None = None

    def __call__(self, *args: Any) -> Any:
        if self._made is None:
            leaves, structure = _jax.tree.flatten(_jax.eval_shape(self._function, *args))
            self._made = remote_like(leaves, self._whole), structure
        leaves, structure = self._made
        return _jax.tree.unflatten(structure, leaves)
