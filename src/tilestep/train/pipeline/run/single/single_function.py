"""The function that one program of a pipeline computes, all stages and microbatches in turn, and the leaves that it donates or reads."""

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple, final

import jax
import numpy as np

from tilestep.train.jaxprs import is_real
from tilestep.train.pipeline.compile.pipeline_spec import Leaf, PipelineSpec
from tilestep.train.pipeline.compile.programs import CompiledPipeline
from tilestep.train.pipeline.compile.stage import Stage, accumulated, visible
from tilestep.train.pipeline.compile.watched.watch_keys import Key
from tilestep.train.pipeline.run.state import RunState
from tilestep.train.untyped import Pytree
from tilestep.train.untyped import jax as _jax

Rows = Sequence[Sequence[jax.Array]]  # for each stage some leaves of its parameters


@final
class SingleState:
    """Where the leaves of a state with this structure are among the arguments and results of one program.

    Donated are each stage's trained parameters and the optimiser's states. Read are the other parameters and auxiliary state. Of tied
    parameters only the first is an argument, because its memory is donated.

    Args:
        structure: of a `RunState`.
    """

    def __init__(self, compiled: CompiledPipeline, structure: Any, *, is_training: bool) -> None:
        stages = compiled.traced.stages
        self.structure = structure
        self._structures = [stage.params_structure for stage in stages]
        self._trained = [update.trained for update in compiled.updates] or [() for _ in stages]
        indices: RunState = _jax.tree.unflatten(structure, range(structure.num_leaves))
        params = [_jax.tree.leaves(stage.params) for stage in indices.stages]
        ties = {(stage, leaf): tie[0] for tie in compiled.ties for stage, leaf in tie[1:]} if is_training else {}
        self._copies = [(params[stage][leaf], params[owner][first]) for (stage, leaf), (owner, first) in ties.items()]
        self._ties: list[dict[int, Leaf]] = [
            {leaf: owner for (stage, leaf), owner in ties.items() if stage == number} for number in range(len(params))
        ]
        trained = [[own[index] for index in numbers] for own, numbers in zip(params, self._trained, strict=True)]
        rest = [
            [leaf for index, leaf in enumerate(own) if index not in numbers and index not in tied]
            for own, numbers, tied in zip(params, self._trained, self._ties, strict=True)
        ]
        states = [stage.optimizer_state for stage in indices.stages], indices.joint
        aux = [_jax.tree.leaves(stage.aux) for stage in indices.stages]
        self._donated, self._donated_structure = _jax.tree.flatten((trained, states))
        self._read, self._read_structure = _jax.tree.flatten((rest, aux))
        self._new = [*self._donated, *_jax.tree.leaves(aux)]

    def donated(self, leaves: Sequence[jax.Array]) -> list[jax.Array]:
        """The leaves of a state that the program donates."""
        return [leaves[index] for index in self._donated]

    def read(self, leaves: Sequence[jax.Array]) -> list[jax.Array]:
        """The leaves of a state that it reads."""
        return [leaves[index] for index in self._read]

    def trees(self, donated: Sequence[jax.Array], read: Sequence[jax.Array]) -> tuple[Pytree, Pytree, Pytree, Pytree]:
        """(trained parameters, the optimiser's states, other parameters, auxiliary state), from the program's arguments."""
        trained, states = _jax.tree.unflatten(self._donated_structure, donated)
        rest, aux = _jax.tree.unflatten(self._read_structure, read)
        return trained, states, rest, aux

    def successor(self, leaves: Sequence[jax.Array], read: Sequence[jax.Array], new: Sequence[jax.Array]) -> RunState:
        """The state after a run.

        Args:
            leaves: of the state before.
            read: of these, those that the program has read, on its device.
            new: the program's results.
        """
        new_leaves = list(leaves)
        for index, leaf in zip(self._read, read, strict=True):
            new_leaves[index] = leaf
        for index, leaf in zip(self._new, new, strict=True):
            new_leaves[index] = leaf
        for index, owner in self._copies:
            new_leaves[index] = new_leaves[owner]
        return _jax.tree.unflatten(self.structure, new_leaves)

    def params(self, trained: Rows, rest: Rows) -> list[list[jax.Array]]:
        """All leaves of each stage's parameters, from those that are trained and the others."""
        params: list[list[Any]] = []
        for structure, numbers, ties, own, others in zip(self._structures, self._trained, self._ties, trained, rest, strict=True):
            mine, left = dict(zip(numbers, own, strict=True)), iter(others)
            params.append(
                [None if index in ties else mine[index] if index in mine else next(left) for index in range(structure.num_leaves)]
            )
        for own, ties in zip(params, self._ties, strict=True):
            for index, (owner, leaf) in ties.items():
                own[index] = params[owner][leaf]
        return params


