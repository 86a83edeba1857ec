"""A part of a TensorFlow graph as a JAX function: XLA lowers it, and JAX takes it over as one primitive.

Nodes that are markers stand for JAX code: what replicas do together.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from tilestep.errors import UnsupportedError
from tilestep.tensorflow.jax_private.primitive import MARKER, Handler, Lowered, from_hlo
from tilestep.tensorflow.tf_private import graphs
from tilestep.tensorflow.untyped import Graph, Operation, Tensor, tf
from tilestep.train import cross_replica_mean, cross_replica_sum, replica_index

_MOST_CHARACTERS: Final = 500  # of what XLA says
_COLLECTIVES: Final = {"sum": cross_replica_sum, "mean": cross_replica_mean}
_INDEX: Final = f"{MARKER}replica_index"


def _handler_of(target: str) -> Handler:
    """The JAX code of a marker."""
    name, _, group = target.removeprefix(MARKER).partition("/")
    return replica_index if target == _INDEX else functools.partial(_COLLECTIVES[name], group_size=int(group) if group else None)


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


def replica_number() -> Tensor:
    """A marker for the number of the replica, int32[]."""
    return graphs.marker(_INDEX, [], tf.TensorSpec([], tf.int32))


@dataclass(frozen=True, kw_only=True, eq=False)
class Program:
    """A part of a graph as a function of tensors and variables."""

    lowered: Lowered
    variables: Sequence[str]  # names of those that it takes, in the order of its further operands
    written: Mapping[str, int]  # name of each variable that it changes -> index of the result with the new value
    num_outputs: int  # results that are no variables

    def __call__(self, values: Sequence[Any], variables: Mapping[str, Any]) -> tuple[list[Any], dict[str, Any]]:
        """(outputs, the new values of variables that it changes). Args: values: its inputs. variables: by their names; it may have more."""
        results = self.lowered([*values, *(variables[name] for name in self.variables)], _handler_of)
        return results[: self.num_outputs], {name: results[index] for name, index in self.written.items()}


def lower(
    graph: Graph,
    inputs: Sequence[Tensor],
    outputs: Sequence[Tensor],
    controls: Sequence[Operation],
    handles: Mapping[str, Tensor],
    skip: Collection[Operation] = (),
) -> Program:
    """A part of a graph.

    Args:
        inputs, outputs: tensors of the graph.
        controls: nodes that the program runs beside what the outputs need.
        handles: name of a variable -> its handle in the graph.
        skip: nodes that have run before.
    Raises: UnsupportedError for what XLA cannot lower; it names the node and its line.
    """
    for tensor in (*inputs, *outputs):
        _require_fixed(tensor)
    try:
        module, operands = graphs.hlo(graph, inputs, outputs, controls, handles, skip)
    except (tf.errors.OpError, ValueError) as error:
        raise UnsupportedError(_refusal(graph, error, [*outputs, *controls])) from error
    lowered = from_hlo(module, lambda name: graphs.line_of(graph, name))
    return Program(
        lowered=lowered,
        variables=operands,
        written={operands[operand - len(inputs)]: result for result, operand in lowered.aliases.items() if operand >= len(inputs)},
        num_outputs=len(outputs),
    )


def _require_fixed(tensor: Tensor) -> None:
    """Raises: UnsupportedError for a tensor whose shape is not known, or that is no array of numbers."""
    if tensor.dtype in (tf.string, tf.variant) or not tensor.shape.is_fully_defined():
        while tensor.op.type == "Identity":
            tensor = tensor.op.inputs[0]
        raise UnsupportedError(
            f"tensor {tensor.name} ({tensor.op.type}){_at(tensor.graph, tensor.op.name)} has dtype {tensor.dtype.name} and shape "
            f"{tensor.shape}: programs on the IPU have numbers and fixed shapes alone (batch with drop_remainder=True; use tf.where in "
            "place of tf.boolean_mask)"
        )


def _at(graph: Graph, name: str) -> str:
    line = graphs.line_of(graph, name)
    return "" if line is None else f" ({line[0]}:{line[1]})"


def _refusal(graph: Graph, error: Exception, ends: Sequence[Any]) -> str:
    """What XLA cannot lower, and which node that is, as far as it says so."""
    text = str(error)
    nodes = [operation for operation in graph.get_operations() if operation.name in text]
    node = max(nodes, key=lambda operation: len(operation.name), default=None)
    which = f"node {node.name} ({node.type}){_at(graph, node.name)}" if node is not None else f"what gives {[end.name for end in ends]}"
    return (
        f"XLA cannot lower {which}: {text[:_MOST_CHARACTERS]}\n  try: tf operations that XLA compiles (no py_function, no tf.print, no "
        "dynamic shapes); what must run on the host goes outside of ipu_compiler.compile"
    )
