"""Runs functions of a program once to see what they do: their graph, what they return, and what they send to queues."""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from tilestep.tensorflow.residency import name_of_handle, residency_of
from tilestep.tensorflow.tf_private import graphs
from tilestep.tensorflow.untyped import Graph, Operation, Structure, Tensor, TensorSpec, tf, v1


class Sent(NamedTuple):
    """What a function or loop has sent to an outfeed queue."""

    queue: Any
    graph: Graph
    tensors: list[Tensor]


class Taken(NamedTuple):
    """An element that a function takes from an iterator of TensorFlow 2 in each step. Attributes: graph: of the function or loop."""

    iterator: Any
    graph: Graph
    placeholders: list[Tensor]


@dataclass(kw_only=True, eq=False)
class Scope:
    """What happens while a function is traced."""

    compilation: list[Any] | None = None  # loops and pipelines of the whole program; None for a function of TensorFlow 2
    variables: dict[int, Any] = field(default_factory=dict)  # of TensorFlow 2 that it uses, by the id of their handles
    taken: list[Taken] = field(default_factory=list)
    sent: list[Sent] = field(default_factory=list)
    updates: list[Any] = field(default_factory=list)  # of optimizers that accumulate gradients
    shards: int = 1  # as many as `ipu_shard` has named
    is_body: bool = False
    combined: bool = False  # whether gradients are those of all replicas already
    accumulates: int | None = None  # steps of `loops.repeat`, in which updates may wait for several

    def inner(self) -> Scope:
        """For a function of the same program."""
        return Scope(compilation=self.compilation, variables=self.variables)


_scope: Final[contextvars.ContextVar[Scope | None]] = contextvars.ContextVar("tilestep_tensorflow_scope", default=None)


def current_scope() -> Scope | None:
    """That of the innermost function that is being traced; None outside of `ipu_compiler.compile`."""
    return _scope.get()


def name_of(handle: Tensor, scope: Scope) -> str:
    """As programs know the variable of a handle."""
    if scope.compilation is None:
        return name_of_handle(handle, scope.variables.get(id(handle)))
    return residency_of(handle.graph).name_of_handle(handle)


@contextlib.contextmanager
def _within(scope: Scope) -> Iterator[None]:
    around = _scope.set(scope)
    try:
        yield
    finally:
        _scope.reset(around)
        outer = current_scope()
        if outer is not None:
            outer.shards = max(outer.shards, scope.shards)


@dataclass(frozen=True, kw_only=True, eq=False)
class Traced:
    """A function as a graph."""

    name: str
    graph: Graph
    arguments: list[Tensor]  # placeholders of its positional arguments, flat
    returned: Structure
    results: list[Tensor]  # the tensors of what it has returned, in order
    operations: list[Operation]  # the nodes of that, and what sends to queues
    captured: list[tuple[Tensor, Tensor]]  # tensors that it takes from outside: (there, its placeholder)
    handles: dict[str, Tensor]  # name of each variable that it uses -> the handle in the graph
    scope: Scope  # what happened meanwhile
    merged: dict[str, str]  # name of a variable -> "sum" or "mean": what replicas do with its changes, as it declares


def trace(name: str, function: Callable[..., Any], specs: Sequence[TensorSpec], *, scope: Scope) -> Traced:
    """Calls a function with placeholders. Raises: TypeError if it does not return tensors and nodes; what the function raises."""
    arguments: list[Tensor] = []

    def build() -> Structure:
        arguments.extend(v1.placeholder(spec.dtype, spec.shape) for spec in specs)
        return function(*arguments)

    if scope.compilation is None:
        with _within(scope):
            graph = graphs.func_graph_from_py_func(name, build, (), {})
        returned, operations = graph.structured_outputs, list(graph.control_outputs)
        results = [each for each in tf.nest.flatten(returned) if each is not None]
    else:
        graph = graphs.FuncGraph(name)
        with graph.as_default(), graphs.resource_variables(), _within(scope):
            returned = build()
            given = [each for each in tf.nest.flatten(returned) if each is not None]
            operations = [each for each in given if isinstance(each, tf.Operation)]
            results = [tf.convert_to_tensor(each) for each in given if not isinstance(each, tf.Operation)]
    handles = {name_of(outside, scope): inside for outside, inside in graph.captures if inside.dtype == tf.resource}
    return Traced(
        name=name,
        graph=graph,
        arguments=arguments,
        returned=returned,
        results=results,
        operations=operations,
        captured=[(outside, inside) for outside, inside in graph.captures if inside.dtype != tf.resource],
        handles=handles,
        scope=scope,
        merged={
            name_of(outside, scope): variable.aggregation.name.lower()
            for outside, _ in graph.captures
            if (variable := scope.variables.get(id(outside))) is not None and variable.synchronization == tf.VariableSynchronization.ON_READ
        },
    )
