"""Runs a schedule: a program for each task, started by the host in the schedule's order, and copies between devices in between.

The host only starts work. Each device does what it is given in order; a program waits on the device for the copies that it needs. So the
order in which the host starts tasks of different devices changes nothing but how early each is known. Where devices wait for each other
to pass something on, as IPUs do, it says between which tasks they do: copies come at the ends of phases.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

import jax
import numpy as np

from tilestep.train.accumulation import Choice, Reduction, finished, zeros_for
from tilestep.train.pipeline_stages import Program, Programs, Stage, is_real, make_last, make_programs
from tilestep.train.schedule import Kind, Schedule, Task
from tilestep.train.schedule_phases import Phases, phases

if TYPE_CHECKING:
    import optax

_jax: Any = jax  # whose types say nothing of what is in a tree

Element = tuple[tuple[Any, ...], tuple[Any, ...], dict[str, Any]]  # (inputs, stacked items, stacked keyword items)


@dataclass(frozen=True, kw_only=True)
class StageState:
    """What one stage trains: a tree of parameters, and the optimiser's state of them."""

    params: Any
    optimizer_state: Any


@dataclass(frozen=True, kw_only=True)
class _Compiled:
    """Everything that follows from the shapes of parameters and arguments.

    Attributes:
        stages: as traced.
        programs: of each stage.
        last: forward and backward of the last stage in one; None in inference.
        updates: of each stage: (params' leaves, optimiser's state, accumulators) -> the same after the update, accumulators of zeros.
        zeros: of each stage, makes its accumulators.
        real_params: of each stage, places of the parameters' leaves that are trained.
        incoming: of each stage, for each of its arguments' leaves: (stage, place among its outputs' leaves); empty for the first level.
    """

    stages: tuple[Stage, ...]
    programs: tuple[Programs, ...]
    last: Program | None
    updates: tuple[Program, ...]
    zeros: tuple[Program, ...]
    real_params: tuple[tuple[int, ...], ...]
    incoming: tuple[tuple[tuple[int, int], ...], ...]


