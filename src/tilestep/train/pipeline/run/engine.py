"""Runs a schedule: the host starts a program for each task in the schedule's order, and copies arrays between devices in between.

The host only starts work. Each device does its tasks in the order of their start; on the device a program waits for the copies that it
reads. So the order in which the host starts tasks of different devices changes nothing but how early each is known. IPUs wait for each
other when they pass something on. For them the order also says between which tasks they do so: copies start at the ends of phases, those
of a phase together.
"""

import contextlib
import functools
import itertools
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, final

import jax

from tilestep import hints
from tilestep.collection import collection_paused
from tilestep.train.patience import Aloud
from tilestep.train.pipeline.compile.executables import Report
from tilestep.train.pipeline.compile.pipeline_spec import PipelineSpec
from tilestep.train.pipeline.compile.programs import CompiledPipeline, make_all
from tilestep.train.pipeline.compile.stage import Stage
from tilestep.train.pipeline.compile.tracing import Element, spec_of
from tilestep.train.pipeline.compile.watched.watch_keys import Key
from tilestep.train.pipeline.run.batches import Batch
from tilestep.train.pipeline.run.first_state import first_state
from tilestep.train.pipeline.run.processes import Flushed, Processes
from tilestep.train.pipeline.run.program_cache import ProgramCache
from tilestep.train.pipeline.run.request import PreparedOrder, RunRequest, Transport
from tilestep.train.pipeline.run.sightings import in_order, specs_of
from tilestep.train.pipeline.run.single.chooser import Chooser, Which, why_not_single
from tilestep.train.pipeline.run.single.one_program import OtherShapesError, SingleCache, brought
from tilestep.train.pipeline.run.state import Ready, RunState, StageState
from tilestep.train.pipeline.run.task_runner import TaskRunner
from tilestep.train.pipeline.run.watch import Watch
from tilestep.train.processes.remote import remote_array, remote_like
from tilestep.train.schedules.phasing import phases, updates_last
from tilestep.train.schedules.schedule import Kind
from tilestep.train.simulated import put_shards
from tilestep.train.untyped import Pytree, Spec
from tilestep.train.untyped import jax as _jax

# (gives the specs of a row of `Outcome.outputs`; `Outcome.trees`; gives the specs of `Outcome.watched`) -> None
Accept = Callable[[Callable[[], list[list[Spec]]], list[Pytree], Callable[[], dict[Key, Spec]]], None]


class RunOutcome(NamedTuple):
    """The results of a run."""

    state: RunState  # the new one
    # for each microbatch the leaves of each output of the last level, and in training [the loss]. If `is_stacked`, the same lists of leaves
    # once, with a leading axis of microbatches. None in the place of what is hidden.
    outputs: list[Any]
    is_stacked: bool  # which of both
    trees: list[Pytree]  # for each stage of the last level the tree of its outputs' specs
    watched: dict[Key, jax.Array]  # in the author's order


