"""Sliding windows on the matrix unit: sums by hand, lower bounds, and the law that more work never takes less time."""

import numpy as np
import pytest

from tests.unit.cost.machines import BOW, C600, GC2
from tilestep.cost.products.amp import amp_nx1
from tilestep.cost.products.matrix_unit import MatrixUnit, matrix_unit
from tilestep.cost.products.slic import slic, slic_at_least, slic_load_cycles, slic_shapes
from tilestep.cost.splits import Ints

ONE = np.array(1)
HALF = matrix_unit(BOW, "half", "half")
FLOAT = matrix_unit(BOW, "half", "float")
MK1 = matrix_unit(GC2, "half", "half")
FLOAT8 = matrix_unit(C600, "float8", "half")
UNITS = [HALF, FLOAT, MK1, FLOAT8]


def test_shapes_follow_the_unit() -> None:
    assert slic_shapes(HALF) == ((1, 4), (2, 2), (4, 1), (8, 1), (16, 1))
    assert slic_shapes(FLOAT) == slic_shapes(MK1) == ((1, 4), (2, 2), (4, 1))
    assert slic_shapes(matrix_unit(BOW, "float", "float")) == ()
    assert slic_shapes(FLOAT8) == ((1, 8),)


def test_loads_by_hand() -> None:
    assert slic_load_cycles(1, HALF) == 34
    assert [slic_load_cycles(side, HALF) for side in (2, 4, 16)] == [37 + 72, 37 + 60, 37 + 66]


def test_a_window_by_hand() -> None:
    # Six rows of 20 positions, one for each worker: 17 bundles, 10 a row (and one to zero in the first window), 15 and one for each
    # position beyond five. Three windows, one block.
    worker = 17 + 10 + 15 + 15
    body = 34 + 20
    assert int(slic(ONE * 6, ONE * 20, 3, ONE, 1, 1, HALF)) == 28 + 15 + 3 * body + 13 + 6 * (3 * worker + 1) + 1
    # Float partials: two passes over each row, which take a bundle less, and three more bundles a row.
    worker = 17 + 10 + 3 + 2 * (14 + 15)
    assert int(slic(ONE * 6, ONE * 20, 3, ONE, 1, 1, FLOAT)) == 28 + 15 + 3 * body + 13 + 6 * (3 * worker + 1) + 1
    # Every second position along the row: 15 for three, two for each other.
    worker = 17 + 10 + 15 + 2 * 17
    assert int(slic(ONE * 6, ONE * 20, 3, ONE, 1, 2, HALF)) == 28 + 15 + 3 * body + 13 + 6 * (3 * worker + 1) + 1


def test_a_window_of_8_bit_floats_by_hand() -> None:
    # Twice over each row: 24 bundles a row, 14 and one for each position beyond five, 16 more where sums are read.
    zeroing = 20 + 24 + 2 * (14 + 15)
    adding = 20 + 24 + 2 * (30 + 15)
    first = 6 * 6 + 38 + (6 * 6 + 12) + 6 * zeroing
    later = 6 * 6 + 38 + (5 * 6 + 8) + 6 * adding
    assert int(slic(ONE * 6, ONE * 20, 3, ONE, 1, 1, FLOAT8)) == 43 + (13 * 6 + 15) + first + 2 * later
    # Every second position: 13 for three, two for each other.
    each = 6 * (20 + 24 + 2 * (13 + 2 * 17))
    expected = 43 + (13 * 6 + 15) + (6 * 6 + 38 + 48 + each) + 2 * (6 * 6 + 38 + 38 + each)
    assert int(slic(ONE * 6, ONE * 20, 3, ONE, 1, 2, FLOAT8)) == expected


def test_sixteen_groups_are_walked_through_four_by_four() -> None:
    worker = 17 + 4 + 10 + 15 + 15
    body = 4 * (37 + 66 + 21) + 19 + 15
    assert int(slic(ONE * 6, ONE * 20, 1, ONE, 16, 1, HALF)) == 28 + 23 + body + 1 + 4 * 6 * (worker + 1) + 1


def test_few_channels_take_a_fraction_of_what_whole_blocks_take() -> None:
    # Sixteen groups of one channel, 3 x 3, 56 x 56: the matrix unit element by element does a block of 16 x 16 for each.
    rows, length = ONE * 56, ONE * 56
    assert 20 * slic(rows, length, 3, ONE, 16, 1, HALF) < amp_nx1(rows, length, ONE * 3, ONE * 9, ONE, ONE, ONE * 16, HALF)


@pytest.mark.parametrize("unit", UNITS, ids=["half", "float", "Mk1", "float8"])
@pytest.mark.parametrize("stride", [1, 2])
def test_nothing_gets_quicker_when_any_dimension_grows(unit: MatrixUnit, stride: int) -> None:
    sizes = np.arange(1, 200)
    for side, _ in slic_shapes(unit):
        for other in (1, 2, 7, 30):
            assert (np.diff(slic(sizes, ONE * other, 3, ONE, side, stride, unit)) >= 0).all()
            assert (np.diff(slic(ONE * other, sizes, 3, ONE, side, stride, unit)) >= 0).all()
            assert (np.diff(slic(ONE * other, ONE * 5, sizes, ONE, side, stride, unit)) > 0).all()
            assert (np.diff(slic(ONE * other, ONE * 5, 3, sizes, side, stride, unit)) > 0).all()


@pytest.mark.parametrize("unit", UNITS, ids=["half", "float", "Mk1", "float8"])
@pytest.mark.parametrize("stride", [1, 2])
def test_lower_bounds_bound(unit: MatrixUnit, stride: int) -> None:
    grid: list[Ints] = [axis.ravel() for axis in np.meshgrid(np.arange(1, 40), [1, 2, 13], [1, 3, 8], [1, 5])]
    length, rows, windows, blocks = grid
    for side, _ in slic_shapes(unit):
        exact = slic(rows, length, windows, blocks, side, stride, unit)
        assert (slic_at_least(rows * length, windows, blocks, side, stride, unit) <= exact).all()
