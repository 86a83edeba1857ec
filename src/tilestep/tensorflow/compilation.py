"""Programs: what `ipu_compiler.compile` makes one node of a session's graph, and functions of TensorFlow 2. Both run pieces of JAX.

Loops and pipelines are pieces that `tilestep.train` runs. What a function computes beside them is lowered as pieces between them. In
TensorFlow 2 loops that take from iterators or send to queues are such loops, and those of many steps.
"""

import dataclasses
import re
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from typing import Any, Final, TypeAlias, final

import numpy as np

from tilestep import hints
from tilestep.errors import UnsupportedError
from tilestep.tensorflow.ipu.config import Placement, placement, systems
from tilestep.tensorflow.loop import Loop
from tilestep.tensorflow.pipeline import Pipeline
from tilestep.tensorflow.residency import ON_DEVICES, Home, residency_of
from tilestep.tensorflow.tf_private import graphs, sessions
from tilestep.tensorflow.tf_private.eager import feed, watch_functions
from tilestep.tensorflow.tracing import Scope, Traced, current_scope, lower, trace
from tilestep.tensorflow.untyped import Graph, Operation, Session, Structure, Tensor, TensorSpec, tf, v1
from tilestep.train.other_arguments import name_of
from tilestep.train.resume import WHERE_KEPT
from tilestep.train.untyped import jax

_MOST_STEPS_WITHOUT_FEEDS: Final = 1000
_IDLE: Final = ("NoOp", "Const", "Placeholder", "Identity")  # nodes that need not run by themselves


# A part of a program that runs by itself. It has inputs, which are tensors of the program's graph or of the session's; placeholders that
# stand for its results in the program's graph; and the handles of the variables that it uses, by their names.
Step: TypeAlias = Loop | Pipeline


def require_compilation(name: str) -> list[Step]:
    """The loops and pipelines of the program whose function is being called. Raises: UnsupportedError elsewhere, and in a loop's body."""
    scope = current_scope()
    if scope is None:
        raise UnsupportedError(f"{name} was called outside of ipu_compiler.compile: call it in the function that is given to that")
    if scope.is_body or scope.compilation is None:
        raise UnsupportedError(
            f"{name} was called inside of a loop's body: what a program runs one after the other stands beside its loops"
        )
    return scope.compilation


def compile(computation: Callable[..., Any], inputs: Sequence[Any] | None = None) -> Structure:
    """Compiles a function into one node of the graph, which runs on the device that `ipu_scope` and `IPUConfig` choose.

    Args: computation: a function of tensors. It returns tensors, then nodes. inputs: its arguments.
    Returns: the tensors that it returns, with its structure. A list of one for a single tensor; a node if there is none.
    Raises: UnsupportedError for what XLA cannot lower, and outside of a graph of TensorFlow 1.
    """
    if tf.executing_eagerly():
        raise UnsupportedError(
            "ipu_compiler.compile works in a graph, as of TensorFlow 1 (`tilestep run --tensorflow=1`); in TensorFlow 2 call "
            "IPUStrategy.run with a tf.function"
        )
    if current_scope() is not None:
        raise UnsupportedError("ipu_compiler.compile was called inside of a function that is being compiled: call the function itself")
    graph = v1.get_default_graph()
    given = [tf.convert_to_tensor(each) for each in inputs or ()]
    name, steps = node_name(computation), list[Step]()
    traced = trace(name, computation, given, scope=Scope(compilation=steps))
    if traced.scope.sent:
        raise UnsupportedError("enqueue() was called outside of a loop's body: an outfeed takes what loops.repeat or a pipeline sends")
    program, residency = Compiled(traced, given, steps), residency_of(graph)

    def run(session: Session, *arrays: Any) -> list[Any]:
        return program.run(residency.home(session), dict(zip(program.outside, arrays, strict=True)))

    made = sessions.node(graph, run, list(program.outside.values()), traced.results, name)
    if not traced.results:
        return made
    flat = iter(made)
    tensors = tf.nest.map_structure(
        lambda each: None if each is None or isinstance(each, tf.Operation) else next(flat), traced.returned, expand_composites=False
    )
    if isinstance(tensors, dict):
        return tensors
    return [each for each in tensors if each is not None] if isinstance(tensors, list | tuple) else [tensors]


def node_name(function: Callable[..., Any]) -> str:
    """A function's name, as a node may have it."""
    return re.sub(r"\W", "_", name_of(function)).lstrip("_") or "ipu"


