"""One walk through the order of a schedule's tasks: what is on its way between them, and who gets it."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, final

from tilestep.train.jax_private.device_put import copied, is_whole, whole_copied
from tilestep.train.offload import on_device, placed_like
from tilestep.train.pipeline.compile.programs import Compiled
from tilestep.train.pipeline.compile.tracing import Element
from tilestep.train.pipeline.run.processes import Processes
from tilestep.train.pipeline.run.state import Ready, RunState, StageState
from tilestep.train.pipeline.run.watch import Watch
from tilestep.train.processes.remote import Put, put_here
from tilestep.train.schedules.phasing import Phases
from tilestep.train.schedules.schedule import Kind, Schedule, Task
from tilestep.train.untyped import jax as _jax

_HOST: Final = _jax.memory.Space.Host
_DEVICE: Final = _jax.memory.Space.Device
_OF_JAX: Final = "JAX has removed its internal frames"  # a note that says nothing of the stage


@final
class Walk:
    """One run of a schedule. What it makes of the state's arrays is new; updates donate them.

    Args:
        ready: what the run before has left of each stage; its accumulators are donated.
        soon: of each phase, how many elements are taken by its end, if they can be had without waiting: they go with its copies.
        processes: those in which the stages are, if they are several.
        direct: whether the programs are started directly, so that all that goes between stages is arrays that are whole on a device.
    """

    def __init__(
        self,
        schedule: Schedule,
        phases: Phases,
        compiled: Compiled,
        state: RunState,
        first: Element,
        elements: Iterator[Element],
        key: Any,
        watch: Watch,
        soon: Sequence[int],
        ready: Sequence[Ready | None],
        processes: Processes | None = None,
        *,
        direct: bool = False,
    ) -> None:
        self._put: Put = copied if processes is None else processes.put
        self._put_joint: Put = _jax.device_put if processes is None else processes.put_copies
        self._put_copies: Put = functools.partial(_jax.device_put, may_alias=False) if processes is None else processes.put_copies
        self._schedule, self._phases, self._compiled, self._state, self._elements = schedule, phases, compiled, state, elements
        self._levels = self._schedule.levels
        self._routes = compiled.routes
        stages, count = len(compiled.traced.stages), self._schedule.microbatches
        self._places = [stage.place for stage in compiled.traced.stages]
        self._put_moves: Put = whole_copied if direct else self._put
        self._level_of = [level for level, members in enumerate(self._levels) for _ in members]
        self._params = [_jax.tree.leaves(own.params) for own in state.stages]
        self._aux = [_jax.tree.leaves(own.aux) for own in state.stages]
        self._optimizer_states = [own.optimizer_state for own in state.stages]
        self._joint = state.joint
        if compiled.updates and self._schedule.weights != "same":  # the first updates come long before the run is over, and may fail
            own_states = zip(self._places, self._params, self._optimizer_states, strict=True)
            copies = [_copied((params, own)) if place.is_here else (params, own) for place, params, own in own_states]
            self._params, self._optimizer_states = [own[0] for own in copies], [own[1] for own in copies]
        started = [self._started(*of_stage) for of_stage in zip(range(stages), ready, strict=True)] if compiled.updates else []
        self._packed: list[list[Any] | None] = [own for own, _ in started]
        self._accumulators: list[Any] = [zeros for _, zeros in started]
        self._ready: list[Ready | None] = [None] * stages
        self._args: list[list[Any]] = [[None] * count for _ in range(stages)]  # leaves from before, on the stage's devices
        self._kept: list[list[Any]] = [[None] * count for _ in range(stages)]  # what backward needs: arguments, values, parameters
        self._gradients: list[list[Any]] = [[None] * count for _ in range(stages)]  # of the outputs, from each stage of the next level
        self._wanted: list[list[Any]] = [[None] * count for _ in range(stages)]  # the same, between input and weight gradients
        self._last_gradients: list[Any] = [None] * count
        self._outputs: list[list[Any]] = [[] for _ in range(count)]
        self._due = [len(group) for group in compiled.groups]
        self._group_of = {stage: index for index, group in enumerate(compiled.groups) for stage in group}
        self._moves: list[tuple[Any, Any, list[Any], int]] = []  # at the end of the phase: (value, sharding, where it goes, place there)
        self._keys = self._placed_keys(key)
        inputs = _jax.tree.leaves(first[0])
        self._inputs = [put_here(inputs, [self._places[stage].whole] * len(inputs)) if inputs else [] for stage in self._levels[0]]
        self._watch = watch
        self._last = stages - 1 if compiled.last is not None else None  # whose gradients are made with its forward, in one program
        self._latest: list[Any] = []  # what the last forward has returned
        self._soon = soon
        self._arrived = 0  # elements taken from the dataset
        self._take(first)

    def done(self) -> tuple[RunState, list[Any], list[Ready | None]]:
        """Does all tasks. Returns: (the new state, of each microbatch what the stages of the last level returned, what the next run may
        begin with)."""
        watch, sees = self._watch, self._watch.is_needed
        act: dict[Kind, Callable[[int, Any], None]] = {
            Kind.FORWARD: self._forward,
            Kind.BACKWARD: self._backward,
            Kind.INPUT_GRADIENT: self._input_gradient,
            Kind.WEIGHT_GRADIENT: self._weight_gradient,
            Kind.UPDATE: self._update,
            Kind.STORE: self._store,
            Kind.LOAD: self._load,
        }
        task: Task | None = None
        try:
            for phase, soon in zip(self._phases, self._soon, strict=True):
                for task in phase:
                    act[task.kind](task.stage, task.microbatch)
                    if sees:
                        self._see(task)
                while self._arrived < soon:
                    self._take(next(self._elements), with_copies=True)
                self._move()
        except Exception as error:
            says_more = any(_OF_JAX not in note for note in getattr(error, "__notes__", ()))
            if task is not None and not says_more:
                error.add_note(watch.note(task))
            raise
        if self._compiled.last is None:
            watch.look()
        stages = tuple(
            StageState(
                params=_jax.tree.unflatten(stage.params_structure, params),
                optimizer_state=state,
                aux=_jax.tree.unflatten(stage.aux_structure, aux),
            )
            for stage, params, state, aux in zip(self._compiled.traced.stages, self._params, self._optimizer_states, self._aux, strict=True)
        )
        return RunState(stages=stages, joint=self._joint), self._outputs, self._ready

    def _see(self, task: Task) -> None:
        if task.kind in (Kind.BACKWARD, Kind.WEIGHT_GRADIENT):
            self._watch.see(task, (), self._accumulators[task.stage])
        elif task.kind is Kind.FORWARD and self._compiled.last is None:
            self._watch.see(task, self._latest, ())
        elif task.kind is Kind.FORWARD:
            self._watch.see(task, self._latest, self._accumulators[task.stage] if task.stage == self._last else ())

    # ------------------------------------------------------------------------------------------------------ what comes

    def _placed_keys(self, key: Any) -> dict[int, Any]:
        """The run's key on the devices of each stage that has one of its own."""
        wanting = [number for number, wants in enumerate(self._compiled.traced.keyed) if wants]
        if not wanting:
            return {}
        data = _jax.random.key_data(key)
        return dict(zip(wanting, put_here([data] * len(wanting), [self._places[number].whole for number in wanting]), strict=True))

    def _take(self, element: Element, *, with_copies: bool = False) -> None:
        """An element's leaves go to the stages of the first level."""
        count = self._schedule.microbatches if self._compiled.traced.is_whole else 1
        microbatch, self._arrived = self._arrived, self._arrived + count
        leaves = _jax.tree.leaves(element[1:])
        members = self._levels[0]
        for stage, inputs in zip(members, self._inputs, strict=True):
            where = self._places[stage].along(1)
            args = [*inputs, *leaves]
            self._args[stage][microbatch : microbatch + count] = [args] * count
            if all(getattr(leaf, "sharding", None) == where for leaf in leaves):
                continue
            if with_copies and all(map(is_whole, leaves)):
                self._moves += [(leaf, where, args, len(inputs) + index) for index, leaf in enumerate(leaves)]
            else:
                args[len(inputs) :] = self._put(leaves, [where] * len(leaves))

    def _arguments(self, stage: int, microbatch: int) -> list[Any]:
        """All leaves of a stage's arguments."""
        args = self._args[stage][microbatch]
        if args is None:
            assert self._level_of[stage] == 0  # later levels have what was handed to them
            while self._arrived <= microbatch:
                self._take(next(self._elements))
            args = self._args[stage][microbatch]
        self._args[stage][microbatch] = None
        all_args = [*args, *self._aux[stage]]
        key = self._keys.get(stage)
        if key is not None:
            all_args.append(key)
        if key is not None or (self._level_of[stage] == 0 and self._compiled.traced.is_whole):
            all_args.append(self._compiled.numbers[stage][microbatch])
        return all_args

    def _started(self, stage: int, ready: Ready | None) -> tuple[list[Any] | None, list[Any]]:
        """(a stage's parameters as its programs take them; None if that is each by itself, accumulators). The former stay in this run."""
        program, params = self._compiled.starts[stage], self._params[stage]
        if program is None:
            return None, self._compiled.updates[stage].zeros()
        packing = self._compiled.packings[stage].params
        if ready is not None and all(map(operator.is_, ready.leaves, self._together(stage))):
            packs, zeros = ready.packs, ready.accumulators
        else:
            packs, zeros = program([[params[place] for place in pack] for pack in packing.packs])
        return [*(params[place] for place in packing.alone), *packs], zeros

    def _together(self, stage: int) -> list[Any]:
        params = self._params[stage]
        return [params[place] for pack in self._compiled.packings[stage].params.packs for place in pack]

    # ------------------------------------------------------------------------------------------------------- what goes

    def _pass_on(self, stage: int, microbatch: int, outputs: list[Any]) -> None:
        """The outputs' leaves go to the stages that read them."""
        rows = self._args
        for source, taker, place, sharding in self._routes.ways[stage]:
            args = rows[taker][microbatch]
            if args is None:
                args = rows[taker][microbatch] = list(self._routes.blank[taker])
            if sharding is None:
                args[place] = outputs[source]
            else:
                self._moves.append((outputs[source], sharding, args, place))

    def _hand_back(self, stage: int, microbatch: int, gradients: list[Any]) -> None:
        """Gradients of a stage's arguments go to the stages that gave them."""
        for giver, sources, sharding in self._routes.backs[stage]:
            waiting = [gradients[source] for source in sources]
            taken = self._gradients[giver][microbatch]
            if taken is None:
                taken = self._gradients[giver][microbatch] = {}
            taken[stage] = waiting
            if sharding is not None:
                self._moves += [(gradient, sharding, waiting, index) for index, gradient in enumerate(waiting)]

    def _move(self) -> None:
        """At the end of a phase; what goes to a stage on the same devices is there at once, and may follow in this phase."""
        if not self._moves:
            return
        moves, self._moves = self._moves, []
        moved = self._put_moves([move[0] for move in moves], [move[1] for move in moves])
        for (_, _, there, place), value in zip(moves, moved, strict=True):
            there[place] = value

    def _output_gradients(self, stage: int, microbatch: int) -> list[Any]:
        """The gradients of a stage's real outputs, from all stages that read them, on its devices."""
        taken, self._gradients[stage][microbatch] = self._gradients[stage][microbatch], None
        found = list(taken.values())  # each has them in the order of the outputs
        return found[0] if len(found) == 1 or not self._places[stage].is_here else gradient_sum(found)

    # ----------------------------------------------------------------------------------------------------------- tasks

    def _forward(self, stage: int, microbatch: int) -> None:
        compiled = self._compiled
        args, params = self._arguments(stage, microbatch), self._params[stage]
        if stage == self._last:
            assert compiled.last is not None
            accumulators, outputs, aux, loss, gradients = compiled.last(
                self._accumulators[stage], self._packed[stage] or params, args, compiled.before[stage][microbatch]
            )
            self._accumulators[stage], self._aux[stage] = accumulators, aux
            self._outputs[microbatch] = [outputs, loss or outputs[:1]]
            self._latest = outputs
            self._last_gradients[microbatch] = gradients
            return
        programs = compiled.programs[stage]
        outputs, aux, kept = programs.forward(self._packed[stage] or params if self._packed else params, args)
        self._latest = outputs
        self._aux[stage] = aux
        if compiled.last is not None:
            stashed = params if self._schedule.weights == "stashed" else None
            self._kept[stage][microbatch] = [[args[place] for place in programs.kept_args], kept, stashed]
        if self._level_of[stage] == len(self._levels) - 1:
            self._outputs[microbatch].append(outputs)
        else:
            self._pass_on(stage, microbatch, outputs)

    def _read(self, stage: int, params: list[Any]) -> list[Any]:
        """The parameters that backward reads."""
        packed = self._packed[stage]
        if packed is not None:
            return packed
        places = self._compiled.programs[stage].kept_params
        return params if len(places) == len(params) else [params[place] for place in places]

    def _backward(self, stage: int, microbatch: int) -> None:
        if stage == self._last:
            gradients, self._last_gradients[microbatch] = self._last_gradients[microbatch], None
        else:
            backward = self._compiled.programs[stage].backward
            assert backward is not None  # it trains
            args, kept, stashed = self._kept[stage][microbatch]
            self._kept[stage][microbatch] = None
            params = self._read(stage, self._params[stage] if stashed is None else stashed)
            wanted = self._output_gradients(stage, microbatch)
            number = self._compiled.before[stage][microbatch]
            self._accumulators[stage], gradients = backward(self._accumulators[stage], params, args, kept, wanted, number)
        self._hand_back(stage, microbatch, gradients)

    def _input_gradient(self, stage: int, microbatch: int) -> None:
        if stage == self._last:
            gradients, self._last_gradients[microbatch] = self._last_gradients[microbatch], None
            self._hand_back(stage, microbatch, gradients)
            return
        program = self._compiled.programs[stage].input_gradient
        assert program is not None  # the schedule has such tasks
        args, kept, _ = self._kept[stage][microbatch]
        wanted = self._output_gradients(stage, microbatch)
        gradients, crossed = program(self._read(stage, self._params[stage]), args, kept, wanted)
        self._wanted[stage][microbatch] = wanted, crossed
        self._hand_back(stage, microbatch, gradients)

    def _weight_gradient(self, stage: int, microbatch: int) -> None:
        if stage == self._last:
            return
        program = self._compiled.programs[stage].weight_gradient
        assert program is not None  # the schedule has such tasks
        args, kept, _ = self._kept[stage][microbatch]
        wanted, crossed = self._wanted[stage][microbatch]
        self._kept[stage][microbatch] = self._wanted[stage][microbatch] = None
        number = self._compiled.before[stage][microbatch]
        params = self._read(stage, self._params[stage])
        (self._accumulators[stage],) = program(self._accumulators[stage], params, args, kept, wanted, crossed, number)

    def _store(self, stage: int, microbatch: int) -> None:
        """What backward needs goes to the host's memory."""
        kept = self._kept[stage][microbatch]
        if kept is not None and self._places[stage].is_here:
            kept[:2] = _jax.device_put(kept[:2], _HOST)

    def _load(self, stage: int, microbatch: int) -> None:
        kept = self._kept[stage][microbatch]
        if kept is not None and self._places[stage].is_here:
            kept[:2] = _jax.device_put(kept[:2], _DEVICE)

    # --------------------------------------------------------------------------------------------------------- updates

    def _update(self, stage: int, microbatch: int | None) -> None:
        """The update of a stage, or of all with which it shares parameters or an optimiser, when the last of them is due."""
        group = self._group_of[stage]
        self._due[group] -= 1
        if self._due[group]:
            return
        self._watch.look()
        members = self._compiled.groups[group]
        self._due[group] = len(members)
        self._add_up(members)
        if self._compiled.joint is not None:
            self._update_jointly()
        else:
            for member in members:
                self._update_one(member, self._schedule.microbatches - 1 if microbatch is None else microbatch)
        self._share(members)

    def _ties(self, members: Sequence[int]) -> list[Sequence[tuple[int, int]]]:
        return [tie for tie in self._compiled.ties if tie[0][0] in members]

    def _add_up(self, members: Sequence[int]) -> None:
        """Gradients of tied parameters are added to those of the first of them, which is updated."""
        for tie in self._ties(members):
            owner, leaf = tie[0]
            index = self._accumulator_of(owner, leaf)
            for other, place in tie[1:]:
                gradient = self._accumulators[other][self._accumulator_of(other, place)]
                there = self._accumulators[owner][index].sharding
                if gradient.sharding != there:
                    (gradient,) = self._put_copies([gradient], [there])
                if self._places[owner].is_here:
                    self._accumulators[owner][index] = _add(self._accumulators[owner][index], gradient)

    def _accumulator_of(self, stage: int, leaf: int) -> int:
        """Where a tied parameter's accumulator is among the stage's: by itself."""
        compiled = self._compiled
        return compiled.packings[stage].accumulators.alone.index(compiled.traced.stages[stage].real_params.index(leaf))

    def _share(self, members: Sequence[int]) -> None:
        """Tied parameters are as the first of them is: the same array where they are on the same devices, elsewhere copies of it."""
        for tie in self._ties(members):
            owner, leaf = tie[0]
            value = self._params[owner][leaf]
            for other, place in tie[1:]:
                there = self._params[other][place].sharding
                self._params[other][place] = value if value.sharding == there else self._put_copies([value], [there])[0]

    def _extras(self, stage: int, places: Sequence[int], microbatch: int) -> Sequence[Any]:
        """What the optimiser depends on, of the last stage's outputs."""
        outputs = self._outputs[microbatch][0]
        return self._put([outputs[place] for place in places], [self._places[stage].along(0)] * len(places)) if places else []

    def _update_one(self, stage: int, microbatch: int) -> None:
        compiled = self._compiled
        update = compiled.updates[stage]
        own = self._params[stage] = list(self._params[stage])  # that of microbatches under way stays
        trained = [own[place] for place in update.trained]
        extras = self._extras(stage, update.extras, microbatch)
        if self._optimizer_states[stage] is None:
            self._optimizer_states[stage] = update.init(trained, extras)
        zeros, self._optimizer_states[stage], new, packs = update.apply(
            self._accumulators[stage], self._optimizer_states[stage], trained, extras
        )
        for place, leaf in zip(update.trained, new, strict=True):
            own[place] = leaf
        self._accumulators[stage] = zeros or None
        if update.readies:  # the only one of the run
            self._ready[stage] = Ready(leaves=self._together(stage), packs=packs, accumulators=zeros)

    def _update_jointly(self) -> None:
        compiled = self._compiled
        joint = compiled.joint
        assert joint is not None
        trained = [[own[place] for place in update.trained] for own, update in zip(self._params, compiled.updates, strict=True)]
        outputs = self._outputs[-1][0] if joint.extras else []
        extras = [outputs[place] for place in joint.extras]
        if self._joint is None:
            self._joint = joint.init(trained, extras, self._put_joint)
        new, self._joint = joint.apply(trained, self._joint, self._accumulators, extras, self._put_joint)
        self._accumulators = [None] * len(self._accumulators)  # donated in part, and not needed
        for own, update, leaves in zip(self._params, compiled.updates, new, strict=True):
            for place, leaf in zip(update.trained, leaves, strict=True):
                own[place] = leaf


def next_elements(schedule: Schedule, phases: Phases) -> tuple[int, ...]:
    """Of each phase, how many elements the next one's tasks need."""
    first = schedule.levels[0]
    needed = [
        max((task.microbatch + 1 for task in phase if task.stage in first and task.microbatch is not None), default=0) for phase in phases
    ]
    return (*needed[1:], 0)


@_jax.jit
def _copied(tree: Any) -> Any:
    return placed_like(_jax.tree.map(_jax.numpy.copy, on_device(tree)), tree)


_add: Any = _jax.jit(lambda a, b: a + b.astype(a.dtype))


@_jax.jit
def gradient_sum(rows: Sequence[Sequence[Any]]) -> list[Any]:
    """The gradients of outputs that several stages read. Traces of emulated machines have it by its name."""
    return [sum(column[1:], column[0]) for column in zip(*rows, strict=True)]
