"""Runs functions of a program once to see what they do: their graph, what they return, and what they send to queues."""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from tilestep.tensorflow.residency import ON_DEVICES, residency_of
from tilestep.tensorflow.tf_private import graphs
from tilestep.tensorflow.untyped import Graph, Operation, Structure, Tensor, TensorSpec, tf, v1


@dataclass(frozen=True, kw_only=True)
class Sent:
    """What a function has sent to an outfeed queue."""

    queue: Any
    tensors: list[Tensor]


@dataclass(frozen=True, kw_only=True)
class Taken:
    """An element that a function takes from an iterator of TensorFlow 2 in each step. Attributes: graph: of the function or loop."""

    iterator: Any
    graph: Graph
    placeholders: list[Tensor]


@dataclass(kw_only=True, eq=False)
class Scope:
    """What happens while a function is traced.

    Attributes:
        compilation: loops and pipelines of the whole program; None for a function of TensorFlow 2.
        shards: as many as `ipu_shard` has named.
        variables: those of TensorFlow 2 that it uses, by the id of their handles.
        combined: whether gradients are those of all replicas already.
    """

    compilation: list[Any] | None = None
    variables: dict[int, Any] = field(default_factory=dict)
    taken: list[Taken] = field(default_factory=list)
    sent: list[Sent] = field(default_factory=list)
    updates: list[Any] = field(default_factory=list)  # of optimizers that accumulate gradients
    shards: int = 1
    is_body: bool = False
    combined: bool = False
    accumulates: int | None = None  # steps of `loops.repeat`, in which updates may wait for several

    def inner(self) -> Scope:
        """For a function of the same program."""
        return Scope(compilation=self.compilation, variables=self.variables)


_scope: Final[contextvars.ContextVar[Scope | None]] = contextvars.ContextVar("tilestep_tensorflow_scope", default=None)


def current_scope() -> Scope | None:
    """That of the innermost function that is being traced; None outside of `ipu_compiler.compile`."""
    return _scope.get()


def name_of_variable(variable: Any, scope: Scope) -> str:
    """As programs know a variable."""
    return variable.handle.name if scope.compilation is not None else ON_DEVICES.add(variable.handle, variable)


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
    """A function as a graph.

    Attributes:
        name: of the function.
        graph: its nodes.
        arguments: placeholders of its positional arguments, flat.
        returned: what it has returned.
        results: the tensors of that, in order.
        operations: the nodes of that, and what sends to queues.
        captured: tensors that it takes from outside: (there, its placeholder).
        handles: name of each variable that it uses -> the handle in the graph.
        dtypes: of these variables.
        scope: what happened meanwhile.
        merged: name of a variable -> "sum" or "mean": what replicas do with its changes, as it declares.
    """

    name: str
    graph: Graph
    arguments: list[Tensor]
    returned: Structure
    results: list[Tensor]
    operations: list[Operation]
    captured: list[tuple[Tensor, Tensor]]
    handles: dict[str, Tensor]
    dtypes: dict[str, Any]
    scope: Scope
    merged: dict[str, str] = field(default_factory=dict)


def trace(name: str, function: Callable[..., Any], specs: Sequence[TensorSpec], *, scope: Scope) -> Traced:
    """Calls a function with placeholders. Raises: TypeError if it does not return tensors and nodes; what the function raises."""
    arguments: list[Tensor] = []

    def build() -> Structure:
        arguments.extend(v1.placeholder(spec.dtype, spec.shape) for spec in specs)
        return function(*arguments)

    residency: Any = ON_DEVICES
    if scope.compilation is None:
        with _within(scope):
            graph, returned, operations = graphs.ordered_graph(name, build)
        flat = [each for each in tf.nest.flatten(returned) if each is not None]
    else:
        graph = graphs.new_graph(name)
        residency = residency_of(graphs.outermost(graph))
        with graph.as_default(), graphs.resource_variables(), _within(scope):
            returned = build()
            given = [each for each in tf.nest.flatten(returned) if each is not None]
            operations = [each for each in given if isinstance(each, tf.Operation)]
            flat = [tf.convert_to_tensor(each) for each in given if not isinstance(each, tf.Operation)]
    captured: list[tuple[Tensor, Tensor]] = []
    handles: dict[str, Tensor] = {}
    merged: dict[str, str] = {}
    for outside, inside in graphs.captures(graph):
        if inside.dtype == tf.resource:
            variable = scope.variables.get(id(outside))
            key = residency.add(outside, variable)
            handles[key] = inside
            if variable is not None and variable.synchronization == tf.VariableSynchronization.ON_READ:
                merged[key] = variable.aggregation.name.lower()
        else:
            captured.append((outside, inside))
    return Traced(
        name=name,
        graph=graph,
        arguments=arguments,
        returned=returned,
        results=flat,
        operations=operations,
        captured=captured,
        handles=handles,
        dtypes={key: graphs.variable_spec(handle).dtype for key, handle in handles.items()},
        scope=scope,
        merged=merged,
    )
