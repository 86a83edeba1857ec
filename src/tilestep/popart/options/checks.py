"""What options must fulfil before a session is made: values that fit each other, and nothing that is refused.

Errors of values that do not fit begin with the original's words.
"""

from collections.abc import Iterator
from typing import Final

from tilestep.messages import shown
from tilestep.popart.diagnostics.log import warn
from tilestep.popart.enums import (
    BatchSerializationMethod,
    BatchSerializationTransformContext,
    GradientTensorTrackingMethod,
    VirtualGraphMode,
)
from tilestep.popart.exceptions import popart_exception
from tilestep.popart.options.option_fields import OptionFields
from tilestep.popart.options.option_support import PLACEMENT_CHECKS, Check, Situation, implicit_pipeline
from tilestep.popart.options.table import TABLE
from tilestep.popart.options.tensor_locations import unsharded

_LOSS_SCALE: Final = "[AutomaticLossScale transform]"


def require_supported(options: OptionFields, situation: Situation) -> None:
    """Checks the options of a session that is about to be made, and warns of those that have no effect though someone waits for one.

    Raises: popart_exception naming the option, its value and what to do.
    """
    for problem in problems(options, situation):
        raise popart_exception(problem)
    for refusal in refusals(options, situation):
        raise popart_exception(refusal)
    for note in notes(options):
        warn(note)


def refusals(options: OptionFields, situation: Situation) -> Iterator[str]:
    """A message for each option whose value is refused."""
    for name, row in TABLE.items():
        if row.refuses is not None and row.refuses(options, situation):
            value = getattr(options, name)
            yield f"SessionOptions.{name} = {shown(value)} is not supported by tilestep: {row.text}. To go on: {row.way_out}."


def notes(options: OptionFields) -> list[str]:
    """A sentence for each changed option that has no effect though someone waits for one."""
    changed, phases = options.changed(), options.executionPhaseSettings.phases
    told = [f"SessionOptions.{name} has no effect: {row.text}." for name, row in TABLE.items() if row.warns and name in changed]
    if phases == 1 or (options.virtualGraphMode is VirtualGraphMode.ExecutionPhases and phases == 0):
        told.append(
            f"Phased execution was enabled but only {phases} phases were defined. Phased execution only works with >=2 phases. Disabling."
        )
    return told + unsharded(options)


def problems(options: OptionFields, situation: Situation) -> Iterator[str]:
    """A message for each value that is not allowed, or does not fit another."""
    for check in _CHECKS:
        if message := check(options, situation):
            yield message


def _accumulation(options: OptionFields, situation: Situation) -> str | None:
    if options.enableGradientAccumulation and not situation.training:
        return "Gradient Accumulation only available when training. Set enableGradientAccumulation to False for an InferenceSession."
    if options.accumulationFactor < 1:
        return f"accumulationFactor is {options.accumulationFactor}: it must be 1 or more."
    if not options.enableGradientAccumulation and options.accumulationFactor > 1:
        return (
            "enableGradientAccumulation is false, but accumulationFactor > 1. Either enable gradient accumulation, or set the "
            f"accumulation factor to 1. It is {options.accumulationFactor}."
        )
    return None


def _replicas(options: OptionFields, _: Situation) -> str | None:
    if options.replicatedGraphCount < 1:
        return f"replicatedGraphCount is {options.replicatedGraphCount}: it must be 1 or more."
    if not options.enableReplicatedGraphs and options.replicatedGraphCount > 1:
        return (
            "enableReplicatedGraphs is false, but replicatedGraphCount > 1. Either enable replicated graphs, or set the number of "
            f"replicas to 1. It is {options.replicatedGraphCount}."
        )
    return None


def _distributed(options: OptionFields, _: Situation) -> str | None:
    if not options.enableDistributedReplicatedGraphs:
        return None
    factor, offset, local = options.globalReplicationFactor, options.globalReplicaOffset, options.replicatedGraphCount
    if factor < 1:
        return f"Invalid globalReplicationFactor value: {factor}, must be greater or equal than 1"
    if offset < 0:
        return f"Invalid globalReplicaOffset value: {offset}, must be greater or equal than 0"
    if offset > factor:
        return f"Global replica offset: {offset}, is larger than global replication factor: {factor}"
    if options.enableReplicatedGraphs and local == 1:
        return "Local replicated graphs enabled but replication factor is 1"
    if options.enableReplicatedGraphs and local > factor:
        return f"Invalid local replication factor: {local}, larger than global replication factor: {factor}"
    return None


