"""Makes all programs of a pipeline for certain shapes. Equal stages with one placement share theirs."""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Never

import jax
import numpy as np

from tilestep.train.pipeline.compile.packing import packed, unpacked
from tilestep.train.pipeline.compile.parameter_loads import Mover
from tilestep.train.pipeline.compile.pipeline_spec import Leaf, PipelineSpec
from tilestep.train.pipeline.compile.placement import StagePlacement
from tilestep.train.pipeline.compile.routes import Routes, routes
from tilestep.train.pipeline.compile.stage import Hidden, Packings, Program, Programs, Stage, calls_python, make_last, make_programs
from tilestep.train.pipeline.compile.tracing import TracedStages
from tilestep.train.pipeline.compile.updates.joint_update import Joint
from tilestep.train.pipeline.compile.updates.updates import OptimizerPlan, UpdatePrograms, accumulator_specs, accumulators_away, make_update
from tilestep.train.pipeline.compile.watched.stage_watch import totals_of
from tilestep.train.processes.remote import RemoteProgram
from tilestep.train.schedules.schedule import Kind, Schedule
from tilestep.train.untyped import Pytree, Spec
from tilestep.train.untyped import jax as _jax


def hidden_outputs(spec: PipelineSpec, stages: Sequence[Stage], read: Sequence[int]) -> tuple[Hidden, ...]:
    """For each stage the outputs that are no results of its programs. A stage that calls Python gives all, because a call has an effect.

    Args: read: indices of the last stage's outputs that the optimiser reads.
    """
    hidden = [Hidden()] * len(stages)
    last = spec.schedule.levels[-1]
    if spec.given_out is None:
        return tuple(hidden)
    plan = spec.optimizer
    for stage, given in zip(last, spec.given_out([stages[stage].outputs for stage in last]), strict=True):
        if calls_python(stages[stage], training=plan is not None):
            continue
        needed = {*given, *read}
        if spec.gives_loss and plan is not None and not plan.is_function:
            needed.add(0)  # the loss is the first output
        hidden[stage] = Hidden(range(len(_jax.tree.leaves(stages[stage].outputs)))) - needed
    return tuple(hidden)


KnownPrograms = dict[Hashable, Any]  # programs made for other shapes, by everything that they depend on


@dataclass(frozen=True, kw_only=True)
class CompiledPipeline:
    """Everything that follows from the shapes of parameters and arguments."""

    traced: TracedStages  # the stages
    programs: tuple[Programs, ...]  # the programs of each stage
    last: Program | None  # forward and backward of the last stage in one program; None in inference
    packings: tuple[Packings, ...]  # which arrays of each stage are packed; empty in inference
    # for each stage the program that begins a run: leaves of each pack -> (packs, accumulators of zeros). None without packs.
    starts: tuple[Program | None, ...]
    routes: Routes  # the ways of values between stages
    hidden: tuple[Hidden, ...]  # for each stage the outputs' leaves that its programs do not return
    movers: tuple[Mover, ...]  # for each stage what loads and stores its parameters
    updates: tuple[UpdatePrograms, ...]  # the update of each stage; empty in inference
    joint: Joint | None  # the update of all stages at once, if the optimiser looks across them
    ties: tuple[tuple[Leaf, ...], ...]  # groups of leaves that stay equal. The first of each has the optimiser's state.
    groups: tuple[tuple[int, ...], ...]  # groups of stages that are updated together, because they share parameters
    loads: frozenset[int]  # stages whose parameters are loaded by tasks of their own
    updated_on_device: frozenset[int]  # those of them whose update takes what is loaded
    numbers: tuple[list[jax.Array], ...]  # for each stage the numbers of all microbatches, as int32 scalars on its devices
    # for each stage and microbatch how many microbatches its accumulators hold before it, if the reduction depends on it
    before: tuple[list[Any], ...]
    # for each stage the program that begins the totals of what is watched: () -> (those of its forward, of its backward); both in the first
    # for a stage whose forward and backward are one program. None without totals.
    totals: tuple[Program | None, ...]


