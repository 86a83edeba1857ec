"""The vector unit: sums by hand from poplibs' formulas, lower bounds, and the law that more work never takes less time."""

import numpy as np
import pytest

from tilestep.cost.dtypes import ARITHMETIC
from tilestep.cost.products.mac import (
    VectorUnit,
    horizontal_mac,
    horizontal_mac_at_least,
    outer_product,
    vector_unit,
    vertical_mac,
    vertical_mac_at_least,
)
from tilestep.cost.splits import Ints

ONE = np.array(1)
FLOATS = vector_unit(ARITHMETIC["f32"], 6)
HALVES = vector_unit(ARITHMETIC["f16"], 6)
HALF_PARTIALS = vector_unit(ARITHMETIC["f16"], 6, half_partials=True)
UNITS = [FLOATS, HALVES, HALF_PARTIALS, vector_unit(ARITHMETIC["s32"], 6), vector_unit(ARITHMETIC["c64"], 6)]


def test_dot_products_by_hand() -> None:
    # One row of 12 outputs, 2 for each worker; 10 floats are 5 vectors: 7 + 5 bundles a product, 7 more a position, 19 a run.
    worker = 16 + 16 + 19 + 2 * (7 + 12)
    zeroing = 6 * (14 - 9 + 1)
    assert int(horizontal_mac(ONE, ONE * 12, 1, ONE * 10, ONE, ONE, FLOATS)) == 58 + 6 * 9 + 23 + 15 + 10 + 6 * worker + zeroing
    # Halves with a kernel of one element: 3 vectors, a codelet that writes without zeroing and takes 2 more a position, 13 a run.
    worker = 16 + 1 + 13 + 2 * (2 + 6 + 3)
    assert int(horizontal_mac(ONE, ONE * 12, 1, ONE * 10, ONE, ONE, HALVES)) == 55 + 6 * (9 + 15) + 23 + 15 + 10 + 6 * worker
    # Three elements of a kernel, two output channels, on three rows of four, which a worker's share of two may begin within.
    worker = 16 + 3 * (16 - 6 + 2 * 19 + 2 * (7 + 6 + 3))
    expected = 65 + 6 * (9 + 6) + 38 + 2 * (10 + 6 * worker + 6 * (5 + 1))
    assert int(horizontal_mac(ONE * 3, ONE * 4, 3, ONE * 10, ONE * 2, ONE, HALVES)) == expected


def test_multiply_adds_side_by_side_by_hand() -> None:
    # 12 positions, 3 x 3 elements, four groups with float partials: each worker has two positions and three rows of the kernel.
    worker = 19 + 2 * 3 * (7 + 5 + 3 + 2 * 2)
    reduction = 6 * (10 + (7 + 2 * 5) * 2)
    assert int(vertical_mac(ONE * 12, 3, 3, ONE, ONE, 4, HALVES)) == 101 + (4 + 24) + 32 + 24 + 6 * worker + reduction
    # Sixteen groups with half partials, in two halves of eight.
    worker = 25 + 2 * 2 * 3 * (7 + 15 + 3 + 3 * 2)
    reduction = 6 * (10 + (7 + 5) * 8)
    assert int(vertical_mac(ONE * 12, 3, 3, ONE, ONE, 16, HALF_PARTIALS)) == 101 + (4 + 48) + 32 + 24 + 6 * worker + reduction


def test_outer_products_by_hand() -> None:
    # 12 rows, two for each worker; 5 channels are 3 vectors of floats, 2 of halves.
    assert int(outer_product(ONE * 12, ONE * 5, ONE, FLOATS)) == 6 * (25 + 3 * (11 + 2 * (10 + 4)))
    assert int(outer_product(ONE * 12, ONE * 5, ONE, HALVES)) == 6 * (25 + 2 * (10 + 2 * (10 + 10)))


@pytest.mark.parametrize("unit", UNITS, ids=["f32", "f16", "f16 half", "s32", "c64"])
def test_nothing_gets_quicker_when_any_dimension_grows(unit: VectorUnit) -> None:
    sizes = np.arange(1, 200)
    for other in (1, 2, 7, 30):
        fixed = ONE * other
        for grown in (
            horizontal_mac(sizes, fixed, 9, fixed, ONE, ONE, unit),
            horizontal_mac(fixed, sizes, 9, fixed, ONE, ONE, unit),
            horizontal_mac(fixed, fixed, sizes, fixed, ONE, ONE, unit),
            horizontal_mac(ONE, fixed, 1, sizes, fixed, ONE, unit),
            horizontal_mac(ONE, fixed, 1, fixed, sizes, ONE, unit),
            horizontal_mac(ONE, fixed, 1, fixed, fixed, sizes, unit),
            outer_product(sizes, fixed, fixed, unit),
            outer_product(fixed, sizes, fixed, unit),
            outer_product(fixed, fixed, sizes, unit),
        ):
            assert (np.diff(grown) >= 0).all()
    if unit.halves:
        for side in (4, 8, 16):
            assert (np.diff(vertical_mac(sizes, 3, 3, ONE, ONE, side, unit)) >= 0).all()
            assert (np.diff(vertical_mac(ONE * 9, sizes, 3, ONE, ONE, side, unit)) >= 0).all()
            assert (np.diff(vertical_mac(ONE * 9, 3, 3, ONE, sizes, side, unit)) > 0).all()


@pytest.mark.parametrize("unit", UNITS, ids=["f32", "f16", "f16 half", "s32", "c64"])
def test_lower_bounds_bound(unit: VectorUnit) -> None:
    grid: list[Ints] = [axis.ravel() for axis in np.meshgrid(np.arange(1, 40), [1, 2, 9], [1, 3, 8], [1, 5])]
    length, taps, channels, groups = grid
    exact = horizontal_mac(channels, length, taps, channels, groups, groups, unit)
    assert (horizontal_mac_at_least(channels * length, taps, channels, groups * groups, unit) <= exact).all()
    for side in (4, 8, 16) if unit.halves else ():
        exact = vertical_mac(length, taps, 3, channels, groups, side, unit)
        assert (vertical_mac_at_least(length, taps, 3, groups, side) <= exact).all()
    assert (2 * groups * length * channels <= outer_product(length, channels, groups, unit)).all()
