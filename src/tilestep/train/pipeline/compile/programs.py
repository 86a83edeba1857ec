"""All programs of a pipeline for certain shapes: made, and compiled in parallel before the first of them runs."""

from __future__ import annotations

import contextvars
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from tilestep.train.jax_private.compiled_call import direct
from tilestep.train.pipeline.compile.heap import give_back
from tilestep.train.pipeline.compile.joint_update import Joint
from tilestep.train.pipeline.compile.packing import apart, together
from tilestep.train.pipeline.compile.routes import Routes, routes
from tilestep.train.pipeline.compile.stage import Packings, Program, Programs, Stage, make_last, make_programs
from tilestep.train.pipeline.compile.too_large import is_too_large, what_is_large
from tilestep.train.pipeline.compile.tracing import Function, Traced
from tilestep.train.pipeline.compile.updates import Optimizing, Update, accumulator_kinds, make_update
from tilestep.train.schedules.schedule import Kind, Schedule
from tilestep.train.untyped import jax as _jax

_THREADS: Final = 16  # at most, which compile

Leaf = tuple[int, int]  # (stage, place among its parameters' leaves)
Told = Callable[[int, int], None]  # (programs compiled, of how many)


@dataclass(frozen=True, kw_only=True)
class Compiled:
    """Everything that follows from the shapes of parameters and arguments.

    Attributes:
        traced: the stages.
        programs: of each stage.
        last: forward and backward of the last stage in one; None in inference.
        packings: of each stage; empty in inference.
        starts: of each stage, the program that a run begins with: parameters' leaves, pack by pack -> (what is together, accumulators of
            zeros); None if nothing is together.
        routes: between the stages.
        updates: of each stage; empty in inference.
        joint: the update of all stages, if the optimiser looks across them.
        ties: leaves that are equal; the first of each has the optimiser's state.
        groups: stages whose updates happen together, for they share parameters.
        numbers: of each stage, the microbatches' numbers on its devices.
        before: likewise, how many microbatches the accumulators have before each, if the reduction depends on it.
    """

    traced: Traced
    programs: tuple[Programs, ...]
    last: Program | None
    packings: tuple[Packings, ...]
    starts: tuple[Program | None, ...]
    routes: Routes
    updates: tuple[Update, ...]
    joint: Joint | None
    ties: tuple[tuple[Leaf, ...], ...]
    groups: tuple[tuple[int, ...], ...]
    numbers: tuple[list[Any], ...]
    before: tuple[list[Any], ...]


def make_all(
    traced: Traced,
    functions: Sequence[Function],
    schedule: Schedule,
    how: Optimizing | None,
    ties: Sequence[Sequence[Leaf]],
    nest: Callable[[Sequence[Any]], Any],
    known: dict[Any, Any],
    *,
    packed: bool,
) -> Compiled:
    """The programs, none of which is compiled yet. Equal stages at one place share theirs.

    Args:
        known: programs made for other shapes: what is the same is taken from there, and what is new put there.
        packed: whether small arrays may be together, and values leave out stages that hand them on.
    Raises: ValueError for an optimiser that looks across stages whose updates are apart in time. What differentiating a stage raises, with
        a note.
    """
    stages, training = traced.stages, how is not None
    last = stages[-1]
    split = frozenset(task.stage for task in schedule.ordered() if task.kind is Kind.INPUT_GRADIENT)
    packings: tuple[Packings, ...] = () if how is None else tuple(_packings(stage, schedule, how, ties, packed=packed) for stage in stages)
    ways = routes(traced, schedule.levels, direct=packed)
    programs: list[Programs] = []
    latter: Program | None = None
    for stage in stages:
        own = packings[stage.number] if training else None
        key = (
            stage is last,
            stage.text,
            stage.place,
            stage.needs_gradient,
            stage.axes,
            stage.number in split,
            _structures(stage),
            own,
            ways.sent[stage.number],
        )
        if how is not None and stage is last:
            if key not in known:
                known[key] = make_last(last, packings[last.number], how.loss, loss_too=how.is_function, reduction=how.reduction)
            latter = known[key]
            programs.append(Programs(forward=_none, real_outputs=()))
            continue
        if key not in known:
            reduction = "sum" if how is None else how.reduction
            try:
                known[key] = make_programs(stage, own, ways.sent[stage.number], split=stage.number in split, reduction=reduction)
            except Exception as error:
                error.add_note(functions[stage.number].note(stage.number, "when its programs were traced"))
                raise
        programs.append(known[key])
    updates: tuple[Update, ...] = ()
    joint: Joint | None = None
    groups = tuple((number,) for number in range(len(stages)))
    starts: tuple[Program | None, ...] = ()
    if how is not None:
        key = tuple((stage.place, _structures(stage), _kinds(stage.params)) for stage in stages), packings, _kinds(last.outputs)
        if key not in known:
            made = make_updates(stages, packings, schedule, how, ties, nest)
            known[key] = made, tuple(_starter(*of_stage) for of_stage in zip(stages, packings, made[0], strict=True))
        (updates, joint, groups), starts = known[key]
    count = schedule.microbatches
    per_update = count if how is None else how.per_update
    counts = how is not None and how.reduction == "running_mean"
    placed: dict[Any, list[Any]] = {}
    for stage in stages:
        if stage.place not in placed:
            with _jax.ensure_compile_time_eval():  # they are for other runs too, even where JAX traces this one
                placed[stage.place] = _jax.device_put([np.int32(m) for m in range(count)], stage.place.whole)
    return Compiled(
        traced=traced,
        programs=tuple(programs),
        last=latter,
        packings=packings,
        starts=starts,
        routes=ways,
        updates=updates,
        joint=joint,
        ties=tuple(map(tuple, ties)),
        groups=groups,
        numbers=tuple(placed[stage.place] for stage in stages),
        before=tuple([placed[stage.place][m % per_update] if counts else () for m in range(count)] for stage in stages),
    )


