"""Pipelines: a model in stages on several devices, which work on different microbatches at once."""

from __future__ import annotations

import contextlib
import functools
import itertools
import operator
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, cast, final

import jax
from jax.sharding import SingleDeviceSharding

from tilestep import hints
from tilestep.train.accumulation import AccumulationState, Choice, Reduction
from tilestep.train.body import arguments_of, name_of
from tilestep.train.infeed_queue import InfeedQueue
from tilestep.train.numbers import whole_number
from tilestep.train.outfeed_queue import OutfeedQueue
from tilestep.train.pipeline_engine import Engine, StageState
from tilestep.train.recompute import Recompute, recomputed, require_recompute
from tilestep.train.schedule import Schedule
from tilestep.train.schedules import SCHEDULES

if TYPE_CHECKING:
    import optax

_REDUCTIONS: Final = ("sum", "mean", "running_mean")

_serial = itertools.count(1)  # of pipelines: each is a program of its own

_jax: Any = jax  # whose types say nothing of what is in a tree

StageFunction = Callable[..., Any]


@functools.partial(_jax.tree_util.register_dataclass, data_fields=("params", "optimizer_state"), meta_fields=())
@dataclass(frozen=True, kw_only=True)
class PipelineState:
    """What a pipeline trains, a pytree.

    Attributes:
        params: a list with one pytree for each stage, with a list of them for concurrent stages; each on its stage's device.
        optimizer_state: likewise; None in inference.
    """

    params: list[Any]
    optimizer_state: list[Any] | None


