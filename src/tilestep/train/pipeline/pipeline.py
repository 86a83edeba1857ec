"""Pipelines: a model in stages on several devices, which work on different microbatches at once."""

from __future__ import annotations

import contextlib
import functools
import itertools
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, final

import jax
from jax.sharding import Mesh

from tilestep import hints
from tilestep.train.calling import name_of
from tilestep.train.feeds.infeed_queue import InfeedQueue
from tilestep.train.feeds.outfeed_queue import OutfeedQueue
from tilestep.train.gradients.accumulation import Choice, Reduction
from tilestep.train.gradients.recompute import Recompute, recomputed, require_recompute
from tilestep.train.numbers import whole_number
from tilestep.train.offload import Offload
from tilestep.train.other_arguments import belongs_to, devices_of, refuse_misplaced, require_kind
from tilestep.train.pipeline.arguments import (
    StageFunction,
    accumulates,
    entries_of,
    flat,
    levels_of,
    mask_of,
    nested,
    offloaded_of,
    require_optimizer,
    require_replicas,
    schedule_of,
    ties_of,
    typed_key,
)
from tilestep.train.pipeline.compile.placement import places_of
from tilestep.train.pipeline.compile.tracing import Function, wants_key
from tilestep.train.pipeline.compile.updates import Optimizing
from tilestep.train.pipeline.run.batches import Batch, Stacked, Taken
from tilestep.train.pipeline.run.engine import Engine
from tilestep.train.pipeline.run.one_program import PROGRAMS, Which
from tilestep.train.pipeline.run.processes import Processes, Unfed
from tilestep.train.pipeline.run.progress import Progress
from tilestep.train.pipeline.run.results import Results
from tilestep.train.pipeline.run.state import RunState, StageState
from tilestep.train.schedules.schedule import Schedule
from tilestep.train.untyped import jax as _jax

if TYPE_CHECKING:
    import optax

_REDUCTIONS: Final = ("sum", "mean", "running_mean")

_serial = itertools.count(1)  # of pipelines: each is a program of its own


@functools.partial(_jax.tree_util.register_dataclass, data_fields=("state",), meta_fields=())
@dataclass(frozen=True, kw_only=True)
class JointState:
    """The state of an optimiser that looks across stages, a pytree: it is for all stages' parameters, each array where it is used."""

    state: Any


@functools.partial(_jax.tree_util.register_dataclass, data_fields=("params", "optimizer_state", "aux"), meta_fields=())
@dataclass(frozen=True, kw_only=True)
class PipelineState:
    """What a pipeline trains, a pytree.

    Attributes:
        params: a list with one pytree for each stage, with a list of them for concurrent stages; each on its stage's device.
        optimizer_state: likewise; a JointState where the optimiser looks across stages. None in inference, and before the first update
            if the optimiser is a function of what the last stage returns.
        aux: the stages' auxiliary state, as `params`; None if there is none. With several replicas each array has a leading axis of them.
    """

    params: list[Any]
    optimizer_state: list[Any] | JointState | None
    aux: list[Any] | None = None