def _forward_only(options: OptionFields, _: Situation) -> str | None:
    if not options.createImplicitPipeliningFwdOnlyProgram:
        return None
    explicit = options.enablePipelining and not implicit_pipeline(options)
    start = "Implicit pipelining forward-only program is not supported "
    if explicit:
        return f"{start}with explicit pipelining."
    if not options.enablePipelining:
        return f"{start}without implicit pipelining."
    if not options.enableGradientAccumulation:
        return f"{start}without gradient accumulation."
    return None


def _loops(options: OptionFields, situation: Situation) -> str | None:
    serial = options.batchSerializationSettings
    if options.enableExplicitMainLoops and not options.useHostCopyOps:
        return "enableExplicitMainLoops requires useHostCopyOps. Set both, or call enableExplicitIR(True)."
    if options.aliasZeroCopy and implicit_pipeline(options):
        return "Alias zero copy is not supported with implicit pipelining. Call enableExplicitIR(True)."
    if options.aliasZeroCopy and not options.explicitRecomputation:
        return "Alias zero copy is currently not supported with implicit recomputation. Set explicitRecomputation."
    forward = serial.transformContext is BatchSerializationTransformContext.Fwd
    if serial.method is BatchSerializationMethod.Loop and forward and situation.training:
        return (
            "Loop batch serialization is only supported in BatchSerializationTransformContext::Bwd due to LoopGradOp missing. "
            "Set batchSerializationSettings.transformContext."
        )
    return None


def _loss_scaling(options: OptionFields, situation: Situation) -> str | None:
    settings = options.automaticLossScalingSettings
    if not settings.enabled:
        return None
    if not situation.training:
        return f"{_LOSS_SCALE} Only compatible when doing training"
    if options.enablePipelining and not options.enableGradientAccumulation:
        return (
            f"{_LOSS_SCALE} Automatic loss scaling is not currently supported when the 'enablePipelining' SessionOption is set to 'true', "
            "but the 'enableGradientAccumulation' SessionOption is set to 'false'"
        )
    chosen = settings.gradientTensorTrackingMethod is GradientTensorTrackingMethod.GradientsOfUserSpecifiedTensors
    method = "'GradientTensorTrackingMethod::GradientsOfUserSpecifiedTensors'"
    if settings.toTrackTensors is not None and not chosen:
        return f"{_LOSS_SCALE} toTrackTensors has been set, but gradientTensorTrackingMethod has not been set to {method}."
    if settings.toTrackTensors is None and chosen:
        return f"{_LOSS_SCALE} gradientTensorTrackingMethod set to {method} but 'toTrackTensors' has not been set"
    for name in ("binEdgeLocation", "thresholdUpperCountProportion"):
        value = getattr(settings, name)
        if not 0 <= value <= 1:
            return f"{_LOSS_SCALE} Out of range value for '{name}'. The current value is {value}, but it should be in the range [0, 1]."
    return None


def _words(options: OptionFields, _: Situation) -> str | None:
    if options.kahnTieBreaker.lower() not in ("fifo", "greedy", "random"):
        return f'Unrecognised KahnTieBreaker, {options.kahnTieBreaker}. Should be one of "fifo", "greedy", and "random".'
    if options.partialsTypeMatMuls.lower() not in ("", "float", "half"):
        return (
            f"Unable to get option 'partialsTypeMatMul' from string '{options.partialsTypeMatMuls}'. "
            "Possible values are 'float' and 'half' in any letter case."
        )
    for name, depth in {**options.bufferingDepthMap, "": options.defaultBufferingDepth}.items():
        if depth < 1:
            where = f" for tensor {name}" if name else ""
            return f"Unable to support a buffering depth of {depth}{where} (minimum buffering depth is 1)"
    return None


_CHECKS: Final[tuple[Check, ...]] = (
    _accumulation,
    _replicas,
    _distributed,
    _forward_only,
    *PLACEMENT_CHECKS,
    _loops,
    _loss_scaling,
    _words,
)
