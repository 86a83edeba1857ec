"""The options of a session, each with its type and default. table.py says what each one does here."""

from typing import Final

from tilestep.popart.enums import (
    Instrumentation,
    MeanReductionStrategy,
    MergeVarUpdateType,
    RecomputationType,
    ReductionType,
    SubgraphCopyingStrategy,
    SyntheticDataMode,
    VirtualGraphMode,
)
from tilestep.popart.options.fields import (
    Record,
    as_float,
    as_int,
    as_text,
    flag,
    items,
    member,
    members,
    nested,
    one_of,
    real,
    table,
    text,
    whole,
)
from tilestep.popart.options.locations import TensorLocationSettings, as_location
from tilestep.popart.options.settings import (
    AccumulateOuterFragmentSettings,
    AutomaticLossScalingSettings,
    BatchSerializationSettings,
    ExecutionPhaseSettings,
    ExperimentalSettings,
    ReplicatedCollectivesSettings,
)

_MOST_INT: Final = 2**31 - 1
_MOST_UNSIGNED: Final = 2**32 - 1


def _depth(value: object) -> int:
    return as_int(value, 0, _MOST_UNSIGNED)


class OptionFields(Record):
    """The options of a session; SessionOptions adds what users call."""

    __slots__ = ()
    logDir = text()
    exportPoplarComputationGraph = flag(False)
    exportPoplarVertexGraph = flag(False)
    syntheticDataMode = member(SyntheticDataMode.Off)
    instrumentWithHardwareCycleCounter = flag(False)
    hardwareInstrumentations = members(one_of(Instrumentation), Instrumentation.Outer)
    disableGradAccumulationTensorStreams = flag(False)
    disableOptimizerStateTensorStreams = flag(False)
    enableOutlining = flag(True)
    enableOutliningCopyCostPruning = flag(True)
    outlineThreshold = real(1.0)
    outlineSequenceBreakCost = real(10000.0)
    accumulationFactor = whole(1)
    enableGradientAccumulation = flag(False)
    accumulationAndReplicationReductionType = member(ReductionType.Sum)
    meanAccumulationAndReplicationReductionStrategy = member(MeanReductionStrategy.Post)
    enableNonStableSoftmax = flag(False)
    enablePipelining = flag(False)
    subgraphCopyingStrategy = member(SubgraphCopyingStrategy.OnEnterAndExit)
    autoRecomputation = member(RecomputationType.NoRecompute)
    mergeVarUpdate = member(MergeVarUpdateType.Off)
    mergeVarUpdateMemThreshold = whole(1_000_000)
    rearrangeAnchorsOnHost = flag(True)
    rearrangeStreamsOnHost = flag(False)
    executionPhaseSettings = nested(ExecutionPhaseSettings)
    numIOTiles = whole(0, lowest=-_MOST_INT - 1, highest=_MOST_INT)
    explicitRecomputation = flag(False)
    experimentalSettings = nested(ExperimentalSettings)
    batchSerializationSettings = nested(BatchSerializationSettings)
    aliasZeroCopy = flag(False)
    enablePrefetchDatastreams = flag(True)
    defaultBufferingDepth = whole(1, lowest=0, highest=_MOST_UNSIGNED)
    bufferingDepthMap = table(_depth)
    virtualGraphMode = member(VirtualGraphMode.Off)
    virtualGraphSplitRatios = items(as_float)
    enableReplicatedGraphs = flag(False)
    replicatedGraphCount = whole(1)
    compileEngine = flag(True)
    engineOptions = table(as_text)
    convolutionOptions = table(as_text)
    lstmOptions = table(as_text)
    matmulOptions = table(as_text)
    reportOptions = table(as_text)
    gclOptions = table(as_text)
    dotOpNames = flag(False)
    separateCallOpPdfs = flag(True)
    finalDotOp = whole(10_000, lowest=-_MOST_INT - 1, highest=_MOST_INT)
    firstDotOp = whole(0, lowest=-_MOST_INT - 1, highest=_MOST_INT)
    constantWeights = flag(True)
    cachePath = text("session_cache")
    enableEngineCaching = flag(False)
    enableVariablesCaching = flag(True)
    enableFloatingPointChecks = flag(False)
    enableStochasticRounding = flag(False)
    _enableRngStateManagement = flag(False)
    enableFullyConnectedPass = flag(True)
    partialsTypeMatMuls = text()
    enableStableNorm = flag(False)
    groupNormStridedChannelGrouping = flag(False)
    customCodelets = items(as_text)
    updatableNamedBuffers = items(as_text)
    customCodeletCompileFlags = text()
    kahnTieBreaker = text("greedy")
    timeLimitScheduler = real(1e9)
    swapLimitScheduler = whole(1_000_000_000)
    transitiveClosureOptimizationThreshold = whole(100_000, lowest=0, highest=2**64 - 1)
    decomposeGradSum = flag(False)
    serializedPoprithmsShiftGraphsDir = text()
    enableDistributedReplicatedGraphs = flag(False)
    globalReplicationFactor = whole(1)
    globalReplicaOffset = whole(0)
    groupHostSync = flag(False)
    strictOpVersions = flag(True)
    opxAliasChecking = flag(False)
    opxModifyChecking = flag(False)
    activationTensorLocationSettings = nested(TensorLocationSettings)
    weightTensorLocationSettings = nested(TensorLocationSettings)
    optimizerStateTensorLocationSettings = nested(TensorLocationSettings)
    accumulatorTensorLocationSettings = nested(TensorLocationSettings)
    tensorLocationSettingsOverride = table(as_location)
    accumulateOuterFragmentSettings = nested(AccumulateOuterFragmentSettings)
    enableLoadAndOffloadRNGState = flag(False)
    automaticLossScalingSettings = nested(AutomaticLossScalingSettings)
    replicatedCollectivesSettings = nested(ReplicatedCollectivesSettings)
    useHostCopyOps = flag(False)
    enableEfficientOverlapIOTopoCons = flag(False)
    enableSupportedDataTypeCasting = flag(True)
    enableExplicitMainLoops = flag(False)
    enableMergeExchange = flag(True)
    ensureFp32LossScaleTensor = flag(False)
    delayVarUpdates = flag(True)
    scheduleNonWeightUpdateGradientConsumersEarly = flag(False)
    dotChecks = members(as_text)
    enableInplaceAmbiguityChecking = flag(False)
    createImplicitPipeliningFwdOnlyProgram = flag(False)
    throwIfLog2ScaleTensorNotInRange = flag(True)
    enableConstantFoldingOfMultipleConsumers = flag(True)
    useLoopCandidateCreator = flag(False)
    stashAllTensorsInferencePipeline = flag(False)
