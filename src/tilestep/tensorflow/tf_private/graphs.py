"""Graphs of functions: tracing, nodes from a marker, and what of a graph XLA lowers."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Collection, Iterator, Sequence
from importlib import import_module
from typing import Any, Final

from tilestep.tensorflow.untyped import Graph, Operation, Tensor, TensorSpec, tf, v1

_func_graph: Final[Any] = import_module("tensorflow.python.framework.func_graph")
_context: Final[Any] = import_module("tensorflow.python.eager.context")
_ops: Final[Any] = import_module("tensorflow.python.framework.ops")
_lift: Final[Any] = import_module("tensorflow.python.eager.lift_to_graph")
_xla_ops: Final[Any] = import_module("tensorflow.compiler.tf2xla.ops.gen_xla_ops")
_resources: Final[Any] = import_module("tensorflow.python.ops.gen_resource_variable_ops")
_OWN: Final = (os.sep + "tensorflow" + os.sep, os.sep + "tf_keras" + os.sep, os.path.dirname(os.path.dirname(__file__)) + os.sep)
_FREE: Final = ("Const", "ReadVariableOp")
_NOT_OF_A_GRAPH: Final = ("_class", "_xla_inferred_shapes")


def new_graph(name: str) -> Graph:
    """The graph of a function, below the current one: its variables are the latter's."""
    return _func_graph.FuncGraph(name)


def is_function(graph: Graph) -> bool:
    """Whether a graph is that of a function."""
    return isinstance(graph, _func_graph.FuncGraph)


def outermost(graph: Graph | None = None) -> Graph:
    """The session's graph around a graph. Args: graph: None: the current one."""
    graph = _ops.get_default_graph() if graph is None else graph
    while is_function(graph):
        graph = graph.outer_graph
    return graph


def captures(graph: Graph) -> list[tuple[Tensor, Tensor]]:
    """(outside, inside) of what a function's graph has captured."""
    return list(graph.captures)


@contextlib.contextmanager
def resource_variables() -> Iterator[None]:
    """Variables made inside are resource variables of the session's graph, also where their initial value is a tensor of a function."""

    def create(make: Callable[..., Any], **arguments: Any) -> Any:
        arguments["use_resource"] = True
        initial = arguments.get("initial_value")
        if isinstance(initial, tf.Tensor) and is_function(getattr(initial, "graph", None)):
            graph = outermost(initial.graph)
            arguments["initial_value"] = _lift.lift_to_graph([initial], graph)[initial]
        return make(**arguments)

    with tf.variable_creator_scope(create):
        yield


def marker(target: str, operands: Sequence[Tensor], results: Sequence[Tensor]) -> list[Tensor]:
    """A node that XLA lowers to a custom call. Args: results: tensors or specs like its results."""
    made = _xla_ops.xla_custom_call_v2(
        operands=list(operands),
        call_target_name=target,
        backend_config="",
        has_side_effect=True,
        result_dtypes=[result.dtype for result in results],
        result_shapes=[result.shape for result in results],
    )
    return [tf.ensure_shape(each, result.shape) for each, result in zip(made, results, strict=True)]


def read_variable(handle: Tensor) -> Tensor:
    """A node that reads the variable of a handle."""
    value = _resources.read_variable_op(handle, tf.as_dtype(handle.op.get_attr("dtype")))
    value.set_shape(handle.op.get_attr("shape"))
    return value


def assign_variable(handle: Tensor, value: Tensor) -> Operation:
    """A node that assigns to the variable of a handle."""
    return _resources.assign_variable_op(handle, value)


def line_of(graph: Graph, name: str) -> tuple[str, int] | None:
    """The line of the program that made a node, as (file, line); None for what is no node of the graph, or nobody's."""
    try:
        operation = graph.get_operation_by_name(name)
    except (KeyError, ValueError):
        return None
    frames = (frame for frame in reversed(operation.traceback) if not any(part in frame.filename for part in _OWN))
    frame = next(frames, None)
    return None if frame is None or not frame.filename or frame.filename.startswith("<") else (frame.filename, frame.lineno)


