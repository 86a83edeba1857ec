"""The matrix unit: published measurements, sums by hand, and the law that more work never takes less time."""

import numpy as np
import pytest

from tests.unit.cost.machines import BOW, C600, GC2
from tilestep.cost.products.amp import amp_1x1, amp_1x1_at_least, amp_nx1, amp_nx1_at_least
from tilestep.cost.products.matrix_unit import MatrixUnit, matrix_unit, of_rows
from tilestep.cost.splits import Ints

ONE = np.array(1)
UNITS = [
    matrix_unit(BOW, "half", "half"),
    matrix_unit(BOW, "half", "float"),
    matrix_unit(BOW, "float", "float"),
    matrix_unit(GC2, "half", "half"),
    matrix_unit(GC2, "float", "float"),
]
FLOAT8 = matrix_unit(C600, "float8", "half")
EVERY_UNIT = [*UNITS, FLOAT8]


def kernel(positions: int, in_blocks: int = 1, out_blocks: int = 1, groups: int = 1, unit: MatrixUnit = UNITS[0]) -> int:
    return int(amp_1x1(np.array(positions), np.array(in_blocks), np.array(out_blocks), np.array(groups), unit))


# [N,16] x [16,16] in half with half results, one block of weights on every tile of a Bow IPU, data on the tile:
# graphcore-research/tessellate-ipu@3ab241f notebooks/IPU Peak Flops.ipynb (output cell), throughput turned into cycles.
@pytest.mark.parametrize(
    ("positions", "measured"),
    [(16, 402.0), (64, 584.0), (128, 845.3), (512, 2381.3), (768, 3404.0), (1536, 6476.0), (2048, 8525.3)],
    ids=["AMP01", "AMP03", "AMP04", "AMP06", "AMP07", "AMP09", "AMP10"],
)
def test_1x1_kernel_is_within_two_percent_of_measured_cycles(positions: int, measured: float) -> None:
    assert kernel(positions) == pytest.approx(measured, rel=0.02)


def test_1x1_kernel_by_hand() -> None:
    # 2048 positions: the busiest worker has 342, the least busy 341; 36 + 4 x 339 + 1 - 7 = 1386 bundles when it zeroes.
    busiest = 6 * (36 + 4 * 339 + 1 - 7)
    assert kernel(2048) == 50 + 6 * 7 + (12 + 1) + 11 + (19 - 1) + 7 + 64 + busiest == 8521


def test_rows_of_a_kernel_share_a_block() -> None:
    # A 3 x 3 kernel of four channels in half: all three rows in one block, three walks. Six rows of 20 positions, one for each worker.
    unit = of_rows(UNITS[0], 4)
    assert (unit.in_channels, unit.load_cycles) == (4, 64)
    worker = 18 + 28 + 4 * 17
    walks = 14 + 3 * (12 + 64 + 60 + 3 + 6 * worker)
    zeroing = 20 * 16 // 4 * 6
    expected = 109 + 19 * 6 + 7 + 23 + zeroing + 16 + 14 + 14 + walks
    assert int(amp_nx1(ONE * 6, ONE * 20, 1, 3, ONE, ONE, ONE, unit)) == expected
    # Weights of four rows come 64 bits at a time, those of two come as fast as those of one.
    wide = matrix_unit(BOW, "half", "half", 128)
    assert [of_rows(wide, rows).load_cycles for rows in (1, 2, 4)] == [32, 32, 64]


def test_units_follow_the_machine_and_the_partials() -> None:
    assert [unit.units for unit in UNITS] == [16, 8, 16, 8, 8]
    assert [unit.position_cycles for unit in UNITS] == [4, 4, 8, 4, 8]
    assert [unit.load_cycles for unit in UNITS] == [64, 32, 64, 32, 32]


def test_a_unit_for_8_bit_floats_has_32_inputs_and_adds_up_in_halves() -> None:
    assert (FLOAT8.in_channels, FLOAT8.units, FLOAT8.position_cycles, FLOAT8.load_cycles) == (32, 16, 4, 64)
    assert matrix_unit(C600, "float8", "half", 128).load_cycles == 32
    with pytest.raises(ValueError, match="Bow has no matrix unit for 8-bit floats with half partials"):
        matrix_unit(BOW, "float8", "half")
    with pytest.raises(ValueError, match=r"C600 .* has no matrix unit for 8-bit floats with float partials"):
        matrix_unit(C600, "float8", "float")