@final
class Engine:
    """Runs one schedule with any parameters. Programs are kept for each set of shapes."""

    def __init__(
        self,
        *,
        functions: Sequence[Callable[..., Any]],
        names: Sequence[str],
        devices: Sequence[Any],
        schedule: Schedule,
        optimizer: optax.GradientTransformation | None,
        reduction: Reduction,
        accumulator_dtype: Any | Choice,
    ) -> None:
        self._functions, self._names, self._devices, self._schedule = functions, names, devices, schedule
        self._optimizer, self._accumulator_dtype = optimizer, accumulator_dtype
        self._reduction: Reduction = reduction
        self._compiled: dict[Any, _Compiled] = {}
        self._phases = phases(schedule)
        # Where each microbatch has an update of its own, its gradient is all there is to reduce.
        self._per_update = schedule.microbatches if schedule.weights == "same" else 1
        self._before = [np.int32(m % self._per_update) for m in range(schedule.microbatches)]

    def init(self, params: Sequence[Any]) -> list[StageState]:
        """Copies on the stages' devices, and new states of the optimiser."""
        states: list[StageState] = []
        for own, device in zip(params, self._devices, strict=True):
            placed = _jax.tree.map(lambda leaf, device=device: _jax.device_put(leaf, device, may_alias=False), own)
            trained = _jax.tree.map(lambda leaf: leaf if is_real(leaf) else None, placed)
            state = None if self._optimizer is None else _jax.device_put(_jax.jit(self._optimizer.init)(trained), device)
            states.append(StageState(params=placed, optimizer_state=state))
        return states

    def run(self, states: Sequence[StageState], elements: Iterable[Element]) -> tuple[list[StageState], Any]:
        """One run of the schedule. Returns: (new states, what the last level returned, stacked)."""
        return _Run(self, states, iter(elements)).result()

    def compiled(self, states: Sequence[StageState], element: Element) -> _Compiled:
        """The programs for such parameters and such an element."""
        inputs, items, keywords = element
        key = _key(([state.params for state in states], inputs, items, keywords))
        found = self._compiled.get(key)
        if found is None:
            found = self._compiled[key] = self._compile(states, element)
        return found

    # --------------------------------------------------------------------------------------------------------- tracing

    def _compile(self, states: Sequence[StageState], element: Element) -> _Compiled:
        training = self._optimizer is not None
        stages: list[Stage] = []
        incoming: list[tuple[tuple[int, int], ...]] = []
        before: list[
            tuple[Any, tuple[int, int]]
        ] = []  # the level before's outputs: (tree of one argument, (stage, its first leaf's place))
        for level, members in enumerate(self._schedule.levels):
            here: list[tuple[Any, tuple[int, int]]] = []
            for number in members:
                call, leaves, where = self._call(number, element if not level else None, [tree for tree, _ in before])
                if level:
                    where = [(stage, first + offset) for tree, (stage, first) in before for offset in range(len(_jax.tree.leaves(tree)))]
                params = _jax.tree.map(_kind, states[number].params)
                outputs = self._outputs(number, call, params, leaves)
                if training and level == len(self._schedule.levels) - 1:
                    self._require_loss(number, outputs)
                stages.append(
                    Stage(
                        number=number,
                        call=call,
                        params=params,
                        args=tuple(leaves),
                        needs_gradient=tuple(place for place, leaf in enumerate(leaves) if training and level and is_real(leaf)),
                        outputs=outputs,
                    )
                )
                incoming.append(tuple(where))
                first = 0
                for tree in outputs:
                    here.append((tree, (number, first)))
                    first += len(_jax.tree.leaves(tree))
            before = here
        reduction = self._reduction
        last = self._schedule.levels[-1][0]
        real = tuple(
            tuple(place for place, leaf in enumerate(_jax.tree.leaves(stage.params)) if training and is_real(leaf)) for stage in stages
        )
        return _Compiled(
            stages=tuple(stages),
            programs=tuple(make_programs(stage, training=training, reduction=reduction) for stage in stages),
            last=make_last(stages[last], reduction=reduction) if training else None,
            updates=tuple(self._update(stage, real[stage.number]) for stage in stages) if training else (),
            zeros=tuple(self._zeros(stage) for stage in stages) if training else (),
            real_params=real,
            incoming=tuple(incoming),
        )

    def _call(
        self, number: int, element: Element | None, before: Sequence[Any]
    ) -> tuple[Callable[[Any, Sequence[Any]], tuple[Any, ...]], list[Any], list[tuple[int, int]]]:
        """(the stage's function over leaves, their kinds, nothing yet)."""
        function = self._functions[number]
        structure: Any
        if element is None:
            leaves, structure = _jax.tree.flatten(tuple(before))

            def call(params: Any, args: Sequence[Any]) -> tuple[Any, ...]:
                return _spread(function(params, *_jax.tree.unflatten(structure, args)))

            return call, leaves, []
        inputs, items, keywords = element
        kinds = _jax.tree.map(_kind, inputs), _jax.tree.map(_element_kind, items), _jax.tree.map(_element_kind, keywords)
        leaves, structure = _jax.tree.flatten(kinds)
        stacked = len(_jax.tree.leaves(kinds[0]))  # leaves from here on have an axis of one microbatch

        def first(params: Any, args: Sequence[Any]) -> tuple[Any, ...]:
            given, element_items, words = _jax.tree.unflatten(structure, [*args[:stacked], *(leaf[0] for leaf in args[stacked:])])
            return _spread(function(params, *given, *element_items, **words))

        axis = [jax.ShapeDtypeStruct((1, *leaf.shape), leaf.dtype) if place >= stacked else leaf for place, leaf in enumerate(leaves)]
        return first, axis, []

    def _outputs(self, number: int, call: Callable[..., Any], params: Any, args: Sequence[Any]) -> Any:
        """Shapes and dtypes of a stage's outputs. Raises: what its function raises, with a note; ValueError for a captured array."""
        try:
            closed, outputs = _jax.make_jaxpr(call, return_shape=True)(params, list(args))
        except Exception as error:
            error.add_note(
                f"raised by stage {number} ({self._names[number]}) of the pipeline, with arguments {[str(leaf) for leaf in args]}"
            )
            raise
        captured = [value for value in closed.consts if getattr(value, "ndim", 0)]
        if captured:
            names = ", ".join(_captured_name(self._functions[number], value) for value in captured)
            raise ValueError(
                f"stage {number} ({self._names[number]}) has captured {names}: what a stage computes with must come as a parameter, from "
                "the stage before or from `inputs`, for it may be on another device"
            )
        return outputs

    def _require_loss(self, number: int, outputs: Any) -> None:
        leaves = _jax.tree.leaves(outputs)
        if not leaves or leaves[0] is not outputs[0] or leaves[0].shape != () or not is_real(leaves[0]) or leaves[0].dtype.kind == "c":
            found = str(outputs[0]) if outputs else "nothing"
            raise ValueError(
                f"the last stage ({self._names[number]}) must return the loss, a real scalar, or (loss, outputs), but it returned {found}"
            )

    def _update(self, stage: Stage, real: Sequence[int]) -> Program:
        optimizer = self._optimizer
        assert optimizer is not None  # it trains
        structure, count = _jax.tree.structure(stage.params), self._per_update

        def update(leaves: Sequence[Any], state: Any, accumulators: Sequence[Any]) -> tuple[Any, Any, Any]:
            chosen = [leaf if place in real else None for place, leaf in enumerate(leaves)]
            params = _jax.tree.unflatten(structure, chosen)
            found = {place: finished(a, count, self._reduction) for place, a in zip(real, accumulators, strict=True)}
            gradients = _jax.tree.unflatten(structure, [found.get(place) for place in range(len(leaves))])
            updates, state = optimizer.update(gradients, state, params)
            changes = iter(_jax.tree.leaves(updates))
            new = [
                (leaf + next(changes).astype(leaf.dtype)).astype(leaf.dtype) if place in real else leaf for place, leaf in enumerate(leaves)
            ]
            return new, state, [_jax.numpy.zeros_like(accumulator) for accumulator in accumulators]

        update.__name__ = update.__qualname__ = f"stage_{stage.number}_update"
        # Weights that are stashed are those of microbatches under way.
        return _jax.jit(update, donate_argnums=(1, 2) if self._schedule.weights == "stashed" else (0, 1, 2))

    def _zeros(self, stage: Stage) -> Program:
        device = self._devices[stage.number]

        def zeros() -> list[Any]:
            return _jax.tree.leaves(zeros_for(stage.params, self._accumulator_dtype))

        return _jax.jit(zeros, out_shardings=jax.sharding.SingleDeviceSharding(device))

    @property
    def phases(self) -> Phases:
        """All tasks, in the order in which the host starts them: after each phase it copies what other devices need."""
        return self._phases

    @property
    def schedule(self) -> Schedule:
        """What is run."""
        return self._schedule

    @property
    def devices(self) -> Sequence[Any]:
        """Each stage's."""
        return self._devices

    @property
    def training(self) -> bool:
        """Whether there is an optimiser."""
        return self._optimizer is not None

    def microbatch(self, number: int) -> Any:
        """How many microbatches are in the accumulators before this one, as backward programs take it."""
        return self._before[number]


