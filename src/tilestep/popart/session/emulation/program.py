"""What an emulated session runs: a pipeline on its own machine."""

from __future__ import annotations

import copy
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import jax
import numpy as np
import optax

from tilestep.figures.quantities import count_text
from tilestep.onnx.interpreter.values import Array
from tilestep.pjrt.programs.other_machines import MachineBeside
from tilestep.popart.enums import RecomputationType, ReplicatedTensorSharding, TensorStorage
from tilestep.popart.exceptions import popart_exception
from tilestep.popart.names import reservedAccumPrefix
from tilestep.popart.optimizers import Optimizer, RuleOf, UpdateContext, UpdateRule, last_key, update_transformation
from tilestep.popart.options import SessionOptions
from tilestep.popart.options.option_support import implicit_pipeline, replicas_of
from tilestep.popart.options.tensor_locations import LOCATIONS, Subject, location_of
from tilestep.popart.session.emulation.advice_words import Returned, returned_of
from tilestep.popart.session.emulation.stage_functions import StageFunctions, stage_functions
from tilestep.popart.session.plan import SessionPlan
from tilestep.popart.session.recompute import recompute_policies
from tilestep.popart.session.staging import Kind
from tilestep.train import Pipeline
from tilestep.train.pipeline.state import PipelineState
from tilestep.train.schedules import Schedule
from tilestep.train.schedules.standard import MOST_FORWARDS, forward_first, sequential, stale
from tilestep.train.untyped import jax as _jax


@dataclass(frozen=True, kw_only=True)
class EmulatedProgram:
    """What a session runs. A session without stages has one.

    Attributes:
        stages: functions, and what they have.
        schedule: of one run of the pipeline: an update, or a round of inference. Its devices are `ipus`.
        optimizer: None in inference.
        runs: of the pipeline, in a call of the session.
        replicas: copies.
        num_ipus: of one replica.
        ipus: those of a replica that have a stage.
        kind: of the session's stages.
        accumulates: whether an update has several microbatches.
        draws: whether stages draw random numbers.
        arguments: further ones of `Pipeline`.
        forward: the forward part alone, if the session may run that too. It has the same state.
        returned: the anchors of which each microbatch's value leaves.
        is_loaded: whether nothing comes from the host or goes there: inputs are in the tiles, and anchors stay there.
        recomputed: gives the same session with RecomputationType.Pipeline; None where it has that, or may not have it.
    """

    stages: StageFunctions
    schedule: Schedule
    optimizer: optax.GradientTransformation | None
    runs: int
    replicas: int
    num_ipus: int
    ipus: tuple[int, ...]
    kind: Kind
    accumulates: bool
    draws: bool
    arguments: Mapping[str, Any] = field(default_factory=dict[str, Any])
    forward: EmulatedProgram | None = None
    returned: tuple[Returned, ...] = ()
    is_loaded: bool = False
    recomputed: Callable[[], EmulatedProgram] | None = None

    @property
    def is_single(self) -> bool:
        """Whether a run is one program: where nothing is accumulated, no gradient is added to zeros."""
        one = self.kind == "one" and self.schedule.microbatches == 1 and self.replicas == 1
        return one and self.arguments["offload_optimizer_state"] is False and not self.arguments.get("offload_activations")

    def pipeline(self, machine: MachineBeside) -> Pipeline:
        """The pipeline on a machine's devices."""
        devices = [machine.devices[replica * self.num_ipus + ipu] for replica in range(self.replicas) for ipu in self.ipus]
        return Pipeline(
            list(self.stages.functions),
            self.optimizer,
            self.schedule.microbatches,
            pipeline_schedule=self.schedule,
            devices=devices,
            device_mapping=self.schedule.device_mapping,
            replicas=self.replicas,
            program="single" if self.is_single else "stages",
            strict=False,
            watch=self.stages.watch or None,
            outfeed_mask=(True,) if self.optimizer is not None else None,  # the loss leaves if it is watched
            **self.arguments,
        )

    def first_state(self, pipeline: Pipeline) -> PipelineState:
        """The state when the session's weights have been sent."""
        aux = [dict(_zeros(specs)) if specs else None for specs in self.stages.aux]
        return pipeline.init([_zeros(specs) for specs in self.stages.params], aux if any(aux) else None)

    def step(self, pipeline: Pipeline, state: PipelineState) -> tuple[PipelineState, dict[Any, Any]]:
        """One run of the pipeline.

        Args: state: of any of its programs.
        Returns: (the new state, what may leave the devices, by the keys of `stages.watch`; under "" what leaves in any case).
        """
        leading = (self.schedule.microbatches, self.replicas) if self.replicas > 1 else (self.schedule.microbatches,)
        microbatches = tuple(np.broadcast_to(np.zeros((), spec.dtype), (*leading, *spec.shape)) for spec in self.stages.elements)
        key = _jax.random.key(0) if self.draws else None
        trains = self.optimizer is not None
        new, found = pipeline.step(state if trains else replace(state, optimizer_state=None), microbatches, key=key)
        leaving = {**found.values, "": found.outputs} if self.stages.watch else {"": found}
        return (new if trains else replace(new, optimizer_state=state.optimizer_state)), leaving

    def rows(self, key: Any, run: int) -> range:
        """The microbatches of a run of which what is watched leaves the devices. Args: run: its number in a call, from 0."""
        each = self.schedule.microbatches
        if self.stages.watch.get(key, "all") != "all":
            return range(each) if run + 1 == self.runs else range(0)
        period = self.stages.periods.get(key, 1)
        return range(-(run * each + 1) % period, each, period)


