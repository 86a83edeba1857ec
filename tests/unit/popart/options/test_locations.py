"""Settings of locations take a location or a storage, and keep copies."""

from typing import Any

import pytest

from tilestep.popart.enums import CommGroupType, TensorStorage
from tilestep.popart.options import TensorLocation, TensorLocationSettings
from tilestep.popart.variables import CommGroup

OFF_CHIP = TensorStorage.OffChip


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
