"""Settings that stand together in one field of SessionOptions. Arguments of each class are its attributes, with the same defaults."""

from collections.abc import Mapping
from inspect import Parameter, Signature
from typing import Any, ClassVar, final

from tilestep.popart.enums import AccumulateOuterFragmentSchedule, AutodiffStitchStrategy, ExecutionPhaseIOSchedule, ExecutionPhaseSchedule
from tilestep.popart.enums import BatchSerializationBatchSchedule as BatchSchedule
from tilestep.popart.enums import BatchSerializationMethod as Method
from tilestep.popart.enums import BatchSerializationTransformContext as Context
from tilestep.popart.enums import GradientTensorTrackingMethod as Tracking
from tilestep.popart.options.fields import Field, Record, as_int, as_texts, fields_of, flag, items, member, real, table, whole


class _Settings(Record):
    """A record whose constructor takes its attributes, by position in their order or by name."""

    __slots__ = ()
    _renamed_arguments: ClassVar[Mapping[str, str]] = {}

    def __init_subclass__(cls) -> None:
        arguments = {attribute: argument for argument, attribute in cls._renamed_arguments.items()}
        cls.__signature__ = Signature(
            [
                Parameter(arguments.get(name, name), Parameter.POSITIONAL_OR_KEYWORD, default=field.fresh())
                for name, field in fields_of(cls).items()
            ]
        )

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__()
        try:
            values = type(self).__signature__.bind(*given, **named).arguments
        except TypeError as error:
            raise TypeError(f"{type(self).__name__}: {error}; its arguments are {', '.join(type(self).__signature__.parameters)}") from None
        for name, value in values.items():
            setattr(self, self._renamed_arguments.get(name, name), value)


@final
class AutomaticLossScalingSettings(_Settings):
    """How the loss scale follows the gradients.

    Attributes:
        enabled: whether it does.
        toTrackTensors: the tensors whose gradients are looked at; None: gradientTensorTrackingMethod says which.
        binEdgeLocation: the edge between small and large gradients, as a part of the largest float16: 0 to 1.
        thresholdUpperCountProportion: if more gradients lie above the edge the scale is halved, else doubled: 0 to 1.
        updatePeriod: updates of the weights for each update of the scale.
        gradientTensorTrackingMethod: which gradients are looked at.
    """

    __slots__ = ()
    enabled = flag(False)
    toTrackTensors: Field[list[str] | None] = Field(lambda: None, lambda value: None if value is None else as_texts(value))
    binEdgeLocation = real(0.125)
    thresholdUpperCountProportion = real(1e-7)
    updatePeriod = whole(1)
    gradientTensorTrackingMethod = member(Tracking.AllNonViewChangingGradientTensors)


@final
class ReplicatedCollectivesSettings(_Settings):
    """Which collective operations of replicas are merged."""

    __slots__ = ()
    prepareScheduleForMergingCollectives = flag(False)
    mergeAllReduceCollectives = flag(False)
    mergeReduceScatterCollectives = flag(False)
    mergeAllGatherCollectives = flag(False)


@final
class BatchSerializationSettings(_Settings):
    """How a batch is computed in parts.

    Attributes:
        factor: the number of parts; 0 or 1: the batch stays whole.
        concatOnVirtualGraphChange, concatOnExecutionPhaseChange, concatOnPipelineStageChange: where the parts are put together again.
        transformContext: whether the batch is split before or after the backward pass is made.
        method: how the parts follow each other.
        batchSchedule: how their operations are scheduled.
    """

    __slots__ = ()
    factor = whole(0)
    concatOnVirtualGraphChange = flag(True)
    concatOnExecutionPhaseChange = flag(True)
    concatOnPipelineStageChange = flag(True)
    transformContext = member(Context.Forward)
    method = member(Method.UnrollDynamic)
    batchSchedule = member(BatchSchedule.Isomorphic)


@final
class AutodiffSettings(_Settings):
    """How a backward subgraph gets what its forward subgraph computed."""

    __slots__ = ()
    stitchStrategy = member(AutodiffStitchStrategy.RecomputeAllNonInputs)


@final
class ExecutionPhaseSettings(_Settings):
    """How a model runs in phases, whose weights come from streaming memory.

    Attributes:
        phases: of the model; 0 or 1: it runs in one piece.
        stages: IPUs that take turns.
        weightIOSchedule, activationIOSchedule, optimizerStateIOSchedule, accumulatorIOSchedule: when tensors of each class are loaded.
        schedule: how loads and stores mix with computation; the constructor's argument is `optimizerSchedule`.
    """

    __slots__ = ()
    phases = whole(0)
    stages = whole(2)
    weightIOSchedule = member(ExecutionPhaseIOSchedule.Preload)
    activationIOSchedule = member(ExecutionPhaseIOSchedule.Preload)
    optimizerStateIOSchedule = member(ExecutionPhaseIOSchedule.OnDemand)
    accumulatorIOSchedule = member(ExecutionPhaseIOSchedule.Preload)
    schedule = member(ExecutionPhaseSchedule.Interleaving)
    _renamed_arguments: ClassVar = {"optimizerSchedule": "schedule"}


@final
class AccumulateOuterFragmentSettings(_Settings):
    """The order of what happens once for all microbatches, as the optimizer's update.

    Attributes:
        schedule: how IPUs follow each other in it.
        excludedVirtualGraphs: IPUs that the schedule leaves alone.
    """

    __slots__ = ()
    schedule = member(AccumulateOuterFragmentSchedule.Serial)
    excludedVirtualGraphs = items(as_int)


@final
class ExperimentalSettings(Record):
    """Settings that may change.

    Attributes:
        customTransformApplierSettings: checkpoint -> names of transformations, which are C++ code.
        createHostTransferableTensorWithOffset: whether small inputs begin on different tiles.
    """

    __slots__ = ()
    customTransformApplierSettings = table(as_texts)
    createHostTransferableTensorWithOffset = flag(False)


@final
class NumIOTiles(_Settings):
    """A number of tiles that only transfer."""

    __slots__ = ()
    value = whole(0)
    _renamed_arguments: ClassVar = {"numIOTiles": "value"}

    def __int__(self) -> int:
        return self.value

    def __index__(self) -> int:
        return self.value

    def __eq__(self, other: object) -> bool:
        return int(self) == other if isinstance(other, int) else isinstance(other, NumIOTiles) and int(self) == int(other)

    def __hash__(self) -> int:
        return hash(self.value)
