"""Graphs of functions: tracing, nodes from a marker, and what of a graph XLA lowers."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from importlib import import_module
from types import MappingProxyType
from typing import Any, Final

from tilestep.tensorflow.untyped import Graph, Operation, Structure, Tensor, TensorSpec, tf, v1

_func_graph: Final[Any] = import_module("tensorflow.python.framework.func_graph")
_context: Final[Any] = import_module("tensorflow.python.eager.context")
_ops: Final[Any] = import_module("tensorflow.python.framework.ops")
_lift: Final[Any] = import_module("tensorflow.python.eager.lift_to_graph")
_xla_ops: Final[Any] = import_module("tensorflow.compiler.tf2xla.ops.gen_xla_ops")
_resources: Final[Any] = import_module("tensorflow.python.ops.gen_resource_variable_ops")
_handle_data: Final[Any] = import_module("tensorflow.python.ops.handle_data_util")
_autograph: Final[Any] = import_module("tensorflow.python.eager.polymorphic_function.autograph_util")
_control_flow: Final[Any] = import_module("tensorflow.python.ops.control_flow_ops")
_OWN: Final = (os.sep + "tensorflow" + os.sep, os.sep + "tf_keras" + os.sep, os.path.dirname(os.path.dirname(__file__)) + os.sep)
_FREE: Final = ("Const", "ReadVariableOp")
_NOT_OF_A_GRAPH: Final = ("_class", "_xla_inferred_shapes")


def new_graph(name: str) -> Graph:
    """The graph of a function, below the current one: its variables are the latter's."""
    return _func_graph.FuncGraph(name)


def ordered_graph(name: str, build: Callable[[], Structure]) -> tuple[Graph, Structure, list[Operation]]:
    """(the graph of a function as TensorFlow 2 makes it, what it returns, nodes that must run): side effects keep their order."""
    graph = _func_graph.func_graph_from_py_func(name, build, (), {})
    return graph, graph.structured_outputs, list(graph.control_outputs)


@contextlib.contextmanager
def for_xla() -> Iterator[None]:
    """Gradients of loops that are made inside have lists of fixed sizes."""
    context = _control_flow.XLAControlFlowContext()
    context.Enter()
    try:
        yield
    finally:
        context.Exit()


