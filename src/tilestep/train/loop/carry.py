"""Makes the caller's carry ready for a loop: numbers become arrays, and every leaf may be donated."""

from dataclasses import dataclass
from typing import Any, NoReturn

import jax
import numpy as np
from jax.sharding import NamedSharding, Sharding
from numpy.typing import NDArray

from tilestep.train.feeds import narrow
from tilestep.train.untyped import Pytree, Structure
from tilestep.train.untyped import jax as _jax

# Types of leaves that `isinstance` has found to be JAX's arrays. A look in a set is quicker than `isinstance`.
_array_types: set[type] = set()


@dataclass(frozen=True, kw_only=True)
class Carry:
    """A carry whose leaves may be donated."""

    tree: Pytree  # a pytree of JAX's and NumPy's arrays, none of weak type
    structure: Structure  # structure of the tree
    sharding: Sharding | None  # the sharding of the committed leaf with the most devices; None: no leaf is committed to a device
    # for each leaf: its sharding if it is on several devices of a mesh, else None. Empty without such leaves.
    shardings: tuple[NamedSharding | None, ...]


def prepared(carry: Pytree, *, donate: bool, loop: str) -> Carry:
    """Makes a carry ready.

    Numbers become arrays of JAX's default types. Of two leaves with the same memory one is copied; with `donate` False, every leaf.

    Args:
        loop: the function's name, for messages.
    Raises:
        ValueError: for a leaf that other processes have, and this one has nothing of.
        TypeError: for a leaf that is no array or number, or inside of a function that JAX traces.
        OverflowError: for a whole number that its dtype in JAX does not hold.
    """
    leaves, structure = _jax.tree.flatten(carry)
    seen: set[int] = set()  # addresses of (first) buffers, which two arrays may share
    committed_to: Sharding | None = None  # with the most devices yet
    sharding: Sharding | None = None  # the latest array's; arrays in a row often share one
    num_devices, is_divided, is_changed = 1, False, False
    for index, leaf in enumerate(leaves):
        if type(leaf) not in _array_types and not _is_array(leaf, loop):
            leaves[index], is_changed = _number(carry, index), True
            continue
        array = leaf
        if array.sharding is not sharding:
            sharding = own = array.sharding
            if not own.addressable_devices:
                _raise_elsewhere(carry, index)
            num_devices = leaf.sharding.num_devices
            is_divided = is_divided or num_devices > 1
        committed = array.committed
        if committed and (committed_to is None or num_devices > committed_to.num_devices):
            committed_to = sharding
        if getattr(array, "weak_type", False):  # random keys have none
            leaves[index], is_changed = _jax.device_put(np.asarray(array), sharding if committed else None), True
            continue
        try:
            memory = (array if num_devices == 1 else array.addressable_shards[0].data).unsafe_buffer_pointer()
        except Exception:  # the platform does not show addresses, or the array has no memory
            memory = id(array)
        if not donate or memory in seen:
            leaves[index], is_changed = _jax.device_put(array, sharding if committed else None, may_alias=False), True
        seen.add(memory)
    shardings = tuple(_divided(leaf) for leaf in leaves) if is_divided else ()
    tree = _jax.tree.unflatten(structure, leaves) if is_changed else carry
    return Carry(tree=tree, structure=structure, sharding=committed_to, shardings=shardings)


def _raise_elsewhere(carry: Pytree, index: int) -> NoReturn:
    path, leaf = _jax.tree_util.tree_flatten_with_path(carry)[0][index]
    device = min(leaf.sharding.device_set, key=lambda device: device.id)
    raise ValueError(
        f"carry{_jax.tree_util.keystr(path)} is on {device}, which is process {device.process_index}'s, and this is process "
        f"{_jax.process_index()}: make it on one of jax.local_devices(), or as an array over all processes"
    )


def _is_array(leaf: object, loop: str) -> bool:
    """Whether a leaf is an array of JAX's. Raises: TypeError inside of a function that JAX traces."""
    if not isinstance(leaf, jax.Array):
        return False
    if isinstance(leaf, _jax.core.Tracer):
        raise TypeError(f"{loop}() was called in a function that JAX traces: it starts programs from the host; use jax.lax.fori_loop there")
    _array_types.add(type(leaf))
    return True


def _divided(leaf: object) -> NamedSharding | None:
    if isinstance(leaf, jax.Array) and isinstance(leaf.sharding, NamedSharding) and leaf.sharding.num_devices > 1:
        return leaf.sharding
    return None


def _number(carry: Pytree, index: int) -> NDArray[Any]:
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
