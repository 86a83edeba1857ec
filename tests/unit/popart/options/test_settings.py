"""Nested settings name the arguments that they take."""

import pytest

from tilestep.popart import enums
from tilestep.popart.options import (
    AutodiffSettings,
    NumIOTiles,
    SessionOptions,
)


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