@final
class Pipeline:
    """A model in stages.

    The first stage gets the run's `inputs`, then the microbatch's element (a tuple's or list's items, or a mapping's as keywords); each
    later one the outputs of the one before, a tuple's items as separate arguments. Concurrent stages all get the same, and their outputs
    are concatenated in order. In training the last stage returns the loss, a real scalar, or (loss, outputs).

    Args:
        stages: functions (params, *args) -> outputs; a list of them stands for concurrent stages. What a stage computes with comes as an
            argument: an array that its function has captured is refused when it is traced.
        optimizer: any of optax that treats each stage's parameters by themselves; None: inference.
        gradient_accumulation_count: microbatches of one update.
        pipeline_schedule: a name of `tilestep.train.schedules.SCHEDULES`, or a Schedule for so many stages and microbatches.
        reduction: of the microbatches' gradients: "sum", "mean" or "running_mean".
        devices: None: `jax.devices()`.
        device_mapping: for each stage the index of its device, with lists for concurrent stages; None: one after the other.
        recompute: what backward computes again rather than keeps: None, "full", a `jax.checkpoint` policy, or names of checkpoints.
        gradient_accumulation_dtype: of the accumulators: None (the variable's), a dtype, or a function of (path, variable).
        strict: whether counts are refused with which the schedule wastes slots.
    Raises: TypeError, ValueError for arguments that cannot be.
    """

    def __init__(
        self,
        stages: Sequence[StageFunction | Sequence[StageFunction]],
        optimizer: optax.GradientTransformation | None = None,
        gradient_accumulation_count: int = 1,
        *,
        pipeline_schedule: str | Schedule = "grouped",
        reduction: Reduction = "sum",
        devices: Sequence[Any] | None = None,
        device_mapping: Sequence[int | Sequence[int]] | None = None,
        recompute: Recompute = None,
        gradient_accumulation_dtype: Any | Choice = None,
        strict: bool = True,
    ) -> None:
        self._levels = _levels(stages)
        self._training = optimizer is not None
        if self._training and len(self._levels[-1]) > 1:
            raise ValueError(
                f"the last stage is {len(self._levels[-1])} concurrent ones: in training it must be one that returns the loss; add a stage"
            )
        count = whole_number("gradient_accumulation_count", gradient_accumulation_count, least=1)
        if reduction not in _REDUCTIONS:
            raise ValueError(f"reduction is {reduction!r}: it must be one of {', '.join(_REDUCTIONS)}")
        require_recompute(recompute)
        mapping = _mapping(device_mapping, self._levels)
        self._devices = tuple(jax.devices() if devices is None else devices)
        wrong = [index for index in mapping if index >= len(self._devices)]
        if wrong:
            raise ValueError(
                f"device_mapping names device {wrong[0]}, but there are {len(self._devices)}, from 0 on: give more devices, "
                "or stages that share one"
            )
        self._schedule = _schedule(pipeline_schedule, self._levels, count, mapping, training=self._training, strict=strict)
        functions = [recomputed(function, recompute) if recompute is not None else function for level in self._levels for function in level]
        used = list(dict.fromkeys(mapping))
        self._engine = Engine(
            functions=functions,
            names=[name_of(function) for level in self._levels for function in level],
            devices=[self._devices[index] for index in mapping],
            schedule=self._schedule,
            optimizer=optimizer,
            reduction=reduction,
            accumulator_dtype=gradient_accumulation_dtype,
        )
        self._first = self._devices[used[0]]
        self._group = f"pipeline {next(_serial)}"

    @property
    def schedule(self) -> Schedule:
        """The order of tasks of one update."""
        return self._schedule

    def init(self, params: Sequence[Any]) -> PipelineState:
        """The state before the first update: copies of the parameters, each on its stage's device.

        Args: params: a list with one pytree for each stage, with a list of them for concurrent stages.
        Raises: ValueError if there are more or fewer than stages, or the optimiser accumulates by itself.
        """
        state = self._state(self._engine.init(_flat(params, self._levels, "params")))
        if _accumulates(state.optimizer_state):
            raise ValueError(
                "the optimizer is wrapped in gradient_accumulation(), but a pipeline accumulates by itself: give it the bare optimizer, "
                "and the count as gradient_accumulation_count"
            )
        return state

    def step(self, state: PipelineState, microbatches: Any, *, inputs: Sequence[Any] = ()) -> tuple[PipelineState, Any]:
        """One update, or in inference one round.

        Args:
            state: its arrays are donated.
            microbatches: a pytree of arrays whose first axis is `gradient_accumulation_count`.
            inputs: further arguments of the first stage, before the element: the same for all microbatches.
        Returns: (the new state, what the last stage returned, along a new first axis).
        Raises: ValueError for another number of microbatches. What a stage raises when it is traced, with its number.
        """
        count = self._schedule.microbatches
        leaves = _jax.tree.leaves(microbatches)
        wrong = [leaf.shape for leaf in leaves if not getattr(leaf, "ndim", 0) or leaf.shape[0] != count]
        if wrong or not leaves:
            found = f"an array of shape {wrong[0]}" if wrong else "no arrays"
            raise ValueError(f"microbatches has {found}: the first axis of each must be the {count} microbatches of an update")
        elements = (_jax.tree.map(operator.itemgetter(slice(m, m + 1)), microbatches) for m in range(count))
        with self._one_program():
            return self._run(state, elements, inputs)

    def run(
        self,
        state: PipelineState,
        infeed: InfeedQueue,
        outfeed: OutfeedQueue | None = None,
        *,
        inputs: Sequence[Any] = (),
        repeat_count: int = 1,
    ) -> PipelineState:
        """`repeat_count` updates with elements of a queue, one for each microbatch.

        Args:
            state: its arrays are donated.
            outfeed: gets what the last stage returns, one element for each microbatch.
            inputs: as `step` has.
        Returns: the new state. Its arrays may still be being computed.
        Raises: as `step` does, and what the dataset raises. QueueError for a feed that is closed or in use.
        """
        updates = whole_number("repeat_count", repeat_count, least=0)
        count = self._schedule.microbatches
        user = f"a pipeline of {self._schedule.stages} stages"
        infeed.reserve(user)
        try:
            if outfeed is not None:
                outfeed.reserve(user)
            try:
                if updates:
                    infeed.begin(chunk_steps=1, steps=updates * count, carry_place=SingleDeviceSharding(self._first))
                with self._one_program():
                    for _ in range(updates):
                        if outfeed is not None:
                            outfeed.make_room(count)
                        elements = (infeed.take().on_device for _ in range(count))
                        state, outputs = self._run(state, elements, inputs)
                        if outfeed is not None:
                            outfeed.deliver(outputs, count)
            finally:
                if outfeed is not None:
                    outfeed.release()
        finally:
            infeed.release()
        return state

    def _one_program(self) -> AbstractContextManager[None]:
        """All that a run starts is one program per device to an emulated machine, unless the caller says what is."""
        return contextlib.nullcontext() if hints.current_group() else hints.program_group(self._group)

    def _run(self, state: PipelineState, elements: Iterable[Any], inputs: Sequence[Any]) -> tuple[PipelineState, Any]:
        params = _flat(state.params, self._levels, "state.params")
        optimizer_state = None if state.optimizer_state is None else _flat(state.optimizer_state, self._levels, "state.optimizer_state")
        stages = [
            StageState(params=own, optimizer_state=None if optimizer_state is None else optimizer_state[stage])
            for stage, own in enumerate(params)
        ]
        calls = ((tuple(inputs), *arguments_of(element)) for element in elements)
        new, outputs = self._engine.run(stages, calls)
        return self._state(new), outputs

    def _state(self, stages: Sequence[StageState]) -> PipelineState:
        nested: Callable[[list[Any]], list[Any]] = lambda flat: _nested(flat, self._levels)  # noqa: E731
        return PipelineState(
            params=nested([stage.params for stage in stages]),
            optimizer_state=nested([stage.optimizer_state for stage in stages]) if self._training else None,
        )


def _accumulates(tree: Any) -> bool:
    """Whether an optimiser's state has an accumulation of its own."""
    found = _jax.tree.leaves(tree, is_leaf=lambda node: isinstance(node, AccumulationState))
    return any(isinstance(node, AccumulationState) for node in found)


