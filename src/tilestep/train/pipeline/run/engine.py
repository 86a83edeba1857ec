"""Runs a schedule: a program for each task, started by the host in the schedule's order, and copies between devices in between.

The host only starts work. Each device does what it is given in order; a program waits on the device for the copies that it needs. So the
order in which the host starts tasks of different devices changes nothing but how early each is known. Where devices wait for each other
to pass something on, as IPUs do, it says between which tasks they do: copies come at the ends of phases, those of a phase together.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import time
import weakref
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, final

import jax

from tilestep.train.feeds.narrow import require_held
from tilestep.train.jax_private.compiled_call import are_plain, may_start, options
from tilestep.train.offload import placed
from tilestep.train.pipeline.compile.heap import Pieces, hold_pieces
from tilestep.train.pipeline.compile.packing import apart
from tilestep.train.pipeline.compile.placement import Place
from tilestep.train.pipeline.compile.programs import Compiled, Told, compile_all, make_all, make_updates, started_directly
from tilestep.train.pipeline.compile.stage import Packings, Stage
from tilestep.train.pipeline.compile.tied import leaves_tied, require_equal
from tilestep.train.pipeline.compile.tracing import Element, Function, kind_of, trace
from tilestep.train.pipeline.compile.updates import Optimizing
from tilestep.train.pipeline.run.batches import Batch
from tilestep.train.pipeline.run.one_program import Chooser, OtherShapesError, Single, Which, brought, why_not_single
from tilestep.train.pipeline.run.processes import Processes, Settled
from tilestep.train.pipeline.run.state import Ready, RunState, StageState, with_one_array
from tilestep.train.pipeline.run.task_runner import Walk, next_elements
from tilestep.train.pipeline.run.watch import Watch
from tilestep.train.processes.remote import elsewhere, like_elsewhere
from tilestep.train.schedules.phasing import Phases, phases, updates_last
from tilestep.train.schedules.schedule import Kind, Schedule
from tilestep.train.untyped import jax as _jax

Accept = Callable[[Callable[[], list[Any]], list[Any]], None]  # (gives shapes and dtypes of a row of `Outcome.outputs`; `Outcome.kinds`)


class Outcome(NamedTuple):
    """What a run has made.

    Attributes:
        state: the new one.
        outputs: for each microbatch the leaves of what each stage of the last level returned, and in training [the loss]; or, if it
            `is_stacked`, the same lists of leaves with all microbatches.
        is_stacked: which.
        kinds: the trees of what these stages return.
    """

    state: RunState
    outputs: list[Any]
    is_stacked: bool
    kinds: list[Any]


class Runnable(NamedTuple):
    """The programs for certain shapes.

    Attributes: looked_up: as JAX finds them. direct: started without that (direct_calls.py); the same where that cannot be.
    """

    looked_up: Compiled
    direct: Compiled


class Latest(NamedTuple):
    """What the latest run has begun with.

    Attributes:
        given: structures, kinds and places of its first element, options of JAX.
        looks: kinds and places of the state's arrays.
        runnable: its programs.
    """

    given: Any
    looks: Any
    runnable: Runnable


@final
class Engine:
    """Runs one schedule with any parameters. Programs are kept for each set of shapes."""

    def __init__(
        self,
        *,
        functions: Sequence[Function],
        schedule: Schedule,
        optimizing: Optimizing | None,
        ties: Sequence[Sequence[tuple[int, tuple[Any, ...]]]],
        nest: Callable[[Sequence[Any]], Any],
        check_nans: bool,
        which: Which,
        processes: Processes | None,
    ) -> None:
        places = [function.place for function in functions]
        reason = why_not_single(schedule, optimizing, places, check_nans=check_nans)
        reason = reason if processes is None else "its stages are in several processes"
        if which == "single" and reason is not None:
            raise ValueError(f'program is "single", but the pipeline cannot be one program: {reason}; leave program away')
        self._is_emulated = places[0].devices[0].platform == "ipu"  # then the host's time is not what counts
        self._chooser = Chooser(which, possible=reason is None, alone=len(set(places)) == 1, measured=not self._is_emulated)
        self._singles: dict[Any, Single] = {}
        self._latest_single: Single | None = None
        self._latest_impl: str | None = None  # of its random key
        self._check_nans = check_nans
        self._packed = not self._is_emulated and not check_nans  # which names each parameter
        self._functions, self._schedule, self._optimizing, self._ties, self._nest = functions, schedule, optimizing, ties, nest
        self._known: dict[object, dict[Any, Any]] = {}  # programs, by JAX's options and what else they depend on
        self._compiled: dict[Any, Runnable] = {}
        self._latest: Latest | None = None
        plain_places = all(place.replicas is None and not place.is_mesh for place in places)
        self._starts_directly = plain_places and not self._is_emulated and processes is None
        self._plain: list[weakref.ref[Any]] = []  # the state's arrays that the run before has returned, if it started programs directly
        self._ready: tuple[Compiled, list[Ready | None]] | None = None  # what the latest run has left for the next one
        self._pieces: list[Pieces | None] = []  # of memory, that compiling has left: for each entry of `_compiled`
        self._processes = processes
        self._phases = phases(schedule) if processes is None or processes.commits_last else updates_last(phases(schedule))
        # Where what was made is looked at before an update, nothing is left to fail after the first one.
        self._looked = updates_last(self._phases) if schedule.weights == "same" else self._phases
        self._soon, self._looked_soon = next_elements(schedule, self._phases), next_elements(schedule, self._looked)
        # A copy for each microbatch is what an emulated machine is asked about. With what is stored, all elements would go each time.
        stores = any(task.kind is Kind.STORE for task in schedule.ordered())
        self._takes_whole = len(places[0].devices) == 1 and not self._is_emulated and not stores

    @property
    def schedule(self) -> Schedule:
        """What is run."""
        return self._schedule

    @property
    def phases(self) -> Phases:
        """All tasks, in the order in which the host starts them: after each phase it copies what other devices need."""
        return self._phases

    @property
    def functions(self) -> Sequence[Function]:
        """The stages."""
        return self._functions

    @property
    def optimizing(self) -> Optimizing | None:
        """How it trains, if it does."""
        return self._optimizing

    def init(self, params: Sequence[Any], aux: Sequence[Any]) -> RunState:
        """Copies of parameters and auxiliary state on the stages' devices, and the optimiser's state of them.

        Where the optimiser is a function of what the last stage returns, there is no state yet.
        Raises: ValueError for tied parameters that are unlike, and what the optimiser raises.
        """
        ties = leaves_tied(self._ties, params)
        require_equal(ties, params)
        state = with_one_array(self._placed(params, aux), ties)
        how = self._optimizing
        if how is None or how.is_function:
            return state
        stubs = [
            Stage(
                number=number,
                place=function.place,
                call=_no_call,
                params=_jax.tree.map(kind_of, own.params),
                param_shardings=tuple(leaf.sharding for leaf in _jax.tree.leaves(own.params)),
                args=(),
                axes=(),
                aux=None,
                needs_gradient=(),
                outputs=(),
                text="",
            )
            for number, (function, own) in enumerate(zip(self._functions, state.stages, strict=True))
        ]
        nothing = Packings(params=apart(()), accumulators=apart(()), values=False)  # no gradients are added up
        updates, joint, _ = make_updates(stubs, [nothing for _ in stubs], self._schedule, how, ties, self._nest)
        trained = [
            [_jax.tree.leaves(own.params)[place] for place in update.trained] for own, update in zip(state.stages, updates, strict=True)
        ]
        if joint is not None:
            put = _jax.device_put if self._processes is None else self._processes.put
            return replace(state, joint=joint.init(trained, (), put))
        stages = [
            replace(own, optimizer_state=update.init(leaves, ()))
            for own, update, leaves in zip(state.stages, updates, trained, strict=True)
        ]
        return replace(state, stages=tuple(stages))

    def _placed(self, params: Sequence[Any], aux: Sequence[Any]) -> RunState:
        offload = None if self._optimizing is None else self._optimizing.offload
        states: list[StageState] = []
        for number, (function, own, state) in enumerate(zip(self._functions, params, aux, strict=True)):
            place = function.place
            if place.is_here:
                require_held((own, state), lambda _, number=number: f"stage {number}: (params, aux)")
            copied = _jax.tree.map(lambda leaf, place=place: _copied(leaf, place), own)
            if place.is_here:
                away = offload if isinstance(offload, dict) else {}
                copied = placed(copied, away, kind="parameters", platform=place.devices[0].platform)
            states.append(StageState(params=copied, optimizer_state=None, aux=_own(state, place)))
        return RunState(stages=tuple(states))

    def run(self, state: RunState, batch: Batch, key: Any, told: Told | None = None, accept: Accept | None = None) -> Outcome:
        """One run of the schedule.

        Args:
            key: the run's random key, or None.
            told: is told how many programs are compiled, of how many.
            accept: is told what a microbatch will give, before anything is done that cannot be undone; what it raises is raised.
        """
        chooser = self._chooser
        measures, which = chooser.measures, chooser.now
        if measures:
            _jax.block_until_ready(_jax.tree.leaves(state))
        start = time.perf_counter()
        by_single = which == "single" and not self._is_new(state)
        outcome = (self._by_single if by_single else self._by_stages)(state, batch, key, told, accept)
        host = time.perf_counter()
        if measures:
            _jax.block_until_ready(_jax.tree.leaves(outcome.state))
        chooser.took(host - start, time.perf_counter() - start)
        return outcome

    def _is_new(self, state: RunState) -> bool:
        """Whether the optimiser's state is still to be made, of what the last stage returns."""
        how = self._optimizing
        return how is not None and how.is_function and state.joint is None and all(own.optimizer_state is None for own in state.stages)

    def _by_stages(self, state: RunState, batch: Batch, key: Any, told: Told | None, accept: Accept | None) -> Outcome:
        if self._singles:
            state = self._home(state)
        processes, first = self._processes, self._functions[0].place
        whole = batch.whole(first.whole) if self._takes_whole else None
        waiting = iter(batch.elements() if whole is None else (whole,))
        is_there = batch.is_there
        if processes is not None:
            waiting, is_there = processes.shared(waiting, is_there)
        element = next(waiting)
        compiled, direct = self._runnable(state, element, batch, key, told)
        training = self._optimizing is not None
        watch = Watch(self._functions, compiled.traced.stages, nans=self._check_nans, training=training, processes=processes)
        order, soon = (self._looked, self._looked_soon) if watch.is_needed else (self._phases, self._soon)
        soon = soon if is_there else [0] * len(order)
        if processes is not None:
            processes.walks(functools.partial(self._settle, compiled, state, element, key, soon))
        if accept is not None:
            accept(functools.partial(self._row, compiled.traced.stages), self._kinds_given(compiled.traced.stages))
        left, self._ready = self._ready, None  # a run that fails takes it along
        ready = left[1] if left is not None and left[0] is compiled else [None] * len(self._functions)
        walk = Walk(self._schedule, order, compiled, state, element, waiting, key, watch, soon, ready, processes, direct=direct)
        new, outputs, ready = walk.done()
        self._ready = compiled, ready
        self._plain = [weakref.ref(leaf) for leaf in _jax.tree.leaves(new)] if direct else []
        if processes is not None:
            processes.commit()
            processes.walks(None)
        return Outcome(new, outputs, False, self._kinds_given(compiled.traced.stages))

    def _kinds_given(self, stages: Sequence[Stage]) -> list[Any]:
        return [stages[stage].outputs for stage in self._schedule.levels[-1]]

    def _row(self, stages: Sequence[Stage]) -> list[Any]:
        """What of `Outcome.outputs` is one microbatch's."""
        row = [
            [stages[stage].place.kind(leaf, 0) for leaf in _jax.tree.leaves(stages[stage].outputs)] for stage in self._schedule.levels[-1]
        ]
        if self._optimizing is not None:
            row.append([stages[-1].place.kind(self._optimizing.loss_kind(stages[-1].outputs), 0)])
        return row

    def _settle(self, compiled: Compiled, state: RunState, first: Element, key: Any, soon: Sequence[int]) -> None:
        """Goes through a run with arrays that are errors, up to where the other processes stop."""
        traced = compiled.traced
        stages = tuple(replace(stage, place=replace(stage.place, is_here=False)) for stage in traced.stages)
        functions = [replace(function, place=stage.place) for function, stage in zip(self._functions, stages, strict=True)]
        ties = [list(tie) for tie in compiled.ties]
        whole = replace(traced, stages=stages)
        nothing = make_all(whole, functions, self._schedule, self._optimizing, ties, self._nest, {}, packed=self._packed)
        state = _jax.tree.map(lambda leaf: elsewhere(tuple(leaf.shape), leaf.dtype, leaf.sharding), state)
        element = like_elsewhere(_jax.tree.map(kind_of, first[1:]), functions[0].place.along(1))
        watch = Watch(functions, stages, nans=False, training=False, processes=self._processes, settles=True)
        given = (first[0], *element)
        with contextlib.suppress(Settled):
            ready = [None] * len(functions)
            Walk(
                self._schedule, self._phases, nothing, state, given, itertools.repeat(given), key, watch, soon, ready, self._processes
            ).done()

    def _by_single(self, state: RunState, batch: Batch, key: Any, told: Told | None, accept: Accept | None) -> Outcome:
        self._ready = None  # it would only take memory
        stacks = batch.stacks()
        impl = None if key is None else str(_jax.random.key_impl(key))
        leaves, structure = _jax.tree.flatten(state)
        single = self._latest_single
        if single is None or single.structure != structure or self._latest_impl != impl:
            single = self._single(state, structure, stacks, impl, told)
        columns, inputs = [stack[1:] for stack in stacks], stacks[0][0]
        if accept is not None:
            accept(functools.partial(self._row, single.stages), single.kinds)
        try:
            new, outputs = single.run(leaves, columns, inputs, key)
        except OtherShapesError:  # JAX has traced it again
            single = self._single(state, structure, stacks, impl, told)
            new, outputs = single.run(leaves, columns, inputs, key)
        if told is not None:
            told(1, 1)
        return Outcome(new, outputs, True, single.kinds)

    def _single(self, state: RunState, structure: Any, stacks: list[Element], impl: str | None, told: Told | None) -> Single:
        """The program for such a state and such elements."""
        kinds = _kinds((state, stacks)), impl
        found = self._singles.get(kinds)
        if found is None:
            if told is not None:
                told(0, 1)
            inputs, items, words = stacks[0]
            one = (inputs, *_jax.tree.map(lambda leaf: jax.ShapeDtypeStruct((1, *leaf.shape[1:]), leaf.dtype), (items, words)))
            found = self._singles[kinds] = Single(self._compile(state, one, impl), self._schedule, self._optimizing, structure)
        self._latest_single, self._latest_impl = found, impl
        return found

    def _home(self, state: RunState) -> RunState:
        """The state on the stages' own devices, which one program may have left."""
        stages: list[StageState] = []
        for own, function in zip(state.stages, self._functions, strict=True):
            leaves, structure = _jax.tree.flatten(own)
            stages.append(_jax.tree.unflatten(structure, brought(leaves, function.place)))
        return replace(state, stages=tuple(stages))

    def _runnable(self, state: RunState, first: Element, batch: Batch, key: Any, told: Told | None) -> tuple[Compiled, bool]:
        """(the programs for such a state and such elements, whether they are started directly).

        Directly if all arrays are as programs were compiled for them. What a run has made of such ones is, and is not looked at again:
        programs whose results look otherwise than their arguments are not started directly.

        Args: first: of the elements. Others are as it is.
        """
        impl = None if key is None else str(_jax.random.key_impl(key))
        leaves, structure = _jax.tree.flatten(state)
        arrays, of_element = _jax.tree.flatten(first)
        given = structure, of_element, impl, options(), _looks(arrays)
        plain, self._plain = self._plain, []  # none after a run that fails
        own = len(plain) == len(leaves) and all(ref() is leaf and not leaf.is_deleted() for ref, leaf in zip(plain, leaves, strict=True))
        if own and len(self._pieces) < len(self._compiled):  # after a first run, which compiles a little too
            self._pieces.append(hold_pieces())
        direct = self._starts_directly and may_start() and batch.are_plain(first)
        latest = self._latest if self._latest is not None and self._latest.given == given else None
        if not own or latest is None or latest.runnable.direct is latest.runnable.looked_up:
            looks = _looks(leaves)
            if latest is None or latest.looks != looks:
                self._latest = latest = Latest(given, looks, self._found(state, first, impl, told))
            direct = direct and (own or self._are_plain(state))
        return (latest.runnable.direct, True) if direct else (latest.runnable.looked_up, False)

    def _are_plain(self, state: RunState) -> bool:
        return all(
            are_plain(_jax.tree.leaves(own), function.place.whole) for function, own in zip(self._functions, state.stages, strict=True)
        )

    def _found(self, state: RunState, element: Element, impl: str | None, told: Told | None) -> Runnable:
        stages = state.stages
        _require_placed(state)
        shardings = tuple(leaf.sharding for stage in stages for leaf in _jax.tree.leaves((stage.params, stage.optimizer_state)))
        what = _kinds(([(stage.params, stage.aux, stage.optimizer_state) for stage in stages], element)), impl, shardings, options()
        found = self._compiled.get(what)
        if found is None:
            looked_up = self._compile(state, element, impl)
            states = [stage.optimizer_state for stage in stages]
            executables = compile_all(looked_up, self._functions, states, told)
            if self._processes is not None:
                self._processes.agree("has compiled")
            found = self._compiled[what] = Runnable(looked_up, started_directly(looked_up, executables, states))
        return found

    def _compile(self, state: RunState, element: Element, key_impl: str | None) -> Compiled:
        params = [stage.params for stage in state.stages]
        traced = trace(
            self._functions,
            self._schedule.levels,
            params,
            [stage.aux for stage in state.stages],
            element,
            training=self._optimizing is not None,
            key_impl=key_impl,
        )
        if self._optimizing is not None:
            self._optimizing.require_loss(self._functions[-1].name, traced.stages[-1].outputs)
        ties = leaves_tied(self._ties, params)
        known = self._known.setdefault(options(), {})
        return make_all(traced, self._functions, self._schedule, self._optimizing, ties, self._nest, known, packed=self._packed)