def make_all(spec: PipelineSpec, traced: TracedStages, ties: Sequence[Sequence[Leaf]], known: KnownPrograms) -> CompiledPipeline:
    """The programs, none of which is compiled yet.

    Args:
        ties: groups of leaves that stay equal.
        known: programs made for other shapes. Equal ones are taken from it; new ones are put into it.
    Raises:
        ValueError: for an optimiser that looks across stages, if the schedule updates them at different times.
        Exception: of a stage's gradient, with a note that names the stage.
    """
    stages, plan = traced.stages, spec.optimizer
    packings = () if plan is None else tuple(_packings(stage, spec, plan, ties) for stage in stages)
    ways = routes(traced, spec.schedule.levels, direct=spec.packed)
    updates: tuple[UpdatePrograms, ...] = ()
    joint: Joint | None = None
    groups = tuple((number,) for number in range(len(stages)))
    starts: tuple[Program | None, ...] = ()
    if plan is not None:
        key = tuple((stage.placement, _structures(stage), _shapes(stage.params)) for stage in stages), packings, _shapes(stages[-1].outputs)
        if key not in known:
            of_updates = make_updates(stages, packings, spec, plan, ties, known)
            known[key] = of_updates, tuple(_starter(*of_stage) for of_stage in zip(stages, packings, of_updates[0], strict=True))
        (updates, joint, groups), starts = known[key]
    read = {index for update in updates for index in update.extras} | set(joint.extras if joint is not None else ())
    hidden = hidden_outputs(spec, stages, sorted(read))
    programs, last = _task_programs(spec, traced, packings, ways, hidden, known)
    numbers = _numbers_on_devices(stages, spec.schedule.microbatches)
    per_update = spec.schedule.microbatches if plan is None else plan.per_update
    counts = plan is not None and plan.reduction == "running_mean"
    return CompiledPipeline(
        traced=traced,
        programs=programs,
        last=last,
        packings=packings,
        starts=starts,
        routes=ways,
        hidden=hidden,
        movers=tuple(_mover(stage, known) for stage in stages),
        updates=updates,
        joint=joint,
        ties=tuple(map(tuple, ties)),
        groups=groups,
        loads=spec.schedule.loads_parameters,
        updated_on_device=updated_on_device(spec.schedule, ties, is_joint=joint is not None),
        numbers=numbers,
        before=tuple([own[m % per_update] if counts else () for m in range(len(own))] for own in numbers),
        totals=tuple(_totals(stage, is_one=plan is not None and stage is stages[-1]) for stage in stages),
    )


def _totals(stage: Stage, *, is_one: bool) -> Program | None:
    """Begins the totals of what is watched. Args: is_one: whether forward and backward are one program."""
    values, gradients = totals_of(stage.watch.values), totals_of(stage.watch.gradients)
    if not values and not gradients:
        return None
    copies = () if stage.placement.replicas is None else (stage.placement.replicas.count,)

    def zeros() -> tuple[list[jax.Array], list[jax.Array]]:
        first, second = ([_jax.numpy.zeros((*copies, *seen.shape), seen.dtype) for seen in of] for of in (values, gradients))
        return ([*first, *second], []) if is_one else (first, second)

    zeros.__name__ = zeros.__qualname__ = f"stage_{stage.number}_watched_totals"  # by which traces have it
    if not stage.placement.is_local:
        return RemoteProgram(zeros, stage.placement.whole)
    return _jax.jit(zeros, out_shardings=stage.placement.along(0), compiler_options=stage.placement.compiler_options)


