"""A loop's carry before its first step: arrays and numbers of the caller, made ready to be donated."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from jax.sharding import NamedSharding, Sharding

from tilestep.train.feeds import narrow
from tilestep.train.untyped import jax as _jax

_array_types: set[type] = set()  # of leaves that were JAX's arrays: `isinstance` takes longer


@dataclass(frozen=True, kw_only=True)
class Carry:
    """A carry whose leaves may be donated.

    Attributes:
        tree: JAX's and NumPy's arrays, none of weak type.
        structure: the tree's.
        place: where it is; None if it is not committed to a place.
        shardings: of its leaves, in their order, for those on several devices of a mesh, else None; empty if there are none of them.
    """

    tree: Any
    structure: Any
    place: Sharding | None
    shardings: tuple[NamedSharding | None, ...]


def prepared(carry: Any, *, donate: bool, loop: str) -> Carry:
    """Makes a carry ready.

    Numbers become arrays of JAX's default types. What is there twice is copied once, and with `donate` False everything is.

    Args: loop: the function's name, for messages.
    Raises: TypeError for what is no array or number, or inside of a function that JAX traces. OverflowError for a whole number of Python's
        or NumPy's that would become another one.
    """
    leaves, structure = _jax.tree.flatten(carry)
    seen: set[int] = set()  # addresses of (first) buffers, which two arrays may share
    place: Sharding | None = None
    sharding: Any = None
    count, divided, changed = 1, False, False
    for index, leaf in enumerate(leaves):
        if type(leaf) not in _array_types and not _is_array(leaf, loop):
            leaves[index], changed = _number(carry, index), True
            continue
        array: Any = leaf
        if array.sharding is not sharding:
            sharding = array.sharding
            count = sharding.num_devices
            divided = divided or count > 1
        committed = array.committed
        if committed and (place is None or count > place.num_devices):
            place = sharding
        if getattr(array, "weak_type", False):  # random keys have none
            leaves[index], changed = _jax.device_put(np.asarray(array), sharding if committed else None), True
            continue
        try:
            memory = (array if count == 1 else array.addressable_shards[0].data).unsafe_buffer_pointer()
        except Exception:  # the platform doesn't tell, or there is none
            memory = id(array)
        if not donate or memory in seen:
            leaves[index], changed = _jax.device_put(array, sharding if committed else None, may_alias=False), True
        seen.add(memory)
    shardings = tuple(_divided(leaf) for leaf in leaves) if divided else ()
    tree = _jax.tree.unflatten(structure, leaves) if changed else carry
    return Carry(tree=tree, structure=structure, place=place, shardings=shardings)


def _is_array(leaf: Any, loop: str) -> bool:
    """Whether a leaf is JAX's. Raises: TypeError inside of a function that JAX traces."""
    if not isinstance(leaf, jax.Array):
        return False
    if isinstance(leaf, _jax.core.Tracer):
        raise TypeError(f"{loop}() was called in a function that JAX traces: it starts programs from the host; use jax.lax.fori_loop there")
    _array_types.add(type(leaf))
    return True


def _divided(leaf: Any) -> NamedSharding | None:
    if isinstance(leaf, jax.Array) and isinstance(leaf.sharding, NamedSharding) and leaf.sharding.num_devices > 1:
        return leaf.sharding
    return None


def _number(carry: Any, index: int) -> np.ndarray[Any, Any]:
    path, leaf = _jax.tree_util.tree_flatten_with_path(carry)[0][index]
    try:
        array = np.asarray(leaf)
        if not narrow.is_of_numbers(array.dtype):
            raise TypeError(f"its dtype is {array.dtype}")
        dtype = np.dtype(jax.dtypes.canonicalize_dtype(array.dtype))
    except (TypeError, ValueError) as error:
        where = _jax.tree_util.keystr(path)
        raise TypeError(f"carry{where} is a {type(leaf).__name__}, no array or number: {error}") from error
    if (place := narrow.lost(array, dtype)) is not None:
        raise OverflowError(f"carry{_jax.tree_util.keystr(path)} {narrow.loss(array, place, dtype)}")
    return array.astype(dtype, copy=False)
