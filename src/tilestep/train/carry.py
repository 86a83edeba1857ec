"""A loop's carry before its first step: arrays and numbers of the caller, made ready to be donated."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from jax.sharding import NamedSharding, Sharding

_jax: Any = jax  # whose types say nothing of what is in a tree


@dataclass(frozen=True, kw_only=True)
class Carry:
    """A carry whose leaves may be donated.

    Attributes:
        tree: JAX's and NumPy's arrays, none of weak type.
        place: where it is; None if it is not committed to a place.
        shardings: of its leaves, in their order, those that are divided over a mesh; else None.
    """

    tree: Any
    place: Sharding | None
    shardings: tuple[NamedSharding | None, ...]


def prepared(carry: Any, *, donate: bool, loop: str) -> Carry:
    """Makes a carry ready.

    Numbers become arrays of JAX's default types. What is there twice is copied once, and with `donate` False everything is.

    Args: loop: the function's name, for messages.
    Raises: TypeError for what is no array or number, or inside of a function that JAX traces.
    """
    paths, structure = _jax.tree_util.tree_flatten_with_path(carry)
    leaves: list[Any] = []
    seen: set[int] = set()
    place: Sharding | None = None
    for path, leaf in paths:
        if isinstance(leaf, _jax.core.Tracer):
            raise TypeError(
                f"{loop}() was called in a function that JAX traces: it starts programs from the host; use jax.lax.fori_loop there"
            )
        if not isinstance(leaf, jax.Array):
            leaves.append(_number(path, leaf))
            continue
        array: Any = leaf
        if array.committed and (place is None or len(leaf.sharding.device_set) > len(place.device_set)):
            place = leaf.sharding
        if array.weak_type:
            leaves.append(_jax.device_put(np.asarray(leaf), leaf.sharding if array.committed else None))
            continue
        names = {id(leaf)} | _memory(leaf)
        if not donate or names & seen:
            leaf = _jax.device_put(leaf, leaf.sharding if array.committed else None, may_alias=False)
        seen |= names
        leaves.append(leaf)
    shardings = tuple(
        leaf.sharding
        if isinstance(leaf, jax.Array) and isinstance(leaf.sharding, NamedSharding) and leaf.sharding.num_devices > 1
        else None
        for leaf in leaves
    )
    return Carry(tree=_jax.tree.unflatten(structure, leaves), place=place, shardings=shardings)


def _number(path: Any, leaf: Any) -> np.ndarray[Any, Any]:
    try:
        array = np.asarray(leaf)
        dtype = np.dtype(jax.dtypes.canonicalize_dtype(array.dtype))
    except (TypeError, ValueError) as error:
        where = _jax.tree_util.keystr(path)
        raise TypeError(f"carry{where} is a {type(leaf).__name__}, no array or number: {error}") from error
    return array.astype(dtype, copy=False)


def _memory(array: jax.Array) -> set[int]:
    """The address of its (first) buffer, where the platform tells: other arrays may be the same memory."""
    with contextlib.suppress(Exception):  # no address on this platform: only the same object is known to be the same
        if len(array.sharding.device_set) == 1:
            return {array.unsafe_buffer_pointer()}
        return {array.addressable_shards[0].data.unsafe_buffer_pointer()}
    return set()
