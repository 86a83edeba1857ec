"""Runs a prepared graph on NumPy arrays (known values) and JAX arrays, traced or not."""

import contextlib
import re
from collections import ChainMap
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import jax
import jax.core
import numpy as np
import onnx
from jax.experimental.xla_metadata import set_xla_metadata
from onnx import helper

from tilestep.hints import CALL
from tilestep.onnx.errors import DynamicShapeError, NodeError, OnnxError
from tilestep.onnx.interpreter.bodies import body_of
from tilestep.onnx.interpreter.graph import Graph, Node
from tilestep.onnx.interpreter.values import NeedsValueError, NoRoomError, SequenceValue, folding, is_known

_UNUSUAL: Final = re.compile(r"[^\w./:-]")
NO_PROGRAM: Final = ("INVALID_ARGUMENT", "UNIMPLEMENTED", "INTERNAL")  # XLA's words for what it can't compile, such as a type of 6 bits
_MOST_NAME: Final = 100  # characters of a node's name
_SHOWN_INPUT_SOURCES: Final = 3
_Mark = Callable[[str, Any], Any]


@dataclass(frozen=True, kw_only=True)
class GraphRun:
    """What holds for all nodes of one run.

    Attributes:
        training: whether batch norms take the batch's statistics, and dropout drops.
        key: for random numbers, as `jax.random.key` gives it; None if the caller gave none.
        state: where training leaves new statistics, by the name of the initialiser that has the old ones.
        bounds: node's name or output's name -> most elements, for outputs whose length depends on values.
        folds: numbers of loops and of their turns around the nodes, outermost first: they tell the turns' random numbers apart.
        inside: the branch or the loop around the nodes that may run any number of times, in words; "" if there is none.
        sources: of a node and of positions among its inputs: names of the model's inputs that these values come from. No positions: those
            that must be known so that the node's results are.
        mark: gets the name and the value of each output of a node of the main graph, and returns the value that later nodes read.
        around: what is entered around each node while it is traced; None: nothing.
    """

    training: bool = False
    key: Any = None
    state: dict[str, Any] = field(default_factory=dict[str, Any])
    bounds: Mapping[str, int] = field(default_factory=dict[str, int])
    folds: tuple[Any, ...] = ()
    inside: str = ""
    sources: Callable[[Node, Sequence[int]], Sequence[str]] = lambda _node, _positions: ()
    mark: _Mark | None = None
    around: Callable[[Node], contextlib.AbstractContextManager[None]] | None = None


@dataclass(frozen=True, kw_only=True, eq=False)
class Call:
    """One run of one node: what its handler may ask for besides its inputs and attributes."""

    node: Node
    run: GraphRun
    scope: MutableMapping[str, Any]

    @property
    def version(self) -> int:
        """Of the node's domain."""
        return self.node.version

    @property
    def num_outputs(self) -> int:
        """How many outputs the node names, absent ones in between counted."""
        return len(self.node.outputs)

    def wants(self, output: int) -> bool:
        """Whether the node names the output at this position."""
        return output < len(self.node.outputs) and bool(self.node.outputs[output])

    def subgraph(self, graph: Graph, inputs: Sequence[Any] = (), *, fold_in: Sequence[Any] = (), once: bool = False) -> list[Any]:
        """The outputs of a graph among the node's attributes. It sees the values around the node.

        Args:
            fold_in: numbers that make other random keys, such as that of a loop's turn.
            once: the program runs the graph exactly once, so that training may change state in it.
        """
        folds = (*self.run.folds, self.node.number, *fold_in) if fold_in else self.run.folds
        run = replace(self.run, folds=folds, inside=self.run.inside if once else self.node.place)
        return run_graph(graph, inputs, run, outer=self.scope)

    def key(self, seed: float | None = None) -> Any:
        """A random key of the node's own. Args: seed: the node's attribute, if it has one. Raises: OnnxError without a key of the run."""
        if self.run.key is None:
            raise OnnxError(f"{self.node.place} draws random numbers: give a key, as in fn(..., key=jax.random.key(0))")
        key = self.run.key
        for number in (*self.run.folds, self.node.number):
            key = jax.random.fold_in(key, number)
        return key if seed is None else jax.random.fold_in(key, int(np.float32(seed).view(np.int32)) & 0x7FFFFFFF)

    def set_state(self, position: int, value: Any) -> None:
        """In training: the next value of the initialiser that is the input at `position`. Raises: OnnxError in a branch or a loop."""
        if self.run.inside:
            raise OnnxError(f"{self.node.place} keeps statistics in training, which it can't do inside of {self.run.inside}")
        self.run.state[self.node.inputs[position]] = value

    def bound(self) -> int | None:
        """The caller's bound on the length of the node's outputs, by the node's name or that of its first output."""
        return self.run.bounds.get(self.node.name, self.run.bounds.get(next(iter(self.node.outputs), "")))


def run_graph(graph: Graph, inputs: Sequence[Any], run: GraphRun, *, outer: MutableMapping[str, Any] | None = None) -> list[Any]:
    """The outputs of a graph.

    Args:
        inputs: by position; those that are missing at the end are absent.
        outer: values around it that its nodes may read.

    Raises: OnnxError, whose message names the node.
    """
    values: dict[str, Any] = dict(graph.initializers)
    values.update(dict.fromkeys(graph.inputs))
    values.update(zip(graph.inputs, inputs, strict=False))
    scope: MutableMapping[str, Any] = values if outer is None else ChainMap(values, outer)
    mark, run = run.mark, run if run.mark is None else replace(run, mark=None)  # graphs inside of nodes have names of their own
    for node in graph.nodes:
        _run_node(node, values, scope, run, mark)
    try:
        return [scope[name] if name else None for name in graph.outputs]
    except KeyError as error:
        raise OnnxError(f"graph '{graph.name}' has an output {error} that no node makes") from None


