"""Sync, exchange and moves: sums by hand."""

import pytest

from tests.unit.cost.machines import BOW, TOY, array, work
from tilestep.cost import StepCost, estimate
from tilestep.cost.attributes import WindowDimension, ints, taps, window
from tilestep.cost.collective import collective_compute_cycles
from tilestep.cost.copy import REGROUPED, rearrange_cycles
from tilestep.cost.exchange import exchange_cycles, share
from tilestep.cost.step import sync_cycles, together
from tilestep.errors import HloError
from tilestep.program.work import ArrayShape, Work


def parts(cost: StepCost) -> tuple[int, int, int]:
    return cost.compute_cycles, cost.exchange_cycles, cost.sync_cycles


def test_superstep_overhead_and_sync_add_up() -> None:
    assert sync_cycles(BOW, syncs=2, supersteps=3) == 2 * 600 + 3 * 75
    assert sync_cycles(TOY, syncs=0, supersteps=1) == 1000


def test_exchange_lasts_as_long_as_the_busiest_receiver() -> None:
    assert exchange_cycles(0, BOW) == 0
    assert exchange_cycles(1, BOW) == 1
    assert exchange_cycles(400, BOW) == 100
    assert exchange_cycles(401, BOW) == 101
    assert share(1473, BOW) == 2


def test_costs_add_up() -> None:
    one = StepCost(family="a", compute_cycles=1, exchange_cycles=2, sync_cycles=3, temporary_tile_bytes=4, flops=5, assumptions=("x",))
    both = together("b", (one, one))
    assert both == StepCost(
        family="b", compute_cycles=2, exchange_cycles=4, sync_cycles=6, temporary_tile_bytes=4, flops=10, assumptions=("x",)
    )
    assert both.cycles == 12


@pytest.mark.parametrize(
    ("moves", "cycles"),
    [
        # 16,000 B on four tiles: 4,000 B at 8 B a cycle, after the call.
        (work("copy", "f32[4000]", "f32[4000]"), (288 + 500, 0, 1000)),
        # A slice and a concatenation receive their result, padding its operand, and a broadcast no more than its source.
        (work("slice", "f32[9000]", "f32[4000]"), (288 + 500, 1000, 1100)),
        (work("concatenate", "f32[1000] f32[3000]", "f32[4000]"), (288 + 500, 1000, 1100)),
        (work("pad", "f32[2000] f32[]", "f32[4000]"), (288 + 500, 501, 1100)),
        (work("broadcast", "f32[]", "f32[4000]"), (288 + 500, 1, 1100)),
        (work("broadcast", "f32[2000]", "f32[2000,2]"), (288 + 500, 1000, 1100)),
    ],
    ids=lambda value: value.opcode if isinstance(value, Work) else "",
)
def test_moves_by_hand(moves: Work, cycles: tuple[int, int, int]) -> None:
    assert parts(estimate(moves, TOY)) == cycles


def test_copy_into_another_layout_is_a_transposition() -> None:
    operand, result = ArrayShape("f32", (40, 100), (1, 0)), ArrayShape("f32", (40, 100), (0, 1))
    cost = estimate(Work(opcode="copy", operands=(operand,), results=(result,)), TOY)
    assert parts(cost) == (587 + 12_500, 1000, 1100)  # 3.125 cycles a byte in runs of 4 bytes
    assert cost == estimate(work("transpose", "f32[40,100]", "f32[100,40]", dimensions="{1,0}"), TOY)


def test_a_rearrangement_holds_what_it_received() -> None:
    assert estimate(work("transpose", "f32[40,100]", "f32[100,40]", dimensions="{1,0}"), TOY).temporary_tile_bytes == 4000