class Data(NamedTuple):
    """What a run reads beside the state."""

    # elements, each leaf with a leading axis of microbatches; one after the other they are those of the run
    columns: Sequence[Sequence[jax.Array]]
    inputs: Sequence[jax.Array]  # leaves of the run's inputs
    key: jax.Array | None  # the data of its random key, or None


@final
class _Watch:
    """What is watched of all stages: rows, each of one microbatch, and what is carried from one to the next.

    Attributes: keys: of rows, then of what is carried.
    """

    def __init__(self, stages: Sequence[Stage]) -> None:
        self._seen = [seen for stage in stages for seen in (*stage.watch.values, *stage.watch.gradients)]
        rows = [seen.key for seen in self._seen if seen.how == "all"]
        self.keys: Final = [*rows, *(seen.key for seen in self._seen if seen.how != "all")]

    def start(self) -> list[jax.Array]:
        """What the first microbatch gets."""
        return [_jax.numpy.zeros(seen.shape, seen.dtype) for seen in self._seen if seen.how != "all"]

    def given(self, values: Rows, gradients: Rows, before: Sequence[jax.Array]) -> tuple[list[jax.Array], list[jax.Array]]:
        """(rows, what is carried on). Args: values, gradients: of each stage."""
        carried, rows, after = iter(before), list[jax.Array](), list[jax.Array]()
        own = [value for pair in zip(values, gradients, strict=True) for part in pair for value in part]
        for seen, value in zip(self._seen, own, strict=True):
            if seen.how == "all":
                rows.append(value)
            else:
                total = next(carried)
                after.append(total + value if seen.how == "sum" else value)
        return rows, after


