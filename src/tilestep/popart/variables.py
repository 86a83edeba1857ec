"""Settings of variables, and groups of replicas that share them: CommGroup names a kind of grouping, ReplicaGrouping spells it out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, final, overload

from tilestep.popart.enums import CommGroupType, VariableRetrievalMode
from tilestep.popart.exceptions import popart_exception, popart_internal_exception
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


@final
class VariableSettings:
    """How a variable is spread over replicas.

    `VariableSettings()`, `(group)`, `(mode)`, `(group, mode)` and `(stride, groupSize, mode)` are the ways to make one. Replicas of a group
    start with the same values. Without a group, all replicas are one.

    Raises: TypeError for other arguments; popart_exception for a group without a size, and a stride or size of 0.
    """

    @overload
    def __init__(self, sharedVariableDomain_: CommGroup = ..., retrievalMode_: VariableRetrievalMode = ...) -> None: ...
    @overload
    def __init__(self, retrievalMode_: VariableRetrievalMode) -> None: ...
    @overload
    def __init__(self, stride: int, groupSize: int, mode: VariableRetrievalMode) -> None: ...
    def __init__(self, *args: Any, **named: Any) -> None:
        given = {**dict(zip(_names(args, named), args, strict=False)), **named}
        if len(given) != len(args) + len(named):
            raise TypeError(f"VariableSettings: incompatible constructor arguments {args}, {named}")
        mode = given.get("mode", given.get("retrievalMode_", VariableRetrievalMode.OnePerGroup))
        if not isinstance(mode, VariableRetrievalMode):
            raise TypeError(f"VariableSettings: {mode!r} is no VariableRetrievalMode")
        self._mode = mode
        self._group: CommGroup | None = None
        self._stride, self._size = 0, 0
        if "stride" in given:
            self._stride, self._size = int(given["stride"]), int(given["groupSize"])
        else:
            group: object = given.get("sharedVariableDomain_", CommGroup())
            if not isinstance(group, CommGroup):
                raise TypeError(f"VariableSettings: {group!r} is no CommGroup")
            self._group = CommGroup(group.type, group.replicaGroupSize)
        self.verify()

    def verify(self) -> None:
        """Checks the settings. Raises: popart_exception for a group without a size, and a stride or size of 0."""
        if self._group is not None:
            if self._group.type not in (CommGroupType.All, CommGroupType.Ungrouped) and self._group.replicaGroupSize < 1:
                raise popart_internal_exception(
                    f"VariableSettings had 1 errors! A group of type {self._group.type.name} needs a size of at least 1, "
                    f"and has {self._group.replicaGroupSize}."
                )
            return
        for value, what in ((self._stride, "stride"), (self._size, "group size")):
            if value < 1:
                raise popart_exception(f"The {what} in a `popart::VariableSettings` must be a positive integer. It is {value}.")
        if self._size == 1:
            self._stride = 1

    def isUsingCommGroup(self) -> bool:
        """Whether the groups are given as a CommGroup, not by a stride."""
        return self._group is not None

    def getSharedVariableDomain(self) -> CommGroup:
        """The group. Raises: popart_exception if the groups were given by a stride."""
        if self._group is None:
            raise popart_exception("The variable settings were not initialised using a `popart::CommGroup` instance.")
        return CommGroup(self._group.type, self._group.replicaGroupSize)

    def getCommGroupType(self) -> CommGroupType:
        """The kind of groups; All if they were given by a stride."""
        return CommGroupType.All if self._group is None else self._group.type

    def getStride(self) -> int:
        """From one replica of a group to the next, as given; 0 if a CommGroup was given."""
        return self._stride

    def getGroupSize(self) -> int:
        """Replicas in a group, as given."""
        return self._size if self._group is None else self._group.replicaGroupSize

    def getRetrievalMode(self) -> VariableRetrievalMode:
        """Which replicas' values the host reads."""
        return self._mode

    def getReplicaGrouping(self, numReplicas: int) -> ReplicaGrouping:
        """The groups of a number of replicas. Raises: popart_exception if they don't divide it."""
        if self._group is not None:
            return self._group.toReplicaGrouping(numReplicas)
        return ReplicaGrouping(numReplicas, self._stride, self._size)

    def getGroupCount(self, replicaCount: int) -> int:
        """How many groups there are."""
        return self.getReplicaGrouping(replicaCount).getNumGroups()

    def getRealGroupSize(self, replicaCount: int) -> int:
        """Replicas in a group."""
        return self.getReplicaGrouping(replicaCount).getGroupSize()

    def getGroupRepresentative(self, group: int) -> int:
        """The first replica of a group."""
        if self._group is None:
            return self.getReplicaGrouping(self._size * self._stride * (group + 1)).getReplicaAt(group)
        if self._group.type is CommGroupType.All:
            return 0
        return group * (self._group.replicaGroupSize if self._group.type is CommGroupType.Consecutive else 1)

    def numReplicasReturningVariable(self, replicaCount: int) -> int:
        """How many replicas' values the host reads: one of each group, or all."""
        return replicaCount if self._mode is VariableRetrievalMode.AllReplicas else self.getGroupCount(replicaCount)

    def shapeOnReplica(self, full_shape: Sequence[int], replicaCount: int, name: str) -> list[int]:
        """The shape that each replica has, of the host's whose first dimension counts the groups, if there are several.

        Raises: popart_exception if the first dimension is not the number of groups.
        """
        groups = self.getGroupCount(replicaCount)
        if groups == 1:
            return list(full_shape)
        if not full_shape or full_shape[0] != groups:
            found = full_shape[0] if full_shape else "none"
            raise popart_internal_exception(
                f'Return mismatch with possibly appended outer dimension ({found}) of Tensor: "{name}". should match numGroups: {groups}'
            )
        return list(full_shape[1:])

    def shapeOnHost(self, replicaShape: Sequence[int], replicaCount: int) -> list[int]:
        """The shape that the host has, of each replica's: with the number of groups before it, if there are several."""
        groups = self.getGroupCount(replicaCount)
        return list(replicaShape) if groups == 1 else [groups, *replicaShape]

    def groups(self, replicaCount: int) -> list[list[int]]:
        """The replicas of each group."""
        grouping = self.getReplicaGrouping(replicaCount)
        return [grouping.getReplicasAt(group) for group in range(grouping.getNumGroups())]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, VariableSettings) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    def __repr__(self) -> str:
        of = f"stride={self._stride}, groupSize={self._size}" if self._group is None else f"{self._group!r}"
        return f"VariableSettings({of}, retrievalMode={self._mode.name})"

    @property
    def _key(self) -> tuple[object, ...]:
        return self._group, self._stride, self._size, self._mode


def _names(args: Sequence[object], named: dict[str, Any]) -> tuple[str, ...]:
    """Names of positional arguments, by the constructor that they fit."""
    first = args[0] if args else None
    if len(args) == 3 or "stride" in named or (args and isinstance(first, int)):
        return ("stride", "groupSize", "mode")
    if isinstance(first, VariableRetrievalMode):
        return ("retrievalMode_",)
    return ("sharedVariableDomain_", "retrievalMode_")
