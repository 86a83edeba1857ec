"""Runs functions of a program once to see what they do, and lowers parts of their graphs: XLA does, and JAX takes them as one primitive.

Nodes that are markers stand for JAX code: what replicas do together.
"""

import contextlib
import contextvars
import functools
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from tilestep.errors import UnsupportedError
from tilestep.tensorflow.jax_private.primitive import MARKER, Handler, Program, from_hlo
from tilestep.tensorflow.residency import name_of_handle, residency_of
from tilestep.tensorflow.tf_private import graphs
from tilestep.tensorflow.untyped import Graph, Operation, Structure, Tensor, TensorSpec, tf, v1
from tilestep.train import cross_replica_mean, cross_replica_sum, replica_index

_MOST_XLA_CHARACTERS: Final = 500
_COLLECTIVES: Final = {"sum": cross_replica_sum, "mean": cross_replica_mean}
REPLICA_INDEX: Final = f"{MARKER}replica_index"  # the marker of a replica's number, int32[]


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
    variables: dict[int, Any] = field(default_factory=dict)  # those of TensorFlow 2, by the id of their handles
    taken: list[Taken] = field(default_factory=list)
    sent: list[Sent] = field(default_factory=list)
    updates: list[Any] = field(default_factory=list)  # by optimizers that accumulate gradients
    shards: int = 1  # as many as `ipu_shard` has named
    is_body: bool = False
    combined: bool = False  # whether gradients are those of all replicas already
    accumulates: bool = False  # whether updates may wait for several steps


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
    scope: Scope
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
        returned = graph.structured_outputs
    else:
        graph = graphs.FuncGraph(name)
        with graph.as_default(), graphs.resource_variables(), _within(scope):
            returned = build()
    given = [each for each in tf.nest.flatten(returned) if each is not None]
    with graph.as_default():
        results = [tf.convert_to_tensor(each) for each in given if not isinstance(each, tf.Operation)]
    handles = {name_of(outside, scope): inside for outside, inside in graph.captures if inside.dtype == tf.resource}
    return Traced(
        name=name,
        graph=graph,
        arguments=arguments,
        returned=returned,
        results=results,
        operations=[*graph.control_outputs, *(each for each in given if isinstance(each, tf.Operation))],
        captured=[(outside, inside) for outside, inside in graph.captures if inside.dtype != tf.resource],
        handles=handles,
        scope=scope,
        merged={
            name_of(outside, scope): variable.aggregation.name.lower()
            for outside, _ in graph.captures
            if (variable := scope.variables.get(id(outside))) is not None and variable.synchronization == tf.VariableSynchronization.ON_READ
        },
    )


def _handler_of(target: str) -> Handler:
    """The JAX code of a marker."""
    name, _, group = target.removeprefix(MARKER).partition("/")
    return replica_index if target == REPLICA_INDEX else functools.partial(_COLLECTIVES[name], group_size=int(group) if group else None)


def collective(kind: str, value: Tensor, group_size: int | None = None) -> Tensor:
    """A marker for the "sum" or "mean" over replicas. Its gradient is the same of the gradient, as each replica's result has all values."""
    target = f"{MARKER}{kind}" if group_size is None else f"{MARKER}{kind}/{group_size}"

    @tf.custom_gradient
    def mark(value: Tensor) -> tuple[Tensor, Callable[[Tensor], Tensor]]:
        return graphs.marker(target, [value], value), mark

    return mark(tf.convert_to_tensor(value))


def combined(kind: str, pairs: Iterable[tuple[Tensor | None, Any]]) -> list[tuple[Tensor | None, Any]]:
    """(gradient, variable) pairs, with each gradient's "sum" or "mean" over replicas."""
    return [(None if gradient is None else collective(kind, gradient), variable) for gradient, variable in pairs]


def lower(
    traced: Traced, inputs: Sequence[Tensor], outputs: Sequence[Tensor], controls: Sequence[Operation], skip: Collection[Operation] = ()
) -> Program:
    """A part of a function's graph.

    Args:
        inputs, outputs: tensors of the graph.
        controls: nodes that the program runs beside what the outputs need.
        skip: nodes that have run before.
    Raises: UnsupportedError for what XLA cannot lower; it names the node and its line.
    """
    for tensor in (*inputs, *outputs):
        _require_fixed(tensor)
    try:
        module, variables = graphs.hlo(traced.graph, inputs, outputs, controls, traced.handles, skip)
    except (tf.errors.OpError, ValueError) as error:
        raise UnsupportedError(_refusal(traced.graph, error, [*outputs, *controls])) from error
    return from_hlo(module, functools.partial(graphs.line_of, traced.graph), _handler_of, variables, len(outputs))


def _require_fixed(tensor: Tensor) -> None:
    """Raises: UnsupportedError for a tensor whose shape is not known, or that is no array of numbers."""
    if tensor.dtype in (tf.string, tf.variant) or not tensor.shape.is_fully_defined():
        while tensor.op.type == "Identity":
            tensor = tensor.op.inputs[0]
        raise UnsupportedError(
            f"tensor {tensor.name} ({tensor.op.type}){_at(tensor.graph, tensor.op.name)} has dtype {tensor.dtype.name} and shape "
            f"{tensor.shape}: programs on the IPU have numbers and fixed shapes alone (batch with drop_remainder=True; tf.where in "
            "place of tf.boolean_mask; next(iterator) in a loop over tf.range in place of a dataset; no tf.py_function)"
        )


def _at(graph: Graph, name: str) -> str:
    line = graphs.line_of(graph, name)
    return "" if line is None else f" ({line[0]}:{line[1]})"


def _refusal(graph: Graph, error: Exception, ends: Sequence[Any]) -> str:
    """What XLA cannot lower, and which node that is, as far as it says so."""
    text = str(error).partition("\nThe op is created at")[0]  # which the node's line says better
    nodes = [operation for operation in graph.get_operations() if operation.name in text]
    node = max(nodes, key=lambda operation: len(operation.name), default=None)
    which = f"node {node.name} ({node.type}){_at(graph, node.name)}" if node is not None else f"what gives {[end.name for end in ends]}"
    return (
        f"XLA cannot lower {which}: {text[:_MOST_XLA_CHARACTERS]}\n  try: tf operations that XLA compiles (no py_function, no tf.print, no "
        "dynamic shapes); what must run on the host goes outside of ipu_compiler.compile"
    )
