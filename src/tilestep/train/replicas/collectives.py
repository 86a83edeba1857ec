"""What replicas do together: sums, means, gathers and scatters over all of them or over groups, and an optimiser of all gradients.

These functions are called where a replica's program is traced: in the body of a loop that was given `replicas`, in `Replicas.shard_map`, or
under any `jax.shard_map` or `jax.vmap` whose axis is named "replica". Anywhere else there is one replica. Gradients through
them are those of the sum over replicas: a replica's gradient of a cross-replica sum is the sum of all replicas' gradients by it.

Sources: TensorFlow for the IPU, `cross_replica_ops`, `all_to_all_op`, `reduce_scatter_op` and `CrossReplicaOptimizer` (SDK 2.4), for what
each does; groups are successive replicas there, too, and the optimiser takes the mean.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, Literal

import jax
import numpy as np

from tilestep.messages import shown
from tilestep.train.numbers import whole_number
from tilestep.train.offload import transformation
from tilestep.train.other_arguments import require_one_of
from tilestep.train.replicas.groups import Groups, groups_of
from tilestep.train.replicas.replicas import current_axis
from tilestep.train.untyped import Pytree
from tilestep.train.untyped import jax as _jax
from tilestep.train.untyped import jnp as _jnp

if TYPE_CHECKING:
    import optax

Reduction = Literal["sum", "mean"]

_REDUCTIONS: Final = ("sum", "mean")
_MOST_NUMPY_AXES: Final = 64
_WIDE_MAX: Final = 1e30  # a dtype that goes beyond holds the sum over any number of replicas of what was meant to be a gradient


def replica_index(*, group_size: int | None = None) -> jax.Array:
    """The number of the replica that runs this.

    Args:
        group_size: successive replicas of a group, within which it counts. None: all replicas.

    Returns:
        int32[], from 0 on.

    Raises:
        ValueError: as for `cross_replica_sum`.
    """
    axis, groups, size = _group(group_size)
    if axis is None:
        return _jnp.int32(0)
    index = _jax.lax.axis_index(axis)
    return index if groups is None else index % size


def replica_count() -> int:
    """How many replicas run this."""
    axis = replica_axis()
    return 1 if axis is None else int(_jax.lax.axis_size(axis))


def cross_replica_sum(tree: Pytree, *, group_size: int | None = None) -> Pytree:
    """The sum over replicas of each array of a pytree, on every replica.

    Args:
        tree: a pytree of arrays, with the same shapes on all replicas.
        group_size: successive replicas of a group, within which it happens. None: all replicas.

    Returns:
        Arrays of the same shapes and dtypes, equal on the replicas of a group.

    Raises:
        ValueError: when `group_size` does not divide the number of replicas, or the function is mapped over devices by an unknown axis.
    """
    axis, groups, _ = _group(group_size)
    return _mapped(tree, lambda x: x if axis is None else _jax.lax.psum(x, axis, axis_index_groups=groups))


def cross_replica_mean(tree: Pytree, *, group_size: int | None = None) -> Pytree:
    """The mean over replicas of each array of a pytree, on every replica.

    float16 and 8-bit floats are divided before they are summed.

    Args:
        tree, group_size: as for `cross_replica_sum`.

    Returns:
        Arrays of the same shapes and dtypes, equal on the replicas of a group.

    Raises:
        ValueError: as for `cross_replica_sum`.
        TypeError: when an array is neither real nor complex.
    """
    axis, groups, size = _group(group_size)

    def mean(x: jax.Array) -> jax.Array:
        _require_inexact(x, "cross_replica_mean")
        if axis is None:
            return x
        number = _jnp.asarray(size, x.dtype)
        if float(_jnp.finfo(x.dtype).max) < _WIDE_MAX:
            return _jax.lax.psum(x / number, axis, axis_index_groups=groups)
        return _jax.lax.psum(x, axis, axis_index_groups=groups) / number  # a division that an update's own operations take in

    return _mapped(tree, mean)


def cross_replica_all_gather(tree: Pytree, *, group_size: int | None = None) -> Pytree:
    """Each array of all replicas, stacked along a new leading axis in the order of the replicas.

    Args:
        tree, group_size: as for `cross_replica_sum`.

    Returns:
        An array [R, n, ...] for each array [n, ...]; within groups R is the group's size.

    Raises:
        ValueError: as for `cross_replica_sum`.
    """
    axis, groups, _ = _group(group_size)
    return _mapped(tree, lambda x: x[None] if axis is None else _jax.lax.all_gather(x, axis, axis_index_groups=groups))


def cross_replica_reduce_scatter(tree: Pytree, *, reduction: Reduction = "sum", group_size: int | None = None) -> Pytree:
    """The sum (or mean) over replicas of each array of a pytree, of which each replica gets one part.

    Args:
        tree: a pytree of arrays, [n, ...] each.
        reduction: "sum" or "mean".
        group_size: as for `cross_replica_sum`.

    Returns:
        For each array its part, [k, ...], k = ceil(n / R): replica r gets the rows r*k to (r+1)*k, with zeros beyond n.

    Raises:
        ValueError: when an array has no axes, `reduction` is another string, and as for `cross_replica_sum`.
        TypeError: when a mean is of whole numbers.
    """
    require_one_of("reduction", reduction, _REDUCTIONS)
    axis, groups, size = _group(group_size)

    def scatter(x: jax.Array) -> jax.Array:
        if not x.ndim:
            raise ValueError("cross_replica_reduce_scatter of an array without axes: there are no rows to divide; use cross_replica_sum")
        if reduction == "mean":
            _require_inexact(x, "cross_replica_reduce_scatter")
        if axis is None:
            return x
        if reduction == "mean":
            x = x / _jnp.asarray(size, x.dtype)
        x = _jnp.pad(x, [(0, -x.shape[0] % size), *((0, 0) for _ in x.shape[1:])])
        return _jax.lax.psum_scatter(x, axis, axis_index_groups=groups, tiled=True)

    return _mapped(tree, scatter)


def cross_replica_all_to_all(tree: Pytree, *, split_axis: int = 0, concat_axis: int = 0, group_size: int | None = None) -> Pytree:
    """Each replica cuts its arrays into R parts along `split_axis`, sends part r to replica r, and joins what it gets along `concat_axis`.

    Args:
        tree: a pytree of arrays.
        split_axis: of length n, which R divides.
        concat_axis: of length m.
        group_size: as for `cross_replica_sum`.

    Returns:
        Arrays of length n / R along `split_axis` and m * R along `concat_axis`; with the same axis for both, of the same shape.

    Raises:
        ValueError: when an array has no such axis, or R does not divide its length, and as for `cross_replica_sum`.
    """
    axis, groups, size = _group(group_size)
    axes = {
        name: whole_number(name, number, least=-_MOST_NUMPY_AXES, most=_MOST_NUMPY_AXES)
        for name, number in (("split_axis", split_axis), ("concat_axis", concat_axis))
    }
    split, concat = axes.values()

    def exchange(x: jax.Array) -> jax.Array:
        if not x.ndim:
            raise ValueError("cross_replica_all_to_all of an array without axes: there are no rows to send; use cross_replica_all_gather")
        for name, number in axes.items():
            if not -x.ndim <= number < x.ndim:
                raise ValueError(f"{name} is {number}, but the array has shape {x.shape}: it must be {-x.ndim} to {x.ndim - 1}")
        if x.shape[split] % size:
            raise ValueError(f"{x.shape[split]} rows (axis {split} of shape {x.shape}) / {size} replicas is no whole number: pad the array")
        if axis is None:
            return x
        return _jax.lax.all_to_all(x, axis, split % x.ndim, concat % x.ndim, axis_index_groups=groups, tiled=True)

    return _mapped(tree, exchange)


def replica_key(key: jax.Array) -> jax.Array:
    """A random key of this replica's own: `fold_in(key, replica_index())`.

    It is another one on each replica, and depends on `key` and the replica's number alone: not on how many replicas or devices there are.
    For numbers that are equal on all replicas use `key` itself, which each of them has.

    Args:
        key: a random key, equal on all replicas.

    Returns:
        A random key of the same kind.

    Raises:
        TypeError: when `key` is no random key.
    """
    return _jax.random.fold_in(_random_key(key), replica_index())


def element_key(key: jax.Array, step: jax.Array) -> jax.Array:
    """A random key of the element that this replica has in a step: `fold_in(key, step * R + r)`.

    An element of the dataset gets the same key however many replicas share the work.

    Args:
        key: a random key.
        step: int[], counted by the caller, such as in the loop's carry; step * R + r is below 2**32.

    Returns:
        A random key.

    Raises:
        TypeError: for a step that is no whole number, or a key that is no random key.
        ValueError: for a number that is below 0 or too large.
    """
    key, count = _random_key(key), replica_count()
    if not isinstance(step, jax.Array):  # a caller may give a number
        first = whole_number("step", step, least=0, most=(1 << 32) // count - 1) * count
        return _jax.random.fold_in(key, _jnp.uint32(first) + replica_index().astype(np.uint32))
    if step.shape or not _jnp.issubdtype(step.dtype, _jnp.integer):
        raise TypeError(f"step is {step.dtype}{list(step.shape)}: it must be one whole number, int[], such as a counter in the carry")
    return _jax.random.fold_in(key, step * count + replica_index())


def _random_key(key: Any) -> Any:
    """Raises: TypeError for what is no random key."""
    typed = isinstance(key, jax.Array) and _jax.dtypes.issubdtype(key.dtype, _jax.dtypes.prng_key)
    if not typed:
        try:  # a key of the old kind is uint32[2]
            if not isinstance(key, jax.Array | np.ndarray):
                raise TypeError
            _jax.random.wrap_key_data(key)
        except (TypeError, ValueError):
            raise TypeError(f"key is {shown(key)}: it must be a random key, such as jax.random.key(0)") from None
    if key.ndim > (0 if typed else 1):
        raise TypeError(f"key has shape {key.shape}: it must be one random key; jax.vmap goes over several")
    return key


def cross_replica(
    optimizer: optax.GradientTransformation, *, replica_reduction: Reduction = "mean"
) -> optax.GradientTransformationExtraArgs:
    """An optimiser whose `update` sees the mean (or sum) over replicas of the gradients, so that all replicas do the same update.

    With one replica it is `optimizer`. Inside of `gradient_accumulation` the replicas are combined once for each update. What is no
    gradient (None, optax.MaskedNode, float0) passes through.

    Args:
        optimizer: any transformation of optax. Its state keeps its shapes and dtypes.
        replica_reduction: of the replicas' gradients: "mean" or "sum".

    Returns:
        The optimiser. Its `update` takes a pytree of this replica's gradients, and must be called on replicas.

    Raises:
        TypeError: when `optimizer` is no optimiser.
        ValueError: for another `replica_reduction`.
    """
    from optax import GradientTransformationExtraArgs  # which takes a while

    inner = transformation(optimizer)
    require_replica_reduction(replica_reduction)

    def update(updates: Pytree, state: Pytree, params: Pytree = None, **extra: Any) -> tuple[Pytree, Pytree]:
        return inner.update(reduced_gradients(updates, replica_reduction), state, params, **extra)

    return GradientTransformationExtraArgs(inner.init, update)


def require_replica_reduction(replica_reduction: Any) -> None:
    """Raises: ValueError for another one than "sum" and "mean"."""
    require_one_of("replica_reduction", replica_reduction, _REDUCTIONS)


def reduced_gradients(gradients: Pytree, replica_reduction: Reduction) -> Pytree:
    """The sums or means over replicas of a pytree of gradients. What is no gradient (None, float0) passes through."""
    reduce = cross_replica_mean if replica_reduction == "mean" else cross_replica_sum
    return _jax.tree.map(lambda leaf: leaf if getattr(leaf, "dtype", None) == _jax.dtypes.float0 else reduce(leaf), gradients)


def _require_inexact(x: jax.Array, function: str) -> None:
    if not _jnp.issubdtype(x.dtype, _jnp.inexact):
        raise TypeError(f"{function} of {x.dtype}{list(x.shape)}: a mean needs real or complex numbers; convert with .astype")


def _mapped(tree: Pytree, function: Callable[[jax.Array], jax.Array]) -> Pytree:
    return _jax.tree.map(lambda leaf: function(_jnp.asarray(leaf)), tree)


def replica_axis() -> str | None:
    """The axis of replicas; None: there is one replica. Raises: ValueError if devices run this by an axis that nobody has named."""
    axis = current_axis()
    try:
        _jax.lax.axis_size(axis)
    except NameError:
        others = jax.sharding.get_abstract_mesh().manual_axes
        if others:
            raise ValueError(
                f"a function over replicas was called in a jax.shard_map over {', '.join(map(repr, others))}, which has no axis {axis!r}: "
                f"give the loop `replicas`, use Replicas.shard_map, or name the mesh's axis 'replica'"
            ) from None
        return None
    return axis


def _group(group_size: int | None) -> tuple[str | None, Groups, int]:
    """(axis, groups for JAX, replicas of a group)."""
    return replica_axis(), *groups_of(replica_count(), group_size)
