"""Collectives over replicas. A session with several replicas names the axis that they are mapped over; without one there is one."""

import contextlib
import contextvars
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import jax
import jax.numpy as jnp
from jax import lax

from tilestep.onnx.interpreter.interpret import Call
from tilestep.onnx.interpreter.registry import op
from tilestep.popart.enums import CollectiveOperator, CommGroupType
from tilestep.popart.exceptions import popart_exception
from tilestep.popart.ops.describing import DOMAIN
from tilestep.popart.variables import CommGroup, ReplicaGrouping


@dataclass(frozen=True, kw_only=True)
class _Axis:
    """The axis over which replicas are mapped. Attributes: native_groups: whether JAX's collectives go over groups of it."""

    name: str
    count: int
    native_groups: bool


_axis: Final = contextvars.ContextVar[_Axis | None]("_axis", default=None)
Groups = list[list[int]]


@contextlib.contextmanager
def replicas(axis: str, count: int, *, native_groups: bool = False) -> Iterator[None]:
    """Within it collectives go over the mapped axis of this name.

    Args:
        count: of replicas along it.
        native_groups: whether it is an axis of jax.shard_map, where collectives have groups; in jax.vmap they have none.
    """
    token = _axis.set(_Axis(name=axis, count=count, native_groups=native_groups) if count > 1 else None)
    try:
        yield
    finally:
        _axis.reset(token)


def is_replicated() -> bool:
    """Whether what is traced runs on several replicas."""
    return _axis.get() is not None


def on_several_devices() -> bool:
    """Whether what is traced runs on one device for each replica."""
    axis = _axis.get()
    return axis is not None and axis.native_groups


_Reduce = Callable[[Any, str, Any], Any]  # (value, axis, groups of its indices) -> value
_REDUCTIONS: Final[dict[str, _Reduce]] = {
    "Add": lambda x, axis, groups: lax.psum(x, axis, axis_index_groups=groups),
    "Mean": lambda x, axis, groups: lax.pmean(x, axis, axis_index_groups=groups),
    "Min": lambda x, axis, groups: lax.pmin(x, axis, axis_index_groups=groups),
    "Max": lambda x, axis, groups: lax.pmax(x, axis, axis_index_groups=groups),
    "Mul": lambda x, axis, groups: jnp.prod(lax.all_gather(x, axis, axis_index_groups=groups), axis=0).astype(x.dtype),
    "LogicalAnd": lambda x, axis, groups: lax.pmin((x != 0).astype(x.dtype), axis, axis_index_groups=groups),
    "LogicalOr": lambda x, axis, groups: lax.pmax((x != 0).astype(x.dtype), axis, axis_index_groups=groups),
    "SquareAdd": lambda x, axis, groups: lax.psum(x * x, axis, axis_index_groups=groups),
}
_REDUCTIONS_OF_GATHERED: Final[dict[str, Callable[[Any], Any]]] = {  # over the second dimension of [groups, size, ...]
    "Add": lambda x: jnp.sum(x, axis=1),
    "Mean": lambda x: jnp.sum(x, axis=1) / x.shape[1],
    "Min": lambda x: jnp.min(x, axis=1),
    "Max": lambda x: jnp.max(x, axis=1),
    "Mul": lambda x: jnp.prod(x, axis=1),
    "LogicalAnd": lambda x: jnp.min(x != 0, axis=1),
    "LogicalOr": lambda x: jnp.max(x != 0, axis=1),
    "SquareAdd": lambda x: jnp.sum(x * x, axis=1),
}


def groups_of(comm_group: Sequence[int], count: int) -> Groups | None:
    """Indices of replicas that reduce together; None if all do. Args: comm_group: the number of a CommGroupType, and a size.

    Raises: popart_exception for a size that does not divide the replicas.
    """
    if not comm_group:
        return None
    kind, size = CommGroupType(comm_group[0]), comm_group[1] if len(comm_group) > 1 else 0
    if kind not in (CommGroupType.All, CommGroupType.Ungrouped) and (size < 1 or count % size):
        raise popart_exception(f"a group of {size} replicas does not divide {count} replicas")
    return groups_in(CommGroup(kind, size).toReplicaGrouping(count))


