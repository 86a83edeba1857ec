"""First values of a session's variables and of its optimiser's state, and which of them each replica has for itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from tilestep.onnx.demand import statistics
from tilestep.popart.builder.external import array_of
from tilestep.popart.exceptions import popart_exception
from tilestep.popart.optimizers import Optimizer, UpdateRule
from tilestep.popart.session.graph import SessionGraph
from tilestep.popart.session.replication import Replication

Array = np.ndarray[Any, Any]


def shared_by_replicas(graph: SessionGraph, rule: UpdateRule | None, optimizer: Optimizer | None) -> Replication:
    """The replicas of a graph, with the optimiser's state, and with what each has of its own.

    These are variables and state of several groups, and statistics, which each replica keeps of what it sees. Clipping by a norm over
    weights of which some are of groups makes replicas change all weights in ways of their own.
    """
    replication = graph.replication
    if replication.count == 1:
        return replication
    owners = {} if rule is None else rule.owners
    grouped = {name for name in graph.variables if replication.is_grouped(name)}
    kept = statistics(graph.graph) & graph.variables.keys()  # in inference, too, batch norms may keep them
    own = grouped | kept | {name for name, weight in owners.items() if weight in grouped}
    if optimizer is not None and optimizer.getClipNormSettings() and grouped:
        own = {*graph.variables, *owners}
    return replication.with_state(owners, own)


def first_values(graph: SessionGraph, rule: UpdateRule | None, trained: Sequence[str], replication: Replication) -> dict[str, Array]:
    """First values of variables, and of the optimiser's state, as the host gives them: those of a saved model where it has them.

    Raises: popart_exception for a value of another shape, and for a weight that has the name of the state.
    """
    variables = dict(graph.given)
    if rule is None:
        return variables
    tensors = _first_state(graph, rule, trained, replication)
    for name in sorted({name for node in graph.proto.graph.node for name in node.input} & graph.variables.keys()):
        if name in tensors:  # in a saved model no node reads those
            raise popart_exception(f"A weight is called '{name}', as a tensor of the optimiser's state is: call the weight otherwise")
    saved = {tensor.name: tensor for tensor in graph.proto.graph.initializer if tensor.name in tensors}
    for name, tensor in saved.items():
        array = array_of(tensor)
        if array.shape != tensors[name].shape:
            raise popart_exception(
                f"The model's '{name}' has shape {list(array.shape)}, and the optimiser's has {list(tensors[name].shape)}"
            )
        tensors[name] = array.astype(tensors[name].dtype)
    return variables | tensors


def _first_state(graph: SessionGraph, rule: UpdateRule, trained: Sequence[str], replication: Replication) -> dict[str, Array]:
    """The optimiser's state as the host gives it."""
    if not replication.own.intersection(trained):
        state = rule.init({name: graph.variables[name] for name in trained})  # pyrefly: ignore[bad-argument-type]
        return {name: np.asarray(value) for name, value in state.tensors.items()}
    each: Any = {
        name: np.broadcast_to(replication.on_device(name, graph.given[name]), _shape(graph, name, replication)) for name in trained
    }
    state = jax.vmap(rule.init)(each)
    own = {name: np.asarray(value) for name, value in state.tensors.items()}
    return {name: replication.of_groups(name, value if name in replication.own else value[0]) for name, value in own.items()}


def _shape(graph: SessionGraph, name: str, replication: Replication) -> tuple[int, ...]:
    return (replication.count, *graph.variables[name].shape)