def _packings(stage: Stage, schedule: Schedule, how: Optimizing, ties: Sequence[Sequence[Leaf]], *, packed: bool) -> Packings:
    """What of a stage is together: nothing on a mesh or in the host's memory, nor if its parameters change within a run."""
    offload = how.offload if isinstance(how.offload, Mapping) else {}
    packed = packed and not stage.place.is_mesh and schedule.weights == "same"
    packed = packed and not (offload.get("parameters") or offload.get("accumulators"))
    params, accumulators = _jax.tree.leaves(stage.params), accumulator_kinds(stage, how)
    if not packed:
        return Packings(params=apart(params), accumulators=apart(accumulators), values=False)
    tied = {stage.real_params.index(place) for tie in ties for number, place in tie if number == stage.number}
    return Packings(params=together(params), accumulators=together(accumulators, but=tied), values=True)


def _starter(stage: Stage, packings: Packings, update: Update) -> Program | None:
    if not packings.params.packs:
        return None

    def start(leaves: Sequence[Sequence[Any]]) -> tuple[list[Any], list[Any]]:
        return packings.params.only_packs(leaves), packings.accumulators.packed(update.start())

    return stage.place.jit(start, f"stage_{stage.number}_start", (None,), (None, 0))


def make_updates(
    stages: Sequence[Stage],
    packings: Sequence[Packings],
    schedule: Schedule,
    how: Optimizing,
    ties: Sequence[Sequence[Leaf]],
    nest: Callable[[Sequence[Any]], Any],
) -> tuple[tuple[Update, ...], Joint | None, tuple[tuple[int, ...], ...]]:
    """(each stage's update, that of all if the optimiser looks across them, which stages' are done together).

    Raises: ValueError for an optimiser that looks across stages whose updates are apart in time.
    """
    copies = frozenset(leaf for tie in ties for leaf in tie[1:])
    tied = [frozenset(place for stage, place in copies if stage == number) for number in range(len(stages))]
    outputs = stages[-1].outputs
    joint = _joint(stages, packings, how, tied, nest, outputs)
    groups = _groups(len(stages), ties)
    if joint is not None:
        _require_together(schedule, how)
        groups = (tuple(range(len(stages))),)
    updates = [make_update(stage, packings[number], how, tied[number], outputs) for number, stage in enumerate(stages)]
    return tuple(updates), joint, groups


def _none(*_: Any) -> Any:
    raise AssertionError("the last stage's forward is one with its backward")


def _kinds(tree: Any) -> Any:
    return tuple((leaf.shape, leaf.dtype) for leaf in _jax.tree.leaves(tree))


def _exact_kinds(tree: Any) -> Any:
    leaves, structure = _jax.tree.flatten(tree)
    return structure, [(leaf.shape, leaf.dtype, getattr(leaf, "weak_type", False)) for leaf in leaves]