def groups_in(grouping: ReplicaGrouping) -> Groups | None:
    """Indices of the replicas of each group; None if all are one."""
    if grouping.getNumGroups() == 1:
        return None
    return [grouping.getReplicasAt(group) for group in range(grouping.getNumGroups())]


def reduced(x: jax.Array, operator: str, groups: Groups | None) -> jax.Array:
    """An array reduced over the replicas of a group, the same on each. Args: operator: name of a CollectiveOperator but for Local."""
    axis = _axis.get()
    if axis is None:
        return x
    if groups is None or axis.native_groups:
        return _REDUCTIONS[operator](x, axis.name, groups)
    gathered = lax.all_gather(x, axis.name)[jnp.asarray(groups)]
    return _REDUCTIONS_OF_GATHERED[operator](gathered).astype(x.dtype)[_place(axis, groups)[0]]


def _place(axis: _Axis, groups: Groups) -> tuple[Any, Any]:
    """(the group of the replica that runs this, its place in the group)."""
    group, place = [0] * axis.count, [0] * axis.count
    for number, members in enumerate(groups):
        for index, replica in enumerate(members):
            group[replica], place[replica] = number, index
    index = lax.axis_index(axis.name)
    return jnp.asarray(group)[index], jnp.asarray(place)[index]


def _members(comm_group: Sequence[int]) -> tuple[_Axis, Groups | None, int] | None:
    """(axis, groups, replicas of a group); None if there is one replica."""
    axis = _axis.get()
    if axis is None:
        return None
    groups = groups_of(comm_group, axis.count)
    return axis, groups, axis.count if groups is None else len(groups[0])


@op("ReplicatedAllReduce", domain=DOMAIN)
def replicated_all_reduce(call: Call, x: Any, *, __collectiveOperator: int = 0, __collectiveCommGroup: Sequence[int] = ()) -> Any:
    """x reduced over the replicas; x itself where there is one."""
    members, name = _members(__collectiveCommGroup), CollectiveOperator(__collectiveOperator).name
    return x if members is None or name == "Local" else reduced(jnp.asarray(x), name, members[1])


@op("ReplicatedReduceScatter", domain=DOMAIN)
def replicated_reduce_scatter(
    call: Call, x: Any, lengths: Any = None, *, __collectiveOperator: int = 0, __collectiveCommGroup: Sequence[int] = ()
) -> Any:
    """The replica's part [elements / replicas, rounded up] of x reduced over the replicas; all elements where there is one."""
    members, name = _members(__collectiveCommGroup), CollectiveOperator(__collectiveOperator).name
    flat = jnp.asarray(x).reshape(-1)
    if members is None:
        return flat
    axis, groups, count = members
    size = math.ceil(flat.shape[0] / count)
    padded = jnp.pad(flat, (0, size * count - flat.shape[0]))
    if axis.native_groups and name == "Add":
        return lax.psum_scatter(padded, axis.name, axis_index_groups=groups, tiled=True)
    whole = padded if name == "Local" else reduced(padded, name, groups)
    place = _place(axis, [list(range(axis.count))] if groups is None else groups)[1]
    return lax.dynamic_slice(whole, (place * size,), (size,))


@op("ReplicatedAllGather", domain=DOMAIN)
def replicated_all_gather(call: Call, x: Any, *, __collectiveCommGroup: Sequence[int] = ()) -> Any:
    """[replicas * elements] the elements of all replicas, one replica after the other; x's own where there is one."""
    members = _members(__collectiveCommGroup)
    flat = jnp.asarray(x).reshape(-1)
    if members is None:
        return flat
    axis, groups, _ = members
    if groups is None or axis.native_groups:
        return lax.all_gather(flat, axis.name, axis_index_groups=groups, tiled=True)
    return lax.all_gather(flat, axis.name)[jnp.asarray(groups)][_place(axis, groups)[0]].reshape(-1)
