"""Where tensors are kept: override, operator, class; small ones stay in the tiles."""

from typing import Any

import pytest

from tests.together import each
from tests.unit.popart.session.models import options
from tilestep.popart import enums
from tilestep.popart.options import SessionOptions, TensorLocation, TensorLocationSettings
from tilestep.popart.options.tensor_locations import Subject, class_of, location_of

OFF, ON = enums.TensorStorage.OffChip, enums.TensorStorage.OnChip
SHARDED = enums.ReplicatedTensorSharding.On
IO = enums.TileSet.IO


def _options(replicas: int = 1, /, **given: Any) -> SessionOptions:
    return options(enableReplicatedGraphs=replicas > 1, replicatedGraphCount=replicas, **given)


def _storage(chosen: SessionOptions, name: str, elements: int = 10_000, **more: Any) -> enums.TensorStorage:
    return location_of(chosen, Subject(name=name, elements=elements, **more)).storage


@each(
    "name, accumulates, expected",
    [
        ("w", True, "weight"),
        ("Accum___w", True, "accumulator"),
        ("Accum___w", False, "accumulator"),
        ("Accl___w", True, "accumulator"),
        ("Accl___w", False, "optimizer state"),
        ("Accl1___w", True, "optimizer state"),
        ("Accl2___w", True, "optimizer state"),
        ("Step___w", True, "optimizer state"),
    ],
)
def test_a_variables_name_says_its_class(name: str, accumulates: bool, expected: str) -> None:
    chosen = _options(enableGradientAccumulation=accumulates, accumulationFactor=2 if accumulates else 1)
    assert class_of(chosen, name) == expected
    assert class_of(chosen, name, activation=True) == "activation"


@pytest.mark.parametrize(
    ("field", "name", "activation"),
    [
        ("weightTensorLocationSettings", "w", False),
        ("activationTensorLocationSettings", "a", True),
        ("optimizerStateTensorLocationSettings", "Accl1___w", False),
        ("accumulatorTensorLocationSettings", "Accum___w", False),
    ],
)
def test_each_class_has_settings_of_its_own(field: str, name: str, activation: bool) -> None:
    assert _storage(_options(**{field: TensorLocationSettings(OFF)}), name, activation=activation) is OFF
    assert _storage(_options(), name, activation=activation) is ON
    others = {"weightTensorLocationSettings", "activationTensorLocationSettings", "optimizerStateTensorLocationSettings"} - {field}
    assert _storage(_options(**dict.fromkeys(others, TensorLocationSettings(OFF))), name, activation=activation) is ON


def test_tensors_with_few_elements_stay_in_the_tiles() -> None:
    chosen = _options(weightTensorLocationSettings=TensorLocationSettings(OFF, 100))
    assert _storage(chosen, "w", 99) is ON
    assert _storage(chosen, "w", 100) is OFF
    assert _storage(chosen, "w", 100, constant=True) is ON


def test_the_smallest_size_of_a_momentum_is_that_of_the_state() -> None:
    chosen = _options(
        enableGradientAccumulation=True,
        accumulationFactor=2,
        accumulatorTensorLocationSettings=TensorLocationSettings(OFF, 1),
        optimizerStateTensorLocationSettings=TensorLocationSettings(ON, 100),
    )
    assert _storage(chosen, "Accl___w", 99) is ON
    assert _storage(chosen, "Accl___w", 100) is OFF
    assert _storage(chosen, "Accum___w", 1) is OFF


def test_a_name_goes_before_an_operator_and_that_before_a_class() -> None:
    chosen = _options(activationTensorLocationSettings=TensorLocationSettings(OFF))
    assert _storage(chosen, "a", activation=True, stated=TensorLocation(ON)) is ON
    chosen.tensorLocationSettingsOverride["a"] = TensorLocation(OFF)
    assert _storage(chosen, "a", activation=True, stated=TensorLocation(ON)) is OFF
    assert _storage(chosen, "b", activation=True, stated=TensorLocation(ON)) is ON


@pytest.mark.parametrize(
    ("replicas", "elements", "more", "sharded"),
    [
        (2, 8192, {}, True),
        (2, 8191, {}, False),
        (1, 8192, {}, False),
        (2, 8192, {"shared": enums.CommGroupType.Ungrouped}, False),
    ],
)
def test_large_tensors_that_replicas_share_are_sharded(replicas: int, elements: int, more: dict[str, Any], sharded: bool) -> None:
    chosen = _options(replicas, weightTensorLocationSettings=TensorLocationSettings(TensorLocation(OFF, SHARDED)))
    found = location_of(chosen, Subject(name="w", elements=elements, **more))
    assert (found.replicatedTensorSharding is SHARDED) == sharded
    assert found.storage is OFF


def test_activations_are_never_sharded() -> None:
    chosen = _options(2, activationTensorLocationSettings=TensorLocationSettings(TensorLocation(OFF, SHARDED)))
    found = location_of(chosen, Subject(name="a", elements=10_000, activation=True))
    assert found.replicatedTensorSharding is enums.ReplicatedTensorSharding.Off


def test_tile_sets_count_where_there_are_io_tiles() -> None:
    settings = TensorLocationSettings(TensorLocation(OFF, IO, IO, enums.ReplicatedTensorSharding.Off))
    without, with_tiles = (
        location_of(_options(weightTensorLocationSettings=settings, numIOTiles=tiles), Subject(name="w", elements=10)) for tiles in (0, 32)
    )
    assert (without.loadTileSet, without.storageTileSet) == (enums.TileSet.Compute, enums.TileSet.Compute)
    assert (with_tiles.loadTileSet, with_tiles.storageTileSet) == (IO, IO)


def test_sharding_without_replicas_is_noted(capsys: pytest.CaptureFixture[str]) -> None:
    settings = TensorLocationSettings(TensorLocation(ON, SHARDED))
    given: dict[str, Any] = {"weightTensorLocationSettings": settings, "tensorLocationSettingsOverride": {"v": settings.location}}
    _options(**given).require_supported(training=True)
    told = capsys.readouterr().err
    assert "[StreamingMemory] Unable to shard the tensors of weightTensorLocationSettings due to lack of replication" in told
    assert "[StreamingMemory] Unable to shard tensor v due to lack of replication" in told
    _options(2, **given).require_supported(training=True)
    assert "Unable to shard" not in capsys.readouterr().err
