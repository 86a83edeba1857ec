"""A training loop of a program: its body is lowered once, and `tilestep.train` runs it."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from typing import Any, final

from tilestep import train
from tilestep.tensorflow import machine
from tilestep.tensorflow.accumulation import Update, with_slots
from tilestep.tensorflow.ipu.ipu_outfeed_queue import divided
from tilestep.tensorflow.lowering import Program, lower
from tilestep.tensorflow.machine import Placement
from tilestep.tensorflow.tf_private import graphs
from tilestep.tensorflow.tracing import Traced
from tilestep.tensorflow.untyped import Operation, Session, Tensor, v1
from tilestep.train import loop_state
from tilestep.train.untyped import jax


@final
class Loop:
    """`loops.repeat` or `loops.while_loop` in a program.

    Args:
        condition: of a while loop, a function of the carry; None: all `steps` are done.
        steps: at most; None: any number.
        body: as a graph. Its arguments are the carry, then the infeed's element.
        carry: what the loop begins with.
        infeed: the program's queue.
        results: tensors that stand for its results; None: it makes them.
        first: nodes that run before it.
    Attributes: steps, infeed: of the next run.
    """

    def __init__(
        self,
        condition: Traced | None,
        steps: int | None,
        body: Traced,
        carry: Sequence[Tensor],
        infeed: Any,
        results: Sequence[Tensor] | None = None,
        first: Sequence[Operation] = (),
    ) -> None:
        self._condition, self._body = condition, body
        self.steps, self.infeed, self.first = steps, infeed, first
        self._num_carried = len(carry)
        captured = [outside for outside, _ in body.captured]
        self._tests = [] if condition is None else [outside for outside, _ in condition.captured]
        self._updates: list[Update] = body.scope.updates
        extra = [outside for update in self._updates for outside, _ in update.traced.captured if graphs.graph_of(outside) is not body.graph]
        self.inputs: list[Tensor] = [*carry, *captured, *self._tests, *extra]
        self.results: list[Tensor] = list(results or [v1.placeholder(each.dtype, each.shape) for each in carry])
        self.handles: Mapping[str, Tensor] = (
            body.handles
            | ({} if condition is None else condition.handles)
            | {n: h for u in self._updates for n, h in u.traced.handles.items()}
        )
        queues = [each.queue for each in body.scope.sent]
        self._outfeed: Any = queues[0].queue if len(queues) == 1 else divided([(q, len(q.specs)) for q in queues]) if queues else None
        self._states: weakref.WeakKeyDictionary[Session, list[Any]] = weakref.WeakKeyDictionary()

    def prepare(self) -> None:
        body = self._body
        inside = [placeholder for _, placeholder in body.captured]
        inputs = [*body.arguments, *body.keywords.values(), *inside]
        gradients = [tensor for update in self._updates for tensor in (*update.gradients, *update.extra)]
        sent = [tensor for each in body.scope.sent for tensor in each.tensors]
        program = lower(body.graph, inputs, [*body.results[: self._num_carried], *sent, *gradients], body.operations, body.handles)
        self._prepared = [update.prepared() for update in self._updates]
        self._slots = [name for update in self._updates for name in update.slots]
        test = self._condition
        tests = None
        if test is not None:
            tests = lower(test.graph, [*test.arguments, *(each for _, each in test.captured)], test.results, [], test.handles)
        self._optimizers: list[Any] = []
        self._functions = self._traced_by_jax(program, tests)

    def place(self, where: Placement) -> None:
        self._where = where
        for each in self._body.scope.sent:
            each.queue.replicas = where.count

    def _traced_by_jax(self, program: Program, tests: Program | None) -> tuple[Callable[..., Any], Callable[..., Any] | None]:
        """(body, condition) as the runtime takes them. The carry is (carried, constant, variables, states of updates)."""
        keys, num_sent = list(self._body.keywords), sum(len(each.tensors) for each in self._body.scope.sent)
        num_carried, num_captured = self._num_carried, len(self._body.captured)
        num_tests = len(self._tests)

        def body(carry: Any, *elements: Any, **named: Any) -> Any:
            carried, constants, variables, states = carry
            seen = dict(variables)
            for state in states:
                seen |= state.inner
            values = [*carried, *elements, *(named[key] for key in keys), *constants[:num_captured]]
            outputs, new = program(values, seen)
            rest = outputs[num_carried:]
            if num_sent:
                self._outfeed.enqueue(tuple(rest[:num_sent]))
            rest = rest[num_sent:]
            variables = {name: self._merged(name, old, new[name]) if name in new else old for name, old in variables.items()}
            states, places = list(states), constants[num_captured + num_tests :]
            for index, (prepared, optimizer) in enumerate(zip(self._prepared, self._optimizers, strict=True)):
                update = prepared.update
                gradients, rest = rest[: len(update.gradients)], rest[len(update.gradients) :]
                own, rest = rest[: len(update.extra)], rest[len(update.extra) :]
                extra, own = [], list(own)
                for outside, _ in update.traced.captured:
                    if graphs.graph_of(outside) is self._body.graph:
                        extra.append(own.pop(0))
                    else:
                        extra.append(places[0])
                        places = places[1:]
                states[index], variables = prepared.applied(optimizer, gradients, extra, states[index], variables)
            return tuple(outputs[:num_carried]), constants, variables, tuple(states)

        body.__name__ = self._body.name
        if tests is None:
            return body, None

        def condition(carry: Any) -> Any:
            carried, constants, variables, _ = carry
            (goes_on,), _ = tests([*carried, *constants[num_captured : num_captured + num_tests]], variables)
            return goes_on

        return body, condition

    def _merged(self, name: str, old: Any, new: Any) -> Any:
        """The new value, with what the variable declares for replicas: metrics add up, moving averages are averaged."""
        how = self._body.merged.get(name) if self._where.replicas is not None else None
        if how == "sum":
            return old + train.cross_replica_sum(new - old)
        return train.cross_replica_mean(new) if how == "mean" else new

    def run(self, session: Session, inputs: Sequence[Any], variables: MutableMapping[str, Any]) -> Sequence[Any]:
        body, condition = self._functions
        where, names = self._where, [name for name in self.handles if name not in self._slots]
        variables.update(where.placed(dict(variables)))
        states = self._states_of(session, variables)
        inputs = [jax.numpy.copy(each) if isinstance(each, jax.Array) else each for each in inputs]  # the loop takes its carry over
        first, constants = where.placed((tuple(inputs[: self._num_carried]), tuple(inputs[self._num_carried :])))
        carry = (first, constants, {name: variables[name] for name in names}, tuple(states))
        infeed = None if self.infeed is None else self.infeed.opened(where.count)
        options = {"replicas": where.replicas, "plan_options": machine.system().plan_options or None}
        try:
            with jax.default_device(where.device):
                if condition is None:
                    assert self.steps is not None
                    carry = train.repeat(self.steps, body, carry, infeed, self._outfeed, **options)
                else:
                    carry = train.while_loop(condition, body, carry, infeed, self._outfeed, maximum_iterations=self.steps, **options)
        except BaseException as error:
            reached = loop_state(error)
            if reached is not None:
                carry = reached.carry
            raise
        finally:
            carried, _, changed, states = carry
            variables.update(changed)
            for state in states:
                variables.update(state.inner)
            self._states[session] = list(states)
        return carried

    def _states_of(self, session: Session, variables: Mapping[str, Any]) -> list[Any]:
        """The accumulators, which are zero between calls, and the slots, which are variables between calls."""
        if not self._prepared:
            return []
        if not self._optimizers:
            for prepared in self._prepared:
                specs = {name: jax.ShapeDtypeStruct(variables[name].shape, variables[name].dtype) for name in prepared.update.slots}
                self._optimizers.append(prepared.optimizer(specs))
        kept = self._states.get(session)
        if kept is None or any(leaf.is_deleted() for state in kept for leaf in jax.tree.leaves(state.accumulators)):
            kept = [
                optimizer.init({name: variables[name] for name in prepared.update.names})
                for prepared, optimizer in zip(self._prepared, self._optimizers, strict=True)
            ]
        return [with_slots(state, variables) for state in kept]
