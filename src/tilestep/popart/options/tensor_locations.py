"""Where each tensor of a session is kept: its own location, else that of its class, unless it is too small.

Source: PopART's transforms/streamingmemoryopinserter.cpp, `determineTensorLocation`.
"""

from dataclasses import dataclass
from typing import Final, Literal

from tilestep.popart.enums import CommGroupType, ReplicatedTensorSharding, TensorStorage, TileSet
from tilestep.popart.names import (
    reservedAccl1Prefix,
    reservedAccl2Prefix,
    reservedAccl3Prefix,
    reservedAcclPrefix,
    reservedAccumPrefix,
    reservedStepPrefix,
)
from tilestep.popart.options.locations import TensorLocation, TensorLocationSettings
from tilestep.popart.options.option_fields import OptionFields
from tilestep.popart.options.option_support import replicas_of

TensorClass = Literal["activation", "weight", "optimizer state", "accumulator"]
_STATE: Final = (
    reservedAcclPrefix(),
    reservedAccl1Prefix(),
    reservedAccl2Prefix(),
    reservedAccl3Prefix(),
    reservedStepPrefix(),
)
_ACCUMULATORS: Final = (reservedAccumPrefix(), reservedAcclPrefix())
LOCATIONS: Final[dict[TensorClass, str]] = {
    "activation": "activationTensorLocationSettings",
    "weight": "weightTensorLocationSettings",
    "optimizer state": "optimizerStateTensorLocationSettings",
    "accumulator": "accumulatorTensorLocationSettings",
}


@dataclass(frozen=True, kw_only=True)
class Subject:
    """A tensor whose location is asked for.

    Attributes:
        name: of the tensor.
        elements: of it, on one replica.
        activation: whether operators compute it; else it is a variable.
        constant: whether its value never changes.
        stated: of the operator that computes it, by `outputTensorLocation`.
        shared: the replicas that hold the same value, as VariableSettings has it.
    """

    name: str
    elements: int
    activation: bool = False
    constant: bool = False
    stated: TensorLocation | None = None
    shared: CommGroupType = CommGroupType.All


def class_of(options: OptionFields, name: str, *, activation: bool = False) -> TensorClass:
    """The class whose settings decide where a tensor is kept. Args: activation: whether operators compute it."""
    if activation:
        return "activation"
    state, accumulator = name.startswith(_STATE), name.startswith(_ACCUMULATORS)
    accumulates = options.enableGradientAccumulation and options.accumulationFactor > 1
    if accumulator and (accumulates or not state):  # a momentum that gradients are accumulated in is both
        return "accumulator"
    return "optimizer state" if state else "weight"


def location_of(options: OptionFields, subject: Subject) -> TensorLocation:
    """Where a tensor is kept. Without I/O tiles all is on the tiles that compute, and without replicas nothing is sharded."""
    kind = class_of(options, subject.name, activation=subject.activation)
    settings: TensorLocationSettings = getattr(options, LOCATIONS[kind])
    given = options.tensorLocationSettingsOverride.get(subject.name) or subject.stated or settings.location
    found = given.copied()
    if found.storage is TensorStorage.OffChip and (subject.constant or _is_small(options, subject, kind)):
        found.storage = TensorStorage.OnChip
    if found.replicatedTensorSharding is ReplicatedTensorSharding.On and not _may_be_sharded(options, subject, kind):
        found.replicatedTensorSharding = ReplicatedTensorSharding.Off
    if int(options.numIOTiles) == 0:
        found.loadTileSet = found.storageTileSet = TileSet.Compute
    return found


def _is_small(options: OptionFields, subject: Subject, kind: TensorClass) -> bool:
    """Whether a tensor stays in the tiles because it has few elements; accumulators always follow their location."""
    settings: TensorLocationSettings = getattr(options, LOCATIONS[_sized(subject, kind)])
    return _sized(subject, kind) != "accumulator" and subject.elements < settings.minElementsForOffChip


def _may_be_sharded(options: OptionFields, subject: Subject, kind: TensorClass) -> bool:
    sized = _sized(subject, kind)
    settings: TensorLocationSettings = getattr(options, LOCATIONS[sized])
    small = sized != "accumulator" and subject.elements < settings.minElementsForReplicatedTensorSharding
    return not (kind == "activation" or small or subject.shared is CommGroupType.Ungrouped or replicas_of(options) == 1)


def _sized(subject: Subject, kind: TensorClass) -> TensorClass:
    """The class whose smallest sizes hold: a momentum is of the state, whoever's location it has."""
    return "optimizer state" if kind == "accumulator" and subject.name.startswith(_STATE) else kind


def unsharded(options: OptionFields) -> list[str]:
    """A sentence for each class of tensors that is to be sharded though there is one replica only."""
    if replicas_of(options) > 1:
        return []
    asked = ReplicatedTensorSharding.On
    fields = [name for name in LOCATIONS.values() if getattr(options, name).location.replicatedTensorSharding is asked]
    single = [name for name, location in options.tensorLocationSettingsOverride.items() if location.replicatedTensorSharding is asked]
    return [
        *(f"[StreamingMemory] Unable to shard the tensors of {name} due to lack of replication" for name in fields),
        *(f"[StreamingMemory] Unable to shard tensor {name} due to lack of replication" for name in single),
    ]
