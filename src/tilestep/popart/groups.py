"""Groups of replicas: CommGroup names a kind of grouping, ReplicaGrouping spells it out for a number of replicas."""

from __future__ import annotations

from typing import Final, final, overload

from tilestep.popart.enums import CommGroupType
from tilestep.popart.exceptions import popart_exception
from tilestep.popart.whole_numbers import whole

_NAME: Final = "popart::ReplicaGrouping"
_Text = str  # the class has a method of this name


@final
class ReplicaGrouping:
    """Which of a number of replicas belong together.

    Replicas r, r + stride, r + 2 * stride ... form a group of `groupSize`.

    Args:
        numReplicas: how many there are.
        stride: between neighbours in a group.
        groupSize: replicas in a group; None: all are one group.
    Raises: popart_exception if a number is 0, or stride * groupSize does not divide numReplicas; TypeError for what is no whole number.
    """

    def __init__(self, numReplicas: int, stride: int = 1, groupSize: int | None = None) -> None:
        numReplicas, stride = whole("numReplicas", numReplicas), whole("stride", stride)
        size = numReplicas if groupSize is None else whole("groupSize", groupSize)
        for value, what in ((numReplicas, "number of replicas"), (stride, "stride"), (size, "group size")):
            if value < 1:
                raise popart_exception(f"The {what} in a `{_NAME}` must be a positive integer. It is {value}.")
        if numReplicas % (stride * size):
            raise popart_exception(
                f"The number of replicas in a `{_NAME}` must be divisible by the product of the stride and the group size: "
                f"{numReplicas} is not by {stride} * {size}."
            )
        self._replicas, self._stride, self._size = numReplicas, 1 if size == 1 else stride, size

    def getNumReplicas(self) -> int:
        """How many replicas there are."""
        return self._replicas

    def getStride(self) -> int:
        """Between neighbours in a group."""
        return self._stride

    def getGroupSize(self) -> int:
        """Replicas in a group."""
        return self._size

    def getNumGroups(self) -> int:
        """How many groups there are."""
        return self._replicas // self._size

    def getGroupAt(self, replica: int) -> int:
        """The group of a replica. Raises: popart_exception if there is no such replica."""
        self._check(replica, self._replicas, "replica index")
        return replica % self._stride + self._stride * (replica // (self._stride * self._size))

    def getIndexInGroupAt(self, replica: int) -> int:
        """The place of a replica in its group. Raises: popart_exception if there is no such replica."""
        return (replica - self.getReplicaAt(self.getGroupAt(replica), 0)) // self._stride

    def getReplicaAt(self, group: int, index: int = 0) -> int:
        """The replica at a place in a group. Raises: popart_exception if there is no such group or place."""
        self._check(group, self.getNumGroups(), "group index")
        self._check(index, self._size, "index")
        return group // self._stride * (self._stride * self._size) + group % self._stride + index * self._stride

    def getReplicasAt(self, group: int) -> list[int]:
        """The replicas of a group. Raises: popart_exception if there is no such group."""
        return [self.getReplicaAt(group, index) for index in range(self._size)]

    def getTranspose(self) -> ReplicaGrouping:
        """The grouping whose groups have one replica of each of these groups.

        Raises: popart_exception if no stride and size describe it.
        """
        if self._stride == 1:
            return ReplicaGrouping(self._replicas, self._size, self.getNumGroups())
        if self._size * self._stride == self._replicas:
            return ReplicaGrouping(self._replicas, 1, self._stride)
        raise popart_exception(f"The transpose of '{self}' cannot be represented as a `{_NAME}`.")

    def str(self) -> _Text:
        """The grouping as a text."""
        return f"ReplicaGrouping(numReplicas={self._replicas}, stride={self._stride}, groupSize={self._size})"

    def _check(self, index: int, count: int, what: _Text) -> None:
        if not 0 <= index < count:
            raise popart_exception(f"The requested {what} is outside the valid range for '{self}': {index} is not from 0 to {count - 1}.")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ReplicaGrouping) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    def __repr__(self) -> _Text:
        return self.str()

    @property
    def _key(self) -> tuple[int, int, int]:
        return self._replicas, self._stride, self._size


@final
class CommGroup:
    """A kind of grouping of replicas, whatever their number.

    Args:
        type: All: one group. Consecutive: neighbours. Orthogonal: each of a group is in another block. Ungrouped: each for itself.
            A ReplicaGrouping in its place is named by its kind.
        replicaGroupSize: replicas in a group; it counts for Consecutive and Orthogonal only.
    Raises: popart_exception if the ReplicaGrouping is of no kind.
    """

    __slots__ = ("replicaGroupSize", "type")

    @overload
    def __init__(self, type: CommGroupType = CommGroupType.All, replicaGroupSize: int = 0) -> None: ...
    @overload
    def __init__(self, *, grouping: ReplicaGrouping) -> None: ...
    @overload
    def __init__(self, type: ReplicaGrouping) -> None: ...
    def __init__(
        self,
        type: CommGroupType | ReplicaGrouping = CommGroupType.All,
        replicaGroupSize: int = 0,
        *,
        grouping: ReplicaGrouping | None = None,
    ) -> None:
        given = grouping if grouping is not None else type
        if isinstance(given, ReplicaGrouping):
            given, replicaGroupSize = _kind(given)
        if not isinstance(given, CommGroupType):  # a user may give anything
            raise TypeError(f"CommGroup: type must be a member of CommGroupType or a ReplicaGrouping, not {given!r}")
        self.type, self.replicaGroupSize = given, replicaGroupSize

    def toReplicaGrouping(self, numReplicas: int) -> ReplicaGrouping:
        """The grouping of that many replicas. Raises: popart_exception if the group size does not divide them."""
        match self.type:
            case CommGroupType.All:
                return ReplicaGrouping(numReplicas)
            case CommGroupType.Ungrouped:
                return ReplicaGrouping(numReplicas, 1, 1)
            case CommGroupType.Consecutive:
                return ReplicaGrouping(numReplicas, 1, self.replicaGroupSize)
            case CommGroupType.Orthogonal:
                return ReplicaGrouping(numReplicas, numReplicas // max(self.replicaGroupSize, 1), self.replicaGroupSize)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CommGroup) and (self.type, self.replicaGroupSize) == (other.type, other.replicaGroupSize)

    def __hash__(self) -> int:
        return hash((self.type, self.replicaGroupSize))

    def __repr__(self) -> str:
        name = "None" if self.type is CommGroupType.Ungrouped else self.type.name
        return f"CommGroup(type={name}, replicaGroupSize={self.replicaGroupSize})"


def _kind(grouping: ReplicaGrouping) -> tuple[CommGroupType, int]:
    size = grouping.getGroupSize()
    if size == 1:
        return CommGroupType.Ungrouped, 0
    if size == grouping.getNumReplicas():
        return CommGroupType.All, 0
    if grouping.getStride() == grouping.getNumGroups():
        return CommGroupType.Orthogonal, size
    if grouping.getStride() == 1:
        return CommGroupType.Consecutive, size
    raise popart_exception(f"The '{grouping}' cannot be converted to a `popart::CommGroup`.")
