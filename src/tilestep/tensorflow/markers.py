"""Nodes of a graph that stand for JAX code: what replicas do together."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Final

from tilestep.tensorflow.jax_private.primitive import MARKER, Handler
from tilestep.tensorflow.tf_private import graphs
from tilestep.tensorflow.untyped import Tensor, tf
from tilestep.train import cross_replica_mean, cross_replica_sum, replica_index

_COLLECTIVES: Final = {"sum": cross_replica_sum, "mean": cross_replica_mean}
_INDEX: Final = f"{MARKER}replica_index"


def handler_of(target: str) -> Handler:
    """The JAX code of a marker."""
    if target == _INDEX:
        return replica_index
    name, _, group = target.removeprefix(MARKER).partition("/")
    return functools.partial(_COLLECTIVES[name], group_size=int(group) if group else None)


def collective(kind: str, value: Tensor, group_size: int | None = None) -> Tensor:
    """A marker for the "sum" or "mean" over replicas. Its gradient is the same of the gradient, as each replica's result has all values."""
    target = f"{MARKER}{kind}" if group_size is None else f"{MARKER}{kind}/{group_size}"

    @tf.custom_gradient
    def mark(value: Tensor) -> tuple[Tensor, Callable[[Tensor], Tensor]]:
        return graphs.marker(target, [value], value), mark

    return mark(value)


def index() -> Tensor:
    """A marker for the number of the replica, int32[]."""
    return graphs.marker(_INDEX, [], tf.TensorSpec([], tf.int32))