def _levels(stages: Any) -> tuple[tuple[StageFunction, ...], ...]:
    """Raises: TypeError, ValueError if they are no stages."""
    if not isinstance(stages, list | tuple):
        raise TypeError(f"stages is a {type(stages).__name__}: it must be a list of functions")
    levels: list[tuple[StageFunction, ...]] = []
    for index, entry in enumerate(cast("Sequence[Any]", stages)):
        members = tuple(cast("Sequence[Any]", entry)) if isinstance(entry, list | tuple) else (entry,)
        if not members:
            raise ValueError(f"stages[{index}] is empty: a list of concurrent stages has at least one")
        for member in members:
            if isinstance(member, list | tuple):
                raise TypeError(f"stages[{index}] has a list within a list: concurrent stages are not nested")
            if not callable(member):
                raise TypeError(f"stages[{index}] is or has a {type(member).__name__}: stages are functions (params, *args) -> outputs")
        levels.append(members)
    if not levels:
        raise ValueError("stages is empty: a pipeline has at least one stage")
    return tuple(levels)


def _mapping(device_mapping: Any, levels: Sequence[Sequence[Any]]) -> tuple[int, ...]:
    """Each stage's device. Raises: TypeError, ValueError."""
    if device_mapping is None:
        return tuple(range(sum(map(len, levels))))
    if not isinstance(device_mapping, list | tuple):
        raise TypeError(f"device_mapping is a {type(device_mapping).__name__}: it must be a list with a device's index for each stage")
    return tuple(
        whole_number("an entry of device_mapping", index, least=0)
        for index in _flat(cast("Sequence[Any]", device_mapping), levels, "device_mapping")
    )


def _flat(nested: Sequence[Any], levels: Sequence[Sequence[Any]], what: str) -> list[Any]:
    """One entry for each stage. Raises: ValueError if there are more or fewer."""
    if len(nested) != len(levels):
        raise ValueError(f"{what} has {len(nested)} entries, but there are {len(levels)} stages: give one for each")
    flat: list[Any] = []
    for index, (entry, members) in enumerate(zip(nested, levels, strict=True)):
        if len(members) == 1:
            flat.append(entry)
            continue
        if not isinstance(entry, list | tuple) or len(cast("Sequence[Any]", entry)) != len(members):
            raise ValueError(f"{what}[{index}] must be a list with one entry for each of the {len(members)} concurrent stages")
        flat += cast("Sequence[Any]", entry)
    return flat


def _nested(flat: Sequence[Any], levels: Sequence[Sequence[Any]]) -> list[Any]:
    rest = iter(flat)
    return [next(rest) if len(members) == 1 else [next(rest) for _ in members] for members in levels]


def _schedule(
    wanted: Any, levels: Sequence[Sequence[Any]], count: int, mapping: Sequence[int], *, training: bool, strict: bool
) -> Schedule:
    """Raises: TypeError, ValueError."""
    numbers = {index: place for place, index in enumerate(sorted(set(mapping)))}
    compact = [numbers[index] for index in mapping]
    sizes = [len(members) for members in levels]
    if isinstance(wanted, Schedule):
        if tuple(map(len, wanted.levels)) != tuple(sizes):
            raise ValueError(
                f"the schedule {wanted.name} is for levels of {tuple(map(len, wanted.levels))} stages, these are {tuple(sizes)}"
            )
        if wanted.microbatches != count:
            raise ValueError(
                f"the schedule {wanted.name} is for {wanted.microbatches} microbatches, gradient_accumulation_count is {count}"
            )
        if wanted.training != training:
            raise ValueError(f"the schedule {wanted.name} is for {'training' if wanted.training else 'inference'}: see optimizer")
        return wanted
    if not isinstance(wanted, str):
        raise TypeError(f"pipeline_schedule is a {type(wanted).__name__}: it must be a Schedule or a name: {', '.join(SCHEDULES)}")
    if wanted not in SCHEDULES:
        raise ValueError(f"pipeline_schedule is {wanted!r}: it must be a Schedule or one of {', '.join(SCHEDULES)}")
    if wanted == "looped":
        devices = max(compact) + 1
        if compact != [stage % devices for stage in range(len(compact))] or max(sizes) > 1:
            raise ValueError(
                f"the looped schedule goes round all devices: device_mapping must be {[s % devices for s in range(len(compact))]}"
            )
        return SCHEDULES[wanted](devices, count, rounds=len(compact) // devices, strict=strict)
    options: dict[str, Any] = {"device_mapping": compact, "strict": strict}
    if not training:
        if wanted not in ("sequential", "grouped", "interleaved"):
            raise ValueError(f"the {wanted} schedule is for training: give an optimizer, or choose sequential, grouped or interleaved")
        options["training"] = False
    return SCHEDULES[wanted](sizes, count, **options)
