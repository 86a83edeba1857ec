"""A training loop of a program: its body is lowered once, and `tilestep.train` runs it."""

import dataclasses
import itertools
import weakref
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from typing import Any, final

import numpy as np

from tilestep import train
from tilestep.tensorflow.ipu.config import Placement, offloads, system
from tilestep.tensorflow.ipu.optimizers import Update
from tilestep.tensorflow.ipu.queues import common
from tilestep.tensorflow.jax_private.primitive import Program
from tilestep.tensorflow.residency import Home
from tilestep.tensorflow.tracing import Traced, lower
from tilestep.tensorflow.untyped import Operation, Tensor, v1
from tilestep.train import loop_state
from tilestep.train.untyped import jax


@final
class Loop:
    """`loops.repeat` or `loops.while_loop` in a program. Attributes: steps, infeed: of the next run."""

    def __init__(
        self,
        condition: Traced | None,  # a function of the carry; None: all `steps` are done
        steps: int | None,  # at most; None: any number
        body: Traced,  # its arguments are the carry, then the infeed's element
        carry: Sequence[Tensor],  # the loop begins with it
        infeed: Any,
        results: Sequence[Tensor] | None = None,  # tensors that stand for its results; None: it makes them
        first: Sequence[Operation] = (),  # nodes that run before it
    ) -> None:
        self._body, self.steps, self.infeed, self.first = body, steps, infeed, first
        self._updates: list[Update] = body.scope.updates
        captured = [outside for outside, _ in body.captured]
        tests = [] if condition is None else [outside for outside, _ in condition.captured]
        self.inputs: list[Tensor] = [*carry, *captured, *tests]
        self._sizes = [len(carry), len(captured), len(tests)]
        self.results: list[Tensor] = list(results or [v1.placeholder(each.dtype, each.shape) for each in carry])
        parts = [body, *([] if condition is None else [condition]), *(update.traced for update in self._updates)]
        self.handles: Mapping[str, Tensor] = {name: handle for part in parts for name, handle in part.handles.items()}
        self._slots = {name for update in self._updates for name in update.slots}
        queues = [each.queue for each in body.scope.sent]
        self._outfeed: Any = queues[0].queue if len(queues) == 1 else common(queues) if queues else None
        self._states: weakref.WeakKeyDictionary[Home, Sequence[Any]] = weakref.WeakKeyDictionary()
        inputs = [*body.arguments, *(inside for _, inside in body.captured)]
        gradients = [tensors for update in self._updates for tensors in (update.gradients, update.extra)]
        outputs = [body.results[: len(carry)], *(each.tensors for each in body.scope.sent), *gradients]
        program = lower(body, inputs, list(itertools.chain(*outputs)), body.operations)
        self._optimizers = [update.optimizer(steps) for update in self._updates]
        self._function = self._traced_by_jax(program, list(map(len, outputs)))
        self._test: Callable[[Any], Any] | None = None
        if condition is not None:
            inputs = [*condition.arguments, *(inside for _, inside in condition.captured)]
            tested = lower(condition, inputs, condition.results, [])

            def test(carry: Any) -> Any:
                carried, constants, variables, _ = carry
                return tested([*carried, *constants[1]], variables)[0][0]

            self._test = test

    def place(self, where: Placement) -> None:
        self._where = where
        for each in self._body.scope.sent:
            each.queue.replicas = where.count

    def _traced_by_jax(self, program: Program, sizes: Sequence[int]) -> Callable[..., Any]:
        """The body as the runtime takes it. Args: sizes: of outputs: carried, sent to each queue, gradients and `extra` of updates."""

        def body(carry: Any, *elements: Any) -> Any:
            carried, constants, variables, states = carry
            seen = {**variables, **{name: slot for state in states for name, slot in state.inner.items()}}
            outputs, new = program([*carried, *elements, *constants[0]], seen)
            after, *rest = map(tuple, _split(outputs, sizes))
            sent, rest = rest[: len(self._body.scope.sent)], rest[len(self._body.scope.sent) :]
            if sent:
                self._outfeed.enqueue(sent[0] if len(sent) == 1 else tuple(sent))
            variables = {name: self._merged(name, old, new[name]) if name in new else old for name, old in variables.items()}
            new_states, given = [], zip(rest[::2], rest[1::2], strict=True)
            for update, optimizer, state, (gradients, extra) in zip(self._updates, self._optimizers, states, given, strict=True):
                params = {name: variables[name] for name in update.names}
                changed, state = optimizer.update(dict(zip(update.names, gradients, strict=True)), state, params, extra=extra)
                variables |= train.apply_updates(params, changed)
                new_states.append(state)
            return after, constants, variables, tuple(new_states)

        body.__name__ = self._body.name
        return body

    def _merged(self, name: str, old: Any, new: Any) -> Any:
        """The new value, with what the variable declares for replicas: metrics add up, moving averages are averaged."""
        how = self._body.merged.get(name) if self._where.replicas is not None else None
        if how == "sum":
            return old + train.cross_replica_sum(new - old)
        return train.cross_replica_mean(new) if how == "mean" else new

    def run(self, home: Home, inputs: Sequence[Any], variables: MutableMapping[str, Any]) -> Sequence[Any]:
        where = self._where
        variables.update(where.placed(dict(variables)))
        states = tuple(self._states_of(home, variables))
        inputs = [jax.numpy.copy(each) if isinstance(each, jax.Array) else each for each in inputs]  # the loop takes its carry over
        first, *constants = where.placed([tuple(each) for each in _split(inputs, self._sizes)])
        carry = (first, tuple(constants), {name: variables[name] for name in self.handles if name not in self._slots}, states)
        infeed = None if self.infeed is None else self.infeed.opened(where.count)
        options: dict[str, Any] = {"replicas": where.replicas, "plan_options": system().plan_options or None}
        try:
            with jax.default_device(where.devices[0]):
                if self._test is None:
                    assert self.steps is not None
                    carry = train.repeat(self.steps, self._function, carry, infeed, self._outfeed, **options)
                else:
                    options["maximum_iterations"] = self.steps
                    carry = train.while_loop(self._test, self._function, carry, infeed, self._outfeed, **options)
        except BaseException as error:
            reached = loop_state(error)
            carry = carry if reached is None else reached.carry
            raise
        finally:
            carried, _, changed, states = carry
            variables.update(changed)
            for state in states:
                variables.update(state.inner)
            self._states[home] = states
        return carried

    def _states_of(self, home: Home, variables: Mapping[str, Any]) -> list[Any]:
        """The accumulators, which are zero between calls, and the slots, which are variables between calls."""
        pairs = list(zip(self._updates, self._optimizers, strict=True))
        kept = self._states.get(home)
        if kept is None or any(leaf.is_deleted() for state in kept for leaf in jax.tree.leaves(state.accumulators)):
            kinds = [jax.eval_shape(optimizer.init, {name: variables[name] for name in update.names}) for update, optimizer in pairs]
            kept = self._where.placed(jax.tree.map(lambda kind: np.zeros(kind.shape, kind.dtype), kinds))  # no program makes them
        slots = [train.placed({name: variables[name] for name in update.slots}, offloads(update.offload)) for update, _ in pairs]
        return [dataclasses.replace(state, inner=own) for state, own in zip(kept, slots, strict=True)]


def _split(values: Sequence[Any], sizes: Sequence[int]) -> list[Sequence[Any]]:
    """Successive parts of these sizes."""
    ends = itertools.accumulate(sizes)
    return [values[end - size : end] for size, end in zip(sizes, ends, strict=True)]