def _zeros(specs: Mapping[str, jax.ShapeDtypeStruct]) -> dict[str, Array]:
    return {name: np.zeros(spec.shape, spec.dtype) for name, spec in specs.items()}


def cycles_of(ipus: Sequence[int], microbatches: int, *, training: bool, stale_weights: bool = False) -> Schedule:
    """Pipeline cycles: stage s does forward of microbatch m in cycle m + s, and backward in cycle m + 2L - s, with the last stage L.

    So there are D + S - 1 cycles for D microbatches, with S = 2L + 1 stages in training and L + 1 in inference. Stage s keeps what 2(L - s)
    + 1 microbatches need for backward. In a cycle forward comes first, and the last stage does both.

    Args:
        ipus: of each stage.
        stale_weights: whether an update follows each backward; else one follows the last.

    Source: PopART's docs, "Pipelined execution", and transforms/pipeline.cpp (PipelineInfo: fillPhase, flushPhase).
    """
    if training and stale_weights:
        return stale(len(ipus), microbatches, device_mapping=ipus)
    levels = tuple((stage,) for stage in range(len(ipus)))
    tasks = forward_first(levels, ipus, microbatches, training=training)
    return Schedule(name="pipeline cycles", levels=levels, device_mapping=tuple(ipus), microbatches=microbatches, tasks=tasks)


def one_by_one(ipus: Sequence[int], microbatches: int, *, training: bool) -> Schedule:
    """One microbatch after the other, and one stage after the other."""
    return sequential(len(ipus), microbatches, training=training, device_mapping=ipus, strict=False)


def emulated_program(plan: SessionPlan, options: SessionOptions, optimizer: Optimizer | None) -> EmulatedProgram:
    """What a session runs on its machine. Args: optimizer: None in inference."""
    loss = plan.loss
    replicas = replicas_of(options)
    scale = 1.0 if plan.rule is None or loss is None else _loss_scale(plan)
    schedule, runs = _schedule(plan, training=loss is not None)
    policies = {} if plan.staging.kind == "one" else recompute_policies(plan.graph, plan.names.analysis.types, options, plan.staging)
    transformation = None
    if optimizer is not None and loss is not None:
        context = UpdateContext(
            params={},
            replication_factor=replicas,
            reduction=options.accumulationAndReplicationReductionType,
            mean_strategy=options.meanAccumulationAndReplicationReductionStrategy,
            loss_dtype=plan.names.analysis.types[loss].dtype,
        )
        transformation = update_transformation(_rules(optimizer.clone(), context), name_of=last_key)
    program = EmulatedProgram(
        stages=stage_functions(plan, loss, loss_scale=scale, policies=policies),
        schedule=schedule,
        optimizer=transformation,
        runs=runs,
        replicas=replicas,
        num_ipus=plan.staging.num_ipus,
        ipus=_used(plan),
        kind=plan.staging.kind,
        accumulates=plan.accumulation > 1,
        draws=plan.graph.draws,
        arguments=_arguments(options, plan, replicas, training=transformation is not None),
        returned=returned_of(plan, rows=schedule.microbatches),
        is_loaded=plan.synthetic,
        recomputed=_recomputed(plan, options, optimizer) if transformation is not None else None,
    )
    return program if plan.forward is None else replace(program, forward=_forward(program, plan, options))


def _rules(optimizer: Optimizer, context: UpdateContext) -> RuleOf:
    """The optimiser's rule for any of the parameters, each assembled once: a pipeline asks for the same ones again and again."""
    known: dict[Hashable, UpdateRule] = {}

    def rule_of(params: Mapping[str, jax.ShapeDtypeStruct]) -> UpdateRule:
        key = tuple((name, spec.shape, spec.dtype) for name, spec in params.items())
        if key not in known:
            known[key] = optimizer.of_weights(params).rule(replace(context, params=params))
        return known[key]

    return rule_of


