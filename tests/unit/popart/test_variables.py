from typing import Any

import pytest

from tilestep import popart
from tilestep.popart import CommGroup, CommGroupType, VariableRetrievalMode, VariableSettings
from tilestep.popart.exceptions import popart_exception
from tilestep.popart.variables import ReplicaGrouping


@pytest.mark.parametrize(
    ("grouping", "groups"),
    [
        (ReplicaGrouping(4), [[0, 1, 2, 3]]),
        (ReplicaGrouping(4, 1, 2), [[0, 1], [2, 3]]),
        (ReplicaGrouping(4, 2, 2), [[0, 2], [1, 3]]),
        (ReplicaGrouping(8, 2, 2), [[0, 2], [1, 3], [4, 6], [5, 7]]),
        (ReplicaGrouping(3, 3, 1), [[0], [1], [2]]),
    ],
)
def test_replicas_of_each_group(grouping: ReplicaGrouping, groups: list[list[int]]) -> None:
    assert [grouping.getReplicasAt(group) for group in range(grouping.getNumGroups())] == groups
    for group, replicas in enumerate(groups):
        for index, replica in enumerate(replicas):
            assert (grouping.getGroupAt(replica), grouping.getIndexInGroupAt(replica)) == (group, index)
            assert grouping.getReplicaAt(group, index) == replica


def test_a_replica_or_a_group_that_is_not_there_is_named() -> None:
    grouping = ReplicaGrouping(8, 1, 2)
    for asked, number in ((grouping.getGroupAt, 8), (grouping.getIndexInGroupAt, -1), (grouping.getReplicasAt, 4)):
        with pytest.raises(popart_exception, match=rf"outside the valid range .*: {number} is not from 0 to "):
            asked(number)


def test_the_transpose_swaps_groups_and_places() -> None:
    assert ReplicaGrouping(8, 1, 2).getTranspose() == ReplicaGrouping(8, 2, 4)
    assert ReplicaGrouping(8, 2, 4).getTranspose() == ReplicaGrouping(8, 1, 2)
    with pytest.raises(popart_exception, match=r"transpose of 'ReplicaGrouping.numReplicas=8, stride=2, groupSize=2.' cannot"):
        ReplicaGrouping(8, 2, 2).getTranspose()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0,), "The number of replicas in a `popart::ReplicaGrouping` must be a positive integer"),
        ((4, 0, 2), "The stride in a `popart::ReplicaGrouping` must be a positive integer"),
        ((4, 1, 0), "The group size in a `popart::ReplicaGrouping` must be a positive integer"),
        ((4, 2, 4), "The number of replicas in a `popart::ReplicaGrouping` must be divisible by the product"),
    ],
)
def test_numbers_that_fit_no_grouping(arguments: tuple[int, ...], message: str) -> None:
    with pytest.raises(popart_exception, match=f"^{message}"):
        ReplicaGrouping(*arguments)


@pytest.mark.parametrize(
    ("group", "grouping"),
    [
        (CommGroup(), ReplicaGrouping(8)),
        (CommGroup(CommGroupType.All, 0), ReplicaGrouping(8)),
        (CommGroup(CommGroupType.Consecutive, 4), ReplicaGrouping(8, 1, 4)),
        (CommGroup(CommGroupType.Orthogonal, 4), ReplicaGrouping(8, 2, 4)),
        (CommGroup(CommGroupType.Ungrouped, 0), ReplicaGrouping(8, 1, 1)),
    ],
)
def test_a_kind_of_grouping_and_back(group: CommGroup, grouping: ReplicaGrouping) -> None:
    assert group.toReplicaGrouping(8) == grouping
    assert CommGroup(grouping) == CommGroup(grouping=grouping) == group


def test_a_grouping_of_no_kind() -> None:
    with pytest.raises(popart_exception, match=r"cannot be converted to a `popart::CommGroup`"):
        CommGroup(ReplicaGrouping(8, 2, 2))
    wrong: Any = 1
    with pytest.raises(TypeError, match=r"type must be a member of CommGroupType"):
        CommGroup(wrong)


ONE, ALL = VariableRetrievalMode.OnePerGroup, VariableRetrievalMode.AllReplicas
GROUPS = [
    (CommGroup(CommGroupType.All, 0), [[0, 1, 2, 3, 4, 5, 6, 7]]),
    (CommGroup(CommGroupType.Consecutive, 4), [[0, 1, 2, 3], [4, 5, 6, 7]]),
    (CommGroup(CommGroupType.Orthogonal, 4), [[0, 2, 4, 6], [1, 3, 5, 7]]),
    (CommGroup(CommGroupType.Ungrouped, 0), [[0], [1], [2], [3], [4], [5], [6], [7]]),
]


@pytest.mark.parametrize(("group", "groups"), GROUPS)
def test_groups_of_eight_replicas(group: CommGroup, groups: list[list[int]]) -> None:
    settings = VariableSettings(group)
    assert settings.groups(8) == groups
    assert settings.getGroupCount(8) == len(groups)
    assert settings.getRealGroupSize(8) == len(groups[0])
    assert [settings.getGroupRepresentative(number) for number in range(len(groups))] == [one[0] for one in groups]
    assert settings.numReplicasReturningVariable(8) == len(groups)
    assert VariableSettings(group, ALL).numReplicasReturningVariable(8) == 8
    host = [2, 3] if len(groups) == 1 else [len(groups), 2, 3]
    assert settings.shapeOnHost([2, 3], 8) == host
    assert settings.shapeOnReplica(host, 8, "w") == [2, 3]


def test_groups_by_stride() -> None:
    settings = VariableSettings(2, 2, ALL)
    assert settings.groups(8) == [[0, 2], [1, 3], [4, 6], [5, 7]]
    assert [settings.getGroupRepresentative(number) for number in range(4)] == [0, 1, 4, 5]
    assert (settings.isUsingCommGroup(), settings.getStride(), settings.getGroupSize()) == (False, 2, 2)
    assert settings.getReplicaGrouping(8).getNumGroups() == 4
    assert VariableSettings(3, 1, ONE).getStride() == 1
    with pytest.raises(popart.popart_exception, match="were not initialised using a `popart::CommGroup`"):
        settings.getSharedVariableDomain()


@pytest.mark.parametrize("args", [("x",), (CommGroup(), 3), (CommGroup(), ONE, 2, 3), (ONE, ONE)])
def test_other_arguments_are_type_errors(args: tuple[Any, ...]) -> None:
    with pytest.raises(TypeError, match="VariableSettings"):
        VariableSettings(*args)


def test_groups_need_sizes_and_strides() -> None:
    with pytest.raises(popart.popart_internal_exception, match="VariableSettings had 1 errors!"):
        VariableSettings(CommGroup(CommGroupType.Orthogonal, 0))
    for args in ((0, 2, ONE), (2, 0, ONE)):
        with pytest.raises(popart.popart_exception, match="must be a positive integer"):
            VariableSettings(*args)
    with pytest.raises(popart.popart_exception, match="should match numGroups: 2"):
        VariableSettings(CommGroup(CommGroupType.Consecutive, 4)).shapeOnReplica([3, 2], 8, "w")
