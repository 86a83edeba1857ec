"""The enumerations of PopART's interface: names, members and numbers as in its C++ headers.

They act as pybind11's scoped enumerations do: `int(member)` gives the number, `str(member)` gives "Class.Member", `Class(number)` gives the
member, and members of two classes are never equal. `<` between members is a TypeError.
"""

from __future__ import annotations

from enum import Enum


class _Numbered(Enum):
    """An enumeration whose members convert to int."""

    def __int__(self) -> int:
        number: int = self.value
        return number

    def __index__(self) -> int:
        return int(self)


# --- Tensors ---


class DataType(_Numbered):
    """The type of a tensor's elements."""

    UINT8 = 0
    INT8 = 1
    FLOAT8_143 = 2
    FLOAT8_152 = 3
    UINT16 = 4
    INT16 = 5
    INT32 = 6
    INT64 = 7
    UINT32 = 8
    UINT64 = 9
    BOOL = 10
    FLOAT = 11
    FLOAT16 = 12
    BFLOAT16 = 13
    DOUBLE = 14
    COMPLEX64 = 15
    COMPLEX128 = 16
    STRING = 17
    UNDEFINED = 18


class InitType(_Numbered):
    """What operator `init` fills its result with."""

    NoInit = 0
    Zero = 1


class TensorRemapType(_Numbered):
    """Where operator `tensorremap` may choose another layout."""

    FwdBwdReverse = 0
    FwdBwd = 1
    Fwd = 2


class TileSet(_Numbered):
    """The tiles that compute, or those that only transfer."""

    Compute = 0
    IO = 1


class ExchangeStrategy(_Numbered):
    """When a stream of the host may run beside computation."""

    JustInTime = 0
    OverlapInnerLoop = 1
    OverlapLoops = 2
    OverlapStep = 3


class ReplicatedStreamMode(_Numbered):
    """Whether each replica reads data of its own, or all read the same."""

    Replicate = 1
    Broadcast = 0


class TensorStorage(_Numbered):
    """Where a tensor is kept."""

    OnChip = 0
    OffChip = 1


class ReplicatedTensorSharding(_Numbered):
    """Whether each replica keeps only its part of a tensor that is the same on all."""

    Off = 0
    On = 1


class VariableRetrievalMode(_Numbered):
    """Which replicas' copies of a variable the host reads."""

    OnePerGroup = 0
    AllReduceReplicas = 1
    AllReplicas = 2


class CommGroupType(_Numbered):
    """How replicas form groups. `Ungrouped`: each is a group of its own."""

    All = 0
    Consecutive = 1
    Orthogonal = 2
    Ungrouped = 3


class CollectiveOperator(_Numbered):
    """How a collective operation combines the replicas' values."""

    Add = 0
    Mean = 1
    Mul = 2
    Min = 3
    Max = 4
    LogicalAnd = 5
    LogicalOr = 6
    SquareAdd = 7
    Local = 8


# --- Results, losses and optimizers ---


class AnchorReturnTypeId(_Numbered):
    """Which of a tensor's values a step returns."""

    Final = 0
    EveryN = 1
    All = 2
    Sum = 3


class ReductionType(_Numbered):
    """How a loss, or gradients over microbatches and replicas, are reduced."""

    Mean = 1
    NoReduction = 2
    Sum = 0


class MeanReductionStrategy(_Numbered):
    """When a mean divides: at each addition (Running), or after the last (Post)."""

    Running = 0
    Post = 1


class ScatterReduction(_Numbered):
    """How `scatterreduce` combines what has the same index."""

    Sum = 0
    Max = 1
    Min = 2
    Mul = 3
    NoReduction = 4


class WeightDecayMode(_Numbered):
    """Whether weight decay is added to the update, or to the gradient."""

    Decay = 0
    L2Regularization = 1


class SGDAccumulatorAndMomentum(_Numbered):
    """Whether SGD keeps one tensor for accumulation and momentum, or two."""

    Combined = 0
    Separate = 1


class AdamMode(_Numbered):
    """The member of Adam's family."""

    Adam = 0
    AdamNoBias = 1
    AdaMax = 2
    Lamb = 3
    LambNoBias = 4


class AdaptiveMode(_Numbered):
    """The member of the family of adaptive learning rates."""

    AdaGrad = 0
    RMSProp = 1
    CenteredRMSProp = 2
    AdaDelta = 3


# --- Sessions' options ---


class GradientTensorTrackingMethod(_Numbered):
    """Which gradients automatic loss scaling looks at."""

    AllNonViewChangingGradientTensors = 0
    ConvAndMatmulGradients = 1
    GradientsOfUserSpecifiedTensors = 2


