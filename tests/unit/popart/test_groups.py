"""Groups of replicas."""

from __future__ import annotations

from typing import Any

import pytest

from tilestep.popart.enums import CommGroupType
from tilestep.popart.exceptions import popart_exception
from tilestep.popart.variables import CommGroup, ReplicaGrouping


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
    ("arguments", "message"),
    [
        ((4.5, 1, 2), r"numReplicas must be a whole number, not 4.5 \(float\)"),
        ((4, "1", 2), r"stride must be a whole number, not '1' \(str\)"),
        ((4, 1, 2.0), r"groupSize must be a whole number, not 2.0 \(float\)"),
    ],
)
def test_what_is_no_whole_number_makes_no_grouping(arguments: Any, message: str) -> None:
    with pytest.raises(TypeError, match=f"^{message}"):
        ReplicaGrouping(*arguments)


@pytest.mark.parametrize("call", [lambda g: g.getGroupAt(4), lambda g: g.getReplicasAt(2), lambda g: g.getReplicaAt(0, 2)])
def test_what_is_outside_of_a_grouping(call: Any) -> None:
    with pytest.raises(popart_exception, match=r"outside the valid range for 'ReplicaGrouping"):
        call(ReplicaGrouping(4, 1, 2))


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


def test_texts_and_hashes() -> None:
    assert repr(CommGroup(CommGroupType.Ungrouped, 0)) == "CommGroup(type=None, replicaGroupSize=0)"
    assert ReplicaGrouping(4).str() == "ReplicaGrouping(numReplicas=4, stride=1, groupSize=4)"
    assert len({ReplicaGrouping(4), ReplicaGrouping(4, 1, 4), ReplicaGrouping(4, 1, 2)}) == 2
    assert len({CommGroup(), CommGroup(CommGroupType.All), CommGroup(CommGroupType.Ungrouped)}) == 2
