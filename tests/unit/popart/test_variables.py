from __future__ import annotations

from typing import Any

import pytest

from tilestep import popart
from tilestep.popart import CommGroup, CommGroupType, VariableRetrievalMode, VariableSettings

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


def test_each_way_to_make_one() -> None:
    default = VariableSettings()
    assert (default.getCommGroupType(), default.getGroupSize(), default.getRetrievalMode()) == (CommGroupType.All, 0, ONE)
    assert VariableSettings(ALL).getRetrievalMode() is VariableSettings(retrievalMode_=ALL).getRetrievalMode() is ALL
    group = CommGroup(CommGroupType.Consecutive, 2)
    assert VariableSettings(group, ALL) == VariableSettings(sharedVariableDomain_=group, retrievalMode_=ALL)
    assert VariableSettings(group, ALL) != VariableSettings(group)
    assert VariableSettings(2, 4, ALL) == VariableSettings(stride=2, groupSize=4, mode=ALL)
    assert VariableSettings(group).getSharedVariableDomain() == group


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
