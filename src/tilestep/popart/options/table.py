"""What each option of a session does here. docs/reference/popart-options.md is made of this table."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from tilestep.popart.options.option_fields import OptionFields
from tilestep.popart.options.option_support import Refuses, Row, Situation, done, no_effect, planned, refused, replicas_of

_SCHEDULE: Final = "XLA and the emulator's planner choose the order of operations"
_OUTLINE: Final = "the emulator's planner decides which code the tiles share"
_COPIES: Final = "no tensor is updated in place, so there is no alias to check"
_STREAMS: Final = "the emulated host link has one model, docs/reference/cost-model.md"
_PICTURES: Final = "no pictures of graphs are drawn: there are no stages of PopART's intermediate representation"
_COLLECTIVES: Final = "XLA and the emulator's planner decide how values cross between replicas"
_DISTRIBUTED: Final = "instances of a program that share a model would wait for each other, so one process must have all replicas"
_ALL_REPLICAS: Final = "set globalReplicationFactor to the process's own replicatedGraphCount, and globalReplicaOffset to 0"


def _flagged(name: str) -> Refuses:
    return lambda options, _: bool(getattr(options, name))


def _location(what: str) -> Row:
    return planned(f"whether {what} wait in streaming memory, and whether each replica keeps only its part of them; no value changes")


def _each(names: str, row: Row) -> dict[str, Row]:
    """The same row for several options. Args: names: separated by spaces."""
    return dict.fromkeys(names.split(), row)


def _in_part(options: OptionFields, _: Situation) -> bool:
    """Whether the process has only some of the replicas."""
    local = replicas_of(options)
    return options.enableDistributedReplicatedGraphs and (options.globalReplicationFactor, options.globalReplicaOffset) != (local, 0)


_DISTRIBUTED_ROW: Final = refused(_DISTRIBUTED, _ALL_REPLICAS, _in_part)

TABLE: Final[Mapping[str, Row]] = MappingProxyType(
    {
        # --- Values: what a step computes ---
        "accumulationFactor": planned("microbatches for each update"),
        "enableGradientAccumulation": planned("gradients of accumulationFactor microbatches make one update"),
        "accumulationAndReplicationReductionType": planned(
            "whether gradients of microbatches and replicas are summed, or their mean is taken"
        ),
        "meanAccumulationAndReplicationReductionStrategy": planned("whether a mean divides at each addition, or after the last"),
        "automaticLossScalingSettings": planned(
            "the loss scaling doubles while float16 gradients are small, and halves when too many are large"
        ),
        "ensureFp32LossScaleTensor": planned("the gradient of a float16 loss begins in float32, so that its scale may exceed 65504"),
        "syntheticDataMode": planned(
            "inputs and anchors stay on the device and cost no transfer: inputs hold zeros or random numbers, the same for each microbatch"
        ),
        "enableStochasticRounding": no_effect(
            "results are rounded to the nearest, as on the original's Cpu and IpuModel devices", warns=True
        ),
        "enableFloatingPointChecks": no_effect(
            "nothing is trapped, as on the original's Cpu and IpuModel devices; jax_debug_nans finds a NaN", warns=True
        ),
        "enableNonStableSoftmax": no_effect("softmax always subtracts the largest value first, which changes results by rounding only"),
        "enableStableNorm": no_effect("normalisations always subtract the mean before they compute the variance"),
        "groupNormStridedChannelGrouping": refused(
            "a group of a group norm always is neighbouring channels: another grouping is refused",
            "leave it False, as weights that other frameworks are to read need it",
            _flagged("groupNormStridedChannelGrouping"),
        ),
        "enableSupportedDataTypeCasting": planned("64-bit integers are computed in 32 bits; if it is False, they are errors"),
        "throwIfLog2ScaleTensorNotInRange": no_effect("operators with a scale of float8 are not computed at all"),
        "autoRecomputation": planned(
            "which results are kept for the backward pass, and which are computed again, by the original's rules. Values change in "
            "pipelines without accumulation only. On one IPU bytes fall where they are scarce, because only then the planner orders "
            "operations by them"
        ),
        "explicitRecomputation": planned(
            "with RecomputeAll and without implicit pipelining, what follows the last checkpoint is computed again, too; if it is False, "
            "RecomputeAll without checkpoints computes nothing again"
        ),
        "enableLoadAndOffloadRNGState": done("getRNGState and setRNGState may be called"),
        "_enableRngStateManagement": no_effect("random numbers come from JAX's keys"),
        "strictOpVersions": no_effect("each version of an operator that exists is computed as it was defined"),
        # --- Weights and the life of a session ---
        "constantWeights": planned("whether the weights of an inference session are constants, which resetHostWeights cannot change"),
        "updatableNamedBuffers": no_effect("no call in Python updates single weights"),
        **_each(
            "disableGradAccumulationTensorStreams disableOptimizerStateTensorStreams",
            no_effect("what a program does not read is not sent to the host"),
        ),
        "compileEngine": done("False: prepareDevice plans nothing, and the session cannot run"),
        "enableEngineCaching": done("prepareDevice keeps executables in cachePath, and reads them from there"),
        "cachePath": done("the folder of kept executables"),
        "enableVariablesCaching": no_effect("an executable is kept without variables: they come from the model"),
        "engineOptions": done(
            "options of reports and memory, docs/reference/engine-options.md; an unknown one is an error of prepareDevice"
        ),
        "reportOptions": done("options of getSummaryReport; an unknown one is an error of prepareDevice"),
        "instrumentWithHardwareCycleCounter": done("getCycleCount may be called"),
        "hardwareInstrumentations": done("which cycles getCycleCount can give: of a step (Outer), or of a microbatch (Inner)"),
        "customCodelets": refused(
            "code for tiles is not run",
            "write the operator in JAX and register it with tilestep.onnx.register_op",
            _flagged("customCodelets"),
        ),
        "customCodeletCompileFlags": no_effect("code for tiles is not compiled: customCodelets is refused"),
        # --- The plan: where and how, not what ---
        "partialsTypeMatMuls": planned("the type in which float16 products of matrix multiplications are added up"),
        "numIOTiles": planned("tiles that only transfer; with virtual graphs an even number, 32 or more"),
        "convolutionOptions": planned("partialsType and availableMemoryProportion reach the plan; other known ones have no effect"),
        "matmulOptions": planned("partialsType and availableMemoryProportion reach the plan; other known ones have no effect"),
        "lstmOptions": planned("partialsType and availableMemoryProportion reach the plan; other known ones have no effect"),
        "gclOptions": no_effect(_COLLECTIVES),
        "enableFullyConnectedPass": no_effect("the emulator's planner finds the three products of a layer by itself"),
        **_each(
            "enableOutlining enableOutliningCopyCostPruning outlineThreshold outlineSequenceBreakCost "
            "subgraphCopyingStrategy aliasZeroCopy useLoopCandidateCreator",
            no_effect(_OUTLINE),
        ),
        **_each("mergeVarUpdate mergeVarUpdateMemThreshold", no_effect("XLA fuses the updates of variables")),
        "decomposeGradSum": no_effect("XLA adds gradients as they come"),
        **_each(
            "delayVarUpdates scheduleNonWeightUpdateGradientConsumersEarly accumulateOuterFragmentSettings kahnTieBreaker "
            "timeLimitScheduler swapLimitScheduler transitiveClosureOptimizationThreshold "
            "serializedPoprithmsShiftGraphsDir groupHostSync enableEfficientOverlapIOTopoCons",
            no_effect(_SCHEDULE),
        ),
        "batchSerializationSettings": no_effect(
            "an operator takes its whole microbatch: the planner cuts products that are too large for the tiles by itself; only a factor "
            "that does not divide the batch is an error",
            warns=True,
        ),
        **_each(
            "rearrangeAnchorsOnHost rearrangeStreamsOnHost enablePrefetchDatastreams defaultBufferingDepth "
            "bufferingDepthMap enableMergeExchange",
            no_effect(_STREAMS),
        ),
        "useHostCopyOps": done("with enableExplicitMainLoops, streams may overlap with computation, and pipelines are explicit"),
        "enableExplicitMainLoops": done(
            "streams with an overlapping ExchangeStrategy are allowed, and AnchorReturnType EveryN is an error"
        ),
        "activationTensorLocationSettings": _location("activations"),
        "weightTensorLocationSettings": _location("weights"),
        "optimizerStateTensorLocationSettings": _location("the arrays of the optimizer's state"),
        "accumulatorTensorLocationSettings": _location("accumulated gradients"),
        "tensorLocationSettingsOverride": planned("where single tensors are kept, by name, whatever their class says"),
        # --- Several IPUs ---
        "virtualGraphMode": planned("whether operators are placed on IPUs: by the model (Manual), by bytes (Auto), or by phases"),
        "virtualGraphSplitRatios": planned("in VirtualGraphMode.Auto, each IPU's share of the model's bytes"),
        "enablePipelining": planned("stages work at the same time, on microbatches that follow each other"),
        "createImplicitPipeliningFwdOnlyProgram": planned("a TrainingSession may run its forward part alone"),
        "stashAllTensorsInferencePipeline": no_effect("in inference a stage passes on what later stages read, however the flag is set"),
        "executionPhaseSettings": planned("the model runs phase by phase, and weights that are off the chip are loaded before their phase"),
        "enableReplicatedGraphs": planned("whether there are replicatedGraphCount replicas"),
        "replicatedGraphCount": planned(
            "copies of the model on IPUs of their own: each reads microbatches of its own, and their gradients are added"
        ),
        "replicatedCollectivesSettings": no_effect(_COLLECTIVES),
        **_each("enableDistributedReplicatedGraphs globalReplicationFactor globalReplicaOffset", _DISTRIBUTED_ROW),
        # --- For developers ---
        "logDir": no_effect(_PICTURES),
        "dotChecks": no_effect(_PICTURES, warns=True),
        **_each("dotOpNames firstDotOp finalDotOp separateCallOpPdfs", no_effect(_PICTURES)),
        **_each("exportPoplarComputationGraph exportPoplarVertexGraph", no_effect("no graph of Poplar is made", warns=True)),
        **_each("opxAliasChecking opxModifyChecking enableInplaceAmbiguityChecking", no_effect(_COPIES)),
        "enableConstantFoldingOfMultipleConsumers": no_effect("a constant is computed once, however many operators read it"),
        "experimentalSettings": refused(
            "transformations of the intermediate representation, which are C++ code, are refused; the other setting has no effect",
            "change the ONNX model before the session is made",
            lambda options, _: bool(options.experimentalSettings.customTransformApplierSettings),
        ),
    }
)

ALIASES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "defaultPrefetchBufferingDepth": "defaultBufferingDepth",
        "prefetchBufferingDepthMap": "bufferingDepthMap",
        "serializedPoprithmsAnnealGraphsDir": "serializedPoprithmsShiftGraphsDir",
    }
)
METHODS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "enableExplicitIR": "sets useHostCopyOps, enableExplicitMainLoops and explicitRecomputation",
        "getGlobalReplicationFactor": "the number of replicas in all processes",
    }
)
PROGRAM: Final = frozenset(name for name, row in TABLE.items() if row.in_program)