@final
class _Piece:
    """What is computed beside loops."""

    def __init__(
        self, traced: Traced, inputs: list[Tensor], results: list[Tensor], operations: Sequence[Operation], skip: set[Operation]
    ) -> None:
        self.inputs, self.results = inputs, results
        self.handles: Mapping[str, Tensor] = traced.handles
        self._program, self._name = lower(traced, inputs, results, operations, skip), traced.name

    def place(self, where: Placement) -> None:
        def function(values: list[Any], variables: dict[str, Any]) -> Any:
            outputs, new = self._program(values, variables)
            return outputs, variables | new

        function.__name__ = self._name
        spec = jax.sharding.PartitionSpec()
        over = function if where.replicas is None else where.replicas.shard_map(function, in_specs=(spec, spec), out_specs=(spec, spec))
        self._where, self._jitted = where, jax.jit(over, donate_argnums=1)

    def run(self, home: Home, inputs: Sequence[Any], variables: MutableMapping[str, Any]) -> Sequence[Any]:
        outputs, new = self._jitted(*self._where.placed((list(inputs), {name: variables[name] for name in self._program.variables})))
        variables.update(new)
        return outputs


@final
class Compiled:
    """A function as pieces that run one after the other: its loops and pipelines are among them. Args: given: what its arguments are."""

    def __init__(self, traced: Traced, given: Sequence[Tensor], steps: Sequence[Step]) -> None:
        self._traced = traced
        # Tensors whose values it begins with, by the id of the tensor as the program knows it.
        self._known: list[Tensor] = [*traced.arguments, *(inner for _, inner in traced.captured)]
        self.outside: dict[int, Tensor] = dict(zip(map(id, self._known), [*given, *(outer for outer, _ in traced.captured)], strict=True))
        handles = dict(traced.handles)
        for step in steps:
            handles |= step.handles
            self.outside |= {id(tensor): tensor for tensor in step.inputs if getattr(tensor, "graph", None) is not traced.graph}
        self._names = list(handles)
        self._constants: dict[int, Any] = {}
        self._done: set[Operation] = set()  # nodes with effects that pieces run
        self._pieces, self._is_placed = list[Step | _Piece](), False
        for step in steps:
            self._compute(step.inputs, step.first)
            self._pieces.append(step)
            self._known += step.results
            self._done.update(each.op for each in step.results)
        self._compute(traced.results, traced.operations)
        if systems:
            self._place()

    def _place(self) -> None:
        """Programs may be compiled before the configuration says which devices they have. Raises: as `placement`."""
        where = placement(self._traced.scope.shards)
        for piece in self._pieces:
            piece.place(where)
        self._is_placed = True

    def _compute(self, tensors: Sequence[Tensor], operations: Sequence[Operation]) -> None:
        """Makes a piece for what is neither known nor constant."""
        known = {id(tensor) for tensor in self._known} | set(self.outside)
        constants = {id(each): tf.get_static_value(each) for each in tensors if id(each) not in known}
        self._constants |= {key: value for key, value in constants.items() if value is not None}
        missing = [each for each in tensors if id(each) not in known and id(each) not in self._constants]
        operations = [each for each in operations if each not in self._done]
        if not missing and all(each.type in _IDLE for each in graphs.ancestors([], operations, self._known, self._done)):
            return
        nodes = graphs.ancestors(missing, operations, self._known, self._done)
        effects = [each for each in nodes if each.op_def.is_stateful and each.type not in _IDLE]
        values = [value for each in effects for value in each.outputs if value.dtype not in (tf.resource, tf.variant)]
        missing += [value for value in values if set(value.consumers()) - set(nodes) and all(value is not each for each in missing)]
        used = {id(each) for operation in nodes for each in operation.inputs}
        self._pieces.append(_Piece(self._traced, [each for each in self._known if id(each) in used], missing, operations, self._done))
        self._done.update(effects)
        self._known += missing

    def run(self, home: Home, given: Mapping[int, Any]) -> list[Any]:
        """Runs the pieces. Args: given: values of `outside`. Returns: NumPy's arrays, the results."""
        if not self._is_placed:
            self._place()
        values: dict[int, Any] = {**self._constants, **given}
        variables = home.take(self._names)
        words = WHERE_KEPT.set("the variables have the values")
        try:
            for piece in self._pieces:
                outputs = piece.run(home, [values[id(each)] for each in piece.inputs], variables)
                values.update(zip(map(id, piece.results), outputs, strict=True))
        finally:
            WHERE_KEPT.reset(words)
            kept = {name: array for name, array in variables.items() if not (isinstance(array, jax.Array) and array.is_deleted())}
            home.put(kept, set(self._names) - set(kept))
        hints.wait_untimed([each for each in kept.values() if isinstance(each, jax.Array)], jax.block_until_ready)
        return [np.asarray(values[id(each)]).astype(each.dtype.as_numpy_dtype, copy=False) for each in self._traced.results]