def _structures(stage: Stage) -> Any:
    return stage.params_structure, stage.aux_structure, _jax.tree.structure(stage.outputs), stage.param_shardings


def _groups(stages: int, ties: Sequence[Sequence[Leaf]]) -> tuple[tuple[int, ...], ...]:
    """Stages that share parameters, directly or over others, together; the others alone."""
    root = list(range(stages))

    def find(stage: int) -> int:
        while root[stage] != stage:
            stage = root[stage]
        return stage

    for tie in ties:
        for stage, _ in tie[1:]:
            root[find(stage)] = find(tie[0][0])
    found: dict[int, list[int]] = {}
    for stage in range(stages):
        found.setdefault(find(stage), []).append(stage)
    return tuple(tuple(members) for members in found.values())


def _joint(
    stages: Sequence[Stage],
    packings: Sequence[Packings],
    how: Optimizing,
    tied: Sequence[frozenset[int]],
    nest: Callable[[Sequence[Any]], Any],
    outputs: Any,
) -> Joint | None:
    """The update of all stages together, if the optimiser's work for one depends on the others; else None."""
    trained = [tuple(place for place in stage.real_params if place not in tied[stage.number]) for stage in stages]
    if sum(map(bool, trained)) < 2:
        return None
    joint = Joint(stages, trained, how, nest, outputs, [own.accumulators for own in packings])

    def alone(number: int) -> Joint:
        return Joint([stages[number]], [trained[number]], how, lambda trees: trees[0], outputs)

    return None if joint.is_apart(alone) else joint


def _require_together(schedule: Schedule, how: Optimizing) -> None:
    if schedule.weights != "same":
        raise ValueError(
            f"the optimizer looks across stages, whose updates the {schedule.name} schedule does at different times: give an optimizer "
            "that treats each array by itself, or a schedule whose weights stay the same within a run"
        )
    if how.shard or how.offload is True or (isinstance(how.offload, Mapping) and any(how.offload.values())):
        raise ValueError(
            "the optimizer looks across stages: its state is neither divided among replicas nor kept in the host's memory; leave "
            "shard_optimizer_state and offload_optimizer_state away, or clip each stage by itself"
        )


# ------------------------------------------------------------------------------------------------------------------ compilation


def compile_all(compiled: Compiled, functions: Sequence[Function], states: Sequence[Any], told: Told | None) -> dict[int, Any]:
    """Compiles every program whose arguments are known to every device, several at once. JAX finds them when they are first called.

    What compiling has taken of the host's memory for itself goes back before the first run takes its own.

    Args: states: of each stage, the optimiser's state; None if it is not known yet. told: is told how many are done.
    Returns: what each has become, by the `id` of the jitted function.
    Raises: what compiling raises, with a note that names stage and program.
    """
    jobs: dict[int, tuple[Any, str, Stage]] = {}
    for number, what, program, kinds in _calls(compiled, states):
        if id(program) in jobs or not hasattr(program, "lower"):
            continue
        note = functions[number].note(number, f"when its {what} program was compiled")
        try:
            lowered = program.lower(*kinds)
        except Exception as error:
            error.add_note(note)
            raise
        jobs[id(program)] = lowered, note, compiled.traced.stages[number]
    if told is not None:
        told(0, len(jobs))
    with ThreadPoolExecutor(max_workers=min(_THREADS, os.cpu_count() or 1)) as pool:
        waiting = {
            pool.submit(contextvars.copy_context().run, lowered.compile): (key, note, stage) for key, (lowered, note, stage) in jobs.items()
        }
        found: dict[int, Any] = {}
        for done, future in enumerate(as_completed(waiting), 1):
            error = future.exception()
            key, note, stage = waiting[future]
            if error is not None:
                for other in waiting:
                    other.cancel()
                error.add_note(note)
                if is_too_large(error):
                    error.add_note(what_is_large(stage))
                raise error
            found[key] = future.result()
            if told is not None:
                told(done, len(jobs))
    give_back()
    return found