@final
class Engine:
    """Runs one pipeline with any parameters. It keeps the programs for each set of shapes.

    Args:
        check_nans: whether all numbers must be finite.
        which: whether a run is one program or one for each task.
        processes: those that have stages, if there are several.
    Raises:
        ValueError: if one program is demanded and impossible.
    """

    def __init__(self, spec: PipelineSpec, *, check_nans: bool, which: Which, processes: Processes | None) -> None:
        placements = [function.placement for function in spec.functions]
        reason = why_not_single(spec, check_nans=check_nans, several_processes=processes is not None)
        if which == "single" and reason is not None:
            raise ValueError(f'program is "single", but the pipeline cannot be one program: {reason}; leave program away')
        is_emulated = hints.listens(placements[0].devices[0].platform)  # the host's time does not count then
        self._spec, self._check_nans, self._processes = spec, check_nans, processes
        self._chooser = Chooser(which, possible=reason is None, alone=len(set(placements)) == 1, measured=not is_emulated)
        are_single = all(placement.replicas is None and not placement.is_mesh for placement in placements)
        self._programs = ProgramCache(spec, processes, direct=are_single and not is_emulated and processes is None)
        self._singles = SingleCache(spec, self._programs.make)
        self._has_run = False
        self._ready: tuple[CompiledPipeline, list[Ready | None]] | None = None  # left by the latest run for the next one
        schedule = spec.schedule
        by_schedule = phases(schedule) if processes is None or processes.commits_last else updates_last(phases(schedule))
        self._order = PreparedOrder.of(schedule, by_schedule)
        # If the watch looks at results before an update, nothing is left to fail after the first update.
        self._watched_order = PreparedOrder.of(schedule, updates_last(by_schedule) if schedule.weights == "same" else by_schedule)
        # Emulated machines are asked about the copy of each microbatch. If activations are stored, all elements would be stored each time.
        stores = any(task.kind is Kind.STORE for task in schedule.ordered())
        self._takes_whole = len(placements[0].devices) == 1 and not is_emulated and not stores

    def stop_measuring(self) -> None:
        """From now on the same program is chosen whatever takes how long."""
        self._chooser.stop_measuring()

    def init(self, params: Sequence[Pytree], aux: Sequence[Pytree]) -> RunState:
        """The first state, as `first_state` has it."""
        put = put_shards if self._processes is None else self._processes.put
        return first_state(self._spec, params, aux, put, self._programs.known())

    def run(
        self, state: RunState, batch: Batch, key: jax.Array | None, report: Report | None = None, accept: Accept | None = None
    ) -> RunOutcome:
        """One run of the schedule.

        Args:
            key: the run's random key.
            report: is called with how many programs are compiled, and of how many.
            accept: is called with the specs of a microbatch's results, before anything is done that cannot be undone. It may raise.
        """
        chooser = self._chooser
        measures, which = chooser.measures, chooser.now
        if measures:
            _wait(state)
        start = time.perf_counter()
        by_single = which == "single" and not self._is_new(state)
        with Aloud(lambda: "an update of a pipeline: its data or its programs") if self._has_run else contextlib.nullcontext():
            outcome = (self._by_single if by_single else self._by_stages)(state, batch, key, report, accept)
        self._has_run = True  # and compiled
        host = time.perf_counter()
        if measures:
            _wait(outcome.state)
        chooser.took(host - start, time.perf_counter() - start)
        return outcome

    def _is_new(self, state: RunState) -> bool:
        """Whether the optimiser's state does not exist yet, because it depends on the last stage's outputs."""
        plan = self._spec.optimizer
        return plan is not None and plan.is_function and state.joint is None and all(own.optimizer_state is None for own in state.stages)

    # --------------------------------------------------------------------------------------------- a program for each task

    def _by_stages(self, state: RunState, batch: Batch, key: jax.Array | None, report: Report | None, accept: Accept | None) -> RunOutcome:
        if self._singles.has_run:
            state = self._home(state)
        processes, first = self._processes, self._spec.functions[0].placement
        whole = batch.whole(first.whole) if self._takes_whole else None
        elements, is_there = iter(batch.elements() if whole is None else (whole,)), batch.is_there
        if processes is not None:
            elements, is_there = processes.shared(elements, is_there)
        element = next(elements)
        compiled, direct = self._programs.find(state, element, batch, key, report)
        stages = compiled.traced.stages
        watch = Watch(self._spec.functions, stages, nans=self._check_nans, training=self._spec.optimizer is not None, processes=processes)
        order = self._watched_order if watch.is_needed else self._order
        if not is_there:
            order = order.without_early_elements()
        latest, self._ready = self._ready, None  # a run that fails loses it
        request = RunRequest(
            schedule=self._spec.schedule,
            order=order,
            compiled=compiled,
            state=state,
            first=element,
            elements=elements,
            key=key,
            watch=watch,
            ready=latest[1] if latest is not None and latest[0] is compiled else [None] * len(stages),
            transport=Transport.of(processes, direct=direct),
        )
        if processes is not None:
            processes.begin_tasks(functools.partial(self._flush, request))
        if accept is not None:
            accept(functools.partial(self._row, stages), self._trees(stages), functools.partial(self._watched_specs, stages))
        with collection_paused():  # the tasks make many arrays and no cycles; each look would go through all of a pod's arrays
            result = TaskRunner(request).run()
        self._ready = compiled, result.ready
        self._programs.remember(result.state, direct=direct)
        if processes is not None:
            processes.commit()
            processes.end_tasks()
        return RunOutcome(result.state, result.outputs, False, self._trees(stages), self._in_order(result.watched))

    def _in_order(self, watched: dict[Key, jax.Array]) -> dict[Key, jax.Array]:
        watch = self._spec.watch
        return watched if watch is None else in_order(watch, watched)

    def _watched_specs(self, stages: Sequence[Stage]) -> dict[Key, Spec]:
        """Those of `Outcome.watched`."""
        watch = self._spec.watch
        return {} if watch is None else specs_of(stages, watch, self._spec.schedule)

    def _trees(self, stages: Sequence[Stage]) -> list[Pytree]:
        return [stages[stage].outputs for stage in self._spec.schedule.levels[-1]]

    def _row(self, stages: Sequence[Stage]) -> list[list[Spec]]:
        """The specs of one microbatch's part of `Outcome.outputs`."""
        row = [
            [stages[stage].placement.spec(leaf, 0) for leaf in _jax.tree.leaves(stages[stage].outputs)]
            for stage in self._spec.schedule.levels[-1]
        ]
        if self._spec.optimizer is not None:
            row.append([stages[-1].placement.spec(self._spec.optimizer.loss_spec(stages[-1].outputs), 0)])
        return row

    def _flush(self, request: RunRequest) -> None:
        """Does a run's tasks with arrays that are errors, up to the task at which the other processes stop."""
        traced = request.compiled.traced
        stages = tuple(replace(stage, placement=replace(stage.placement, is_local=False)) for stage in traced.stages)
        functions = tuple(
            replace(function, placement=stage.placement) for function, stage in zip(self._spec.functions, stages, strict=True)
        )
        compiled = make_all(replace(self._spec, functions=functions), replace(traced, stages=stages), request.compiled.ties, {})
        inputs, *rest = request.first
        element: Pytree = (inputs, *remote_like(_jax.tree.map(spec_of, tuple(rest)), functions[0].placement.along(1)))
        errors = replace(
            request,
            compiled=compiled,
            state=_jax.tree.map(lambda leaf: remote_array(tuple(leaf.shape), leaf.dtype, leaf.sharding), request.state),
            first=element,
            elements=itertools.repeat(element),
            watch=Watch(functions, stages, nans=False, training=False, processes=self._processes, flushes=True),
            ready=[None] * len(stages),
            transport=Transport.of(self._processes, direct=False),
        )
        with contextlib.suppress(Flushed):
            TaskRunner(errors).run()

    # ------------------------------------------------------------------------------------------------------- one program

    def _by_single(self, state: RunState, batch: Batch, key: jax.Array | None, report: Report | None, accept: Accept | None) -> RunOutcome:
        self._ready = None  # it would only take memory
        stacks: list[Element] = batch.stacks()
        leaves, structure = _jax.tree.flatten(state)
        single = self._singles.latest(structure, key) or self._singles.find(state, structure, stacks, key, report)
        columns, inputs = [stack[1:] for stack in stacks], stacks[0][0]
        if accept is not None:
            accept(functools.partial(self._row, single.stages), single.trees, functools.partial(self._watched_specs, single.stages))
        try:
            new, outputs, watched = single.run(leaves, columns, inputs, key)
        except OtherShapesError:  # JAX has traced it again
            single = self._singles.find(state, structure, stacks, key, report)
            new, outputs, watched = single.run(leaves, columns, inputs, key)
        if report is not None:
            report(1, 1)
        return RunOutcome(new, outputs, True, single.trees, self._in_order(watched))

    def _home(self, state: RunState) -> RunState:
        """The state on the stages' own devices, which one program may have left."""
        stages: list[StageState] = []
        for own, function in zip(state.stages, self._spec.functions, strict=True):
            leaves, structure = _jax.tree.flatten(own)
            stages.append(_jax.tree.unflatten(structure, brought(leaves, function.placement)))
        return replace(state, stages=tuple(stages))


def _wait(state: RunState) -> None:
    with Aloud(lambda: "the devices, which have not done all that an update of a pipeline has started"):
        _jax.block_until_ready(_jax.tree.leaves(state))