@final
class _Run:
    """One run: what is on its way between tasks."""

    def __init__(self, engine: Engine, states: Sequence[StageState], elements: Any) -> None:
        self._engine, self._elements = engine, elements
        schedule = engine.schedule
        self._levels = schedule.levels
        self._level_of = {stage: level for level, members in enumerate(self._levels) for stage in members}
        self._structures = [_jax.tree.structure(state.params) for state in states]
        self._params = [_jax.tree.leaves(state.params) for state in states]
        self._optimizer_states = [state.optimizer_state for state in states]
        self._states = states
        self._accumulators: list[Any] = [None] * len(states)
        self._args: dict[tuple[int, int], list[Any]] = {}  # (stage, microbatch) -> its arguments' leaves, on its device
        self._kept: dict[tuple[int, int], tuple[list[Any], list[Any], Any]] = {}  # what backward needs: arguments, values, parameters
        self._copies: list[Callable[[], None]] = []  # to other devices, at the end of the phase
        self._gradients: dict[tuple[int, int, int], list[Any]] = {}  # (stage, its giver, microbatch) -> of arguments, on the giver's device
        self._wanted: dict[tuple[int, int], list[Any]] = {}  # of the outputs, between a stage's input and weight gradients
        self._last_gradients: dict[tuple[int, int], list[Any]] = {}
        self._outputs: list[Any] = [None] * schedule.microbatches
        self._arrived = 0  # elements taken from the dataset
        self._compiled: _Compiled | None = None

    def result(self) -> tuple[list[StageState], Any]:
        """Does all tasks."""
        engine = self._engine
        act = {
            Kind.FORWARD: self._forward,
            Kind.BACKWARD: self._backward,
            Kind.INPUT_GRADIENT: self._input_gradient,
            Kind.WEIGHT_GRADIENT: self._weight_gradient,
            Kind.UPDATE: self._update,
        }
        for phase in engine.phases:
            for task in phase:
                if self._compiled is None:
                    self._start()
                act[task.kind](task)
            copies, self._copies = self._copies, []
            for copy in copies:
                copy()
        states = [
            StageState(params=_jax.tree.unflatten(structure, params), optimizer_state=state)
            for structure, params, state in zip(self._structures, self._params, self._optimizer_states, strict=True)
        ]
        return states, self._stacked()

    def _start(self) -> None:
        element = self._take(0)
        self._compiled = self._engine.compiled(self._states, element)
        if self._engine.training:
            self._accumulators = [zeros() for zeros in self._compiled.zeros]
        for stage in self._levels[0]:
            self._args[stage, 0] = self._on_device(_jax.tree.leaves(element), stage)

    def _take(self, microbatch: int) -> Element:
        assert microbatch == self._arrived  # stages of the first level take microbatches in order
        self._arrived += 1
        return next(self._elements)

    def _on_device(self, leaves: list[Any], stage: int) -> list[Any]:
        return _jax.device_put(leaves, self._engine.devices[stage]) if leaves else leaves

    def _arguments(self, stage: int, microbatch: int) -> list[Any]:
        if self._level_of[stage] == 0 and (stage, microbatch) not in self._args:
            leaves = _jax.tree.leaves(self._take(microbatch))
            for member in self._levels[0]:
                self._args[member, microbatch] = self._on_device(leaves, member)
        return self._args.pop((stage, microbatch))

    def _forward(self, task: Task) -> None:
        stage, microbatch = task.stage, task.microbatch
        assert microbatch is not None  # only updates have none
        compiled = self._compiled
        assert compiled is not None  # the run has started
        args = self._arguments(stage, microbatch)
        params = self._params[stage]
        level = self._level_of[stage]
        if compiled.last is not None and level == len(self._levels) - 1:
            number = self._engine.microbatch(microbatch)
            accumulators, outputs, gradients = compiled.last(self._accumulators[stage], params, args, number)
            self._accumulators[stage] = accumulators
            self._outputs[microbatch] = outputs
            self._last_gradients[stage, microbatch] = gradients
            return
        programs = compiled.programs[stage]
        outputs, kept = programs.forward(params, args)
        if programs.backward is not None:
            stashed = params if self._engine.schedule.weights == "stashed" else None
            self._kept[stage, microbatch] = ([args[place] for place in programs.kept_args], kept, stashed)
        if level == len(self._levels) - 1:
            self._outputs[microbatch] = (self._outputs[microbatch] or []) + [(stage, outputs)]
            return
        self._pass_on(stage, microbatch, outputs)

    def _pass_on(self, stage: int, microbatch: int, outputs: list[Any]) -> None:
        """The outputs' leaves go to the stages of the next level, each as soon as it is there."""
        compiled = self._compiled
        assert compiled is not None
        for after in self._levels[self._level_of[stage] + 1]:
            incoming = compiled.incoming[after]
            args = self._args.setdefault((after, microbatch), [None] * len(incoming))
            places = [(place, source) for place, (giver, source) in enumerate(incoming) if giver == stage]

            def copy(after: int = after, args: list[Any] = args, places: list[tuple[int, int]] = places) -> None:
                moved = self._on_device([outputs[source] for _, source in places], after)
                for (place, _), value in zip(places, moved, strict=True):
                    args[place] = value

            self._copy(stage, after, copy)

    def _copy(self, giver: int, taker: int, copy: Callable[[], None]) -> None:
        """At the end of the phase; at once where the taker is on the same device, and may follow in this phase."""
        if self._engine.devices[giver] == self._engine.devices[taker]:
            copy()
        else:
            self._copies.append(copy)

    def _is_last(self, stage: int) -> bool:
        """Whether a stage's gradients are made with its forward, in one program."""
        return self._level_of[stage] == len(self._levels) - 1

    def _backward(self, task: Task) -> None:
        stage, microbatch = task.stage, task.microbatch
        assert microbatch is not None
        compiled = self._compiled
        assert compiled is not None
        if self._is_last(stage):
            gradients = self._last_gradients.pop((stage, microbatch))
        else:
            backward = compiled.programs[stage].backward
            assert backward is not None  # it trains
            args, kept, stashed = self._kept.pop((stage, microbatch))
            params = self._params[stage] if stashed is None else stashed
            number = self._engine.microbatch(microbatch)
            wanted = self._output_gradients(stage, microbatch)
            self._accumulators[stage], gradients = backward(self._accumulators[stage], params, args, kept, wanted, number)
        self._hand_back(stage, microbatch, gradients)

    def _input_gradient(self, task: Task) -> None:
        stage, microbatch = task.stage, task.microbatch
        assert microbatch is not None
        compiled = self._compiled
        assert compiled is not None
        if self._is_last(stage):
            self._hand_back(stage, microbatch, self._last_gradients.pop((stage, microbatch)))
            return
        program = compiled.programs[stage].input_gradient
        assert program is not None  # it trains
        args, kept, _ = self._kept[stage, microbatch]
        wanted = self._wanted[stage, microbatch] = self._output_gradients(stage, microbatch)
        if self._level_of[stage]:
            self._hand_back(stage, microbatch, program(self._params[stage], args, kept, wanted))

    def _weight_gradient(self, task: Task) -> None:
        stage, microbatch = task.stage, task.microbatch
        assert microbatch is not None
        compiled = self._compiled
        assert compiled is not None
        if self._is_last(stage):
            return
        program = compiled.programs[stage].weight_gradient
        assert program is not None  # it trains
        args, kept, _ = self._kept.pop((stage, microbatch))
        wanted = self._wanted.pop((stage, microbatch))
        number = self._engine.microbatch(microbatch)
        self._accumulators[stage] = program(self._accumulators[stage], self._params[stage], args, kept, wanted, number)

    def _hand_back(self, stage: int, microbatch: int, gradients: list[Any]) -> None:
        """Gradients of a stage's arguments go to the stages that gave them."""
        compiled = self._compiled
        assert compiled is not None
        if not self._level_of[stage]:
            return
        incoming, needs = compiled.incoming[stage], compiled.stages[stage].needs_gradient
        for giver in self._levels[self._level_of[stage] - 1]:
            mine = [gradient for place, gradient in zip(needs, gradients, strict=True) if incoming[place][0] == giver]

            def copy(giver: int = giver, mine: list[Any] = mine) -> None:
                self._gradients[stage, giver, microbatch] = self._on_device(mine, giver)

            self._copy(stage, giver, copy)

    def _output_gradients(self, stage: int, microbatch: int) -> list[Any]:
        """The gradients of a stage's real outputs, from all stages that read them, on its device."""
        compiled = self._compiled
        assert compiled is not None
        sums: dict[int, Any] = {}
        for after in self._levels[self._level_of[stage] + 1]:
            incoming = compiled.incoming[after]
            needs = compiled.stages[after].needs_gradient
            gradients = self._gradients.pop((after, stage, microbatch))
            mine = [incoming[place][1] for place in needs if incoming[place][0] == stage]
            for source, gradient in zip(mine, gradients, strict=True):
                sums[source] = gradient if source not in sums else _add(sums[source], gradient)
        return [sums[place] for place in compiled.programs[stage].real_outputs]

    def _update(self, task: Task) -> None:
        stage = task.stage
        compiled = self._compiled
        assert compiled is not None
        self._params[stage], self._optimizer_states[stage], self._accumulators[stage] = compiled.updates[stage](
            self._params[stage], self._optimizer_states[stage], self._accumulators[stage]
        )

    def _stacked(self) -> Any:
        """What the last level returned, along a new first axis."""
        compiled = self._compiled
        assert compiled is not None
        rows: list[Any] = []
        for outputs in self._outputs:
            if compiled.last is None:
                trees = [
                    tree
                    for stage, leaves in sorted(outputs, key=lambda entry: entry[0])
                    for tree in _jax.tree.unflatten(_jax.tree.structure(compiled.stages[stage].outputs), leaves)
                ]
            else:
                last = compiled.stages[self._levels[-1][0]]
                trees = list(_jax.tree.unflatten(_jax.tree.structure(last.outputs), outputs))
            rows.append(trees[0] if len(trees) == 1 else tuple(trees))
        return _stack(rows)