def _require_placed(state: RunState) -> None:
    """Raises: TypeError for what is on no device."""
    for number, own in enumerate(state.stages):
        for keys, leaf in _jax.tree_util.tree_flatten_with_path(own)[0]:
            if not isinstance(leaf, jax.Array):
                path = _jax.tree_util.keystr(keys, simple=True, separator="/")
                raise TypeError(
                    f"the state of stage {number} has a {type(leaf).__name__} in {path}, which is on no device: put all where init() does, "
                    "such as by jax.tree.map(lambda new, old: jax.device_put(new, old.sharding), restored, pipeline.init(params))"
                )


def _no_call(*_: Any) -> Any:
    raise AssertionError("an optimiser's state needs no stage's function")


def _copied(leaf: Any, place: Place) -> Any:
    """A copy on a stage's devices. What is divided over its mesh stays so."""
    if not place.is_here:
        kind = kind_of(leaf)
        return elsewhere(kind.shape, kind.dtype, place.whole)
    sharding: Any = getattr(leaf, "sharding", None)
    here = place.is_mesh and isinstance(sharding, jax.sharding.NamedSharding) and sharding.mesh == getattr(place.whole, "mesh", None)
    return _jax.device_put(leaf, sharding if here else place.whole, may_alias=False)


def _own(tree: Any, place: Place) -> Any:
    """What each replica has its own of, from what all begin with."""
    leaves, structure = _jax.tree.flatten(tree)
    if not place.is_here:
        kinds = [place.kind(kind_of(leaf), 0) for leaf in leaves]
        return _jax.tree.unflatten(structure, [elsewhere(kind.shape, kind.dtype, kind.sharding) for kind in kinds])
    if place.replicas is None:
        return _jax.tree.unflatten(structure, [_jax.device_put(leaf, place.whole, may_alias=False) for leaf in leaves])
    own = _jax.tree.unflatten(structure, _jax.device_put(leaves, place.whole))
    return _for_each(place.replicas.count, place.along(0))(own) if leaves else own


@functools.lru_cache(maxsize=64)
def _for_each(count: int, along: Any) -> Any:
    """What gives arrays a first axis of replicas, by one program."""

    def for_each_replica(tree: Any) -> Any:
        return _jax.tree.map(lambda leaf: _jax.numpy.broadcast_to(leaf, (count, *leaf.shape)), tree)

    return _jax.jit(for_each_replica, out_shardings=along)


def _kinds(tree: Any) -> Any:
    leaves, structure = _jax.tree.flatten(tree)
    return structure, tuple((leaf.shape, leaf.dtype) if hasattr(leaf, "dtype") else _tuple_of(kind_of(leaf)) for leaf in leaves)


def _looks(leaves: Sequence[Any]) -> Any:
    """Kinds and places. What one program has made has the same `aval` each time: lists of these are compared in no time."""
    return [getattr(leaf, "aval", None) or kind_of(leaf) for leaf in leaves], [getattr(leaf, "sharding", None) for leaf in leaves]


def _tuple_of(kind: Any) -> tuple[Any, Any]:
    return kind.shape, kind.dtype