def started_directly(compiled: Compiled, executables: Mapping[int, Any], states: Sequence[Any]) -> Compiled:
    """The same, whose programs of tasks are started without JAX's looking for them (direct_calls.py); as they are where that cannot be.

    It cannot where an optimiser's state comes back of other shapes or dtypes than it was: the next update would be another program.

    Args: executables: as `compile_all` returns them. states: what it was given.
    """
    for _, what, program, kinds in _calls(compiled, states):
        if what == "update" and _exact_kinds(_jax.eval_shape(program, *kinds)[1]) != _exact_kinds(kinds[1]):
            return compiled
    known: dict[int, Any] = {}

    def of(program: Any) -> Any:
        if id(program) not in known:
            executable = executables.get(id(program))
            known[id(program)] = program if executable is None else direct(executable) or program
        return known[id(program)]

    programs = [
        replace(
            own,
            forward=of(own.forward),
            backward=of(own.backward),
            input_gradient=of(own.input_gradient),
            weight_gradient=of(own.weight_gradient),
        )
        for own in compiled.programs
    ]
    updates = tuple(replace(own, apply=of(own.apply)) for own in compiled.updates)
    return replace(compiled, programs=tuple(programs), last=of(compiled.last), updates=updates)


def _calls(compiled: Compiled, states: Sequence[Any]) -> Iterator[tuple[int, str, Any, tuple[Any, ...]]]:
    """(stage, what it does, program, its arguments' shapes and places)."""
    for stage, programs in zip(compiled.traced.stages, compiled.programs, strict=True):
        if stage.place.is_mesh or not stage.place.is_here:  # on a mesh JAX decides where results are
            continue
        number = stage.number
        params = [
            _jax.ShapeDtypeStruct(kind.shape, kind.dtype, sharding=sharding)
            for kind, sharding in zip(_jax.tree.leaves(stage.params), stage.param_shardings, strict=True)
        ]
        leaves, start = params, compiled.starts[number] if compiled.starts else None
        if start is not None:
            packing = compiled.packings[number].params
            given = [[params[place] for place in pack] for pack in packing.packs]
            yield number, "first", start, (given,)
            packs = [_jax.ShapeDtypeStruct(kind.shape, kind.dtype, sharding=stage.place.whole) for kind in _jax.eval_shape(start, given)[0]]
            params = [*(params[place] for place in packing.alone), *packs]
        args = [stage.place.kind(kind, axis) for kind, axis in zip(stage.args, stage.axes, strict=True)]
        microbatch = compiled.before[number][0]
        accumulators: list[Any] = []
        if compiled.updates:
            update = compiled.updates[number]
            if start is None:
                yield number, "accumulators'", update.zeros, ()
            if not hasattr(update.zeros, "lower"):
                continue
            accumulators = [
                _jax.ShapeDtypeStruct(kind.shape, kind.dtype, sharding=stage.place.along(0)) for kind in _jax.eval_shape(update.zeros)
            ]
            if compiled.joint is None and states[number] is not None:
                yield number, "update", update.apply, _update_kinds(compiled, number, leaves, accumulators, states[number])
        if compiled.last is not None and number == len(compiled.programs) - 1:
            yield number, "forward and backward", compiled.last, (accumulators, params, args, microbatch)
            continue
        yield number, "forward", programs.forward, (params, args)
        if compiled.last is None or programs.keeps_away:  # in which memory JAX knows when it has it
            continue
        kept = [_at(stage, leaf) for leaf in _jax.eval_shape(programs.forward, params, args)[2]]
        outputs = _jax.tree.leaves(stage.outputs)
        gradients = [stage.place.kind(outputs[place], 0) for place in programs.real_outputs]
        read = [args[place] for place in programs.kept_args]
        own = params if start is not None else [params[place] for place in programs.kept_params]
        if programs.input_gradient is None:
            yield number, "backward", programs.backward, (accumulators, own, read, kept, gradients, microbatch)
            continue
        yield number, "input gradient", programs.input_gradient, (own, read, kept, gradients)
        crossed = [_at(stage, leaf) for leaf in _jax.eval_shape(programs.input_gradient, own, read, kept, gradients)[1]]
        yield number, "weight gradient", programs.weight_gradient, (accumulators, own, read, kept, gradients, crossed, microbatch)


def _at(stage: Stage, leaf: Any) -> Any:
    return _jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=stage.place.along(0))


def _update_kinds(compiled: Compiled, number: int, params: Sequence[Any], accumulators: Sequence[Any], state: Any) -> tuple[Any, ...]:
    stage, update = compiled.traced.stages[number], compiled.updates[number]
    outputs = _jax.tree.leaves(compiled.traced.stages[-1].outputs)
    extras = [stage.place.kind(outputs[place], 0) for place in update.extras]
    return accumulators, state, [params[place] for place in update.trained], extras
