"""Stands in for arrays and programs of other processes, of which only shapes, dtypes and shardings are known here."""

import functools
from collections.abc import Callable, Sequence
from typing import Any, final

import jax
import numpy as np
from jax.experimental import transfer
from jax.sharding import Sharding

from tilestep.train.simulated import put_shards
from tilestep.train.untyped import Pytree, Structure
from tilestep.train.untyped import jax as _jax

_transfer: Any = transfer

Put = Callable[[Sequence[Any], Sequence[Any]], Sequence[Any]]  # (arrays, shardings) -> the arrays there


@functools.lru_cache(maxsize=4096)
def remote_array(shape: tuple[int, ...], dtype: Any, sharding: Sharding) -> jax.Array:
    """An array without data in this process, because other processes' devices have it.

    On devices of this process it is an error, which spreads to everything that is computed from it.
    """
    if sharding.is_fully_addressable:
        return _transfer.make_error_array(
            _jax.ShapeDtypeStruct(shape, dtype, sharding=sharding), "the stage that should make it has failed"
        )
    return _jax.make_array_from_single_device_arrays(shape, sharding, [], dtype=dtype)


def remote_like(tree: Pytree, sharding: Sharding) -> Pytree:
    """Arrays on other processes' devices, with the shapes and dtypes of a tree."""
    return _jax.tree.map(lambda leaf: remote_array(tuple(leaf.shape), leaf.dtype, sharding), tree)


def put_local(values: Sequence[Any], shardings: Sequence[Sharding]) -> list[jax.Array]:
    """Copies values that every process has to its own devices; for shardings of other processes it gives arrays without data."""
    arrays = [
        value if sharding.addressable_devices else remote_array(np.shape(value), _jax.dtypes.canonicalize_dtype(value.dtype), sharding)
        for value, sharding in zip(values, shardings, strict=True)
    ]
    local = [index for index, sharding in enumerate(shardings) if sharding.addressable_devices]
    copies = put_shards([arrays[index] for index in local], [shardings[index] for index in local])
    for index, copy in zip(local, copies, strict=True):
        arrays[index] = copy
    return arrays


@final
class RemoteProgram:
    """A program that another process runs: here its results are arrays without data.

    Args:
        function: the function that it computes.
        whole: the sharding of its results.
    """

    def __init__(self, function: Callable[..., Any], whole: Sharding) -> None:
        self._function, self._whole = function, whole
        self._results: tuple[list[jax.Array], Structure] | None = None

    def __call__(self, *args: Pytree) -> Pytree:
        if self._results is None:
            leaves, structure = _jax.tree.flatten(_jax.eval_shape(self._function, *args))
            self._results = remote_like(leaves, self._whole), structure
        leaves, structure = self._results
        return _jax.tree.unflatten(structure, leaves)
