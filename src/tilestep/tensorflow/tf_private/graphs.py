"""Graphs of functions: tracing, nodes from a marker, and what of a graph XLA lowers."""

import contextlib
import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from importlib import import_module
from typing import Any, Final

from tilestep.tensorflow.untyped import Graph, Operation, Tensor, TensorSpec, tf

_func_graph: Final[Any] = import_module("tensorflow.python.framework.func_graph")
_context: Final[Any] = import_module("tensorflow.python.eager.context")
_ops: Final[Any] = import_module("tensorflow.python.framework.ops")
_xla_ops: Final[Any] = import_module("tensorflow.compiler.tf2xla.ops.gen_xla_ops")
_handle_data: Final[Any] = import_module("tensorflow.python.ops.handle_data_util")
FuncGraph: Final[Any] = _func_graph.FuncGraph  # the graph of a function, below the current one: its variables are the latter's
func_graph_from_py_func: Final[Any] = _func_graph.func_graph_from_py_func  # as TensorFlow 2 makes it: side effects keep their order
# The function with Python's loops and branches over tensors as those of a graph.
with_graph_loops: Final[Any] = import_module("tensorflow.python.eager.polymorphic_function.autograph_util").py_func_from_autograph
_control_flow: Final[Any] = import_module("tensorflow.python.ops.control_flow_ops")
_rules: Final[Any] = import_module("tensorflow.python.autograph.core.config")
_rules.CONVERSION_RULES = (_rules.DoNotConvert("tilestep"), *_rules.CONVERSION_RULES)  # this package's functions are not the program's
_OWN: Final = (os.sep + "tensorflow" + os.sep, os.sep + "tf_keras" + os.sep, os.path.dirname(os.path.dirname(__file__)) + os.sep)
LOOPS: Final = ("While", "StatelessWhile")


@contextlib.contextmanager
def for_xla() -> Iterator[None]:
    """Gradients of loops that are made inside have lists of fixed sizes."""
    context = _control_flow.XLAControlFlowContext()
    context.Enter()
    try:
        yield
    finally:
        context.Exit()


def infers_shapes() -> bool:
    """Whether Keras is calling layers in a graph of its own, which never runs."""
    return getattr(_ops.get_default_graph(), "name", "").endswith("_scratch_graph")


def outermost(graph: Graph | None = None) -> Graph:
    """The session's graph around a graph. Args: graph: None: the current one."""
    graph = _ops.get_default_graph() if graph is None else graph
    while isinstance(graph, FuncGraph):
        graph = graph.outer_graph
    return graph


@contextlib.contextmanager
def resource_variables() -> Iterator[None]:
    """Variables made inside are resource variables of the session's graph, also where their initial value is a tensor of a function."""

    def create(make: Callable[..., Any], **arguments: Any) -> Any:
        arguments["use_resource"] = True
        initial = arguments.get("initial_value")
        if isinstance(initial, tf.Tensor) and isinstance(getattr(initial, "graph", None), FuncGraph):
            if any(node.type == "Placeholder" for node in ancestors([initial], [], [])):
                name = arguments.get("name")
                raise ValueError(f"variable {name} begins with what the function's arguments give: begin it with a constant, and assign it")
            with outermost(initial.graph).as_default():
                (arguments["initial_value"],) = _copied(initial.graph, [initial], [], [])
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

    Each comes after those from which it is computed. Args: effects: whether nodes count that are to run before one whose values they do
    not give.
    """
    ends = {tensor.op for tensor in stop} | set(skip)
    found: dict[Operation, None] = {}
    entered: set[Operation] = set()
    todo = [*(tensor.op for tensor in tensors), *operations]
    while todo:
        operation = todo[-1]
        if operation in found or operation in ends or operation in entered:
            todo.pop()
            if operation in entered:
                found[operation] = None
        else:
            entered.add(operation)
            todo += [each.op for each in operation.inputs]
            todo += operation.control_inputs if effects else []
    return list(found)


def boundary(tensors: Sequence[Tensor], old: Collection[Operation], ends: Sequence[Tensor]) -> list[Tensor]:
    """What new nodes read of old ones: the tensors of `old` from which `tensors` are computed.

    Constants and values of variables are none of them: who computes the tensors has these, too. Args: ends: what is known besides.
    """
    firm = {each for each in old if each.type not in ("Const", "ReadVariableOp")}
    nodes = ancestors(tensors, [], ends, firm, effects=False)
    read = {id(each): each for each in (*tensors, *(each for node in nodes for each in node.inputs))}
    firm -= {tensor.op for tensor in ends}
    return [each for each in read.values() if each.op in firm]


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

    def part(graph: Graph, outputs: Sequence[Tensor], values: Sequence[Tensor]) -> list[Tensor]:
        return _copied(graph, outputs, [], list(zip([graph.inputs[index] for index in counters], values, strict=True)), effects=False)

    def test(_: Tensor, *values: Tensor) -> Tensor:
        return part(condition, condition.outputs, values)[0]

    def step(done: Tensor, *values: Tensor) -> list[Tensor]:
        return [done + 1, *part(body, [body.outputs[index] for index in counters], values)]

    with _context.eager_mode():
        counted = tf.function(lambda: tf.while_loop(test, step, [0, *first])[0], autograph=False, jit_compile=True)
        return int(counted.get_concrete_function()())  # a call of `counted` would warn of the fifth such function


def _inputs_of(graph: Graph, tensors: Sequence[Tensor]) -> list[int] | None:
    """Indices of a graph's inputs from which the tensors follow; None if other things decide, such as variables."""
    nodes = ancestors(tensors, [], graph.inputs, effects=False)
    if any(each.op_def.is_stateful or each.type == "Placeholder" for each in nodes):
        return None
    used = {id(each) for each in (*tensors, *(each for node in nodes for each in node.inputs))}
    return [index for index, each in enumerate(graph.inputs) if id(each) in used]


