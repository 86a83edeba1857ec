"""Functions of TensorFlow 2 as programs: their loops that take from iterators or send to queues are `tilestep.train`'s."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, final

import numpy as np

from tilestep.errors import UnsupportedError
from tilestep.tensorflow.compilation import Compiled
from tilestep.tensorflow.loop import Loop
from tilestep.tensorflow.residency import ON_DEVICES
from tilestep.tensorflow.tf_private import graphs
from tilestep.tensorflow.tf_private.eager import feed, watch_functions
from tilestep.tensorflow.tracing import Scope, Taken, Traced, trace
from tilestep.tensorflow.untyped import Graph, Operation, Structure, Tensor, TensorSpec, tf, v1


@final
class Function:
    """A function of TensorFlow 2, traced once and compiled.

    Its loops that use feeds run as loops of the runtime. If it uses feeds outside of loops, it is itself the step of one.

    Attributes: taken: the iterators that it was traced with, in the order of a step; who has read them empties it, so that they can end.
    Raises: UnsupportedError for what XLA cannot lower, and for feeds in branches or in loops inside of loops.
    """

    def __init__(self, function: Callable[..., Any], specs: Sequence[TensorSpec], name: str) -> None:
        watch_functions()
        scope = Scope(is_body=True, accumulates=0)
        traced = trace(name, graphs.with_graph_loops(function), specs, scope=scope)
        self._returned, self._arguments = traced.returned, traced.arguments
        self.taken = [each.iterator for each in scope.taken]
        used = {id(each.graph) for each in (*scope.taken, *scope.sent, *scope.updates)}
        loops = [each for each in traced.graph.get_operations() if each.type in graphs.LOOPS and id(graphs.parts_of_loop(each)[1]) in used]
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
        for each in loops:
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
    return Loop(None, 1, body, first, None, results), dataclasses.replace(traced, results=results, operations=[])


def _as_loop(loop: Operation, traced: Traced) -> Loop:
    """A while loop of a function's graph."""
    condition, body = graphs.parts_of_loop(loop)
    carried = [index for index, each in enumerate(loop.inputs) if each.dtype != tf.resource]
    names = {id(handle): name for name, handle in traced.handles.items()}

    def part(graph: Graph, results: list[Tensor], taken: Sequence[Taken] = ()) -> Traced:
        inside = [(outer, each) for outer, each in zip(loop.inputs, graph.inputs, strict=True) if id(outer) in names]
        return dataclasses.replace(
            traced,
            graph=graph,
            arguments=[*(graph.inputs[index] for index in carried), *(each for one in taken for each in one.placeholders)],
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
    taken = [each for each in traced.scope.taken if each.graph is body]
    step = part(body, [body.outputs[index] for index in carried], taken)
    for update in step.scope.updates:
        if steps is None or steps % update.count:
            raise tf.errors.FailedPreconditionError(
                None,
                None,
                f"an optimizer accumulates {update.count} steps in a loop of {steps or 'an unknown number'}: it must be a multiple",
            )
    for index in carried:
        condition.inputs[index].set_shape(loop.inputs[index].shape)  # one that it does not use has none
    test = part(condition, list(condition.outputs)) if steps is None else None
    carry, results = ([values[index] for index in carried] for values in (loop.inputs, loop.outputs))
    return Loop(test, steps, step, carry, None, results, loop.control_inputs)