def _task_programs(
    spec: PipelineSpec, traced: TracedStages, packings: Sequence[Packings], ways: Routes, hidden: Sequence[Hidden], known: KnownPrograms
) -> tuple[tuple[Programs, ...], Program | None]:
    """(programs of each stage, that of the last stage in training)."""
    plan = spec.optimizer
    stages: Sequence[Stage] = traced.stages
    if plan is not None:
        stages = [replace(stage, accumulators_away=accumulators_away(stage, plan)) for stage in stages]
    last = stages[-1]
    split = frozenset(task.stage for task in spec.schedule.ordered() if task.kind is Kind.INPUT_GRADIENT)
    programs: list[Programs] = []
    last_program: Program | None = None
    for stage in stages:
        own = packings[stage.number] if packings else None
        sent, own_hidden = ways.sent[stage.number], hidden[stage.number]
        is_split = stage.number in split
        key = (
            stage is last,
            stage.text,
            stage.placement,
            stage.needs_gradient,
            stage.axes,
            is_split,
            _structures(stage),
            own,
            sent,
            own_hidden,
            stage.watch,
            stage.accumulators_away,
        )
        if plan is not None and stage is last:
            if key not in known:
                known[key] = make_last(
                    last, packings[-1], plan.loss, own_hidden, loss_too=plan.is_function and spec.gives_loss, reduction=plan.reduction
                )
            last_program = known[key]
            programs.append(Programs(forward=_never, real_outputs=()))
            continue
        if key not in known:
            reduction = "sum" if plan is None else plan.reduction
            try:
                known[key] = make_programs(stage, own, sent, own_hidden, split=is_split, reduction=reduction)
            except Exception as error:
                error.add_note(spec.functions[stage.number].note(stage.number, "when its programs were traced"))
                raise
        programs.append(known[key])
    return tuple(programs), last_program


def _mover(stage: Stage, known: KnownPrograms) -> Mover:
    key = "mover", stage.placement, stage.param_shardings, _shapes(stage.params)
    if key not in known:
        known[key] = Mover(stage)
    return known[key]


def _numbers_on_devices(stages: Sequence[Stage], count: int) -> tuple[list[jax.Array], ...]:
    numbers: dict[StagePlacement, list[jax.Array]] = {}
    for stage in stages:
        if stage.placement not in numbers:
            with _jax.ensure_compile_time_eval():  # other runs use them too, even where JAX traces this one
                numbers[stage.placement] = _jax.device_put([np.int32(m) for m in range(count)], stage.placement.whole)
    return tuple(numbers[stage.placement] for stage in stages)


def _packings(stage: Stage, spec: PipelineSpec, plan: OptimizerPlan, ties: Sequence[Sequence[Leaf]]) -> Packings:
    """What a stage packs: nothing on a mesh or in the host's memory, nor if its parameters change within a run."""
    offload = plan.offload if isinstance(plan.offload, Mapping) else {}
    packs = spec.packed and not stage.placement.is_mesh and spec.schedule.weights == "same"
    packs = packs and not (offload.get("parameters") or offload.get("accumulators"))
    params, accumulators = _jax.tree.leaves(stage.params), accumulator_specs(stage, plan)
    if not packs:
        return Packings(params=unpacked(params), accumulators=unpacked(accumulators), values=False)
    tied = {stage.real_params.index(leaf) for tie in ties for number, leaf in tie if number == stage.number}
    return Packings(params=packed(params), accumulators=packed(accumulators, but=tied), values=True)


def _starter(stage: Stage, packings: Packings, update: UpdatePrograms) -> Program | None:
    if not packings.params.packs:
        return None

    def start(leaves: Sequence[Sequence[jax.Array]]) -> tuple[list[jax.Array], list[jax.Array]]:
        return packings.params.only_packs(leaves), packings.accumulators.pack(update.start())

    return stage.placement.jit(start, f"stage_{stage.number}_start", (None,), (None, 0))


def make_updates(
    stages: Sequence[Stage],
    packings: Sequence[Packings],
    spec: PipelineSpec,
    plan: OptimizerPlan,
    ties: Sequence[Sequence[Leaf]],
    known: KnownPrograms,
) -> tuple[tuple[UpdatePrograms, ...], Joint | None, tuple[tuple[int, ...], ...]]:
    """(each stage's update, that of all if the optimiser looks across them, groups of stages that are updated together).

    Args:
        known: as for `make_all`: it keeps whether the optimiser looks across stages.
    Raises:
        ValueError: for an optimiser that looks across stages, if the schedule updates them at different times.
    """
    copies = frozenset(leaf for tie in ties for leaf in tie[1:])
    tied = [frozenset(index for stage, index in copies if stage == number) for number in range(len(stages))]
    joint = _joint(stages, packings, replace(spec, optimizer=plan), tied, known)
    groups = _groups(len(stages), ties)
    if joint is not None:
        _require_one_time(spec.schedule)
        _require_one_process(stages, plan)
        groups = (tuple(range(len(stages))),)
    outputs = stages[-1].outputs
    loaded = updated_on_device(spec.schedule, ties, is_joint=joint is not None)
    updates = [
        make_update(stage, packings[number], plan, tied[number], outputs, loaded=number in loaded) for number, stage in enumerate(stages)
    ]
    return tuple(updates), joint, groups


