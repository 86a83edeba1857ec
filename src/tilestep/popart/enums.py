"""The enumerations of PopART's interface: names, members and numbers as in its C++ headers, where numbers begin with 0.

They act as pybind11's scoped enumerations do: `int(member)` gives the number, `str(member)` gives "Class.Member", `Class(number)` gives the
member, and members of two classes are never equal. `<` between members is a TypeError.
"""

from enum import Enum as _Enum


class _Numbered(_Enum):
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

    NoInit, Zero = range(2)


class TensorRemapType(_Numbered):
    """Where operator `tensorremap` may choose another layout."""

    FwdBwdReverse, FwdBwd, Fwd = range(3)


class TileSet(_Numbered):
    """The tiles that compute, or those that only transfer."""

    Compute, IO = range(2)


class ExchangeStrategy(_Numbered):
    """When a stream of the host may run beside computation."""

    JustInTime, OverlapInnerLoop, OverlapLoops, OverlapStep = range(4)


class ReplicatedStreamMode(_Numbered):
    """Whether each replica reads data of its own, or all read the same."""

    Replicate = 1
    Broadcast = 0


class TensorStorage(_Numbered):
    """Where a tensor is kept."""

    OnChip, OffChip = range(2)


class ReplicatedTensorSharding(_Numbered):
    """Whether each replica keeps only its part of a tensor that is the same on all."""

    Off, On = range(2)


class VariableRetrievalMode(_Numbered):
    """Which replicas' copies of a variable the host reads."""

    OnePerGroup, AllReduceReplicas, AllReplicas = range(3)


class CommGroupType(_Numbered):
    """How replicas form groups. `Ungrouped`: each is a group of its own."""

    All, Consecutive, Orthogonal, Ungrouped = range(4)


class CollectiveOperator(_Numbered):
    """How a collective operation combines the replicas' values."""

    Add, Mean, Mul, Min, Max, LogicalAnd, LogicalOr, SquareAdd, Local = range(9)


# --- Results, losses and optimizers ---


class AnchorReturnTypeId(_Numbered):
    """Which of a tensor's values a step returns."""

    Final, EveryN, All, Sum = range(4)


class ReductionType(_Numbered):
    """How a loss, or gradients over microbatches and replicas, are reduced."""

    Mean = 1
    NoReduction = 2
    Sum = 0


class MeanReductionStrategy(_Numbered):
    """When a mean divides: at each addition (Running), or after the last (Post)."""

    Running, Post = range(2)


class ScatterReduction(_Numbered):
    """How `scatterreduce` combines what has the same index."""

    Sum, Max, Min, Mul, NoReduction = range(5)


class WeightDecayMode(_Numbered):
    """Whether weight decay is added to the update, or to the gradient."""

    Decay, L2Regularization = range(2)


class SGDAccumulatorAndMomentum(_Numbered):
    """Whether SGD keeps one tensor for accumulation and momentum, or two."""

    Combined, Separate = range(2)


class AdamMode(_Numbered):
    """The member of Adam's family."""

    Adam, AdamNoBias, AdaMax, Lamb, LambNoBias = range(5)


class AdaptiveMode(_Numbered):
    """The member of the family of adaptive learning rates."""

    AdaGrad, RMSProp, CenteredRMSProp, AdaDelta = range(4)


# --- Sessions' options ---


class GradientTensorTrackingMethod(_Numbered):
    """Which gradients automatic loss scaling looks at."""

    AllNonViewChangingGradientTensors, ConvAndMatmulGradients, GradientsOfUserSpecifiedTensors = range(3)


class BatchSerializationTransformContext(_Numbered):
    """Before or after the backward pass is made. `Fwd` and `Bwd` are short names."""

    Forward, Backward = range(2)
    Fwd = 0
    Bwd = 1


class BatchSerializationMethod(_Numbered):
    """How parts of a batch follow each other."""

    UnrollDynamic, UnrollStatic, Loop = range(3)


class BatchSerializationBatchSchedule(_Numbered):
    """How the parts' operations are scheduled."""

    Scheduler, Isomorphic, OverlapOnIo, OverlapOnCompute = range(4)


class AutodiffStitchStrategy(_Numbered):
    """How a backward subgraph gets what its forward subgraph computed."""

    RecomputeMinimal, RecomputeAllNonInputs, AddFwdOutputs, SafeAddFwdOutputs = range(4)


class SubgraphCopyingStrategy(_Numbered):
    """When a subgraph's inputs and outputs are copied."""

    OnEnterAndExit, JustInTime = range(2)


class PatternsLevel(_Numbered):
    """A set of patterns."""

    NoPatterns, Minimal, Default, All = range(4)
    NONE = NoPatterns  # the names of before SDK 2.3
    DEFAULT = Default
    ALL = All


class RecomputationType(_Numbered):
    """Which operations are computed again in the backward pass."""

    NoRecompute, Standard, NormOnly, Pipeline, RecomputeAll = range(5)


class RecomputeType(_Numbered):
    """Whether one operation is computed again in the backward pass."""

    Undefined, Checkpoint, Recompute, Recomputed = range(4)


class ExecutionPhaseIOSchedule(_Numbered):
    """Whether a phase's tensors are loaded one phase ahead, or when needed."""

    Preload, OnDemand = range(2)


class ExecutionPhaseSchedule(_Numbered):
    """How loads and stores of a phase mix with its computation."""

    Interleaving, Batch, BatchClusteredIO = range(3)


class AccumulateOuterFragmentSchedule(_Numbered):
    """The order of what happens once for all microbatches."""

    Scheduler, Serial, OverlapCycleOptimized, OverlapMemoryOptimized = range(4)


class MergeVarUpdateType(_Numbered):
    """Which updates of variables are merged."""

    Off, All, AutoLoose, AutoTight = range(4)


class VirtualGraphMode(_Numbered):
    """How operations get their IPU."""

    Off, Manual, Auto, ExecutionPhases = range(4)
    PingPong = ExecutionPhases  # its name before SDK 2.3


class SyntheticDataMode(_Numbered):
    """Whether inputs come from the host, and else what they hold."""

    Off, Zeros, RandomNormal, RandomUniform = range(4)


class IrSerializationFormat(_Numbered):
    """The form in which a session writes its graph."""

    JSON = 0


class Instrumentation(_Numbered):
    """Where cycles are counted: around the whole step (Outer), or around one microbatch (Inner)."""

    Outer, Inner = range(2)


# --- Devices ---


class DeviceType(_Numbered):
    """The kind of a device. `str` gives the short name, as "ipu-model"."""

    IpuModel, Cpu, Ipu, OfflineIpu, Sim = range(5)

    def __str__(self) -> str:
        return {"IpuModel": "ipu-model", "OfflineIpu": "offline-ipu"}.get(self.name, self.name.lower())


class DeviceConnectionType(_Numbered):
    """When a device is attached to."""

    Always, OnDemand, Never = range(3)


class DeviceSelectionCriterion(_Numbered):
    """Which of several free devices is taken."""

    First, Random = range(2)


class SyncPattern(_Numbered):
    """Which IPUs wait for each other. `str` gives the engine's word, as "singlePipeline"."""

    Full, SinglePipeline, ReplicaAndLadder = range(3)
    PingPong = ReplicaAndLadder  # its name before SDK 2.3

    def __str__(self) -> str:
        return self.name[0].lower() + self.name[1:]


class RecoveryAction(_Numbered):
    """What helps after an error of the system."""

    IPU_RESET, LINK_RESET, PARTITION_RESET, FULL_RESET = range(4)