def test_8_bit_1x1_kernel_by_hand() -> None:
    # 2048 positions: 342 for the busiest worker, 17 + 27 + 4 x 339 bundles, 5 less in the first block, which reads no sums.
    first, later = 6 * (17 + 27 - 5 + 4 * 339), 6 * (17 + 27 + 4 * 339)
    start = 46 + (2 * 6 + 9) + (6 * 6 + 10)
    assert kernel(2048, unit=FLOAT8) == start + (20 * 6 + 11) + 64 + first
    assert kernel(2048, in_blocks=2, unit=FLOAT8) == start + (20 * 6 + 11) + 64 + first + (17 * 6 + 6) + 64 + later
    # Two positions, one for each of two workers: 18 bundles instead of 27, against 14 cycles that those without work make it wait.
    assert kernel(2, unit=FLOAT8) == start + (20 * 6 + 11) + 64 + 6 * (17 + 18 - 5)


def test_8_bit_3x3_kernel_by_hand() -> None:
    # Six rows of 20 positions, one for each worker: 18 bundles, 16 + 27 for the run, four for each position beyond three.
    worker = 18 + 16 + 27 + 4 * 17
    zeroing = 6 * (15 + 20 * 16 // 4)
    kernels = 3 * (7 * 6 + 8) + 9 * (13 * 6 + 8 + 64 + 6 * worker)
    expected = 83 + (5 * 6 + 7) + (8 * 6 + 10) + zeroing + (8 * 6 + 13) + kernels
    assert int(amp_nx1(ONE * 6, ONE * 20, 3, 9, ONE, ONE, ONE, FLOAT8)) == expected


def test_rate_of_long_kernels_is_the_machines() -> None:
    for unit, macs in zip((*UNITS[:3], FLOAT8), (64, 32, 16, 128), strict=True):
        positions, blocks = 100_000, 8
        cycles = kernel(positions, in_blocks=blocks, unit=unit)
        assert cycles * macs == pytest.approx(positions * blocks * unit.in_channels * unit.units, rel=0.15)


@pytest.mark.parametrize("unit", EVERY_UNIT, ids=lambda unit: f"{unit.operands}-{unit.partials}-{unit.units}")
def test_no_kernel_gets_quicker_when_any_dimension_grows(unit: MatrixUnit) -> None:
    positions = np.arange(1, 400)
    for blocks in (1, 2, 5):
        assert (np.diff(amp_1x1(positions, ONE * blocks, ONE, ONE, unit)) >= 0).all()
        assert (np.diff(amp_1x1(ONE * 50, positions, ONE * blocks, ONE, unit)) > 0).all()
        assert (np.diff(amp_1x1(ONE * 50, ONE * blocks, positions, ONE, unit)) > 0).all()
        assert (np.diff(amp_1x1(ONE * 50, ONE * blocks, ONE, positions, unit)) > 0).all()
    for length in (1, 2, 7, 30):
        assert (np.diff(amp_nx1(positions, ONE * length, 3, 9, ONE, ONE, ONE, unit)) >= 0).all()
        assert (np.diff(amp_nx1(ONE * length, positions, 3, 9, ONE, ONE, ONE, unit)) >= 0).all()
        taps = [int(amp_nx1(ONE * 10, ONE * length, 3, 3 * width, ONE, ONE, ONE, unit)) for width in range(1, 30)]
        assert taps == sorted(taps)


@pytest.mark.parametrize("unit", EVERY_UNIT, ids=lambda unit: f"{unit.operands}-{unit.partials}-{unit.units}")
def test_lower_bounds_bound(unit: MatrixUnit) -> None:
    grid: list[Ints] = [axis.ravel() for axis in np.meshgrid(np.arange(1, 60), [1, 2, 3, 8], [1, 2, 5], [1, 4])]
    positions, in_blocks, out_blocks, groups = grid
    exact = amp_1x1(positions, in_blocks, out_blocks, groups, unit)
    assert (amp_1x1_at_least(positions, groups * in_blocks * out_blocks, unit) <= exact).all()
    exact = amp_nx1(positions, in_blocks, 3, 9, out_blocks, out_blocks, groups, unit)
    assert (amp_nx1_at_least(positions * in_blocks, 9 * groups * out_blocks * out_blocks, unit) <= exact).all()
