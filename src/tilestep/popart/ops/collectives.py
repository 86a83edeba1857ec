"""Collectives over replicas. A session with several replicas names the axis that they are mapped over; without one there is one."""

from __future__ import annotations

import contextlib
import contextvars
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import jax.numpy as jnp
from jax import lax

from tilestep.onnx.interpret import Call
from tilestep.onnx.registry import op
from tilestep.popart.enums import CollectiveOperator, CommGroupType
from tilestep.popart.exceptions import popart_exception
from tilestep.popart.ops.describing import DOMAIN

_axis: Final = contextvars.ContextVar[tuple[str, int] | None]("_axis", default=None)  # its name, and how many replicas it has


@contextlib.contextmanager
def replicas(axis: str, count: int) -> Iterator[None]:
    """Within it collectives go over the mapped axis of this name. Args: count: of replicas along it."""
    token = _axis.set((axis, count) if count > 1 else None)
    try:
        yield
    finally:
        _axis.reset(token)


_Reduce = Callable[[Any, str, Any], Any]  # of a value, an axis and groups of its indices
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


def groups_of(comm_group: Sequence[int], count: int) -> list[list[int]] | None:
    """Indices of replicas that reduce together; None if all do. Args: comm_group: the number of a CommGroupType, and a size.

    Raises: popart_exception for a size that does not divide the replicas.
    """
    if not comm_group:
        return None
    kind, size = CommGroupType(comm_group[0]).name, comm_group[1] if len(comm_group) > 1 else 0
    if kind == "All":
        return None
    if kind == "Ungrouped":  # `None` in the original: each on its own
        return [[replica] for replica in range(count)]
    if size < 1 or count % size:
        raise popart_exception(f"a group of {size} replicas does not divide {count} replicas")
    if kind == "Consecutive":
        return [list(range(first, first + size)) for first in range(0, count, size)]
    return [list(range(first, count, count // size)) for first in range(count // size)]


def _reduced(x: Any, operator: int, comm_group: Sequence[int]) -> tuple[Any, int]:
    """The reduction, and how many replicas take part."""
    name = CollectiveOperator(operator).name
    replicated = _axis.get()
    if replicated is None or name == "Local":
        return x, 1
    axis, count = replicated
    groups = groups_of(comm_group, count)
    return _REDUCTIONS[name](jnp.asarray(x), axis, groups), count if groups is None else len(groups[0])


@op("ReplicatedAllReduce", domain=DOMAIN)
def replicated_all_reduce(call: Call, x: Any, *, __collectiveOperator: int = 0, __collectiveCommGroup: Sequence[int] = ()) -> Any:
    """x reduced over the replicas; x itself where there is one."""
    return _reduced(x, __collectiveOperator, __collectiveCommGroup)[0]


@op("ReplicatedReduceScatter", domain=DOMAIN)
def replicated_reduce_scatter(
    call: Call, x: Any, lengths: Any = None, *, __collectiveOperator: int = 0, __collectiveCommGroup: Sequence[int] = ()
) -> Any:
    """The replica's part [elements / replicas, rounded up] of x reduced over the replicas; all elements where there is one."""
    whole, count = _reduced(x, __collectiveOperator, __collectiveCommGroup)
    flat = whole.reshape(-1)
    if count == 1:
        return flat
    replicated = _axis.get()
    assert replicated is not None
    axis, replica_count = replicated
    size = math.ceil(flat.shape[0] / count)
    padded = jnp.pad(flat, (0, size * count - flat.shape[0]))
    groups = groups_of(__collectiveCommGroup, replica_count)
    places = [0] * replica_count
    for group in groups or [list(range(replica_count))]:
        for place, replica in enumerate(group):
            places[replica] = place
    start = jnp.asarray(places)[lax.axis_index(axis)] * size
    return lax.dynamic_slice(padded, (start,), (size,))