def _run_node(node: Node, values: dict[str, Any], scope: MutableMapping[str, Any], run: GraphRun, mark: _Mark | None) -> None:
    try:
        inputs = [scope[name] if name else None for name in node.inputs]
    except KeyError as error:
        raise OnnxError(f"{node.place} reads {error}, which nothing before it makes") from None
    while inputs and inputs[-1] is None:
        inputs.pop()
    call = Call(node=node, run=run, scope=scope)
    try:
        outputs = _outputs(call, inputs)
    except NeedsValueError as error:
        positions = [i for i, value in enumerate(inputs) if value is not None and value is error.value]
        raise _not_known(node, error.what, run.sources(node, positions), or_bound=error.or_bound) from error
    except OnnxError:
        raise
    except jax.errors.ConcretizationTypeError as error:
        raise _not_known(node, "the value of an input", run.sources(node, ())) from error
    except jax.errors.JaxRuntimeError as error:
        if not str(error).startswith(NO_PROGRAM):
            raise
        raise NodeError(f"{node.place} can't be compiled: {_on_a_line(error)}") from error
    except (TypeError, ValueError, LookupError, ArithmeticError, AttributeError, NotImplementedError, AssertionError) as error:
        kinds = ", ".join(_kind(value) for value in inputs)
        raise NodeError(f"{node.place} can't take ({kinds}): {_on_a_line(error)}") from error
    for name, value in zip(node.outputs, outputs, strict=False):
        if name:
            values[name] = value if mark is None else mark(name, value)
    for name in node.ended:
        values.pop(name, None)


def _outputs(call: Call, inputs: list[Any]) -> Sequence[Any]:
    node = call.node
    if node.function is not None:
        return _run_function(call, node.function, inputs)
    if node.operator is None:
        run = replace(call.run, folds=(*call.run.folds, node.number))  # nodes of bodies have numbers of their own
        return run_graph(body_of(node, tuple(map(_type_of, inputs))), inputs, run)
    handler, attributes = node.operator.handler, node.attributes
    if node.operator.random or node.subgraphs or not all(map(is_known, inputs)):
        around = contextlib.nullcontext() if call.run.around is None else call.run.around(node)
        one = set_xla_metadata(**{CALL: f"{node.name or node.op_type} {node.number}"})  # one codelet, as PopART's operators mostly are
        with around, one, jax.named_scope(_UNUSUAL.sub("_", node.name or node.op_type)[:_MOST_NAME]):  # profiles name operations so
            return _as_tuple(handler(call, *inputs, **attributes))
    with contextlib.suppress(NoRoomError), folding():
        return [_folded(output) for output in _as_tuple(handler(call, *inputs, **attributes))]
    return _as_tuple(handler(call, *inputs, **attributes))  # the program makes the result when it runs


def _run_function(call: Call, function: Graph, inputs: list[Any]) -> list[Any]:
    run = replace(call.run, state={})
    outputs = run_graph(function, inputs, run)
    caller_names = dict(zip(function.inputs, call.node.inputs, strict=False))
    call.run.state.update({caller_names[name]: value for name, value in run.state.items() if name in caller_names})
    return outputs


def _as_tuple(outputs: Any) -> tuple[Any, ...]:
    return outputs if isinstance(outputs, tuple) and not isinstance(outputs, SequenceValue) else (outputs,)


def _folded(value: Any) -> Any:
    """A known value of what a handler made of known values; it stays traced where it had no room."""
    if value is None or isinstance(value, np.ndarray | jax.core.Tracer):
        return value
    if isinstance(value, SequenceValue):
        return SequenceValue(map(_folded, value))
    return {key: _folded(element) for key, element in value.items()} if isinstance(value, dict) else np.asarray(value)


def _type_of(value: Any) -> bytes:
    return b"" if value is None else _type_proto(value).SerializeToString()


def _type_proto(value: Any) -> onnx.TypeProto:
    if isinstance(value, SequenceValue):
        return helper.make_sequence_type_proto(
            _type_proto(value[0]) if value else helper.make_tensor_type_proto(onnx.TensorProto.FLOAT, None)
        )
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(value.dtype))
    return helper.make_tensor_type_proto(kind, list(value.shape))


def _kind(value: Any) -> str:
    if value is None:
        return "nothing"
    if isinstance(value, tuple):
        return f"a sequence of {len(value)}"
    if isinstance(value, dict):
        return f"a map of {len(value)}"
    return f"{value.dtype}{list(value.shape)}"


def _not_known(node: Node, what: str, sources: Sequence[str], *, or_bound: bool = False) -> DynamicShapeError:
    name = node.name or next(iter(node.outputs), "node")
    bound = f"; or give its results a bound, as in import_onnx(..., bounds={{'{name}': 100}})" if or_bound else ""
    static = ", ".join(f"'{source}'" for source in sources[:_SHOWN_INPUT_SOURCES]) or "..."
    return DynamicShapeError(
        f"{node.place} needs {what}, which is known only when the program runs. {'Three' if bound else 'Two'} ways out: call the model "
        f"itself, model(...), which runs node by node; name the input it comes from in import_onnx(..., static=[{static}]){bound}",
        sources,
    )


def _on_a_line(error: Exception) -> str:
    return " ".join(str(error).split())
