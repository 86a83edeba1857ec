"""Compiles all programs of a pipeline in parallel, before the first of them runs."""

import contextvars
import functools
import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from dataclasses import replace
from typing import Any, Final, NamedTuple

import jax

from tilestep.train.jax_private.compiled_call import direct
from tilestep.train.offload import sharding_on_device
from tilestep.train.pipeline.compile.heap import give_back
from tilestep.train.pipeline.compile.programs import CompiledPipeline
from tilestep.train.pipeline.compile.stage import Program, Programs, Stage
from tilestep.train.pipeline.compile.tracing import WrittenStage
from tilestep.train.untyped import Pytree, Spec
from tilestep.train.untyped import jax as _jax

_MOST_NAMED: Final = 3  # parameters


def is_too_large(error: BaseException) -> bool:
    """Whether a program has not been compiled because it needs more memory than there is."""
    return isinstance(error, MemoryError) or "RESOURCE_EXHAUSTED" in str(error)


def what_is_large(stage: Stage) -> str:
    """For such an exception: what of a stage's parameters takes most."""
    leaves = _jax.tree_util.tree_flatten_with_path(stage.params)[0]
    sizes = sorted(
        ((math.prod(leaf.shape) * leaf.dtype.itemsize, _jax.tree_util.keystr(path, simple=True, separator="/")) for path, leaf in leaves),
        reverse=True,
    )
    named = ", ".join(f"{path} {size:,} B" for size, path in sizes[:_MOST_NAMED]) or "none"
    return f"raised before microbatch 0 of the update began; the stage's parameters, largest first: {named}"


_THREADS: Final = 16  # at most, for compiling

Report = Callable[[int, int], None]  # (programs compiled, of how many)
Executables = Mapping[int, Any]  # by the `id` of the jitted function


class _Call(NamedTuple):
    """A program and the specs of its arguments."""

    stage: int
    task: str  # for messages
    program: Any
    specs: tuple[Pytree, ...]


def compile_all(
    compiled: CompiledPipeline, functions: Sequence[WrittenStage], states: Sequence[Pytree], report: Report | None
) -> Executables:
    """Compiles every program whose arguments' devices are known, several at once. JAX finds them when they are first called.

    The host's memory that compiling has taken for itself goes back before the first run takes its own.

    Args:
        states: the optimiser's state of each stage; None if it is not known yet.
        report: is called with how many programs are compiled, and of how many.
    Raises:
        Exception: of compiling, with a note that names stage and program.
    """
    jobs: dict[int, tuple[Any, str, Stage]] = {}
    for call in _calls(compiled, states):
        if id(call.program) in jobs or not hasattr(call.program, "lower"):
            continue
        note = functions[call.stage].note(call.stage, f"when its {call.task} program was compiled")
        try:
            lowered = call.program.lower(*call.specs)
        except Exception as error:
            error.add_note(note)
            raise
        jobs[id(call.program)] = lowered, note, compiled.traced.stages[call.stage]
    if report is not None:
        report(0, len(jobs))
    with ThreadPoolExecutor(max_workers=min(_THREADS, os.cpu_count() or 1)) as pool:
        waiting = {_submitted(pool, lowered.compile): (key, note, stage) for key, (lowered, note, stage) in jobs.items()}
        executables: dict[int, Any] = {}
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
            executables[key] = future.result()
            if report is not None:
                report(done, len(jobs))
    give_back()
    return executables


def _submitted(pool: ThreadPoolExecutor, job: Callable[[], Any]) -> Future[Any]:
    """The job on one of the pool's threads; in this one when Python ends, as pools start no job then: a report may still need programs."""
    try:
        return pool.submit(contextvars.copy_context().run, job)
    except RuntimeError:
        done = Future[Any]()
        try:
            done.set_result(job())
        except Exception as error:
            done.set_exception(error)
        return done


def started_directly(compiled: CompiledPipeline, executables: Executables, states: Sequence[Pytree]) -> CompiledPipeline:
    """The same programs of tasks, started without JAX's search for them (jax_private/compiled_call.py), where that is possible.

    It is not where an optimiser's state changes its shapes or dtypes, because the next update is another program then, nor where a stage
    gives random keys, which are no plain arrays.

    Args:
        executables: the result of `compile_all`.
        states: the optimiser's state of each stage, as `compile_all` had it.
    """
    outputs = [leaf for stage in compiled.traced.stages for leaf in _jax.tree.leaves(stage.outputs)]
    if any(_jax.dtypes.issubdtype(leaf.dtype, _jax.dtypes.extended) for leaf in outputs):
        return compiled
    for call in _calls(compiled, states):
        if call.task == "update" and _exact_specs(_jax.eval_shape(call.program, *call.specs)[1]) != _exact_specs(call.specs[1]):
            return compiled
    known: dict[int, Any] = {}

    def of(program: Program | None) -> Any:
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


