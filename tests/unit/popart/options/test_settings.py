"""Nested settings take their fields by position, in the original's order, and by name."""

from __future__ import annotations

import pytest

from tests.together import each
from tilestep.popart import enums
from tilestep.popart.options import (
    AutodiffSettings,
    AutomaticLossScalingSettings,
    BatchSerializationSettings,
    ExecutionPhaseSettings,
    NumIOTiles,
    SessionOptions,
)
from tilestep.popart.options.fields import Record

_TRACKED = enums.GradientTensorTrackingMethod.GradientsOfUserSpecifiedTensors
_ON_DEMAND, _PRELOAD = enums.ExecutionPhaseIOSchedule.OnDemand, enums.ExecutionPhaseIOSchedule.Preload


@each(
    "record, changed",
    [
        (
            AutomaticLossScalingSettings(True, ["x"], 0.5, 0.25, 2, _TRACKED),
            {
                "enabled": True,
                "toTrackTensors": ["x"],
                "binEdgeLocation": 0.5,
                "thresholdUpperCountProportion": 0.25,
                "updatePeriod": 2,
                "gradientTensorTrackingMethod": _TRACKED,
            },
        ),
        (
            BatchSerializationSettings(4, False, True, True, enums.BatchSerializationTransformContext.Bwd),
            {"factor": 4, "concatOnVirtualGraphChange": False, "transformContext": enums.BatchSerializationTransformContext.Backward},
        ),
        (
            ExecutionPhaseSettings(8, 1, _ON_DEMAND, _PRELOAD, _PRELOAD, _PRELOAD, enums.ExecutionPhaseSchedule.Batch),
            {
                "phases": 8,
                "stages": 1,
                "weightIOSchedule": _ON_DEMAND,
                "optimizerStateIOSchedule": _PRELOAD,
                "schedule": enums.ExecutionPhaseSchedule.Batch,
            },
        ),
    ],
)
def test_arguments_are_fields(record: Record, changed: dict[str, object]) -> None:
    assert record.changed() == changed
    assert type(record)().changed() == {}


def test_an_argument_that_does_not_exist_is_named_with_those_that_do() -> None:
    with pytest.raises(TypeError, match=r"NumIOTiles: .* keyword argument 'tiles'; its arguments are numIOTiles"):
        NumIOTiles(tiles=32)
    with pytest.raises(TypeError, match=r"AutodiffSettings: too many positional arguments; its arguments are stitchStrategy"):
        AutodiffSettings(enums.AutodiffStitchStrategy.AddFwdOutputs, 1)


def test_a_number_of_io_tiles_is_a_number(options: SessionOptions) -> None:
    options.numIOTiles = NumIOTiles(16)  # what has __index__ is a number
    assert options.numIOTiles == 16
    assert NumIOTiles(3) == 3 == int(NumIOTiles(3))
    assert NumIOTiles() == NumIOTiles(0) != NumIOTiles(1)