@final
class SingleFunction:
    """The tasks of a schedule as one traceable function. Each stage's function is called as it is."""

    def __init__(self, compiled: CompiledPipeline, spec: PipelineSpec, state: SingleState) -> None:
        self._compiled, self._spec, self._state = compiled, spec, state
        self._stages = compiled.traced.stages
        self._watch = _Watch(self._stages)

    @property
    def keys(self) -> list[Key]:
        """Of what is watched, in the order of the values that the function returns."""
        return [*self._watch.keys, *(seen.key for stage in self._stages for seen in stage.watch.params)]

    def __call__(
        self, donated: Sequence[jax.Array], read: Sequence[jax.Array], data: Data
    ) -> tuple[list[jax.Array], Pytree, list[jax.Array]]:
        """(the new leaves of the state, the outputs, what is watched)."""
        trained, states, rest, aux = self._state.trees(donated, read)
        if self._spec.optimizer is None:
            aux, outputs, watched = self._inference(rest, aux, data)
        else:
            trained, states, aux, outputs, watched = self._update(trained, states, rest, aux, data)
            params = self._state.params(trained, rest)
            leaves = [(seen, params[stage.number][seen.leaf]) for stage in self._stages for seen in stage.watch.params]
            watched += [leaf[None] if seen.how == "all" else leaf for seen, leaf in leaves]  # there is one update
        return _jax.tree.leaves((trained, states, aux)), outputs, watched

    def _forward(
        self, params: Rows, aux: Rows, data: Data, element: Sequence[jax.Array], microbatch: jax.Array, slots: Rows
    ) -> tuple[list[Pytree], list[list[jax.Array]], list[list[jax.Array]]]:
        """(outputs of each stage of the last level, the new auxiliary state, marked values of each stage) of one microbatch."""
        traced = self._compiled.traced
        outputs: dict[int, list[jax.Array]] = {}
        new: list[Any] = list(aux)
        values: list[list[jax.Array]] = [[] for _ in aux]
        trees: list[Pytree] = []
        for level, members in enumerate(self._spec.schedule.levels):
            trees = []
            for number in members:
                args = [*data.inputs, *(leaf[None] for leaf in element)]
                if level:
                    args = [outputs[stage][source] for stage, source in traced.incoming[number]]
                extras = [data.key, microbatch] if traced.keyed[number] else []
                tree = _jax.tree.unflatten(self._stages[number].params_structure, params[number])
                result, after, values[number] = self._stages[number].watched_call(tree, [*args, *aux[number], *extras], slots[number])
                outputs[number], new[number] = _jax.tree.leaves(result), _jax.tree.leaves(after)
                trees.append(result)
        return trees, new, values

    def _visible(self, outputs: Sequence[Sequence[jax.Array]]) -> list[list[jax.Array | None]]:
        """The last level's outputs, None for those that are hidden."""
        hidden = self._compiled.hidden
        return [visible(own, hidden[stage]) for own, stage in zip(outputs, self._spec.schedule.levels[-1], strict=True)]

    def _scan(self, step: Callable[[Any, Any], Any], start: Pytree, data: Data) -> tuple[Pytree, Pytree]:
        """`step` over all microbatches: (carry, (number, element)) -> (carry, outputs)."""
        rows = [list(row) for row in zip(*data.columns, strict=True)]
        elements = [_jax.numpy.concatenate(row) if len(row) > 1 else row[0] for row in rows]
        return _jax.lax.scan(step, start, (np.arange(self._spec.schedule.microbatches, dtype=np.int32), elements))

    def _inference(self, params: Rows, aux: Rows, data: Data) -> tuple[Pytree, Pytree, list[jax.Array]]:
        watch, no_slots = self._watch, [()] * len(self._stages)

        def step(carry: tuple[Rows, list[jax.Array]], numbered: tuple[jax.Array, Sequence[jax.Array]]) -> tuple[Pytree, Pytree]:
            aux, reduced = carry
            microbatch, element = numbered
            trees, new, values = self._forward(params, aux, data, element, microbatch, no_slots)
            rows, reduced = watch.given(values, no_slots, reduced)
            return (new, reduced), (self._visible([_jax.tree.leaves(tree) for tree in trees]), rows)

        (aux, reduced), (outputs, rows) = self._scan(step, (aux, watch.start()), data)
        return aux, outputs, [*rows, *reduced]

    def _update(self, trained: Rows, states: Pytree, rest: Rows, aux: Rows, data: Data) -> tuple[Pytree, ...]:
        plan, compiled = self._spec.optimizer, self._compiled
        assert plan is not None  # it trains
        params = self._state.params(trained, rest)
        real = [[leaf for leaf in own if is_real(leaf)] for own in params]

        watch = self._watch

        def loss(
            real_and_slots: tuple[Rows, Rows], aux: Rows, element: Sequence[jax.Array], microbatch: jax.Array
        ) -> tuple[jax.Array, Pytree]:
            real, slots = real_and_slots
            some = [iter(own) for own in real]
            leaves = [[next(mine) if is_real(leaf) else leaf for leaf in own] for own, mine in zip(params, some, strict=True)]
            (outputs,), new, values = self._forward(leaves, aux, data, element, microbatch, slots)
            return plan.loss(*outputs), (_jax.tree.leaves(outputs), new, values)

        slots, gives_loss = [stage.watch.slots() for stage in self._stages], plan.is_function and self._spec.gives_loss

        def step(carry: tuple[Rows, Rows, list[jax.Array]], numbered: tuple[jax.Array, Sequence[jax.Array]]) -> tuple[Pytree, Pytree]:
            accumulators, aux, reduced = carry
            microbatch, element = numbered
            (value, (outputs, new, values)), (gradients, of_slots) = _jax.value_and_grad(loss, has_aux=True)(
                (real, slots), aux, element, microbatch
            )
            sums = [accumulated(acc, own, microbatch, plan.reduction) for acc, own in zip(accumulators, gradients, strict=True)]  # pyrefly: ignore[missing-attribute]
            rows, reduced = watch.given(values, of_slots, reduced)
            return (sums, new, reduced), (*self._visible([outputs]), [value] if gives_loss else [], rows)

        zeros = [update.start() for update in compiled.updates]
        (accumulators, aux, reduced), (outputs, losses, rows) = self._scan(step, (zeros, aux, watch.start()), data)
        for tie in compiled.ties:
            self._add_tied_gradients(accumulators, tie)
        trained, states = self._apply(trained, states, accumulators, [None if leaf is None else leaf[-1] for leaf in outputs])
        return trained, states, aux, [outputs, losses or outputs[:1]], [*rows, *reduced]

    def _add_tied_gradients(self, accumulators: list[list[jax.Array]], tie: Sequence[Leaf]) -> None:
        (owner, first), *others = tie
        index = self._stages[owner].real_params.index(first)
        for stage, leaf in others:
            gradient = accumulators[stage][self._stages[stage].real_params.index(leaf)]
            accumulators[owner][index] += gradient.astype(accumulators[owner][index].dtype)

    def _apply(self, trained: Rows, states: Pytree, accumulators: Rows, outputs: Sequence[Any]) -> tuple[Pytree, Pytree]:
        """(the new trained parameters, the optimiser's new states)."""
        compiled = self._compiled
        gradients = [
            [own[stage.real_params.index(index)] for index in update.trained]
            for own, stage, update in zip(accumulators, self._stages, compiled.updates, strict=True)
        ]
        each, joint = states
        if compiled.joint is not None:
            new, joint = compiled.joint.inline(trained, joint, gradients, [outputs[index] for index in compiled.joint.extras])
            return new, (each, joint)
        params: list[Any] = []
        after: list[Pytree] = []
        for update, own, state, of_stage in zip(compiled.updates, trained, each, gradients, strict=True):
            leaves, state, _ = update.function(own, state, of_stage, [outputs[index] for index in update.extras])
            params.append(leaves)
            after.append(state)
        return params, (after, joint)