def with_graph_loops(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function with Python's loops and branches over tensors as those of a graph."""
    return _autograph.py_func_from_autograph(function)


def is_function(graph: Graph) -> bool:
    """Whether a graph is that of a function."""
    return isinstance(graph, _func_graph.FuncGraph)


def infers_shapes() -> bool:
    """Whether Keras is calling layers in a graph of its own, which never runs."""
    return getattr(_ops.get_default_graph(), "name", "").endswith("_scratch_graph")


def graph_of(tensor: Tensor) -> Graph | None:
    """The graph of a tensor; None for one with a value."""
    return getattr(tensor, "graph", None)


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


def marker(target: str, operands: Sequence[Tensor], like: Tensor | TensorSpec) -> Tensor:
    """A node that XLA lowers to a custom call. Args: like: has the shape and dtype of its result."""
    made = _xla_ops.xla_custom_call_v2(
        operands=list(operands),
        call_target_name=target,
        backend_config="",
        has_side_effect=True,
        result_dtypes=[like.dtype],
        result_shapes=[like.shape],
    )
    return tf.ensure_shape(made[0], like.shape)


def variable_spec(handle: Tensor) -> TensorSpec:
    """Shape and dtype of the variable of a handle."""
    data = _handle_data.get_handle_data(handle).shape_and_type[0]
    return tf.TensorSpec(tf.TensorShape(data.shape), tf.as_dtype(data.dtype))


def read_variable(handle: Tensor) -> Tensor:
    """The value of the variable of a handle; in a graph a node that reads it."""
    spec = variable_spec(handle)
    return tf.ensure_shape(_resources.read_variable_op(handle, spec.dtype), spec.shape)


def assign_variable(handle: Tensor, value: Tensor) -> Operation:
    """Assigns to the variable of a handle; in a graph a node that does so."""
    return _resources.assign_variable_op(handle, value)


def line_of(graph: Graph, name: str) -> tuple[str, int] | None:
    """The line of the program that made a node, as (file, line); None for what is no node of the graph, or nobody's."""
    try:
        operation = graph.get_operation_by_name(name)
    except (KeyError, ValueError):
        return None
    frames = (frame for frame in reversed(operation.traceback or ()) if not any(part in frame.filename for part in _OWN))
    frame = next(frames, None)
    return None if frame is None or not frame.filename or frame.filename.startswith("<") else (frame.filename, frame.lineno)


def ancestors(
    tensors: Sequence[Tensor],
    operations: Sequence[Operation],
    stop: Sequence[Tensor],
    skip: Collection[Operation] = (),
    *,
    effects: bool = True,
) -> list[Operation]:
    """Nodes from which these are computed, but for those that make the tensors of `stop`, those of `skip`, and what is before these alone.

    Args: effects: whether nodes count that are to run before one whose values they do not give.
    """
    ends = {tensor.op for tensor in stop} | set(skip)
    found: dict[Operation, None] = {}
    todo = [*(tensor.op for tensor in tensors), *operations]
    while todo:
        operation = todo.pop()
        if operation in found or operation in ends:
            continue
        found[operation] = None
        todo += [each.op for each in operation.inputs]
        todo += operation.control_inputs if effects else []
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


def loops(graph: Graph) -> list[Operation]:
    """The while loops of a function's graph, without those inside of loops."""
    return [each for each in graph.get_operations() if each.type in ("While", "StatelessWhile")]


def parts_of_loop(loop: Operation) -> tuple[Graph, Graph]:
    """(condition, body) of a while loop. Each has an input for each of the loop's, and the body an output."""
    return loop._cond_graph, loop._body_graph


def steps_of_loop(loop: Operation) -> int | None:
    """How many steps it does, if that depends on counters alone; None if values of the program decide."""
    condition, body = parts_of_loop(loop)
    counters: list[int] = []
    new = _inputs_of(condition, condition.outputs)
    while new is not None and set(new) - set(counters):
        counters = sorted(set(counters) | set(new))
        new = _inputs_of(body, [body.outputs[index] for index in counters])
    first = [tf.get_static_value(loop.inputs[index]) for index in counters]
    if new is None or any(each is None for each in first):
        return None
    test = _Part(condition, [condition.inputs[index] for index in counters], condition.outputs, effects=False)
    step = _Part(body, [body.inputs[index] for index in counters], [body.outputs[index] for index in counters], effects=False)

    def count() -> Tensor:
        return tf.while_loop(lambda _, *values: test(*values)[0], lambda done, *values: (done + 1, *step(*values)), (0, *first))[0]

    with _context.eager_mode():
        return int(tf.function(count, autograph=False)())


def _inputs_of(graph: Graph, tensors: Sequence[Tensor]) -> list[int] | None:
    """Indices of a graph's inputs from which the tensors follow; None if other things decide, such as variables."""
    nodes = ancestors(tensors, [], graph.inputs, effects=False)
    if any(each.op_def.is_stateful or each.type == "Placeholder" for each in nodes):
        return None
    used = {id(each) for each in (*tensors, *(each for node in nodes for each in node.inputs))}
    return [index for index, each in enumerate(graph.inputs) if id(each) in used]


class _Part:
    """A part of a graph, which other graphs call.

    Args:
        inputs: tensors of the graph that are the part's arguments; what is before them is not in it.
        outputs: what it gives.
        controls: nodes that it runs, too.
        skip: nodes that it does not run.
    Attributes: used: names of tensors that its nodes read.
    """

    def __init__(
        self,
        graph: Graph,
        inputs: Sequence[Tensor],
        outputs: Sequence[Tensor],
        controls: Sequence[Operation] = (),
        skip: Collection[Operation] = (),
        ends: Sequence[Tensor] = (),
        *,
        effects: bool = True,
    ) -> None:
        self._inputs, self._outputs, self._controls = inputs, outputs, controls
        nodes = {operation.name for operation in ancestors(outputs, controls, [*inputs, *ends], skip, effects=effects)}
        whole = graph.as_graph_def()
        self._nodes = v1.GraphDef()
        self._nodes.library.CopyFrom(whole.library)
        self._nodes.versions.CopyFrom(whole.versions)
        self.used: set[str] = set()
        for node in whole.node:
            if node.name in nodes:
                copy = self._nodes.node.add()
                copy.CopyFrom(node)
                copy.device = ""
                for attribute in _NOT_OF_A_GRAPH:
                    copy.attr.pop(attribute, None)
                kept = [name for name in node.input if not name.startswith("^") or name[1:] in nodes]
                del copy.input[:]
                copy.input.extend(kept)
                self.used.update(name if ":" in name else f"{name}:0" for name in kept)

    def __call__(self, *arguments: Tensor, taken: Mapping[str, Tensor] = MappingProxyType({})) -> list[Tensor]:
        """Args: taken: further tensors, by their names in the graph."""
        given = {tensor.name: argument for tensor, argument in zip(self._inputs, arguments, strict=True)}
        bound = {name: tensor for name, tensor in (given | dict(taken)).items() if name in self.used}
        wanted = [each.name for each in self._outputs if each.name not in given] + [each.name for each in self._controls]
        made = iter(tf.graph_util.import_graph_def(self._nodes, input_map=bound, return_elements=wanted, name=""))
        results = [given[tensor.name] if tensor.name in given else next(made) for tensor in self._outputs]
        with tf.control_dependencies(list(made)):
            return [tf.identity(result) for result in results]


def hlo(
    graph: Graph,
    inputs: Sequence[Tensor],
    outputs: Sequence[Tensor],
    controls: Sequence[Operation],
    handles: Sequence[Tensor],
    skip: Collection[Operation] = (),
) -> tuple[bytes, list[int]]:
    """Lowers a part of a graph.

    Args:
        inputs, outputs, controls, skip: see `_Part`.
        handles: tensors of the graph that are handles of variables.
    Returns:
        (an HLO module whose parameters are the inputs, then variables; for each variable the index of its handle).
    Raises: tf.errors.OpError, ValueError for what XLA cannot lower.
    """
    controls = [each for each in controls if each not in skip]
    part = _Part(graph, inputs, outputs, controls, skip, handles)
    needed = [handle for handle in handles if handle.name in part.used]
    with _context.eager_mode():
        specs = [variable_spec(handle) for handle in needed]
        variables = [tf.Variable(tf.zeros(spec.shape, spec.dtype), trainable=False) for spec in specs]

        def function(*arguments: Tensor) -> list[Tensor]:
            graph = _ops.get_default_graph()
            taken = {handle.name: graph.capture(each.handle) for handle, each in zip(needed, variables, strict=True)}
            return part(*arguments, taken=taken)

        compiled = tf.function(function, jit_compile=True, autograph=False)
        specs = [tf.TensorSpec(tensor.shape, tensor.dtype) for tensor in inputs]
        concrete = compiled.get_concrete_function(*specs)
        module = compiled.experimental_get_compiler_ir(*specs)(stage="hlo_serialized", platform_name="CPU")
        index = {id(handle): place for place, handle in enumerate(handles)}
        own = {id(variable.handle): index[id(handle)] for variable, handle in zip(variables, needed, strict=True)}
        return module, [own[id(each)] for each in concrete.captured_inputs]
