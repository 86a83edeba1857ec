"""Collects what is watched in one run: rows of microbatches, totals that programs carry on, and parameters after updates."""

import functools
from collections.abc import Sequence
from typing import Any, Final, NamedTuple, final

import jax

from tilestep.train.offload import on_device
from tilestep.train.pipeline.compile.programs import CompiledPipeline
from tilestep.train.pipeline.compile.stage import Stage
from tilestep.train.pipeline.compile.watched.stage_watch import NOTHING, StageWatch, WatchedValue, rows_of, totals_of
from tilestep.train.pipeline.compile.watched.watch_keys import Key, Parameter, WatchList
from tilestep.train.schedules.schedule import Schedule
from tilestep.train.untyped import Spec
from tilestep.train.untyped import jax as _jax

Arrays = Sequence[jax.Array]


class Watched(NamedTuple):
    """What `step` gives of a pipeline that watches something, a pytree.

    Attributes:
        outputs: the last stage's results, as without a watch.
        values: what is watched, by the keys of `Pipeline(watch=...)`. "all": `[gradient_accumulation_count, ...]`, and of a parameter
            `[updates, ...]`; with several replicas marked values and gradients have a second axis of them. "last", "sum": the same without
            the first axis.
    """

    outputs: Any
    values: dict[Any, jax.Array]


class _Half(NamedTuple):
    """What programs of one kind of one stage give."""

    rows: list[WatchedValue]  # rows, totals: what is in each of their lists
    totals: list[WatchedValue]


def _halves(stage: Stage, *, is_one: bool) -> tuple[_Half, _Half]:
    """Of forward and backward. Args: is_one: whether they are one program, whose results are all in the first."""
    watch = stage.watch
    first, second = ((*watch.values, *watch.gradients), ()) if is_one else (watch.values, watch.gradients)
    return _Half(rows_of(first), totals_of(first)), _Half(rows_of(second), totals_of(second))


@final
class Sightings:
    """What is watched in one run.

    Args: schedule: the order of tasks.
    """

    def __init__(self, compiled: CompiledPipeline, schedule: Schedule) -> None:
        self._compiled, self._count, self._updates = compiled, schedule.microbatches, rows_of_updates(schedule)
        stages = compiled.traced.stages
        self._halves_of_watched_stages = {
            number: _halves(stage, is_one=compiled.last is not None and stage is stages[-1])
            for number, stage in enumerate(stages)
            if stage.watch != NOTHING
        }
        self._totals: list[tuple[list[Any], list[Any]]] = [([], []) if begin is None else begin() for begin in compiled.totals]
        self._columns: dict[Key, list[Any]] = {}  # a value for each microbatch, or each update
        self._reduced: dict[Key, Any] = {}
        self._done = [0] * len(stages)  # updates

    def totals(self, stage: int, half: int) -> list[jax.Array]:
        """The totals that the next program of a stage takes, and donates. Args: half: 0 for forward, 1 for backward."""
        totals, begin = self._totals[stage][half], self._compiled.totals[stage]
        if begin is not None and any(total is None for total in totals):  # the schedule does another microbatch after the last one
            totals[:] = [zero if total is None else total for total, zero in zip(totals, begin()[half], strict=True)]
        return totals

    def saw(self, stage: int, half: int, microbatch: int, rows: Arrays, totals: Sequence[jax.Array]) -> None:
        """What a program has returned."""
        of = self._halves_of_watched_stages[stage][half]
        self._totals[stage][half][:] = totals
        for seen, row in zip(of.rows, rows, strict=True):
            self._columns.setdefault(seen.key, [None] * self._count)[microbatch] = row
        if microbatch == self._count - 1:
            for index, seen in enumerate(of.totals):
                if seen.how == "last":
                    self._reduced[seen.key], self._totals[stage][half][index] = totals[index], None

    def updated(self, stage: int, params: Arrays) -> None:
        """A stage has been updated. The next update donates its parameters, so what is watched of them is copied."""
        self._done[stage] += 1
        for seen in self._compiled.traced.stages[stage].watch.params:
            leaf = params[seen.leaf]
            if seen.how == "all":
                self._columns.setdefault(seen.key, []).append(watched_copy(leaf))
            elif seen.how == "sum" and seen.key in self._reduced:
                self._reduced[seen.key] = watched_sum(self._reduced[seen.key], leaf)
            elif seen.how == "sum" or self._done[stage] == self._updates:
                self._reduced[seen.key] = watched_copy(leaf)

    def values(self) -> dict[Key, jax.Array]:
        """All of it."""
        found = dict(self._reduced)
        for number, of_stage in self._halves_of_watched_stages.items():
            for of, totals in zip(of_stage, self._totals[number], strict=True):
                found |= {seen.key: total for seen, total in zip(of.totals, totals, strict=True) if seen.how == "sum"}
            keys = [seen.key for seen in _all_of(self._compiled.traced.stages[number].watch) if seen.how == "all"]
            if keys:
                found |= zip(keys, watched_rows([self._columns[key] for key in keys]), strict=True)
        return found


def _all_of(watch: StageWatch) -> tuple[WatchedValue, ...]:
    return (*watch.values, *watch.gradients, *watch.params)


def in_order(watch: WatchList, found: dict[Key, Any]) -> dict[Key, Any]:
    """The same in the author's order."""
    return {key: found[key] for key, _ in watch.entries}


@final
class WatchedResults:
    """What a queue gets of what is watched.

    Attributes:
        watch: what is watched.
        elements: how many of one run: one for each microbatch if everything that is watched has a row for each, else one.
    """

    def __init__(self, watch: WatchList, schedule: Schedule) -> None:
        self.watch: Final = watch
        updates = rows_of_updates(schedule)
        rows = {0 if how != "all" else updates if isinstance(key, Parameter) else schedule.microbatches for key, how in watch.entries}
        self._has_rows = rows == {schedule.microbatches}
        self.elements: Final = schedule.microbatches if self._has_rows else 1

    def for_queue(self, values: dict[Key, jax.Array]) -> dict[Key, jax.Array]:
        """With an axis of elements."""
        return values if self._has_rows else {key: value[None] for key, value in values.items()}


def rows_of_updates(schedule: Schedule) -> int:
    """How often a run updates each parameter."""
    return 1 if schedule.weights == "same" else schedule.microbatches


def specs_of(stages: Sequence[Stage], watch: WatchList, schedule: Schedule) -> dict[Key, Spec]:
    """Shapes and dtypes of what one run gives."""
    found: dict[Key, Any] = {}
    for stage in stages:
        of = stage.watch
        for seen in _all_of(of):
            rows = rows_of_updates(schedule) if seen.leaf >= 0 else schedule.microbatches
            replicas = stage.placement.replicas if seen.leaf < 0 else None
            axes = (*((rows,) if seen.how == "all" else ()), *(() if replicas is None else (replicas.count,)))
            found[seen.key] = jax.ShapeDtypeStruct((*axes, *seen.shape), seen.dtype)
    return in_order(watch, found)


@_jax.jit
def watched_rows(columns: Sequence[Sequence[jax.Array]]) -> list[jax.Array]:
    """The rows of all microbatches. Traces of emulated machines have it by its name."""
    return [_jax.numpy.stack(column) for column in columns]


@_jax.jit
def watched_copy(leaf: jax.Array) -> jax.Array:
    """A parameter that the next update may donate."""
    return _jax.numpy.copy(on_device(leaf))


@functools.partial(_jax.jit, donate_argnums=0)
def watched_sum(total: jax.Array, leaf: jax.Array) -> jax.Array:
    """With the parameter after one more update."""
    return total + on_device(leaf)