_stack_leaves: Any = _jax.jit(lambda *leaves: _jax.numpy.stack(leaves))
_add: Any = _jax.jit(lambda a, b: a + b)


def _stack(rows: Sequence[Any]) -> Any:
    return _jax.tree.map(lambda *leaves: _stack_leaves(*leaves), *rows)


def _spread(result: Any) -> tuple[Any, ...]:
    """A stage's result as arguments of the next one: a tuple's items, anything else as it is."""
    return tuple(result) if isinstance(result, tuple) else (result,)


def _kind(leaf: Any) -> Any:
    dtype = jax.dtypes.canonicalize_dtype(leaf.dtype if hasattr(leaf, "dtype") else np.asarray(leaf).dtype)
    return jax.ShapeDtypeStruct(np.shape(leaf), dtype)


def _element_kind(leaf: Any) -> Any:
    """Without the axis of one microbatch."""
    kind = _kind(leaf)
    return jax.ShapeDtypeStruct(kind.shape[1:], kind.dtype)


def _key(tree: Any) -> Any:
    leaves, structure = _jax.tree.flatten(tree)
    return structure, tuple((np.shape(leaf), str(_kind(leaf).dtype)) for leaf in leaves)


def _captured_name(function: Any, value: Any) -> str:
    """How the author called an array that a function has captured."""
    kind = f"{value.dtype}[{','.join(map(str, value.shape))}]"
    inner = inspect.unwrap(function)
    variables = inspect.getclosurevars(inner) if inspect.isfunction(inner) else None
    for name, found in {**variables.nonlocals, **variables.globals}.items() if variables is not None else ():
        alike = isinstance(found, np.ndarray | jax.Array) and (found.shape, found.dtype) == (value.shape, value.dtype)
        if alike and np.array_equal(np.asarray(found), np.asarray(value)):
            return f"{name} ({kind})"
    return f"an array {kind}"