@final
class Pipeline:
    """A model in stages.

    The first stage gets the run's `inputs`, then the microbatch's element (a tuple's or list's items, or a mapping's as keywords); each
    later one the outputs of the one before, a tuple's items as separate arguments. Concurrent stages all get the same, and their outputs
    are concatenated in order. In training the last stage returns the loss, a real scalar, or (loss, outputs).

    A stage with auxiliary state (see `init`) is called `stage(params, aux, ...)` and returns (outputs, the new aux). It has no gradients.
    A stage that has a keyword-only parameter `key` gets a random key there, which is another one for each stage, microbatch and replica,
    and the same whatever the schedule.

    Args:
        stages: functions (params, *args) -> outputs; a list of them stands for concurrent stages. What a stage computes with comes as an
            argument: an array that its function has captured is refused when it is traced.
        optimizer: any of optax; or a function of what the last stage returns, which returns (one of optax, the loss) and so may take
            a learning rate from the run's inputs. One that looks across stages (clipping by the global norm) computes together only what
            comes from several. None: inference.
        gradient_accumulation_count: microbatches of one update.
        pipeline_schedule: a name of `tilestep.train.schedules.SCHEDULES`, or a Schedule for so many stages and microbatches.
        reduction: of the microbatches' gradients: "sum", "mean" or "running_mean".
        devices: None: `jax.devices()`.
        device_mapping: for each stage the index of its device, with lists for concurrent stages; None: one after the other. In place of an
            index there may be a tuple of several, or a mesh: the stage's arrays are then divided as those that `init` gets are, and its
            arguments are there as a whole.
        replicas: so many times the devices: replica r has those from r times as many on as one has. Each has its own elements; an update is
            of the mean of their gradients. A mesh in device_mapping has an axis "replica" of so many.
        recompute: what backward computes again rather than keeps: None, "full", a `jax.checkpoint` policy, or names of checkpoints.
        gradient_accumulation_dtype: of the accumulators: None (the variable's), a dtype, or a function of (path, variable).
        offload_optimizer_state: what is in the host's memory while it is not used, as `offloaded` has it; a mapping may have entries for
            "accumulators" and "parameters" too.
        offload_activations: whether what stages keep for backward is in the host's memory meanwhile: False, True, or for which stages,
            by their numbers from 0 on.
        shard_optimizer_state: whether each replica keeps its part of the optimiser's state only, see `sharded`.
        tied: parameters that are one: a list of lists of paths (stage, key, ...), or ((stage, member), key, ...) among concurrent ones.
            Gradients are summed, the first of them is updated, and the others are copies of it: on the same devices the same array.
        outfeed_loss: whether `step` and the outfeed get the loss alone.
        outfeed_mask: of each item that the last stage returns, whether it is hidden from them.
        accumulate_outfeed: whether they get the sums over an update's microbatches, whatever `reduction` is.
        accumulate_outfeed_dtype: of these sums; None: the values' own.
        check_nans: whether every output and gradient must be finite, which is looked at before each update.
        program: "stages": a program for each task. "single": one for an update, on the first stage's device, that does one microbatch
            after the other. "auto": the latter if there is one device only, or if starting tasks is what takes the time: the second run
            is measured, and if so the next two are done by one program to see which is faster. On `ipu` always the former.
        strict: whether counts are refused with which the schedule wastes slots.
    Raises: TypeError, ValueError for arguments that cannot be.
    """

    def __init__(
        self,
        stages: Sequence[StageFunction | Sequence[StageFunction]],
        optimizer: optax.GradientTransformation | Callable[..., tuple[optax.GradientTransformation, Any]] | None = None,
        gradient_accumulation_count: int = 1,
        *,
        pipeline_schedule: str | Schedule = "grouped",
        reduction: Reduction = "sum",
        devices: Sequence[Any] | None = None,
        device_mapping: Sequence[int | Mesh | Sequence[int | Mesh | Sequence[int]]] | None = None,
        replicas: int = 1,
        recompute: Recompute = None,
        gradient_accumulation_dtype: Any | Choice = None,
        offload_optimizer_state: Offload = None,
        offload_activations: bool | Sequence[int] = False,
        shard_optimizer_state: bool = False,
        tied: Sequence[Sequence[Any]] = (),
        outfeed_loss: bool = False,
        outfeed_mask: Sequence[bool] | None = None,
        accumulate_outfeed: bool = False,
        accumulate_outfeed_dtype: Any = None,
        check_nans: bool = False,
        program: Which = "auto",
        strict: bool = True,
    ) -> None:
        self._levels = levels_of(stages)
        must = "a transformation of optax, or a function that returns one"
        refuse_misplaced("optimizer", optimizer, must, "gradient_accumulation_count", "devices", "mesh")
        self._training = optimizer is not None
        if self._training and len(self._levels[-1]) > 1:
            raise ValueError(
                f"the last stage is {len(self._levels[-1])} concurrent ones: in training it must be one that returns the loss; add "
                "a stage, as in [embed, [left, right], loss]"
            )
        hint = belongs_to(gradient_accumulation_count, "pipeline_schedule", "devices", "optimizer")
        count = whole_number("gradient_accumulation_count", gradient_accumulation_count, least=1, hint=hint)
        if program not in PROGRAMS:
            raise ValueError(f"program is {program!r}: it must be one of {', '.join(PROGRAMS)}")
        if reduction not in _REDUCTIONS:
            raise ValueError(f"reduction is {reduction!r}: it must be one of {', '.join(_REDUCTIONS)}")
        require_recompute(recompute)
        entries = entries_of(device_mapping, self._levels)
        self._replicas = whole_number("replicas", replicas, least=1, hint=belongs_to(replicas, "devices", "mesh"))
        known = tuple(jax.devices()) if devices is None else devices_of(devices)
        places = places_of(entries, known, self._replicas)
        several = not all(place.is_here for place in places)
        rank: dict[Any, int] = {device: index for index, device in enumerate(known)}
        number = len(places)
        self._schedule = schedule_of(
            pipeline_schedule,
            self._levels,
            count,
            [rank.get(place.devices[0], len(known) + int(place.devices[0].id)) for place in places],
            training=self._training,
            strict=strict,
            offloaded=list(range(number)) if offload_activations is True else offloaded_of(offload_activations),
        )
        ties = ties_of(tied, self._levels)
        optimizing = None
        if optimizer is not None:
            require_optimizer(optimizer, offload_optimizer_state, shard=shard_optimizer_state, replicas=self._replicas)
            # Where each microbatch has an update of its own, its gradient is all there is to reduce.
            same = self._schedule.weights == "same"
            if ties and not same:
                raise ValueError(
                    f"tied parameters are updated at one time, but the {self._schedule.name} schedule updates each stage at another: give "
                    "a schedule whose weights stay the same within a run"
                )
            optimizing = Optimizing(
                optimizer=optimizer,
                per_update=count if same else 1,
                reduction=reduction,
                accumulator_dtype=gradient_accumulation_dtype,
                offload=offload_optimizer_state,
                shard=shard_optimizer_state,
                keep=self._schedule.weights == "stashed",
                again=not same,
            )
        self._results = Results(
            schedule=self._schedule,
            training=self._training,
            loss=outfeed_loss,
            mask=None if outfeed_mask is None else mask_of(outfeed_mask),
            summed=accumulate_outfeed,
            dtype=accumulate_outfeed_dtype,
        )
        self._processes = None
        if several:
            self._processes = Processes(places, first=len(self._levels[0]), commits_last=self._schedule.weights != "same")
        self._engine = Engine(
            functions=[
                Function(
                    function=function if recompute is None else recomputed(function, recompute),
                    name=name_of(function),
                    place=place,
                    wants_key=wants_key(function),
                )
                for function, place in zip((function for level in self._levels for function in level), places, strict=True)
            ],
            schedule=self._schedule,
            optimizing=optimizing,
            ties=ties,
            nest=functools.partial(nested, levels=self._levels),
            check_nans=check_nans,
            which=program,
            processes=self._processes,
        )
        self._first = places[0]
        self._last = places[-len(self._levels[-1]) :]
        self._group = f"pipeline {next(_serial)}"

    def __repr__(self) -> str:
        names = "; ".join(", ".join(map(name_of, level)) for level in self._levels)
        return f"<Pipeline: {names}; {self._schedule}>"

    @property
    def schedule(self) -> Schedule:
        """The order of tasks of one update."""
        return self._schedule

    def init(self, params: Sequence[Any], aux: Sequence[Any] | None = None) -> PipelineState:
        """The state before the first update: copies of the parameters, each on its stage's device.

        Args:
            params: a list with one pytree for each stage, with a list of them for concurrent stages. For stages of other processes shapes
                and dtypes are enough (`jax.ShapeDtypeStruct`).
            aux: likewise, what a stage has beside parameters and changes by itself, such as statistics of its batches; None for stages that
                have nothing. With several replicas each begins with a copy, and goes on with its own.
        Raises: ValueError if there are more or fewer than stages, tied parameters are unlike, or the optimiser accumulates by itself.
        """
        with self._together(), self._one_program(f"{self._group}'s first state"):
            number = sum(map(len, self._levels))
            own_aux = [None] * number if aux is None else flat(aux, self._levels, "aux")
            state = self._state(self._engine.init(flat(params, self._levels, "params"), own_aux))
            if accumulates(state.optimizer_state):
                raise ValueError(
                    "the optimizer is wrapped in gradient_accumulation(), but a pipeline accumulates by itself: give it the bare "
                    "optimizer, and the count as gradient_accumulation_count"
                )
            if self._processes is not None:
                self._processes.agree("has placed the parameters")
            return state

    def step(self, state: PipelineState, microbatches: Any, *, inputs: Sequence[Any] = (), key: Any = None) -> tuple[PipelineState, Any]:
        """One update, or in inference one round.

        Args:
            state: its arrays are donated.
            microbatches: a pytree of arrays whose first axis is `gradient_accumulation_count`; with several replicas the second is theirs.
                Of several processes only that of the first stage looks at it.
            inputs: further arguments of the first stage, before the element: the same for all microbatches.
            key: a random key from which the stages' are made (`jax.random.key`); another one for each step.
        Returns: (the new state, what the last stage returned, along a new first axis; with several replicas the second is theirs).
        Raises: ValueError, TypeError or OverflowError for what does not fit. What a stage raises, with a note that names stage and
            microbatch; NotFiniteError if asked for; LoopInterrupt at Ctrl-C, when the update is done; ProcessFailedError if another
            process has failed. Each has as `state` the state after the last finished update, or None if its arrays are lost.
        """
        progress = Progress(state, name=self._name, count=self._schedule.microbatches, updates=1, bar=False)
        with progress, self._together(), self._one_program():
            found = self._run(state, self._batch(microbatches, tuple(inputs)), key, progress)
            with progress.noting():
                progress.did(*found)
            progress.check()
        return progress.state, progress.outputs

    def _batch(self, microbatches: Any, inputs: tuple[Any, ...]) -> Batch:
        """Raises: ValueError for arrays of another number of microbatches or replicas."""
        if self._processes is not None and not self._processes.feeds:
            return Unfed(inputs)
        refuse_misplaced("microbatches", microbatches, "arrays; run() takes elements of a queue", "infeed")
        count = self._schedule.microbatches
        leaves = _jax.tree.leaves(microbatches)
        wrong = [leaf.shape for leaf in leaves if not getattr(leaf, "ndim", 0) or leaf.shape[0] != count]
        if wrong or not leaves:
            found = f"an array of shape {wrong[0]}" if wrong else "no arrays"
            raise ValueError(f"microbatches has {found}: the first axis of each must be the {count} microbatches of an update")
        several = [leaf.shape for leaf in leaves if self._replicas > 1 and leaf.shape[1:2] != (self._replicas,)]
        if several:
            raise ValueError(
                f"microbatches has an array of shape {several[0]}: the second axis of each must be the {self._replicas} replicas"
            )
        return Stacked(microbatches, count, inputs)

    def _together(self) -> AbstractContextManager[None]:
        """What all processes do that have stages."""
        return contextlib.nullcontext() if self._processes is None else self._processes.together()

    def run(
        self,
        state: PipelineState,
        infeed: InfeedQueue | None,
        outfeed: OutfeedQueue | None = None,
        *,
        inputs: Sequence[Any] = (),
        repeat_count: int = 1,
        key: Any = None,
        first_update: int = 0,
        progress: bool = False,
    ) -> PipelineState:
        """`repeat_count` updates with elements of a queue, one for each microbatch and replica.

        Args:
            state: its arrays are donated.
            infeed: with several replicas made for them: `InfeedQueue(dataset, replicas=...)`. Of several processes only that of the first
                stage takes from its one.
            outfeed: gets what the last stage returns, one element for each microbatch; with accumulate_outfeed one for each update. Of
                several processes that of the last stage gives to its one.
            inputs: as `step` has.
            key: update number n has `jax.random.fold_in(key, n)` for its key.
            first_update: the first one's number. A run that goes on after another one that was interrupted has the same keys with
                `loop_state(error).steps`.
            progress: whether to show a bar with the microbatches done, and what is being compiled.
        Returns: the new state. Its arrays may still be being computed.
        Raises: as `step` does, and what the dataset raises. QueueError for a feed that is closed or in use. ValueError for a feed that does
            not go with the pipeline.
        """
        updates = whole_number("repeat_count", repeat_count, least=0)
        first = whole_number("first_update", first_update, least=0)
        count, user = self._schedule.microbatches, self._name
        done = Progress(state, name=user, count=count, updates=updates, bar=progress)
        with done, self._together(), contextlib.ExitStack() as ends, self._one_program():
            if self._processes is not None:
                infeed, outfeed = infeed if self._processes.feeds else None, outfeed if self._gives_out() else None
            self._require_feeds(infeed, outfeed)
            if infeed is not None:
                infeed.reserve(user)
                ends.callback(infeed.release)
            if outfeed is not None:
                outfeed.reserve(user)
                ends.callback(outfeed.release)
            if updates and infeed is not None:
                infeed.begin(chunk_steps=1, steps=updates * count, carry_sharding=self._first.whole, over=self._first.replicas)
            for update in range(first, first + updates):
                done.check()
                if outfeed is not None:
                    outfeed.make_room(self._results.elements, done.waiting)
                batch = Unfed(tuple(inputs))
                if infeed is not None:
                    batch = Taken(functools.partial(infeed.take, done.waiting, hold=True), count, tuple(inputs))
                own = None if key is None else _jax.random.fold_in(key, update)
                found, outputs = self._run(done.state, batch, own, done, outfeed if update == first else None)
                given = None if outfeed is None else self._results.for_queue(outputs)
                with done.noting():
                    if infeed is not None:
                        infeed.use_held()
                    done.did(found, outputs)
                    if outfeed is not None:
                        outfeed.deliver(given, self._results.elements)
                done.show()
            done.check()
        return done.state

    def _gives_out(self) -> bool:
        """Whether what the last stages return is on devices of this process.

        Raises: ValueError if only some of it is.
        """
        here = {place.is_here for place in self._last}
        if len(here) > 1:
            raise ValueError(
                "the last stages are in several processes, so that there is none whose outfeed has all that they return: leave the outfeed "
                "away and use step(), or put them into one process"
            )
        return here == {True}

    def _require_feeds(self, infeed: InfeedQueue | None, outfeed: OutfeedQueue | None) -> None:
        if infeed is not None:
            require_kind("infeed", infeed, InfeedQueue, "an InfeedQueue, such as InfeedQueue(dataset)", "outfeed")
        if outfeed is not None:
            require_kind("outfeed", outfeed, OutfeedQueue, "an OutfeedQueue", "infeed", "repeat_count")
        if outfeed is not None and self._results.is_nothing:
            raise ValueError("outfeed_mask hides all that the last stage returns: leave the outfeed away")
        if infeed is None:
            if self._processes is None or self._processes.feeds:
                raise ValueError("infeed is None, but this process has the first stage: give it an InfeedQueue")
            return
        require_replicas(infeed, self._replicas)

    def _one_program(self, group: str | None = None) -> AbstractContextManager[None]:
        """All that a run starts is one program per device to an emulated machine, unless the caller says what is. Args: group: another."""
        return contextlib.nullcontext() if hints.current_group() else hints.program_group(group or self._group)

    @property
    def _name(self) -> str:
        return f"a pipeline of {self._schedule.stages} stages"

    def _run(
        self, state: PipelineState, batch: Batch, key: Any, progress: Progress, outfeed: OutfeedQueue | None = None
    ) -> tuple[PipelineState, Any]:
        """Args: outfeed: whether it takes what will come out is found out before the run, which could not be undone."""

        def accept(row: Callable[[], Sequence[Any]], kinds: Sequence[Any]) -> None:
            self._results.require(kinds)
            if outfeed is not None:
                outfeed.require_alike(lambda: self._results.queued(row(), kinds))

        outcome = self._engine.run(self._stages(state), progress.counting(batch), typed_key(key), progress.compiled, accept)
        give = self._results.of_stacked if outcome.is_stacked else self._results.of
        outputs = give(outcome.outputs, outcome.kinds)
        if self._processes is not None:
            outputs = self._processes.given_out(outputs, self._results.numbers(self._replicas))
        return self._state(outcome.state), outputs

    def _stages(self, state: PipelineState) -> RunState:
        require_kind("state", state, PipelineState, "a PipelineState, as init, step and run return it")
        params = flat(state.params, self._levels, "state.params")
        nothing: list[Any] = [None] * len(params)
        aux = nothing if state.aux is None else flat(state.aux, self._levels, "state.aux")
        found, joint = nothing, None
        if isinstance(state.optimizer_state, JointState):
            joint = state.optimizer_state.state
        elif state.optimizer_state is not None:
            found = flat(state.optimizer_state, self._levels, "state.optimizer_state")
        stages = [StageState(params=own, optimizer_state=o, aux=a) for own, o, a in zip(params, found, aux, strict=True)]
        return RunState(stages=tuple(stages), joint=joint)

    def _state(self, state: RunState) -> PipelineState:
        nest: Callable[[list[Any]], list[Any]] = lambda own: nested(own, self._levels)  # noqa: E731
        optimizer_state: list[Any] | JointState | None = None
        if state.joint is not None:
            optimizer_state = JointState(state=state.joint)
        elif self._training and any(stage.optimizer_state is not None for stage in state.stages):
            optimizer_state = nest([stage.optimizer_state for stage in state.stages])
        has_aux = any(_jax.tree.leaves(stage.aux) for stage in state.stages)
        return PipelineState(
            params=nest([stage.params for stage in state.stages]),
            optimizer_state=optimizer_state,
            aux=nest([stage.aux for stage in state.stages]) if has_aux else None,
        )