def ancestors(tensors: Sequence[Tensor], operations: Sequence[Operation], stop: Sequence[Tensor]) -> list[Operation]:
    """Nodes from which these are computed, but for those that make the tensors of `stop`, and what is before these alone."""
    ends = {tensor.op for tensor in stop}
    found: dict[Operation, None] = {}
    todo = [*(tensor.op for tensor in tensors), *operations]
    while todo:
        operation = todo.pop()
        if operation in found or operation in ends:
            continue
        found[operation] = None
        todo += [each.op for each in operation.inputs]
        todo += operation.control_inputs
    return list(found)


def boundary(tensors: Sequence[Tensor], old: Collection[Operation], ends: Sequence[Tensor]) -> list[Tensor]:
    """What new nodes read of old ones: the tensors of `old` from which `tensors` are computed.

    Constants and values of variables are none of them: who computes the tensors has these, too. Args: ends: what is known besides.
    """
    known = {tensor.op for tensor in ends}
    found: dict[int, Tensor] = {}
    seen: set[Operation] = set()
    todo = list(tensors)
    while todo:
        tensor = todo.pop()
        operation = tensor.op
        if operation in known:
            continue
        if operation in old and operation.type not in _FREE:
            found[id(tensor)] = tensor
        elif operation not in seen:
            seen.add(operation)
            todo += operation.inputs
    return list(found.values())


def hlo(
    graph: Graph,
    inputs: Sequence[Tensor],
    outputs: Sequence[Tensor],
    controls: Sequence[Operation],
    handles: Sequence[tuple[Tensor, TensorSpec]],
) -> tuple[bytes, list[int]]:
    """Lowers a part of a graph.

    Args:
        inputs: tensors of the graph that are the part's arguments; what is before them is not in it.
        outputs: what it gives.
        controls: nodes that it runs, too.
        handles: tensors of the graph that are handles of variables, and these variables' specs.
    Returns:
        (an HLO module whose parameters are the inputs, then variables; for each variable the index of its handle).
    Raises: tf.errors.OpError, ValueError for what XLA cannot lower.
    """
    caught = [handle for handle, _ in handles]
    nodes = {operation.name for operation in ancestors(outputs, controls, [*inputs, *caught])}
    whole = graph.as_graph_def()
    part = v1.GraphDef()
    part.library.CopyFrom(whole.library)
    part.versions.CopyFrom(whole.versions)
    used: set[str] = set()
    for node in whole.node:
        if node.name in nodes:
            copy = part.node.add()
            copy.CopyFrom(node)
            copy.device = ""
            for attribute in _NOT_OF_A_GRAPH:
                copy.attr.pop(attribute, None)
            kept = [name for name in node.input if not name.startswith("^") or name[1:] in nodes]
            del copy.input[:]
            copy.input.extend(kept)
            used.update(name if ":" in name else f"{name}:0" for name in kept)
    known = {tensor.name for tensor in inputs}
    needed = [(handle, spec) for handle, spec in handles if handle.name in used]
    with _context.eager_mode():
        variables = [tf.Variable(tf.zeros(spec.shape, spec.dtype), trainable=False) for _, spec in needed]

        def function(*arguments: Tensor) -> list[Tensor]:
            given = {tensor.name: argument for tensor, argument in zip(inputs, arguments, strict=True)}
            graph = _ops.get_default_graph()
            taken = {handle.name: graph.capture(each.handle) for (handle, _), each in zip(needed, variables, strict=True)}
            bound = {name: tensor for name, tensor in (given | taken).items() if name in used}
            wanted = [tensor.name for tensor in outputs if tensor.name not in known] + [operation.name for operation in controls]
            made = iter(tf.graph_util.import_graph_def(part, input_map=bound, return_elements=wanted, name=""))
            results = [given[tensor.name] if tensor.name in given else next(made) for tensor in outputs]
            with tf.control_dependencies(list(made)):
                return [tf.identity(result) for result in results]

        compiled = tf.function(function, jit_compile=True, autograph=False)
        specs = [tf.TensorSpec(tensor.shape, tensor.dtype) for tensor in inputs]
        concrete = compiled.get_concrete_function(*specs)
        module = compiled.experimental_get_compiler_ir(*specs)(stage="hlo_serialized", platform_name="CPU")
        index = {id(handle): place for place, handle in enumerate(caught)}
        own = {id(variable.handle): index[id(handle)] for variable, (handle, _) in zip(variables, needed, strict=True)}
        return module, [own[id(each)] for each in concrete.captured_inputs]
