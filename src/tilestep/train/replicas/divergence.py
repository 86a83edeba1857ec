"""Whether what should be equal on all replicas is."""

import functools
from dataclasses import dataclass
from typing import Any, Final

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import PartitionSpec

from tilestep.errors import ReplicasDifferError
from tilestep.messages import shown
from tilestep.train.offload import on_device
from tilestep.train.other_arguments import require_kind, require_tree
from tilestep.train.replicas.replicas import Replicas
from tilestep.train.untyped import Pytree
from tilestep.train.untyped import jax as _jax
from tilestep.train.untyped import jnp as _jnp

_UNSIGNED: Final = {1: jnp.uint8, 2: jnp.uint16, 4: jnp.uint32, 8: jnp.uint64}


@dataclass(frozen=True, kw_only=True)
class ReplicaDifference:
    """One array that is not equal on all replicas.

    Attributes:
        path: where it is in the pytree, such as "['w'][0]".
        replica: the number of the replica that differs most from replica 0.
        elements: how many of its elements have other bits there.
        size: how many elements it has.
        largest: the greatest absolute difference of an element; infinite or nan where such are, 0 where only a zero's sign differs.
    """

    path: str
    replica: int
    elements: int
    size: int
    largest: float

    def __str__(self) -> str:
        return (
            f"{self.path or 'the array'}: {self.elements:,} of {self.size:,} elements on replica {self.replica} differ from replica 0's, "
            f"by {self.largest:.3g} at most"
        )


def replica_differences(tree: Pytree, replicas: Replicas) -> tuple[ReplicaDifference, ...]:
    """The arrays of a pytree that are not equal on all replicas, bit by bit.

    Args:
        tree: a pytree of arrays, such as a loop with `replicas` returns. JAX takes it for replicated, and shows replica 0's values. Arrays
            that are not on the replicas' devices are left out.
        replicas: those of the loop. With several processes all must call this.

    Returns:
        One ReplicaDifference for each array that differs in any bit.

    Raises:
        TypeError: when `replicas` are no Replicas.
    """
    require_kind("replicas", replicas, Replicas, "the Replicas that the loop had")
    found, _ = _jax.tree_util.tree_flatten_with_path(tree)
    there = [(_jax.tree_util.keystr(path), leaf) for path, leaf in found if _is_on(leaf, replicas) and leaf.size]
    if not there or replicas.count == 1:
        return ()
    counts, largest = _compare(replicas)(on_device([leaf for _, leaf in there]))
    differences: list[ReplicaDifference] = []
    for index, (path, leaf) in enumerate(there):
        count, most = np.asarray(counts[index]), np.asarray(largest[index])
        if count.any():
            order = np.where(np.isnan(most), np.inf, most)
            worst = int(np.lexsort((count, order))[-1])
            if not count[worst]:
                worst = int(count.argmax())
            differences.append(
                ReplicaDifference(path=path, replica=worst, elements=int(count[worst]), size=leaf.size, largest=float(most[worst]))
            )
    return tuple(differences)


def require_equal_replicas(tree: Pytree, replicas: Replicas) -> None:
    """Checks that the arrays of a pytree are equal on all replicas.

    Args:
        tree: as for `replica_differences`.
        replicas: as for `replica_differences`.

    Raises:
        ReplicasDifferError: when an array differs; its `differences` say which ones.
        TypeError: when `replicas` is no Replicas.
        ValueError: when nothing would be compared: the tree has no JAX arrays, or there are several replicas and no array is on them.
    """
    require_kind("replicas", replicas, Replicas, "the Replicas that the loop had")
    require_tree("tree", tree)
    leaves = _jax.tree.leaves(tree)
    arrays = [leaf for leaf in leaves if isinstance(leaf, jax.Array)]
    if not arrays:
        found = f"has {shown(leaves[0])} and no JAX arrays" if leaves else "is empty"
        raise ValueError(
            f"tree {found}, so nothing could be compared: give what the loop has returned, whose arrays are on the replicas, and no copy "
            "by np.asarray or jax.device_get, which is replica 0's alone"
        )
    if replicas.count > 1 and not any(_is_on(leaf, replicas) for leaf in arrays):
        raise ValueError(
            f"none of the {len(arrays):,} arrays is on the devices of {replicas}, so nothing could be compared: give the Replicas that the "
            "loop has run on, and what it has returned"
        )
    differences = replica_differences(tree, replicas)
    if differences:
        raise ReplicasDifferError(differences=differences)


def _is_on(leaf: Any, replicas: Replicas) -> bool:
    return isinstance(leaf, jax.Array) and leaf.sharding.device_set == set(replicas.mesh.devices.flat)


@functools.lru_cache(maxsize=64)
def _compare(replicas: Replicas) -> Any:
    """(arrays) -> for each the number of other bits' elements on each replica, and the greatest difference: both [R]."""

    def one(x: jax.Array) -> tuple[Pytree, Pytree]:
        if _jnp.issubdtype(x.dtype, _jax.dtypes.extended):
            x = _jax.random.key_data(x)
        first = _jax.lax.axis_index(replicas.axis) == 0
        bits = _bits(x)
        same = _jax.lax.psum(_jnp.where(first, bits, 0), replicas.axis)  # replica 0's, exactly: all others add 0
        changed = bits != same
        for _ in range(changed.ndim - x.ndim):
            changed = changed.any(-1)
        reference = _of_bits(same, x)
        wide = x.dtype if _jnp.issubdtype(x.dtype, _jnp.inexact) and x.dtype.itemsize >= _jnp.float32.dtype.itemsize else _jnp.float32
        apart = _jnp.where(changed, _jnp.abs(x.astype(wide) - reference.astype(wide)), 0).max()
        return _jax.lax.all_gather(changed.sum(dtype=_jnp.int32), replicas.axis), _jax.lax.all_gather(apart, replicas.axis)

    def all_of(arrays: list[Any]) -> tuple[list[Any], list[Any]]:
        pairs = [one(x) for x in arrays]
        return [count for count, _ in pairs], [most for _, most in pairs]

    spec = PartitionSpec()
    return _jax.jit(replicas.shard_map(all_of, in_specs=spec, out_specs=spec))


def _bits(x: jax.Array) -> jax.Array:
    if x.dtype == _jnp.bool_:
        return x.astype(_jnp.uint8)
    if _jnp.iscomplexobj(x):
        return _bits(_jnp.stack([x.real, x.imag], -1))
    if x.dtype.itemsize < 1 or _jnp.issubdtype(x.dtype, _jnp.integer):
        return x.astype(_UNSIGNED[max(1, x.dtype.itemsize)])
    return _jax.lax.bitcast_convert_type(x, _UNSIGNED[x.dtype.itemsize])


def _of_bits(bits: jax.Array, like: jax.Array) -> jax.Array:
    if like.dtype == _jnp.bool_ or _jnp.issubdtype(like.dtype, _jnp.integer):
        return bits.astype(like.dtype)
    if _jnp.iscomplexobj(like):
        half = _jnp.finfo(like.dtype).dtype
        parts = _jax.lax.bitcast_convert_type(bits, half)
        return _jax.lax.complex(parts[..., 0], parts[..., 1])
    return _jax.lax.bitcast_convert_type(bits, like.dtype)
