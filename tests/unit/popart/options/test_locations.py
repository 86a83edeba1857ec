"""Locations are made in the original's ways."""

from __future__ import annotations

from typing import Any

import pytest

from tests.together import each
from tilestep.popart.enums import CommGroupType, ReplicatedTensorSharding, TensorStorage, TileSet
from tilestep.popart.options import TensorLocation, TensorLocationSettings
from tilestep.popart.variables import CommGroup

OFF_CHIP, ON = TensorStorage.OffChip, ReplicatedTensorSharding.On
PAIRS = CommGroup(CommGroupType.Consecutive, 2)


@each(
    "location, numbers",
    [
        (TensorLocation(), [0, 0, 0, 0, 0, 0]),
        (TensorLocation(OFF_CHIP), [1, 0, 0, 0, 0, 0]),
        (TensorLocation(storage=OFF_CHIP, replicatedTensorSharding=ON), [1, 0, 0, 1, 0, 0]),
        (TensorLocation(OFF_CHIP, ON, PAIRS), [1, 0, 0, 1, 1, 2]),
        (TensorLocation(OFF_CHIP, TileSet.IO, TileSet.Compute, ON), [1, 1, 0, 1, 0, 0]),
        (TensorLocation(OFF_CHIP, TileSet.IO, TileSet.IO, ON, shardingDomain=PAIRS), [1, 1, 1, 1, 1, 2]),
    ],
)
def test_each_way_to_make_one(location: TensorLocation, numbers: list[int]) -> None:
    assert location.serialize() == numbers


def test_settings_take_a_location_or_a_storage() -> None:
    assert TensorLocationSettings(TensorLocation(OFF_CHIP)).location.storage is OFF_CHIP
    assert TensorLocationSettings(OFF_CHIP, 3, 4).as_plain() == {
        "location": TensorLocation(OFF_CHIP).as_plain(),
        "minElementsForOffChip": 3,
        "minElementsForReplicatedTensorSharding": 4,
    }
    assert TensorLocationSettings(storage=OFF_CHIP).location == TensorLocation(OFF_CHIP)


def test_the_group_of_a_location_is_a_copy() -> None:
    group, location = CommGroup(CommGroupType.Orthogonal, 2), TensorLocation()
    location.shardingDomain = group
    group.replicaGroupSize = 8
    assert location.shardingDomain.replicaGroupSize == 2
    wrong: Any = location
    with pytest.raises(TypeError, match="shardingDomain must be a CommGroup"):
        wrong.shardingDomain = 1
