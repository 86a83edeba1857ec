"""Trains a model in stages on several devices, which work on different microbatches at once."""

from __future__ import annotations

import contextlib
import functools
import itertools
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Final, final

import jax
from jax.sharding import Mesh
from jax.typing import DTypeLike

from tilestep import hints
from tilestep.train.checkpoints.checkpoints import Checkpoints, SavingLoop
from tilestep.train.feeds.infeed_queue import InfeedQueue
from tilestep.train.feeds.outfeed_queue import OutfeedQueue
from tilestep.train.gradients.accumulation import Choice, Reduction
from tilestep.train.gradients.recompute import Recompute, recomputed, require_recompute
from tilestep.train.numbers import whole_number
from tilestep.train.offload import Offload, choice_for
from tilestep.train.other_arguments import (
    belongs_to,
    bool_or_number,
    devices_of,
    items_of,
    name_of,
    refuse_misplaced,
    require_bools,
    require_dtype,
    require_kind,
    require_one_of,
)
from tilestep.train.pipeline.arguments import (
    StageFunction,
    accumulates,
    entries_of,
    flat,
    levels_of,
    mask_of,
    nested,
    offloaded_of,
    parameters_away,
    require_division,
    require_feeds,
    require_microbatches,
    require_one_loss,
    require_one_time,
    require_optimizer,
    require_replicas,
    require_watched,
    schedule_of,
    ties_of,
    typed_key,
)
from tilestep.train.pipeline.compile.pipeline_spec import PipelineSpec
from tilestep.train.pipeline.compile.placement import placements_of
from tilestep.train.pipeline.compile.tracing import WrittenStage, wants_key
from tilestep.train.pipeline.compile.updates.updates import OptimizerPlan
from tilestep.train.pipeline.compile.watched.marks import prepare_to_watch
from tilestep.train.pipeline.compile.watched.stage_watch import require_stages
from tilestep.train.pipeline.compile.watched.watch_keys import Given, Key, watch_list
from tilestep.train.pipeline.run.batches import Batch, Stacked, TakenElements
from tilestep.train.pipeline.run.engine import Engine
from tilestep.train.pipeline.run.processes import Processes, Unfed
from tilestep.train.pipeline.run.progress import Progress
from tilestep.train.pipeline.run.results import Outlets, Results
from tilestep.train.pipeline.run.sightings import Watched, WatchedResults
from tilestep.train.pipeline.run.single.chooser import PROGRAMS, Which
from tilestep.train.pipeline.run.state import RunState
from tilestep.train.pipeline.state import PipelineState, pipeline_state, require_state, run_state
from tilestep.train.planned import GivenOptions
from tilestep.train.replicas.collectives import Reduction as ReplicaReduction
from tilestep.train.replicas.collectives import require_replica_reduction
from tilestep.train.schedules.schedule import Schedule
from tilestep.train.untyped import Device, Pytree
from tilestep.train.untyped import jax as _jax

if TYPE_CHECKING:
    import optax

_MOST: Final = 2**31 - 1  # replicas, updates
_REDUCTIONS: Final = ("sum", "mean", "running_mean")
_MOST_FOLD_IN: Final = 2**32 - 1  # the largest that `jax.random.fold_in` takes

_HOW_INPUTS: Final = "a list of further arguments of the first stage, such as (mask,)"

_serial = itertools.count(1)  # each pipeline is a program of its own