class BatchSerializationTransformContext(_Numbered):
    """Before or after the backward pass is made. `Fwd` and `Bwd` are short names."""

    Forward = 0
    Backward = 1
    Fwd = 0
    Bwd = 1


class BatchSerializationMethod(_Numbered):
    """How parts of a batch follow each other."""

    UnrollDynamic = 0
    UnrollStatic = 1
    Loop = 2


class BatchSerializationBatchSchedule(_Numbered):
    """How the parts' operations are scheduled."""

    Scheduler = 0
    Isomorphic = 1
    OverlapOnIo = 2
    OverlapOnCompute = 3


class AutodiffStitchStrategy(_Numbered):
    """How a backward subgraph gets what its forward subgraph computed."""

    RecomputeMinimal = 0
    RecomputeAllNonInputs = 1
    AddFwdOutputs = 2
    SafeAddFwdOutputs = 3


class SubgraphCopyingStrategy(_Numbered):
    """When a subgraph's inputs and outputs are copied."""

    OnEnterAndExit = 0
    JustInTime = 1


class PatternsLevel(_Numbered):
    """A set of patterns."""

    NoPatterns = 0
    Minimal = 1
    Default = 2
    All = 3
    NONE = NoPatterns  # the names of before SDK 2.3
    DEFAULT = Default
    ALL = All


class RecomputationType(_Numbered):
    """Which operations are computed again in the backward pass."""

    NoRecompute = 0
    Standard = 1
    NormOnly = 2
    Pipeline = 3
    RecomputeAll = 4


class RecomputeType(_Numbered):
    """Whether one operation is computed again in the backward pass."""

    Undefined = 0
    Checkpoint = 1
    Recompute = 2
    Recomputed = 3


class ExecutionPhaseIOSchedule(_Numbered):
    """Whether a phase's tensors are loaded one phase ahead, or when needed."""

    Preload = 0
    OnDemand = 1


class ExecutionPhaseSchedule(_Numbered):
    """How loads and stores of a phase mix with its computation."""

    Interleaving = 0
    Batch = 1
    BatchClusteredIO = 2


class AccumulateOuterFragmentSchedule(_Numbered):
    """The order of what happens once for all microbatches."""

    Scheduler = 0
    Serial = 1
    OverlapCycleOptimized = 2
    OverlapMemoryOptimized = 3


class MergeVarUpdateType(_Numbered):
    """Which updates of variables are merged."""

    Off = 0
    All = 1
    AutoLoose = 2
    AutoTight = 3


class VirtualGraphMode(_Numbered):
    """How operations get their IPU."""

    Off = 0
    Manual = 1
    Auto = 2
    ExecutionPhases = 3
    PingPong = ExecutionPhases  # its name before SDK 2.3


class SyntheticDataMode(_Numbered):
    """Whether inputs come from the host, and else what they hold."""

    Off = 0
    Zeros = 1
    RandomNormal = 2
    RandomUniform = 3


class IrSerializationFormat(_Numbered):
    """The form in which a session writes its graph."""

    JSON = 0


class Instrumentation(_Numbered):
    """Where cycles are counted: around the whole step (Outer), or around one microbatch (Inner)."""

    Outer = 0
    Inner = 1


# --- Devices ---


class DeviceType(_Numbered):
    """The kind of a device. `str` gives the short name, as "ipu-model"."""

    IpuModel = 0
    Cpu = 1
    Ipu = 2
    OfflineIpu = 3
    Sim = 4

    def __str__(self) -> str:
        return {"IpuModel": "ipu-model", "OfflineIpu": "offline-ipu"}.get(self.name, self.name.lower())


class DeviceConnectionType(_Numbered):
    """When a device is attached to."""

    Always = 0
    OnDemand = 1
    Never = 2


class DeviceSelectionCriterion(_Numbered):
    """Which of several free devices is taken."""

    First = 0
    Random = 1


class SyncPattern(_Numbered):
    """Which IPUs wait for each other. `str` gives the engine's word, as "singlePipeline"."""

    Full = 0
    SinglePipeline = 1
    ReplicaAndLadder = 2
    PingPong = ReplicaAndLadder  # its name before SDK 2.3

    def __str__(self) -> str:
        return self.name[0].lower() + self.name[1:]


class RecoveryAction(_Numbered):
    """What helps after an error of the system."""

    IPU_RESET = 0
    LINK_RESET = 1
    PARTITION_RESET = 2
    FULL_RESET = 3
