"""All stages and microbatches of an update as one program on one device: where tasks are so small that starting them is what takes time.

It computes what the tasks of a schedule would, microbatch after microbatch, each stage's function as it is.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Final, Literal, final, get_args

import jax
import numpy as np

from tilestep.train.pipeline.compile.placement import Place
from tilestep.train.pipeline.compile.programs import Compiled
from tilestep.train.pipeline.compile.stage import Stage, accumulated, is_real
from tilestep.train.pipeline.compile.updates import Optimizing
from tilestep.train.pipeline.run.state import RunState
from tilestep.train.pipeline.run.watch import calls_python
from tilestep.train.schedules.schedule import Kind, Schedule
from tilestep.train.untyped import jax as _jax

Which = Literal["auto", "stages", "single"]
PROGRAMS: Final = get_args(Which)

_MOST_SHARDINGS: Final = 256  # that are remembered
_MEASURED: Final = 3  # runs of each way
_HOST_BOUND: Final = 0.5  # of a run's time: from here on that of starting tasks may be worth saving


def why_not_single(schedule: Schedule, how: Optimizing | None, places: Sequence[Any], *, check_nans: bool) -> str | None:
    """Why a pipeline cannot be one program; None if it can."""
    if any(len(place.devices) > 1 for place in places):
        return "it has replicas, or a stage on several devices"
    if schedule.weights != "same":
        return f"the {schedule.name} schedule's weights change within a run"
    if any(task.kind in (Kind.STORE, Kind.LOAD) for task in schedule.ordered()) or (how is not None and how.offload not in (None, False)):
        return "something of it is in the host's memory"
    return "check_nans looks at each stage" if check_nans else None


@final
class Chooser:
    """Says how the next run is done, by what runs before have taken.

    Three runs by stages are measured, after a first one that is not. If the host was starting tasks for half of one of them or more, as
    many are done by one program; the way of the fastest run stays. One of each would not do: something else may hold it up.

    Args: which: what the author wants. possible: whether one program can do it. alone: whether there is one device only. measured: whether
        time means anything on that platform.
    """

    def __init__(self, which: Which, *, possible: bool, alone: bool, measured: bool) -> None:
        self._decided: Literal["stages", "single"] | None = None
        if which == "single" or (which == "auto" and possible and alone and measured):
            self._decided = "single"
        elif which == "stages" or not possible or not measured:
            self._decided = "stages"
        self._runs = 0
        self._is_host_bound = False
        self._by_stages_s = self._by_single_s = math.inf

    @property
    def now(self) -> Literal["stages", "single"]:
        """How the next run is done."""
        if self._decided is not None:
            return self._decided
        return "stages" if self._runs <= _MEASURED else "single"

    @property
    def measures(self) -> bool:
        """Whether the next run is measured: from an idle machine to its end."""
        return self._decided is None and self._runs % (1 + _MEASURED) > 0

    def took(self, host_wall_s: float, wall_s: float) -> None:
        """A run is over. Args: of the time that was measured, that in which the host started tasks, and all."""
        if self._decided is not None:
            return
        is_measured, by_stages = self.measures, self.now == "stages"
        self._runs += 1
        if not is_measured:
            return
        if by_stages:
            self._by_stages_s = min(self._by_stages_s, wall_s)
            self._is_host_bound |= host_wall_s >= _HOST_BOUND * wall_s
            if self._runs == 1 + _MEASURED and not self._is_host_bound:
                self._decided = "stages"
            return
        self._by_single_s = min(self._by_single_s, wall_s)
        if self._runs == 2 * (1 + _MEASURED):
            self._decided = "single" if self._by_single_s < self._by_stages_s else "stages"


def brought(leaves: Sequence[Any], place: Place) -> list[Any]:
    """Arrays on a place's device. What is there stays as it is, and what is in the host's memory stays in that."""
    found = list(leaves)
    away = [
        index
        for index, leaf in enumerate(found)
        if not (isinstance(leaf, jax.Array) and (leaf.sharding == place.whole or leaf.sharding.device_set == place.whole.device_set))
    ]
    if away:
        kinds = [found[index].sharding.memory_kind if isinstance(found[index], jax.Array) else None for index in away]
        where = [place.whole if kind is None else place.whole.with_memory_kind(kind) for kind in kinds]
        for index, moved in zip(away, _jax.device_put([found[index] for index in away], where), strict=True):
            found[index] = moved
    return found


class OtherShapesError(Exception):
    """A program is given other shapes than those for which it was made."""


@final
class Single:
    """The program. Its trained parameters and the optimiser's state are donated, unless a stage calls Python: then it is waited for.

    Args: structure: of the state.
    """

    def __init__(self, compiled: Compiled, schedule: Schedule, how: Optimizing | None, structure: Any) -> None:
        self._compiled, self._schedule, self._how = compiled, schedule, how
        self._stages = compiled.traced.stages
        self._place = self._stages[0].place
        # What it calls in Python may raise when the program has been started: then the state must be there still.
        self._may_fail = any(calls_python(stage, training=how is not None) for stage in self._stages)
        self._structures = [stage.params_structure for stage in self._stages]
        self._trained = [update.trained for update in compiled.updates] or [() for _ in self._stages]
        self.structure = structure
        # Where in the state's leaves is what: each stage's trained parameters, the optimiser's states, the other parameters, `aux`.
        where: RunState = _jax.tree.unflatten(structure, range(structure.num_leaves))
        params = [_jax.tree.leaves(stage.params) for stage in where.stages]
        trained = [[own[place] for place in places] for own, places in zip(params, self._trained, strict=True)]
        # Tied parameters are the array of the first of them, whose memory is given up.
        tied = {(stage, place): tie[0] for tie in compiled.ties for stage, place in tie[1:]} if how is not None else {}
        self._copies = [(params[stage][place], params[owner][leaf]) for (stage, place), (owner, leaf) in tied.items()]
        self._tied = [{place: owner for (stage, place), owner in tied.items() if stage == index} for index in range(len(params))]
        rest = [
            [leaf for place, leaf in enumerate(own) if place not in places and place not in copies]
            for own, places, copies in zip(params, self._trained, self._tied, strict=True)
        ]
        states, aux = (
            ([stage.optimizer_state for stage in where.stages], where.joint),
            [_jax.tree.leaves(stage.aux) for stage in where.stages],
        )
        self._donated_at, self._donated_structure = _jax.tree.flatten((trained, states))
        self._kept_at, self._kept_structure = _jax.tree.flatten((rest, aux))
        self._made_at = [*self._donated_at, *_jax.tree.leaves(aux)]
        self._there: dict[int, Any] = {}  # shardings that are the device's, by their id
        self._kinds: list[Any] | None = None
        self._program: Any = _jax.jit(self._whole, donate_argnums=(0,) if how is not None and not self._may_fail else ())

    @property
    def stages(self) -> Sequence[Stage]:
        """The stages."""
        return self._stages

    @property
    def kinds(self) -> list[Any]:
        """The trees of what the stages of the last level return."""
        return [self._stages[stage].outputs for stage in self._schedule.levels[-1]]

    def run(self, leaves: list[Any], stacks: Sequence[Any], inputs: Any, key: Any) -> tuple[RunState, list[Any]]:
        """One run.

        Args: leaves: of the state. stacks: elements, each with an axis of microbatches; one after the other they are those of the run.
        Returns: (the new state, for each stage of the last level its outputs' leaves stacked; in training after it [the losses]).
        Raises: OtherShapesError. What a stage's Python raises, with a note.
        """
        donated, kept = [leaves[place] for place in self._donated_at], [leaves[place] for place in self._kept_at]
        data = None if key is None else _jax.random.key_data(key)
        given = self._here(donated), self._here(kept)
        columns = [self._here(_jax.tree.leaves(stack), of_host=bool(leaves)) for stack in stacks]
        data = None if data is None else self._here([data])
        made, outputs = self._started(*given, columns, self._here(_jax.tree.leaves(inputs)), data)
        new = list(leaves)
        for place, leaf in zip(self._kept_at, given[1], strict=True):
            new[place] = leaf
        for place, leaf in zip(self._made_at, made, strict=True):
            new[place] = leaf
        for place, owner in self._copies:
            new[place] = new[owner]
        return _jax.tree.unflatten(self.structure, new), outputs

    def _started(self, *given: Any) -> tuple[list[Any], list[Any]]:
        """What the program makes of this, and waited for if it may fail."""
        if not self._may_fail:
            return self._program(*given)
        try:
            return _jax.block_until_ready(self._program(*given))
        except OtherShapesError:
            raise
        except Exception as error:
            error.add_note('raised in the one program of all stages; with program="stages" a note names stage and microbatch')
            raise

    def _here(self, leaves: list[Any], *, of_host: bool = False) -> list[Any]:
        """Arrays on the device. Args: of_host: whether NumPy's may stay what they are: the program takes them to where the others are."""
        there = self._there
        for leaf in leaves:
            if id(getattr(leaf, "sharding", None)) not in there and not (of_host and type(leaf) is np.ndarray):
                break
        else:
            return leaves
        found = brought(leaves, self._place)
        if len(there) > _MOST_SHARDINGS:
            there.clear()
        for leaf in found:
            there[id(leaf.sharding)] = leaf.sharding
        return found

    def _params(self, trained: Sequence[Sequence[Any]], rest: Sequence[Sequence[Any]]) -> list[list[Any]]:
        """All leaves of each stage's parameters, from those that are trained and the others."""
        found: list[list[Any]] = []
        for structure, places, copies, own, others in zip(self._structures, self._trained, self._tied, trained, rest, strict=True):
            mine, left = dict(zip(places, own, strict=True)), iter(others)
            found.append([None if at in copies else mine[at] if at in mine else next(left) for at in range(structure.num_leaves)])
        for own, copies in zip(found, self._tied, strict=True):
            for place, (owner, leaf) in copies.items():
                own[place] = found[owner][leaf]
        return found

    # --------------------------------------------------------------------------------------------------------- traced

    def _whole(self, donated: list[Any], kept: list[Any], columns: Any, inputs: Any, key: Any) -> tuple[list[Any], Any]:
        """(what is new of the state, the outputs)."""
        kinds = [(leaf.shape, leaf.dtype) for leaf in _jax.tree.leaves((donated, kept, columns, inputs))]
        if self._kinds is not None and self._kinds != kinds:
            raise OtherShapesError
        self._kinds = kinds
        trained, states = _jax.tree.unflatten(self._donated_structure, donated)
        rest, aux = _jax.tree.unflatten(self._kept_structure, kept)
        given = trained, states, rest, aux, columns, inputs, None if key is None else key[0]
        *new, outputs = (self._inference if self._how is None else self._update)(*given)
        return _jax.tree.leaves(new), outputs

    def _forward(self, params: Sequence[Sequence[Any]], aux: Sequence[Any], inputs: Any, element: Any, key: Any, m: Any) -> tuple[Any, Any]:
        """(what each stage of the last level returns, the new auxiliary state) of one microbatch."""
        traced = self._compiled.traced
        returned: dict[int, list[Any]] = {}
        new: list[Any] = list(aux)
        trees: list[Any] = []
        for level, members in enumerate(self._schedule.levels):
            trees = []
            for number in members:
                first = [*inputs, *(leaf[None] for leaf in element)]
                given = first if not level else [returned[giver][source] for giver, source in traced.incoming[number]]
                extras = [key, m] if traced.keyed[number] else []
                tree = _jax.tree.unflatten(self._structures[number], params[number])
                outputs, after = self._stages[number].call(tree, [*given, *aux[number], *extras])
                returned[number], new[number] = _jax.tree.leaves(outputs), _jax.tree.leaves(after)
                trees.append(outputs)
        return trees, new

    def _scanned(self, step: Callable[[Any, Any], Any], start: Any, columns: Sequence[Any]) -> Any:
        rows: list[list[Any]] = [list(row) for row in zip(*columns, strict=True)]
        joined = [_jax.numpy.concatenate(row) if len(row) > 1 else row[0] for row in rows]
        return _jax.lax.scan(step, start, (np.arange(self._schedule.microbatches, dtype=np.int32), joined))

    def _inference(self, trained: Any, states: Any, rest: Any, aux: Any, columns: Any, inputs: Any, key: Any) -> tuple[Any, ...]:
        def step(aux: Any, numbered: Any) -> tuple[Any, Any]:
            m, element = numbered
            trees, new = self._forward(rest, aux, inputs, element, key, m)
            return new, [_jax.tree.leaves(tree) for tree in trees]

        aux, outputs = self._scanned(step, aux, columns)
        return trained, states, aux, outputs

    def _update(self, trained: Any, states: Any, rest: Any, aux: Any, columns: Any, inputs: Any, key: Any) -> tuple[Any, ...]:
        how, compiled = self._how, self._compiled
        assert how is not None  # it trains
        params = self._params(trained, rest)
        real = [[leaf for leaf in own if is_real(leaf)] for own in params]

        def loss(real: Any, aux: Any, element: Any, m: Any) -> tuple[Any, Any]:
            some = [iter(own) for own in real]
            full = [[next(mine) if is_real(leaf) else leaf for leaf in own] for own, mine in zip(params, some, strict=True)]
            trees, new = self._forward(full, aux, inputs, element, key, m)
            (outputs,) = trees
            return how.loss(*outputs), (_jax.tree.leaves(outputs), new)

        def step(carry: Any, numbered: Any) -> tuple[Any, Any]:
            accumulators, aux = carry
            m, element = numbered
            (value, (outputs, new)), gradients = _jax.value_and_grad(loss, has_aux=True)(real, aux, element, m)
            added = [accumulated(acc, own, m, how.reduction) for acc, own in zip(accumulators, gradients, strict=True)]
            return (added, new), (outputs, [value] if how.is_function else [])

        zeros = [update.start() for update in compiled.updates]
        (accumulators, aux), (outputs, values) = self._scanned(step, (zeros, aux), columns)
        for tie in compiled.ties:
            self._add_up(accumulators, tie)
        trained, states = self._updated(trained, states, accumulators, [leaf[-1] for leaf in outputs])
        return trained, states, aux, [outputs, values or outputs[:1]]

    def _add_up(self, accumulators: list[list[Any]], tie: Sequence[tuple[int, int]]) -> None:
        (owner, leaf), *others = tie
        index = self._stages[owner].real_params.index(leaf)
        for stage, place in others:
            gradient = accumulators[stage][self._stages[stage].real_params.index(place)]
            accumulators[owner][index] += gradient.astype(accumulators[owner][index].dtype)

    def _updated(self, trained: Any, states: Any, accumulators: Any, outputs: Sequence[Any]) -> tuple[Any, Any]:
        compiled = self._compiled
        mine = [
            [own[stage.real_params.index(place)] for place in update.trained]
            for own, stage, update in zip(accumulators, self._stages, compiled.updates, strict=True)
        ]
        each, joint = states
        if compiled.joint is not None:
            new, joint = compiled.joint.inline(trained, joint, mine, [outputs[place] for place in compiled.joint.extras])
            return new, (each, joint)
        new, after = [], []
        for update, own, state, gradients in zip(compiled.updates, trained, each, mine, strict=True):
            leaves, state, _ = update.function(own, state, gradients, [outputs[place] for place in update.extras])
            new.append(leaves)
            after.append(state)
        return new, (after, joint)