def _exact_specs(tree: Pytree) -> tuple[Any, list[tuple[Any, ...]]]:
    leaves, structure = _jax.tree.flatten(tree)
    return structure, [(leaf.shape, leaf.dtype, getattr(leaf, "weak_type", False)) for leaf in leaves]


def _calls(compiled: CompiledPipeline, states: Sequence[Pytree]) -> Iterator[_Call]:
    """All programs whose arguments are known."""
    for stage, programs in zip(compiled.traced.stages, compiled.programs, strict=True):
        if stage.placement.is_mesh or not stage.placement.is_local:  # on a mesh JAX decides where results are
            continue
        yield from _calls_of_stage(compiled, stage, programs, states[stage.number])


def _calls_of_stage(compiled: CompiledPipeline, stage: Stage, programs: Programs, state: Pytree) -> Iterator[_Call]:
    number, placement = stage.number, stage.placement
    params: list[Spec] = [
        _jax.ShapeDtypeStruct(spec.shape, spec.dtype, sharding=sharding)
        for spec, sharding in zip(_jax.tree.leaves(stage.params), stage.param_shardings, strict=True)
    ]
    away, loads = params, number in compiled.loads
    if loads:
        yield from (_Call(number, *call) for call in compiled.movers[number].calls(away, is_training=bool(compiled.updates)))
        params = [_jax.ShapeDtypeStruct(own.shape, own.dtype, sharding=sharding_on_device(own.sharding)) for own in away]
    leaves, start = params if number in compiled.updated_on_device else away, compiled.starts[number] if compiled.starts else None
    if start is not None:
        packing = compiled.packings[number].params
        members = [[params[index] for index in pack] for pack in packing.packs]
        yield _Call(number, "first", start, (members,))
        packs = [_jax.ShapeDtypeStruct(spec.shape, spec.dtype, sharding=placement.whole) for spec in _jax.eval_shape(start, members)[0]]
        params = [*(params[index] for index in packing.alone), *packs]
    args = [placement.spec(spec, axis) for spec, axis in zip(stage.args, stage.axes, strict=True)]
    microbatch = compiled.before[number][0]
    begin = compiled.totals[number]
    totals = ([], []) if begin is None else _jax.tree.map(functools.partial(_on_stage, stage), _jax.eval_shape(begin))
    accumulators: list[Spec] = []
    if compiled.updates:
        update = compiled.updates[number]
        zeros: Any = update.zeros
        if start is None:
            yield _Call(number, "accumulators'", zeros, ())
        if not hasattr(zeros, "lower"):
            return
        accumulators = [_on_stage(stage, spec) for spec in _jax.eval_shape(zeros)]
        if compiled.joint is None and state is not None:
            yield _Call(number, "update", update.apply, _update_specs(compiled, number, leaves, accumulators, state))
    if compiled.last is not None and number == len(compiled.programs) - 1:
        yield _Call(number, "forward and backward", compiled.last, (accumulators, params, args, microbatch, totals[0]))
        return
    forward = params, args, totals[0]
    yield _Call(number, "forward", programs.forward, forward)
    if compiled.last is None or programs.keeps_away:  # JAX decides on the memory of results when it has compiled
        return
    kept = [_on_stage(stage, spec) for spec in _jax.eval_shape(programs.forward, *forward)[2]]
    outputs = _jax.tree.leaves(stage.outputs)
    gradients = [placement.spec(outputs[index], 0) for index in programs.real_outputs]
    read = [args[index] for index in programs.kept_args]
    own = params if start is not None else [params[index] for index in programs.kept_params]
    if programs.input_gradient is None:
        yield _Call(number, "backward", programs.backward, (accumulators, own, read, kept, gradients, microbatch, totals[1]))
        return
    yield _Call(number, "input gradient", programs.input_gradient, (own, read, kept, gradients, totals[1]))
    results = _jax.eval_shape(programs.input_gradient, own, read, kept, gradients, totals[1])
    crossing = [_on_stage(stage, spec) for spec in results[1]]
    yield _Call(number, "weight gradient", programs.weight_gradient, (accumulators, own, read, kept, gradients, crossing, microbatch))


def _on_stage(stage: Stage, spec: Spec) -> jax.ShapeDtypeStruct:
    return _jax.ShapeDtypeStruct(spec.shape, spec.dtype, sharding=stage.placement.along(0))


def _update_specs(
    compiled: CompiledPipeline, number: int, params: Sequence[Spec], accumulators: Sequence[Spec], state: Pytree
) -> tuple[Pytree, ...]:
    stage, update = compiled.traced.stages[number], compiled.updates[number]
    outputs = _jax.tree.leaves(compiled.traced.stages[-1].outputs)
    extras = [stage.placement.spec(outputs[index], 0) for index in update.extras]
    return accumulators, state, [params[index] for index in update.trained], extras