@final
class Pipeline:
    """A model in stages on several devices, which work on different microbatches at once.

    The first stage gets the run's `inputs`, then the microbatch's element (a tuple's or list's items, or a mapping's as keywords). Each
    later stage gets the outputs of the one before, a tuple's items as separate arguments. Concurrent stages all get the same; their
    outputs are joined in order. In training the last stage returns the loss, a real scalar, or (loss, outputs).

    A stage with auxiliary state (see `init`) is called `stage(params, aux, ...)` and returns (outputs, the new aux). Auxiliary state has
    no gradients. A stage that has a keyword-only parameter `key` gets a random key there: another one for each stage, microbatch and
    replica, and the same with any schedule.

    Args:
        stages: functions (params, *args) -> outputs; a list of them stands for concurrent stages. A stage gets all its arrays as
            arguments: an array that its function has captured is refused when it is traced.
        optimizer: a transformation of optax; or a function of the last stage's outputs that returns (a transformation of optax, the
            loss), so that it can take a learning rate from the run's inputs. None: inference. If the transformation looks across stages
            (as clipping by the global norm does), only values that depend on several stages are computed in one place.
        gradient_accumulation_count: the number of microbatches in an update.
        pipeline_schedule: a name in `tilestep.train.schedules.SCHEDULES`, or a `Schedule` for these stages and microbatches.
        reduction: of the microbatches' gradients: "sum", "mean" or "running_mean".
        replica_reduction: of the replicas' gradients, once for each update: "mean" or "sum".
        devices: None: `jax.devices()`.
        device_mapping: for each stage the index of its device, with lists for concurrent stages. None: one after the other. Instead of an
            index it may be a tuple of several, or a mesh. The stage's arrays are divided over these devices as the arrays that `init`
            gets are; the stage's arguments are whole on each.
        replicas: the number of copies of the pipeline, each on as many devices. Replica r has the devices from r times that number on.
            Each has its own elements. A mesh in `device_mapping` has an axis "replica" of this size.
        recompute: which values backward computes again instead of keeping them: None, "full", a `jax.checkpoint` policy, or names of
            checkpoints.
        gradient_accumulation_dtype: of accumulators: None (that of the variable), a dtype, or a function (path, variable) -> dtype.
        offload_optimizer_state: which state is in the host's memory while it is not used, as for `offloaded`. A mapping may have entries
            for "accumulators" and "parameters", too. Parameters, in inference as well, are loaded by tasks of their own: those of a
            device's next stage while others compute, so that those of two stages at most are there.
        offload_activations: whether values that a stage keeps for backward wait in the host's memory: False, True, or the numbers of such
            stages, from 0 on.
        shard_optimizer_state: whether each replica keeps only its part of the optimiser's state, see `sharded`; or its `group_size`.
        tied: parameters that stay equal: a list of lists of paths (stage, key, ...), or ((stage, member), key, ...) among concurrent
            stages. Their gradients are summed, the first is updated, and the others are copies of it; on the same devices they are the
            same array.
        outfeed_loss: whether `step` and the outfeed get only the loss.
        outfeed_mask: for each item that the last stage returns, whether `step` and the outfeed do not get it.
        accumulate_outfeed: whether they get sums over an update's microbatches, with any `reduction`.
        accumulate_outfeed_dtype: the dtype of these sums; None: that of the values.
        check_nans: whether all outputs and gradients must be finite. They are checked before each update.
        program: "stages": a program for each task. "single": one program for an update, on the first stage's device, which does one
            microbatch after the other. "auto": one program if there is one device only, or if starting tasks takes most of the time: the
            pipeline measures three updates each way, and keeps the faster. On `ipu` it is always a program for each task.
        plan_options: how programs are planned on emulated IPUs, such as {"available_memory_proportion": 0.2}, by the names of
            `compiler_options`, with or without `ipu_`: one mapping for all devices; or a list with an entry for each device of one
            replica, in the order of its indices, where None stands for no options. They are checked on any platform, and have no effect
            on others.
        strict: whether counts with which the schedule wastes slots are refused.
        watch: values of the pipeline's inside that `step` returns, too: a mapping from `"name"` of a value that a stage marks by
            `watched(x, "name")`, `gradient("name")` of such a value, or `parameter(stage, *path)` after updates, to "all" (of each
            microbatch, or update), "last" or "sum" (over them). A list stands for "all" of each.

    Raises:
        TypeError: if an argument is of another type.
        ValueError: if an argument is out of bounds, or two do not go together.
    """

    def __init__(
        self,
        stages: Sequence[StageFunction | Sequence[StageFunction]],
        optimizer: optax.GradientTransformation | Callable[..., tuple[optax.GradientTransformation, jax.Array]] | None = None,
        gradient_accumulation_count: int = 1,
        *,
        pipeline_schedule: str | Schedule = "grouped",
        reduction: Reduction = "sum",
        replica_reduction: ReplicaReduction = "mean",
        devices: Sequence[Device] | None = None,
        device_mapping: Sequence[int | Mesh | Sequence[int | Mesh | Sequence[int]]] | None = None,
        replicas: int = 1,
        recompute: Recompute = None,
        gradient_accumulation_dtype: DTypeLike | Choice | None = None,
        offload_optimizer_state: Offload = None,
        offload_activations: bool | Sequence[int] = False,
        shard_optimizer_state: bool | int = False,
        tied: Sequence[Sequence[Any]] = (),
        outfeed_loss: bool = False,
        outfeed_mask: Sequence[bool] | None = None,
        accumulate_outfeed: bool = False,
        accumulate_outfeed_dtype: DTypeLike | None = None,
        check_nans: bool = False,
        program: Which = "auto",
        plan_options: GivenOptions | Sequence[GivenOptions | None] | None = None,
        strict: bool = True,
        watch: Given | None = None,
    ) -> None:
        self._levels = levels_of(stages)
        must = "a transformation of optax, or a function that returns one"
        refuse_misplaced("optimizer", optimizer, must, "gradient_accumulation_count", "devices", "mesh")
        self._training = optimizer is not None
        if self._training:
            require_one_loss(self._levels)
        hint = belongs_to(gradient_accumulation_count, "pipeline_schedule", "devices", "optimizer")
        count = whole_number("gradient_accumulation_count", gradient_accumulation_count, least=1, hint=hint)
        require_one_of("program", program, PROGRAMS)
        require_one_of("reduction", reduction, _REDUCTIONS)
        require_replica_reduction(replica_reduction)
        require_recompute(recompute)
        shard, group_size = bool_or_number("shard_optimizer_state", shard_optimizer_state, "replicas of a group")
        require_bools(
            outfeed_loss=outfeed_loss,
            accumulate_outfeed=accumulate_outfeed,
            check_nans=check_nans,
            strict=strict,
        )
        require_dtype("gradient_accumulation_dtype", gradient_accumulation_dtype, allow_function=True)
        require_dtype("accumulate_outfeed_dtype", accumulate_outfeed_dtype)
        entries = entries_of(device_mapping, self._levels)
        self._replicas = whole_number("replicas", replicas, least=1, most=_MOST, hint=belongs_to(replicas, "devices", "mesh"))
        known = tuple(jax.devices()) if devices is None else devices_of(devices)
        placements = placements_of(entries, known, self._replicas, plan_options, mapped=device_mapping is not None)
        several = not all(placement.is_local for placement in placements)
        away = parameters_away(offload_optimizer_state)
        rank: dict[Device, int] = {device: index for index, device in enumerate(known)}
        number = len(placements)
        self._schedule = schedule_of(
            pipeline_schedule,
            self._levels,
            count,
            [rank.get(placement.devices[0], len(known) + int(placement.devices[0].id)) for placement in placements],
            training=self._training,
            strict=strict,
            offloaded=list(range(number)) if offload_activations is True else offloaded_of(offload_activations),
            loads=choice_for(away, "parameters") is not False,
        )
        ties = ties_of(tied, self._levels)
        plan = None
        if optimizer is not None:
            require_optimizer(optimizer, offload_optimizer_state)
            require_division(shard_optimizer_state, shard, group_size, self._replicas)
            # Where each microbatch has an update of its own, its gradient is all there is to reduce.
            same = self._schedule.weights == "same"
            if ties:
                require_one_time(self._schedule)
            plan = OptimizerPlan(
                optimizer=optimizer,
                per_update=count if same else 1,
                reduction=reduction,
                replica_reduction=replica_reduction,
                accumulator_dtype=gradient_accumulation_dtype,
                offload=offload_optimizer_state,
                shard=shard,
                group_size=group_size,
                keeps_old=self._schedule.weights == "stashed",
                repeats=not same,
            )
        self._results = Results(
            schedule=self._schedule,
            training=self._training,
            loss=outfeed_loss,
            mask=None if outfeed_mask is None else mask_of(outfeed_mask),
            summed=accumulate_outfeed,
            dtype=accumulate_outfeed_dtype,
        )
        watching = watch_list(watch, training=self._training)
        self._watched: WatchedResults | None = None
        if watching is not None:
            require_stages(watching, self._levels)
            prepare_to_watch()
            self._watched = WatchedResults(watching, self._schedule)
        self._outlets = Outlets(self._results, self._watched)
        self._processes: Processes | None = None
        if several:
            first, last = len(self._levels[0]), len(self._levels[-1])
            self._processes = Processes(placements, first=first, last=last, commits_last=self._schedule.weights != "same")
        spec = PipelineSpec(
            functions=tuple(
                WrittenStage(
                    function=function if recompute is None else recomputed(function, recompute),
                    name=name_of(function),
                    placement=placement,
                    wants_key=wants_key(function),
                )
                for function, placement in zip((function for level in self._levels for function in level), placements, strict=True)
            ),
            schedule=self._schedule,
            optimizer=plan,
            ties=ties,
            nest=functools.partial(nested, levels=self._levels),
            offload=away,
            # Reports of emulated machines name each parameter, and messages of check_nans each gradient: nothing is packed then.
            packed=not check_nans and not hints.listens(placements[0].devices[0].platform),
            watch=watching,
            given_out=None if check_nans else self._results.given_out,
            gives_loss=outfeed_loss,
        )
        self._engine = Engine(spec, check_nans=check_nans, which=program, processes=self._processes)
        self._first = placements[0]
        self._group = f"pipeline {next(_serial)}"
        self._first_group = f"{self._group}'s first state"
        hints.groups_gone_with(self, (self._group, self._first_group))

    def __repr__(self) -> str:
        names = "; ".join(", ".join(map(name_of, level)) for level in self._levels)
        watch = "" if self._watched is None else f"; watches {self._watched.watch}"
        return f"<Pipeline: {names}; {self._schedule}{watch}>"

    @property
    def schedule(self) -> Schedule:
        """The order of tasks of one update."""
        return self._schedule

    def init(self, params: Sequence[Pytree], aux: Sequence[Pytree] | None = None) -> PipelineState:
        """The state before the first update: copies of the parameters, each on its stage's device.

        Args:
            params: a list with one pytree of arrays for each stage, and a list of them for concurrent stages. For stages of other
                processes shapes and dtypes are enough (`jax.ShapeDtypeStruct`).
            aux: auxiliary state in the same form: arrays that a stage changes by itself, such as statistics of its batches. None for
                stages without such a state. With several replicas each begins with a copy, and goes on with its own.

        Returns:
            The state, whose arrays are new.

        Raises:
            ValueError: if there are more or fewer entries than stages, tied parameters differ, or the optimiser accumulates by itself.
        """
        with self._together(), self._one_program(self._first_group):
            number = sum(map(len, self._levels))
            own_aux: list[Pytree] = [None] * number if aux is None else flat(aux, self._levels, "aux")
            state = self._nested(self._engine.init(flat(params, self._levels, "params"), own_aux))
            if accumulates(state.optimizer_state):
                raise ValueError(
                    "the optimizer is wrapped in gradient_accumulation(), but a pipeline accumulates by itself: give it the bare "
                    "optimizer, and the count as gradient_accumulation_count"
                )
            if self._processes is not None:
                self._processes.agree("has placed the parameters")
            return state

    def step(
        self, state: PipelineState, microbatches: Pytree, *, inputs: Sequence[Pytree] = (), key: jax.Array | None = None
    ) -> tuple[PipelineState, Pytree]:
        """One update, or in inference one round.

        Args:
            state: its arrays are donated.
            microbatches: a pytree of arrays of the shape `[gradient_accumulation_count, ...]`, with several replicas
                `[gradient_accumulation_count, replicas, ...]`. Of several processes only that of the first stage reads it.
            inputs: further arguments of the first stage, before the element. All microbatches get the same.
            key: a random key from which the stages' keys are made (`jax.random.key`). Give each step another one.

        Returns:
            (the new state, the last stage's results). Each array of the results has a new leading axis of microbatches, and with several
            replicas a second one of replicas: `[gradient_accumulation_count, replicas, ...]`. With `watch` the second item is a `Watched`:
            `outputs` are these results, and `values` what is watched, by the keys of `watch`.

        Raises:
            ValueError: if an argument does not fit the pipeline.
            TypeError: if a microbatch is no array of numbers, or the key is no random key.
            OverflowError: if a whole number would become another one on the device.
            NotFiniteError: if `check_nans` finds an infinite number or none.
            LoopInterrupt: after Ctrl-C, when the update is done.
            ProcessFailedError: if another process has failed.
            Exception: of a stage, with a note that names stage and microbatch. Each of these exceptions has as `state` the state after
                the last finished update, or None if its arrays are lost.
        """
        require_state(state)
        inputs = items_of("inputs", inputs, _HOW_INPUTS)
        progress = Progress(state, name=self._name, count=self._schedule.microbatches, updates=1, bar=False)
        with progress, self._together(), self._one_program():
            found, outputs, values = self._run(state, self._batch(microbatches, tuple(inputs)), key, progress, self._outlets)
            progress.did(found, self._given(outputs, values))
            progress.check()
        return progress.state, progress.outputs

    def _batch(self, microbatches: Pytree, inputs: tuple[Pytree, ...]) -> Batch:
        """Raises: ValueError for arrays of another number of microbatches or replicas."""
        if self._processes is not None and not self._processes.feeds:
            return Unfed(inputs)
        count = self._schedule.microbatches
        require_microbatches(microbatches, count, self._replicas)
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
        inputs: Sequence[Pytree] = (),
        repeat_count: int = 1,
        key: jax.Array | None = None,
        first_update: int = 0,
        progress: bool = False,
        watched: OutfeedQueue | None = None,
        checkpoints: Checkpoints | None = None,
    ) -> PipelineState:
        """`repeat_count` updates with elements of a queue, one for each microbatch and replica.

        Args:
            state: its arrays are donated.
            infeed: with several replicas a queue that is made for them: `InfeedQueue(dataset, replicas=...)`. Of several processes only
                that of the first stage takes elements.
            outfeed: gets the last stage's results, one element for each microbatch; with `accumulate_outfeed` one for each update. Of
                several processes only that of the last stage fills its queue.
            inputs: as for `step`.
            repeat_count: the number of updates.
            key: update number n has `jax.random.fold_in(key, n)` for its key.
            first_update: the number of the first update; with a key at most 2**32 - 1. A run that continues an interrupted one has the
                same keys with `loop_state(error).steps`.
            progress: whether to show a bar with the microbatches that are done, and the programs that are compiled.
            watched: gets what `watch` says, a mapping with its keys. If all of it is "all", and none of it a parameter (but in schedules
                that update after each microbatch), it gets one element for each microbatch; else one for each update, as `step` returns
                it.
            checkpoints: where the state and the feeds are saved between updates. If it has a checkpoint, the run restores the latest, and
                does what remains of its updates; if all are done, it returns at once. If the optimiser is a function of the last stage's
                outputs, and the state is from `init`, it does one update before it restores, to learn where the optimiser's arrays go.

        Returns:
            The new state. Its arrays may still be in computation.

        Raises:
            CheckpointError: if a checkpoint cannot be saved or restored.
            Preempted: after SIGTERM, when a checkpoint is saved.
            QueueError: if a feed is closed or in use.
            ValueError: if a feed does not fit the pipeline.
            Exception: of the dataset, and as for `step`.
        """
        require_state(state)
        updates = whole_number("repeat_count", repeat_count, least=0, most=_MOST)
        first = whole_number("first_update", first_update, least=0, most=_MOST if key is None else _MOST_FOLD_IN)
        require_bools(progress=progress)
        inputs = items_of("inputs", inputs, _HOW_INPUTS)
        count, user = self._schedule.microbatches, self._name
        if self._processes is not None:
            infeed, outfeed = infeed if self._processes.feeds else None, outfeed if self._processes.gives_out() else None
        saves: SavingLoop | None = None
        if checkpoints is not None:
            require_kind("checkpoints", checkpoints, Checkpoints, "a Checkpoints, or None")
            self._engine.stop_measuring()  # which program runs would depend on the wall time
            saves = SavingLoop(
                checkpoints,
                user,
                state,
                infeeds={"infeed": infeed},
                outfeeds={"outfeed": outfeed, "watched": watched},
                total=updates,
                facts={"schedule": self._schedule.name, "microbatches of an update": count},
                like=functools.partial(self._with_optimizer_state, state, infeed, inputs, key, first),
            )
            if not saves.left:
                return saves.state
            state, first, updates = saves.state, first + saves.done, saves.left
        before = 0 if saves is None else saves.done
        done = Progress(state, name=user, count=count, updates=updates, bar=progress, before=before)

        def run_all() -> PipelineState:
            with done, self._together(), self._one_program():
                self._require_feeds(infeed, outfeed, watched)
                done.reserve(user, infeed, outfeed, watched)
                outlets = Outlets(self._results, self._watched, outfeed, watched)
                if updates and infeed is not None:
                    infeed.begin(chunk_steps=1, steps=updates * count, carry_sharding=self._first.whole, over=self._first.replicas)
                for update in range(first, first + updates):
                    done.check()
                    outlets.make_room(done.check)
                    batch = Unfed(tuple(inputs))
                    if infeed is not None:
                        batch = TakenElements(functools.partial(infeed.take, done.check, hold=True), count, tuple(inputs))
                    own = None if key is None else _jax.random.fold_in(key, update)
                    found, outputs, values = self._run(done.state, batch, own, done, outlets if update == first else self._outlets)
                    done.did(found, self._given(outputs, values), *outlets.elements(outputs, values))
                    done.show()
                    if saves is not None:
                        saves.reached(done.updates, done.state)
                done.check()
            return done.state

        if saves is None:  # a `with` behind `done` calls functions in which a Ctrl-C may come, after which nobody has the state
            return run_all()
        with saves:
            return run_all()

    def _with_optimizer_state(
        self, state: PipelineState, infeed: InfeedQueue | None, inputs: Sequence[Pytree], key: jax.Array | None, update: int
    ) -> PipelineState:
        """A state with the places of all arrays. Where the optimiser is a function of outputs, only an update says where its own are."""
        if not self._training or state.optimizer_state is not None:
            return state
        return self.run(state, infeed, inputs=inputs, key=key, first_update=update)

    def _given(self, outputs: Pytree, values: dict[Key, jax.Array]) -> Pytree:
        """What `step` returns beside the state. Args: values: what is watched."""
        return outputs if self._watched is None else Watched(outputs, values)

    def _require_feeds(self, infeed: InfeedQueue | None, outfeed: OutfeedQueue | None, watched: OutfeedQueue | None) -> None:
        require_feeds(infeed, outfeed, needs_infeed=self._processes is None or self._processes.feeds)
        require_watched(watched, outfeed, watches=self._watched is not None, in_processes=self._processes is not None)
        if outfeed is not None and self._results.is_nothing:
            raise ValueError("outfeed_mask hides all that the last stage returns: leave the outfeed away")
        if infeed is not None:
            require_replicas(infeed, self._replicas)

    def _one_program(self, group: str | None = None) -> AbstractContextManager[None]:
        """All that a run starts is one program per device to an emulated machine, unless the caller says what is. Args: group: another."""
        return contextlib.nullcontext() if hints.current_group() else hints.program_group(group or self._group)

    @property
    def _name(self) -> str:
        return f"a pipeline of {self._schedule.stages} stages"

    def _run(
        self, state: PipelineState, batch: Batch, key: jax.Array | None, progress: Progress, outlets: Outlets
    ) -> tuple[PipelineState, Pytree, dict[Key, jax.Array]]:
        """(the new state, the last stages' results, what is watched) of one update. Args: outlets: must accept what will come out."""
        outcome = self._engine.run(
            run_state(state, self._levels), progress.counting(batch), typed_key(key), progress.compiled, outlets.accept
        )
        give = self._results.of_stacked if outcome.is_stacked else self._results.of
        outputs = give(outcome.outputs, outcome.trees)
        if self._processes is not None:
            outputs = self._processes.given_out(outputs, self._results.numbers(self._replicas))
        return self._nested(outcome.state), outputs, outcome.watched

    def _nested(self, state: RunState) -> PipelineState:
        return pipeline_state(state, self._levels, training=self._training)