@pytest.mark.parametrize(("dtype", "size_bytes", "bundles"), [("f16", 2, 2 * 98), ("f32", 4, 7 * 90)])
def test_a_copy_for_a_convolution_is_transposed_where_it_lies(dtype: str, size_bytes: int, bundles: int) -> None:
    # 2,500 elements a tile: 9.8 blocks of halves or 39.1 of floats, two or seven a worker.
    operand, result = ArrayShape(dtype, (100, 100), (1, 0)), ArrayShape(dtype, (100, 100), (0, 1))
    cost = estimate(Work(opcode="copy", operands=(operand,), results=(result,), attributes={REGROUPED: "true"}), TOY)
    assert parts(cost) == (288 + -(-2500 * size_bytes // 8) + 7 + 6 * (29 + bundles), 0, 1000)
    assert cost.temporary_tile_bytes == 0


def test_transpose_that_keeps_the_minor_dimension_moves_runs() -> None:
    cost = estimate(work("transpose", "f32[10,4,100]", "f32[4,10,100]", dimensions="{1,0,2}"), TOY)
    assert parts(cost) == (587 + 1762, 1000, 1100)  # 0.4404 cycles a byte
    whole = estimate(work("transpose", "f32[10,4,100]", "f32[4,100,10]", dimensions="{1,2,0}"), TOY)
    assert whole.compute_cycles > cost.compute_cycles


def test_transpose_that_moves_only_dimensions_of_one_element_is_a_copy() -> None:
    cost = estimate(work("transpose", "f32[1,40,100]", "f32[40,1,100]", dimensions="{1,0,2}"), TOY)
    assert cost.exchange_bytes == 0


def test_rearrangement_scales_with_the_tiles_copy_width() -> None:
    assert rearrange_cycles(0, 8, BOW) == 0
    assert rearrange_cycles(1000, 2, BOW) == pytest.approx(587 + 5148.4)
    assert rearrange_cycles(1000, 4, BOW) == pytest.approx(587 + 3125)
    assert rearrange_cycles(1000, 64, BOW) == pytest.approx(587 + 440.4)


def test_whole_words_are_received_in_place() -> None:
    assert estimate(work("concatenate", "f16[100,20] f16[100,20]", "f16[100,40]"), TOY).temporary_tile_bytes == 0
    assert estimate(work("concatenate", "f16[100,21] f16[100,19]", "f16[100,40]"), TOY).temporary_tile_bytes == 2000


def test_adding_inside_a_ring_of_ipus_by_hand() -> None:
    # 4 IPUs add a quarter of 4,800 floats three times: 300 a tile, 50 a worker, 25 vectors of three bundles.
    step = 11 + 6 * (20 + 25 * 3)
    assert collective_compute_cycles("all-reduce", 4 * 4800, "f32", 4, TOY) == 3 * step
    assert collective_compute_cycles("reduce-scatter", 4 * 4800, "f32", 4, TOY) == 3 * step
    assert collective_compute_cycles("all-gather", 4 * 4800, "f32", 4, TOY) == 0
    assert collective_compute_cycles("all-reduce", 4 * 4800, "f32", 1, TOY) == 0
    assert collective_compute_cycles("all-reduce", 0, "f32", 4, TOY) == 0


def test_attributes_are_read_as_printed() -> None:
    assert ints({"dimensions": "{0,2}"}, "dimensions") == (0, 2)
    assert ints({}, "dimensions") == ()
    found = window({"window": "{size=3x5 stride=2x1 pad=1_2x-1_0 lhs_dilate=1x3 rhs_dilate=4x1 rhs_reversal=1x1}"}, 2)
    assert found == (
        WindowDimension(size=3, stride=2, pad_low=1, pad_high=2, dilation=4),
        WindowDimension(size=5, pad_low=-1, base_dilation=3),
    )
    assert taps(found) == 15
    assert window({}, 2) == (WindowDimension(), WindowDimension())
    with pytest.raises(HloError, match="has 1 dimensions under 'size', expected 2"):
        window({"window": "{size=3}"}, 2)


def test_shapes_of_tests_are_row_major() -> None:
    assert array("f32[2,3]") == ArrayShape("f32", (2, 3), (1, 0))
