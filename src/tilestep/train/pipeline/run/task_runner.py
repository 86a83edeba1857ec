"""Does the tasks of one run in the schedule's order: starts their programs, and keeps values from forward to backward."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple, final

import jax

from tilestep.hints import no_pipeline_task, pipeline_task
from tilestep.messages import notes_of
from tilestep.train.pipeline.compile.watched.watch_keys import Key
from tilestep.train.pipeline.run.inbox import Inbox
from tilestep.train.pipeline.run.request import RunRequest
from tilestep.train.pipeline.run.run_arrays import RunArrays
from tilestep.train.pipeline.run.sightings import Sightings
from tilestep.train.pipeline.run.state import Ready, RunState
from tilestep.train.pipeline.run.updater import Updater
from tilestep.train.schedules.schedule import Kind, Task
from tilestep.train.untyped import jax as _jax

_HOST: Final = _jax.memory.Space.Host
_DEVICE: Final = _jax.memory.Space.Device
_FORWARD, _BACKWARD = 0, 1  # the halves of a stage's programs
_NOTHING: Final[list[jax.Array]] = []  # nobody adds to it


class Kept(NamedTuple):
    """What a stage keeps of a microbatch for backward."""

    args: list[jax.Array]  # arguments of its function
    values: list[jax.Array]  # values that forward has computed
    params: list[jax.Array] | None  # the parameters of that forward, if the schedule stashes them; None: backward reads the current ones

    def in_memory(self, space: Any) -> Kept:
        """The same with arguments and values in the host's or the device's memory."""
        args, values = _jax.device_put([self.args, self.values], space)
        return Kept(args, values, self.params)


class Crossing(NamedTuple):
    """What the weights' gradient takes over from the input's."""

    gradients: list[jax.Array]  # gradients of the outputs
    values: list[jax.Array]  # computed for both


class RunResult(NamedTuple):
    """What a run leaves."""

    state: RunState  # the new one
    # for each microbatch the outputs' leaves of each stage of the last level; in training then [the loss]. None in the place of what is
    # hidden.
    outputs: list[list[Any]]
    watched: dict[Key, jax.Array]
    ready: list[Ready | None]  # for each stage what the next run may begin with


@final
class TaskRunner:
    """One run of a schedule. It makes new arrays of the state's; updates donate them."""

    def __init__(self, request: RunRequest) -> None:
        self._request, self._compiled = request, request.compiled
        stages, count = len(request.compiled.traced.stages), request.schedule.microbatches
        self._outputs: list[list[Any]] = [[] for _ in range(count)]
        self._arrays = RunArrays.at_start(request)
        self._inbox = Inbox(request)
        self._sightings = Sightings(request.compiled, request.schedule)
        self._updater = Updater(request, self._arrays, self._outputs, self._sightings)
        self._kept: list[list[Kept | None]] = [[None] * count for _ in range(stages)]
        self._crossing: list[list[Crossing | None]] = [[None] * count for _ in range(stages)]
        self._is_training = request.compiled.last is not None
        self._last = stages - 1 if self._is_training else None  # one program makes its gradients with its forward
        self._last_gradients: list[Any] = [None] * count
        self._last_level = frozenset(request.schedule.levels[-1])
        self._stashes_params = request.schedule.weights == "stashed"
        self._reduces_watched = frozenset(stage for stage, begin in enumerate(request.compiled.totals) if begin is not None)
        self._latest: list[jax.Array] = []  # outputs of the latest forward, for the watch

    def run(self) -> RunResult:
        """Does all tasks."""
        watch, order = self._request.watch, self._request.order
        sees, end_phase = watch.is_needed, self._inbox.end_phase
        act: dict[Kind, Callable[[int, Any], None]] = {
            Kind.FORWARD: self._forward,
            Kind.BACKWARD: self._backward,
            Kind.INPUT_GRADIENT: self._input_gradient,
            Kind.WEIGHT_GRADIENT: self._weight_gradient,
            Kind.UPDATE: self._updater.update,
            Kind.STORE: self._store,
            Kind.LOAD: self._load,
            Kind.LOAD_PARAMETERS: lambda stage, _: self._arrays.load(self._compiled, stage),
            Kind.STORE_PARAMETERS: lambda stage, _: self._arrays.store(self._compiled, stage),
        }
        task: Task | None = None
        try:
            for phase, early in zip(order.phases, order.early, strict=True):
                for task, told, frees in phase:
                    pipeline_task(*told)
                    act[task.kind](task.stage, task.microbatch)
                    if frees:
                        self._arrays.loaded[task.stage] = None
                    if sees:
                        self._see(task)
                end_phase(early)
        except Exception as error:
            if task is not None and not notes_of(error):
                error.add_note(watch.note(task))
            raise
        finally:
            no_pipeline_task()
        if not self._is_training:
            watch.look()
        return RunResult(self._arrays.state(self._compiled), self._outputs, self._sightings.values(), self._arrays.ready)

    def _see(self, task: Task) -> None:
        """Tells the watch what a task has made."""
        watch, accumulators = self._request.watch, self._arrays.accumulators
        if task.kind in (Kind.BACKWARD, Kind.WEIGHT_GRADIENT):
            watch.see(task, (), accumulators[task.stage])
        elif task.kind is Kind.FORWARD:
            watch.see(task, self._latest, accumulators[task.stage] if task.stage == self._last else ())

    def _forward(self, stage: int, microbatch: int) -> None:
        compiled, arrays = self._compiled, self._arrays
        totals = self._sightings.totals(stage, _FORWARD) if stage in self._reduces_watched else _NOTHING
        args, params = self._inbox.arguments(stage, microbatch, arrays.aux[stage]), arrays.current(stage)
        if stage == self._last:
            assert compiled.last is not None
            arrays.accumulators[stage], outputs, arrays.aux[stage], loss, gradients, rows, totals = compiled.last(
                arrays.accumulators[stage], arrays.packed[stage] or params, args, compiled.before[stage][microbatch], totals
            )
            if rows or totals:
                self._sightings.saw(stage, _FORWARD, microbatch, rows, totals)
            self._outputs[microbatch] = [outputs, loss or outputs[:1]]
            self._latest = outputs
            self._last_gradients[microbatch] = gradients
            return
        programs = compiled.programs[stage]
        read = arrays.packed[stage] or params if arrays.packed else params
        outputs, arrays.aux[stage], values, rows, totals = programs.forward(read, args, totals)
        if rows or totals:
            self._sightings.saw(stage, _FORWARD, microbatch, rows, totals)
        self._latest = outputs
        if self._is_training:
            kept_args = [args[index] for index in programs.kept_args]
            self._kept[stage][microbatch] = Kept(kept_args, values, params if self._stashes_params else None)
        if stage in self._last_level:
            self._outputs[microbatch].append(outputs)
        else:
            self._inbox.send(stage, microbatch, outputs)

    def _backward(self, stage: int, microbatch: int) -> None:
        if stage == self._last:
            self._send_back_last(stage, microbatch)
            return
        compiled, arrays = self._compiled, self._arrays
        kept, self._kept[stage][microbatch] = self._kept[stage][microbatch], None
        backward = compiled.programs[stage].backward
        assert backward is not None and kept is not None  # noqa: PT018  # it trains, and forward was before
        params = arrays.read_params(compiled, stage, kept.params)
        of_outputs = self._inbox.output_gradients(stage, microbatch)
        number = compiled.before[stage][microbatch]
        totals = self._sightings.totals(stage, _BACKWARD) if stage in self._reduces_watched else _NOTHING
        arrays.accumulators[stage], gradients, rows, totals = backward(
            arrays.accumulators[stage], params, kept.args, kept.values, of_outputs, number, totals
        )
        if rows or totals:
            self._sightings.saw(stage, _BACKWARD, microbatch, rows, totals)
        self._inbox.send_back(stage, microbatch, gradients)

    def _send_back_last(self, stage: int, microbatch: int) -> None:
        """The last stage's backward was one program with its forward."""
        gradients, self._last_gradients[microbatch] = self._last_gradients[microbatch], None
        self._inbox.send_back(stage, microbatch, gradients)

    def _input_gradient(self, stage: int, microbatch: int) -> None:
        if stage == self._last:
            self._send_back_last(stage, microbatch)
            return
        program, kept = self._compiled.programs[stage].input_gradient, self._kept[stage][microbatch]
        assert program is not None and kept is not None  # noqa: PT018  # the schedule has such tasks, and forward was before
        of_outputs = self._inbox.output_gradients(stage, microbatch)
        params = self._arrays.read_params(self._compiled, stage)
        totals = self._sightings.totals(stage, _BACKWARD) if stage in self._reduces_watched else _NOTHING
        gradients, values, rows, totals = program(params, kept.args, kept.values, of_outputs, totals)
        if rows or totals:
            self._sightings.saw(stage, _BACKWARD, microbatch, rows, totals)
        self._crossing[stage][microbatch] = Crossing(of_outputs, values)
        self._inbox.send_back(stage, microbatch, gradients)

    def _weight_gradient(self, stage: int, microbatch: int) -> None:
        if stage == self._last:
            return
        compiled, accumulators = self._compiled, self._arrays.accumulators
        kept, self._kept[stage][microbatch] = self._kept[stage][microbatch], None
        crossing, self._crossing[stage][microbatch] = self._crossing[stage][microbatch], None
        program = compiled.programs[stage].weight_gradient
        assert program is not None  # the schedule has such tasks
        assert kept is not None and crossing is not None  # noqa: PT018  # forward and the input's gradient were before
        params, number = self._arrays.read_params(compiled, stage), compiled.before[stage][microbatch]
        (accumulators[stage],) = program(accumulators[stage], params, kept.args, kept.values, crossing.gradients, crossing.values, number)

    def _store(self, stage: int, microbatch: int) -> None:
        """Moves what backward needs to the host's memory."""
        self._move_kept(stage, microbatch, _HOST)

    def _load(self, stage: int, microbatch: int) -> None:
        """Moves it back."""
        self._move_kept(stage, microbatch, _DEVICE)

    def _move_kept(self, stage: int, microbatch: int, space: Any) -> None:
        kept = self._kept[stage][microbatch]
        if kept is not None and self._compiled.traced.stages[stage].placement.is_local:
            self._kept[stage][microbatch] = kept.in_memory(space)