@final
class Function:
    """A function of TensorFlow 2, traced once and compiled.

    Its loops that use feeds or are long run as loops of the runtime. If it uses feeds outside of loops, it is itself the step of one.

    Attributes: taken: the iterators that it was traced with, in the order of a step; who has read them empties it, so that they can end.
    Raises: UnsupportedError for what XLA cannot lower, and for feeds in branches or in loops inside of loops.
    """

    def __init__(self, function: Callable[..., Any], specs: Sequence[TensorSpec], name: str) -> None:
        watch_functions()
        scope = Scope(is_body=True, accumulates=True)
        traced = trace(name, graphs.with_graph_loops(function), specs, scope=scope)
        self._returned, self._arguments = traced.returned, traced.arguments
        self.taken = [each.iterator for each in scope.taken]
        used = {id(each.graph) for each in (*scope.taken, *scope.sent, *scope.updates)}
        found = [each for each in traced.graph.get_operations() if each.type in graphs.LOOPS]
        loops = [each for each in found if id(graphs.parts_of_loop(each)[1]) in used]
        is_step = id(traced.graph) in used
        if len(used) != is_step + len(loops) or (is_step and loops):
            raise UnsupportedError(
                f"{traced.name} uses next(iterator) or enqueue() in a branch, in a loop inside of a loop, or both inside and outside of a "
                "loop: use them in one loop over tf.range"
            )
        self._step: Loop | None = None
        self._loops: list[tuple[Loop, list[int]]] = []  # each with the indices of its iterators
        if is_step:
            self._step, traced = _as_step(traced)
            self._loops.append((self._step, list(range(len(scope.taken)))))
        for each in loops if is_step else [each for each in found if each in loops or _is_long(each)]:
            body = graphs.parts_of_loop(each)[1]
            self._loops.append((_as_loop(each, traced), [index for index, taken in enumerate(scope.taken) if taken.graph is body]))
        self._compiled = Compiled(traced, traced.arguments, [loop for loop, _ in self._loops])
        scope.taken.clear()  # it holds the iterators

    def __call__(self, values: Sequence[Any], taken: Sequence[Any], steps: int = 1) -> Structure:
        """Runs it with iterators in the order of those it was traced with; a step runs `steps` times, and gives the last one's results."""
        for loop, indices in self._loops:
            loop.infeed = feed([taken[index] for index in indices]) if indices else None
        if self._step is not None:
            self._step.steps = steps
        given = dict(zip(map(id, self._arguments), values, strict=True))
        outside = {key: given[key] if key in given else np.asarray(tensor) for key, tensor in self._compiled.outside.items()}
        results = iter(self._compiled.run(ON_DEVICES, outside))
        return tf.nest.map_structure(lambda each: None if each is None else tf.constant(next(results)), self._returned)


def _as_step(traced: Traced) -> tuple[Loop, Traced]:
    """(a loop whose step is a function, what gives the results of its last step)."""
    with traced.graph.as_default():
        carried, results = ([v1.placeholder(each.dtype, each.shape) for each in traced.results] for _ in range(2))
        first = [tf.zeros(each.shape, each.dtype) for each in traced.results]
    elements = [each for taken in traced.scope.taken for each in taken.placeholders]
    constant = [*traced.arguments, *(inside for _, inside in traced.captured)]
    body = dataclasses.replace(traced, arguments=[*carried, *elements], captured=[(each, each) for each in constant])
    return Loop(None, 0, body, first, None, results), dataclasses.replace(traced, results=results, operations=[])


def _is_long(loop: Operation) -> bool:
    """Whether a loop without feeds needs chunks: nothing interrupts a program. What a gradient goes through has none."""
    is_fixed = all(each.dtype != tf.variant and each.shape.is_fully_defined() for each in loop.inputs)
    return is_fixed and (graphs.steps_of_loop(loop) or 0) > _MOST_STEPS_WITHOUT_FEEDS


def _as_loop(loop: Operation, traced: Traced) -> Loop:
    """A while loop of a function's graph."""
    condition, body = graphs.parts_of_loop(loop)
    carried = [index for index, each in enumerate(loop.inputs) if each.dtype != tf.resource]
    names = {id(handle): name for name, handle in traced.handles.items()}

    def part(graph: Graph, results: list[Tensor]) -> Traced:
        taken = [each for one in traced.scope.taken if one.graph is graph for each in one.placeholders]
        inside = [(outer, each) for outer, each in zip(loop.inputs, graph.inputs, strict=True) if id(outer) in names]
        return dataclasses.replace(
            traced,
            graph=graph,
            arguments=[*(graph.inputs[index] for index in carried), *taken],
            results=results,
            operations=list(graph.control_outputs),
            captured=[],
            handles={names[id(outer)]: each for outer, each in inside},
            scope=dataclasses.replace(
                traced.scope,
                sent=[each for each in traced.scope.sent if each.graph is graph],
                updates=[each for each in traced.scope.updates if each.graph is graph],
            ),
        )

    steps = graphs.steps_of_loop(loop)
    step = part(body, [body.outputs[index] for index in carried])
    for index in carried:
        condition.inputs[index].set_shape(loop.inputs[index].shape)  # one that it does not use has none
    test = part(condition, list(condition.outputs)) if steps is None else None
    carry, results = ([values[index] for index in carried] for values in (loop.inputs, loop.outputs))
    return Loop(test, steps, step, carry, None, results, loop.control_inputs)