def _copied(
    graph: Graph,
    outputs: Sequence[Tensor],
    controls: Sequence[Operation],
    bound: Sequence[tuple[Tensor, Tensor]],
    skip: Collection[Operation] = (),
    *,
    effects: bool = True,
) -> list[Tensor]:
    """Copies a part of a graph into the current one, in the order in which its nodes were made.

    Args: bound: tensors of the graph with what takes their places. controls, skip, effects: as of `ancestors`. Returns: the outputs.
    """
    target, stop = _ops.get_default_graph(), [each for each, _ in bound]
    wanted = set(ancestors(outputs, controls, stop, skip, effects=effects))
    ordered = [each for each in reversed(graph.get_operations()) if each in wanted]
    for name in set(graph._functions) - set(target._functions):
        target._add_function_recursive(graph._functions[name])
    here = {id(there): own for there, own in bound}
    made: dict[Operation, Operation] = {}
    for node in ancestors([], ordered, stop, skip, effects=effects):
        attributes = {key: value for key, value in node.node_def.attr.items() if key not in ("_class", "_xla_inferred_shapes")}
        with tf.control_dependencies([made[each] for each in node.control_inputs if each in made]):
            inputs, dtypes = [here[id(each)] for each in node.inputs], [each.dtype for each in node.outputs]
            made[node] = target.create_op(node.type, inputs, dtypes, attrs=attributes, name=node.name)
        here |= {id(there): own for there, own in zip(node.outputs, made[node].outputs, strict=True)}
    with tf.control_dependencies([made[each] for each in controls]):
        return [tf.identity(here[id(each)]) for each in outputs]


def hlo(
    graph: Graph,
    inputs: Sequence[Tensor],
    outputs: Sequence[Tensor],
    controls: Sequence[Operation],
    handles: Mapping[str, Tensor],
    skip: Collection[Operation],
) -> tuple[bytes, list[str]]:
    """(an HLO module of a part of a graph, whose parameters are the inputs, then variables; the names of these).

    Args: as of `tracing.lower`. Raises: tf.errors.OpError, ValueError for what XLA cannot lower.
    """
    controls = [each for each in controls if each not in skip]
    nodes = ancestors(outputs, controls, [*inputs, *handles.values()], skip)
    used = {id(each) for node in nodes for each in node.inputs}
    needed = {name: handle for name, handle in handles.items() if id(handle) in used}
    with tf.Graph().as_default(), _context.eager_mode():  # nothing of the function that is being traced, such as its scopes
        kinds = [variable_spec(handle) for handle in needed.values()]
        variables = [tf.Variable(tf.zeros(spec.shape, spec.dtype), trainable=False) for spec in kinds]

        def function(*arguments: Tensor) -> list[Tensor]:
            own = [_ops.get_default_graph().capture(each.handle) for each in variables]
            bound = list(zip([*inputs, *needed.values()], [*arguments, *own], strict=True))
            return _copied(graph, outputs, controls, bound, {*skip, *(each.op for each in handles.values())})

        compiled = tf.function(function, jit_compile=True, autograph=False)
        specs = [tf.TensorSpec(tensor.shape, tensor.dtype) for tensor in inputs]
        concrete = compiled.get_concrete_function(*specs)
        module = compiled.experimental_get_compiler_ir(*specs)(stage="hlo_serialized", platform_name="CPU")
        names = {id(variable.handle): name for name, variable in zip(needed, variables, strict=True)}
        return module, [names[id(each)] for each in concrete.captured_inputs]
