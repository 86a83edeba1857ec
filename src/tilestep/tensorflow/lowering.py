"""A part of a TensorFlow graph as a JAX function: XLA lowers it, and JAX takes it over as one primitive."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from tilestep.errors import UnsupportedError
from tilestep.tensorflow.jax_private.primitive import Lowered, from_hlo
from tilestep.tensorflow.markers import handler_of
from tilestep.tensorflow.tf_private import graphs
from tilestep.tensorflow.untyped import Graph, Operation, Tensor, tf

_MOST_CHARACTERS: Final = 500  # of what XLA says


@dataclass(frozen=True, kw_only=True, eq=False)
class Program:
    """A part of a graph as a function of tensors and variables.

    Attributes:
        lowered: what JAX calls.
        variables: names of the variables that it takes, in the order of its further operands.
        written: name of each variable that it changes -> index of the result with the new value.
        num_outputs: results that are no variables.
    """

    lowered: Lowered
    variables: tuple[str, ...]
    written: Mapping[str, int]
    num_outputs: int

    def __call__(self, values: Sequence[Any], variables: Mapping[str, Any]) -> tuple[list[Any], dict[str, Any]]:
        """(outputs, the new values of variables that it changes). Args: values: its inputs. variables: by their names; it may have more."""
        results = self.lowered([*values, *(variables[name] for name in self.variables)], handler_of)
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
        require_fixed(tensor)
    names = list(handles)
    try:
        module, order = graphs.hlo(graph, inputs, outputs, controls, list(handles.values()), skip)
    except (tf.errors.OpError, ValueError) as error:
        raise UnsupportedError(_refusal(graph, error, [*outputs, *controls])) from error
    lowered = from_hlo(module, lambda name: graphs.line_of(graph, name))
    operands = [names[index] for index in order]
    return Program(
        lowered=lowered,
        variables=tuple(operands),
        written={operands[operand - len(inputs)]: result for result, operand in lowered.aliases.items() if operand >= len(inputs)},
        num_outputs=len(outputs),
    )


def require_fixed(tensor: Tensor) -> None:
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