def _recomputed(plan: SessionPlan, options: SessionOptions, optimizer: Optimizer | None) -> Callable[[], EmulatedProgram] | None:
    """Gives the session as RecomputationType.Pipeline makes it. None where it is on, or there is no pipeline of its kind."""
    if plan.staging.kind != "pipelined" or not implicit_pipeline(options) or options.autoRecomputation is RecomputationType.Pipeline:
        return None

    def program() -> EmulatedProgram:
        other = copy.deepcopy(options)
        other.autoRecomputation = RecomputationType.Pipeline
        return emulated_program(plan, other, optimizer)

    return program


def _forward(program: EmulatedProgram, plan: SessionPlan, options: SessionOptions) -> EmulatedProgram:
    """The forward part of a training session, for all microbatches of a call. What gradients and updates change does not leave with it."""
    watch = {key: how for key, how in program.stages.watch.items() if isinstance(key, str)}
    return replace(
        program,
        stages=replace(program.stages, watch=watch),
        schedule=cycles_of(program.schedule.device_mapping, plan.batches * plan.accumulation, training=False),
        optimizer=None,
        runs=1,
        arguments=_arguments(options, plan, program.replicas, training=False),
    )


def _loss_scale(plan: SessionPlan) -> float:
    assert plan.rule is not None  # in training
    params: dict[str, Any] = {name: plan.graph.variables[name] for name in plan.names.trained}
    return float(plan.rule.loss_scale(plan.rule.init(params)))


def _used(plan: SessionPlan) -> tuple[int, ...]:
    """The IPUs of a replica that have a stage."""
    return tuple(sorted({stage.ipu for stage in plan.staging.stages}))


def _schedule(plan: SessionPlan, *, training: bool) -> tuple[Schedule, int]:
    """(the schedule of one run of the pipeline, runs of a call of the session)."""
    used = _used(plan)
    ipus = [used.index(stage.ipu) for stage in plan.staging.stages]
    if plan.staging.kind == "one" and not training:
        return one_by_one(ipus, 1, training=False), plan.batches
    if not training:
        if plan.staging.kind == "pipelined":
            return cycles_of(ipus, plan.batches, training=False), 1
        _require_listed("batchesPerStep", plan.batches, len(ipus))
        return one_by_one(ipus, plan.batches, training=False), 1
    if plan.staging.kind != "pipelined":
        _require_listed("accumulationFactor", plan.accumulation, len(ipus))
        return one_by_one(ipus, plan.accumulation, training=True), plan.batches
    if plan.accumulation > 1:
        return cycles_of(ipus, plan.accumulation, training=True), plan.batches
    return cycles_of(ipus, plan.batches, training=True, stale_weights=True), 1


def _require_listed(name: str, count: int, stages: int) -> None:
    """Raises: popart_exception if a schedule of `count` microbatches would have more tasks than one may list."""
    if stages * count > MOST_FORWARDS:
        raise popart_exception(
            f"{name} is {count:,}: the emulation of {count_text(stages, 'stage')} takes at most {MOST_FORWARDS // stages:,}. Give a lower "
            "number, or a Cpu device, which has no emulated time"
        )


def _arguments(options: SessionOptions, plan: SessionPlan, replicas: int, *, training: bool) -> Mapping[str, Any]:
    offload = _offload(options, plan)
    if not training:
        return {"offload_optimizer_state": offload and {"parameters": offload["parameters"]}}
    arguments: dict[str, Any] = {
        "offload_optimizer_state": offload,
        "offload_activations": options.activationTensorLocationSettings.location.storage is TensorStorage.OffChip,
        "replica_reduction": "sum",
    }
    settings = options.optimizerStateTensorLocationSettings
    if replicas > 1 and settings.location.replicatedTensorSharding is ReplicatedTensorSharding.On:
        arguments["shard_optimizer_state"] = True
    return arguments


def _offload(options: SessionOptions, plan: SessionPlan) -> Mapping[str, Any] | Literal[False]:
    """Which arrays are in streaming memory, for `Pipeline(offload_optimizer_state=)`."""
    if not any(getattr(options, name).location.storage is TensorStorage.OffChip for name in LOCATIONS.values()) and not (
        options.tensorLocationSettingsOverride
    ):
        return False
    names = sorted((*plan.graph.variables, *plan.names.state), key=len, reverse=True)
    fixed = plan.loss is not None or bool(options.constantWeights)  # else an inference session may get new weights at any time
    constant = set(plan.graph.variables) - set(plan.names.trained) if fixed else set[str]()

    def chooser(prefix: str = "") -> Callable[[str, Any], bool]:
        def choose(path: str, leaf: jax.Array) -> bool:
            name = next((name for name in names if path == name or path.endswith(f"/{name}")), "")
            if not name:
                return False
            subject = Subject(name=prefix + name, elements=int(leaf.size), constant=name in constant)
            return location_of(options, subject).storage is TensorStorage.OffChip

        return choose

    return {"optimizer_state": chooser(), "accumulators": chooser(reservedAccumPrefix()), "parameters": chooser()}