def updated_on_device(schedule: Schedule, ties: Sequence[Sequence[Leaf]], *, is_joint: bool) -> frozenset[int]:
    """The stages whose update takes the parameters that a task of its own has loaded: tied ones are updated where they are stored."""
    tied = {stage for tie in ties for stage, _ in tie}
    return frozenset() if is_joint else schedule.loads_parameters - tied


def _never(*_: object) -> Never:
    raise AssertionError("the last stage's forward is one with its backward")


def _shapes(tree: Pytree) -> tuple[tuple[tuple[int, ...], np.dtype], ...]:
    return tuple((leaf.shape, leaf.dtype) for leaf in _jax.tree.leaves(tree))


def _structures(stage: Stage) -> tuple[Any, ...]:
    return stage.params_structure, stage.aux_structure, _jax.tree.structure(stage.outputs), stage.param_shardings


def _groups(stages: int, ties: Sequence[Sequence[Leaf]]) -> tuple[tuple[int, ...], ...]:
    """Groups of stages that share parameters, directly or through others. Any other stage is a group by itself."""
    root = list(range(stages))

    def find(stage: int) -> int:
        while root[stage] != stage:
            stage = root[stage]
        return stage

    for tie in ties:
        for stage, _ in tie[1:]:
            root[find(stage)] = find(tie[0][0])
    groups: dict[int, list[int]] = {}
    for stage in range(stages):
        groups.setdefault(find(stage), []).append(stage)
    return tuple(tuple(members) for members in groups.values())


def _joint(
    stages: Sequence[Stage], packings: Sequence[Packings], spec: PipelineSpec, tied: Sequence[frozenset[int]], known: KnownPrograms
) -> Joint | None:
    """The update of all stages at once, if the optimiser's work for one depends on the others; else None.

    To find out which, it is traced for all stages and for each: once for the first state, and not again for the first run.
    """
    trained = [tuple(index for index in stage.real_params if index not in tied[stage.number]) for stage in stages]
    if sum(map(bool, trained)) < 2:
        return None
    outputs: Spec = stages[-1].outputs
    of_stages = tuple((stage.params_structure, _shapes(stage.params), own) for stage, own in zip(stages, trained, strict=True))
    key = "separable", of_stages, _shapes(outputs) if spec.optimizer is not None and spec.optimizer.is_function else ()
    if known.get(key):
        return None
    joint = Joint(spec, stages, trained, outputs, [own.accumulators for own in packings])
    of_one = replace(spec, nest=lambda trees: trees[0])

    def alone(number: int) -> Joint:
        return Joint(of_one, [stages[number]], [trained[number]], outputs)

    if key not in known:
        known[key] = joint.is_separable(alone)
    return None if known[key] else joint


def _require_one_time(schedule: Schedule) -> None:
    if schedule.weights != "same":
        raise ValueError(
            f"the optimizer looks across stages, whose updates the {schedule.name} schedule does at different times: give an optimizer "
            "that treats each array by itself, or a schedule whose weights stay the same within a run"
        )


def _require_one_process(stages: Sequence[Stage], plan: OptimizerPlan) -> None:
    moves = any(plan.offload.values()) if isinstance(plan.offload, Mapping) else plan.offload not in (None, False)
    if (plan.shard or moves) and not all(stage.placement.is_local for stage in stages):
        raise ValueError(
            "the optimizer looks across stages, which are in several processes: its state is neither divided among replicas nor kept in "
            "the host's memory there; leave shard_optimizer_state and offload_optimizer_state away, or clip each stage by itself"
        )
