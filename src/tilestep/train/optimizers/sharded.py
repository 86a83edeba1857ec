"""An optimiser whose state is divided among the replicas, or a group's: each keeps 1/R of it, and updates 1/R of the parameters."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import jax
import numpy as np
from jax.sharding import PartitionSpec

from tilestep.train.numbers import whole_number
from tilestep.train.offload import is_on_host, on_device, platform_of, transformation
from tilestep.train.optimizers.initial_state import in_one_program
from tilestep.train.replicas.collectives import replica_axis, replica_count
from tilestep.train.replicas.groups import Division, groups_of
from tilestep.train.replicas.shards import Shard, is_shard, on_parts, part_of, readable
from tilestep.train.untyped import Pytree
from tilestep.train.untyped import jax as _jax
from tilestep.train.untyped import jnp as _jnp

if TYPE_CHECKING:
    import optax

LEAST_ELEMENTS: Final = 8192  # PopART's `minElementsForReplicatedTensorSharding`: what is smaller costs more to gather than it frees


def sharded(
    optimizer: optax.GradientTransformation, *, least_elements: int = LEAST_ELEMENTS, group_size: int | None = None
) -> optax.GradientTransformationExtraArgs:
    """`optimizer` with its state divided among R replicas: each keeps 1/R of it, and updates 1/R of the parameters.

    Each array of the state with `least_elements` or more, but no scalar, is a `Shard`: of its n elements in row-major order each replica
    keeps ceil(n / R), the last ones padded with zeros. Each replica computes elementwise operations for its part alone, and gathers the
    updates. Operations on whole arrays (norms, factored moments) get them, so every optimiser computes the same values as without division.
    With `cross_replica(optimizer)` in here the gradients are scattered as they are summed, and no replica has the whole sum unless the
    optimiser needs it.

    With `group_size=G` each G successive replicas divide the state among them, and every group has all of it. A replica keeps more of it,
    ceil(n / G), but updates are gathered within a group alone, such as the replicas of one host. Gradients are scattered within it, and
    only these parts are summed over the groups.

    `init` is called inside of the replicas' program, or outside: then the state is whole until `Replicas.place`, or a loop with `replicas`,
    divides it. With one replica nothing is divided. To keep the parts in the host's memory too: `offloaded(sharded(optimizer))`.

    Args:
        optimizer: any transformation of optax.
        least_elements: of an array that is divided, 1 or more.
        group_size: successive replicas of a group. None: all replicas.

    Returns:
        The optimiser.

    Raises:
        ValueError: when a number is below 1. From `init` and `update`: when the state is in the host's memory within `sharded`, or
            `group_size` does not divide the number of replicas. From `update`: when the state is divided by another group size.
        TypeError: when `optimizer` is no optimiser, or a number is none.

    Source:
        Rajbhandari et al. 2020, "ZeRO: Memory Optimizations Toward Training Trillion Parameter Models", stage 1. Groups are PopART's
        `shardingDomain` of a tensor's location.
    """
    from optax import GradientTransformationExtraArgs  # which takes a while

    least = whole_number("least_elements", least_elements, least=1)
    group = None if group_size is None else whole_number("group_size", group_size, least=1)
    inner = transformation(optimizer)

    def init(params: Pytree) -> Pytree:
        return in_one_program(state_of, params, platform_of(params))

    def state_of(params: Pytree) -> Pytree:
        axis = replica_axis()
        by = None if axis is None else Division.over(axis, group)

        def divided(leaf: Any) -> Pytree:
            if is_on_host(leaf):
                raise ValueError("sharded(offloaded(optimizer)) would gather in the host's memory: use offloaded(sharded(optimizer))")
            if not isinstance(leaf, jax.Array) or leaf.size < least or not leaf.ndim:  # a scalar has no parts
                return leaf
            if _jax.dtypes.issubdtype(leaf.dtype, _jax.dtypes.extended):
                return leaf
            return Shard(values=leaf.reshape(-1) if by is None else part_of(leaf, by), shape=leaf.shape, group_size=group)

        return _jax.tree.map(divided, inner.init(params))

    def update(updates: Pytree, state: Pytree, params: Pytree = None, **extra: Any) -> tuple[Pytree, Pytree]:
        def function(updates: Pytree, state: Pytree, params: Pytree) -> Pytree:
            return inner.update(updates, state, params, **extra)

        require_groups(state, group, replica_count())
        axis = replica_axis()
        if axis is None:
            changes, new = function(updates, unsharded(state), params)
            return changes, _jax.tree.map(_as_shard, state, new, is_leaf=is_shard)
        results, structure = on_parts(function, (updates, state, params), Division.over(axis, group))
        changes, new = _jax.tree.unflatten(structure, results)
        kept = _jax.tree.map(_kept, state, new, is_leaf=is_shard)
        return _jax.tree.map(lambda result: result.whole(), changes), kept

    return GradientTransformationExtraArgs(init, update)


def unsharded(tree: Pytree) -> Pytree:
    """A pytree without Shards, such as an optimiser's state for use outside of the replicas' program.

    Args:
        tree: a pytree of arrays and Shards.

    Returns:
        The pytree with a whole array, on the device, in place of each Shard. With several processes all must call it, and each can read the
        arrays.
    """

    def whole(node: Pytree) -> Pytree:
        return on_device(readable(node.values))[: node.size].reshape(node.shape) if is_shard(node) else node

    return _jax.tree.map(whole, tree, is_leaf=is_shard)


def replica_specs(tree: Pytree, axis: str) -> Pytree:
    """The specs of a pytree for `jax.shard_map` over replicas.

    Args:
        tree: a pytree of arrays and Shards.
        axis: the mesh axis of replicas.

    Returns:
        A tree of PartitionSpecs: `PartitionSpec(axis)` for a Shard, `PartitionSpec()` for any other leaf.
    """
    return _jax.tree.map(lambda node: PartitionSpec(axis) if is_shard(node) else PartitionSpec(), tree, is_leaf=is_shard)


def _kept(old: Pytree, result: Pytree) -> Pytree:
    return replace(old, values=result.part()) if is_shard(old) else result.whole()


def _as_shard(old: Pytree, new: Pytree) -> Pytree:
    if not is_shard(old):
        return new
    flat = new.reshape(-1)
    rest = old.values.size - flat.size
    if old.group_size == 1:  # each replica's part is all of it
        return replace(old, values=_jnp.tile(flat, old.values.size // flat.size))
    return replace(old, values=_jnp.concatenate([flat, np.zeros(rest, flat.dtype)]) if rest else flat)


def require_groups(state: Pytree, group_size: int | None, count: int) -> None:
    """Args: count: of replicas. Raises: ValueError for a size that does not divide it, or a state that is divided by another size."""
    groups_of(count, group_size)
    for node in _jax.tree.leaves(state, is_leaf=is_shard):
        if is_shard(node) and (node.group_size or count) != (group_size or count):
            raise ValueError(
                f"an array {list(node.shape)} of the optimiser's state has group_size {node.group_size}, but the optimiser has "
                f"{group_size}: give it the state's, or divide each Shard of the state anew: dataclasses.replace(shard, "
                f"values=unsharded(shard).reshape(-1), group_size={group_size}), then Replicas.place"
            )
