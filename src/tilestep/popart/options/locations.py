"""Where tensors are kept: TensorLocation, and TensorLocationSettings for a class of tensors."""

from typing import Any, final, overload

from tilestep.messages import shown
from tilestep.popart.enums import ReplicatedTensorSharding, TensorStorage, TileSet
from tilestep.popart.options.fields import Field, Record, WrongKind, member, nested, whole
from tilestep.popart.variables import CommGroup

_OFF = ReplicatedTensorSharding.Off


def _as_group(value: object) -> CommGroup:
    if not isinstance(value, CommGroup):
        raise WrongKind("a CommGroup")
    return CommGroup(value.type, value.replicaGroupSize)


@final
class TensorLocation(Record):
    """Where one tensor is kept.

    `TensorLocation(storage)`, `(storage, replicatedTensorSharding[, shardingDomain])` and
    `(storage, loadTileSet, storageTileSet, replicatedTensorSharding[, shardingDomain])` are the ways to make one.

    Attributes:
        storage: in the tiles, or in streaming memory.
        loadTileSet: the tiles through which it is loaded.
        storageTileSet: the tiles that keep it.
        replicatedTensorSharding: whether each replica keeps only its part.
        shardingDomain: the replicas that share the parts.
    """

    __slots__ = ()
    storage = member(TensorStorage.OnChip)
    loadTileSet = member(TileSet.Compute)
    storageTileSet = member(TileSet.Compute)
    replicatedTensorSharding = member(_OFF)
    shardingDomain = Field(CommGroup, _as_group)

    @overload
    def __init__(
        self,
        storage: TensorStorage = ...,
        replicatedTensorSharding: ReplicatedTensorSharding = ...,
        shardingDomain: CommGroup = ...,
    ) -> None: ...
    @overload
    def __init__(
        self,
        storage: TensorStorage,
        loadTileSet: TileSet,
        storageTileSet: TileSet,
        replicatedTensorSharding: ReplicatedTensorSharding,
        shardingDomain: CommGroup = ...,
    ) -> None: ...
    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__()
        short = len(given) < 2 or isinstance(given[1], ReplicatedTensorSharding)
        tiles = [] if short else ["loadTileSet", "storageTileSet"]
        order = ["storage", *tiles, "replicatedTensorSharding", "shardingDomain"]
        wanted = dict(zip(order, given, strict=False))
        known = {"storage", "loadTileSet", "storageTileSet", "replicatedTensorSharding", "shardingDomain"}
        if len(given) > len(order) or wanted.keys() & named.keys() or named.keys() - known:
            raise TypeError(f"TensorLocation: incompatible constructor arguments {shown(given)}, {shown(named)}")
        for name, value in {**wanted, **named}.items():
            setattr(self, name, value)

    def serialize(self) -> list[int]:
        """The location as whole numbers, in the order of its attributes; the sharding domain is two of them."""
        domain = self.shardingDomain
        places = [int(self.storage), int(self.loadTileSet), int(self.storageTileSet), int(self.replicatedTensorSharding)]
        return [*places, int(domain.type), domain.replicaGroupSize]

    def isRemote(self) -> bool:
        """Whether it is in streaming memory, or on other replicas in part."""
        return self.storage is TensorStorage.OffChip or self.replicatedTensorSharding is ReplicatedTensorSharding.On

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TensorLocation) and self.serialize() == other.serialize()

    def __hash__(self) -> int:
        return hash(tuple(self.serialize()))


@final
class TensorLocationSettings(Record):
    """Where tensors of a class are kept.

    Args:
        location: of each of them; a TensorStorage stands for TensorLocation(storage), also as keyword `storage`.
        minElementsForOffChip: tensors with fewer elements stay in the tiles.
        minElementsForReplicatedTensorSharding: tensors with fewer elements are kept whole by each replica.
    """

    __slots__ = ()
    location = nested(TensorLocation)
    minElementsForOffChip = whole(2)
    minElementsForReplicatedTensorSharding = whole(8192)

    def __init__(
        self,
        location: TensorLocation | TensorStorage = TensorStorage.OnChip,
        minElementsForOffChip: int = 2,
        minElementsForReplicatedTensorSharding: int = 8192,
        *,
        storage: TensorStorage | None = None,
    ) -> None:
        super().__init__()
        given = location if storage is None else storage
        self.location = TensorLocation(given) if isinstance(given, TensorStorage) else given
        self.minElementsForOffChip = minElementsForOffChip
        self.minElementsForReplicatedTensorSharding = minElementsForReplicatedTensorSharding


def as_location(value: object) -> TensorLocation:
    """A copy of a TensorLocation. Raises: WrongKind if it is something else."""
    if not isinstance(value, TensorLocation):
        raise WrongKind("a TensorLocation")
    return value.copied()
