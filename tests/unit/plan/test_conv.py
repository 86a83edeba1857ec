"""The convolution planner: exact counts, gradients, groups, and the three methods."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from tests.unit.cost.machines import BOW, TOY, tiles, work
from tilestep.cost import StepCost
from tilestep.cost.attributes import WindowDimension
from tilestep.errors import HloError
from tilestep.plan.conv import convolution_of, plan_convolution
from tilestep.plan.field import Axis
from tilestep.plan.matmul import Matmul, matmul_plan
from tilestep.program.work import Work

NHWC = "b01f_01io->b01f"


def conv(operands: str, result: str, window: str = "", labels: str = NHWC, **attributes: str) -> Work:
    return work("convolution", operands, result, window=f"{{{window}}}", dim_labels=labels, resident=(False, True), **attributes)


def counted(axis: Axis) -> int:
    """Products of one axis, one by one."""
    w = axis.window
    places = [output * w.stride - w.pad_low + tap * w.dilation for output, tap in product(range(axis.outputs), range(w.size))]
    return sum(place % w.base_dilation == 0 and 0 <= place // w.base_dilation < axis.inputs for place in places)


def test_products_are_counted_exactly() -> None:
    for inputs, size, stride, low, high, dilation, base in product((1, 5, 8), (1, 3, 4), (1, 2, 3), (0, 2, -1), (0, 1), (1, 2), (1, 2, 3)):
        window = WindowDimension(size=size, stride=stride, pad_low=low, pad_high=high, dilation=dilation, base_dilation=base)
        outputs = max(0, ((inputs - 1) * base + 1 + low + high - (size - 1) * dilation - 1) // stride + 1)
        axis = Axis(inputs=inputs, outputs=outputs, window=window)
        assert axis.products == counted(axis), axis


def test_a_run_of_outputs_reads_its_inputs_and_margins() -> None:
    axis = Axis(inputs=20, outputs=9, window=WindowDimension(size=3, stride=2, dilation=2))
    assert [int(axis.reach(np.array(n))) for n in (1, 2, 9)] == [5, 7, 20]
    dilated = Axis(inputs=20, outputs=40, window=WindowDimension(size=3, base_dilation=2))
    assert int(dilated.reach(np.array(4))) == 3


def test_flops_leave_out_padding() -> None:
    cost = plan_convolution(conv("f32[2,8,8,5] f32[3,3,5,7]", "f32[2,8,8,7]", "size=3x3 pad=1_1x1_1"), BOW)
    assert cost.flops == 2 * 2 * 5 * 7 * (3 * 8 - 2) ** 2


def test_strided_and_dilated_kernels() -> None:
    strided = plan_convolution(conv("f32[1,9,9,4] f32[3,3,4,4]", "f32[1,4,4,4]", "size=3x3 stride=2x2"), BOW)
    assert strided.flops == 2 * 4 * 4 * (4 * 3) ** 2
    dilated = plan_convolution(conv("f32[1,9,9,4] f32[3,3,4,4]", "f32[1,5,5,4]", "size=3x3 rhs_dilate=2x2"), BOW)
    assert dilated.flops == 2 * 4 * 4 * (5 * 3) ** 2


def test_gradients_take_the_flops_of_the_forward_convolution() -> None:
    forward = conv("f32[4,8,8,3] f32[3,3,3,6]", "f32[4,4,4,6]", "size=3x3 stride=2x2 pad=0_1x0_1")
    of_input = conv("f32[4,4,4,6] f32[3,3,3,6]", "f32[4,8,8,3]", "size=3x3 pad=2_1x2_1 lhs_dilate=2x2 rhs_reversal=1x1", "b01f_01oi->b01f")
    of_kernel = conv("f32[4,8,8,3] f32[4,4,4,6]", "f32[3,3,3,6]", "size=4x4 pad=0_1x0_1 rhs_dilate=2x2", "f01b_i01o->01bf")
    flops = [plan_convolution(job, BOW).flops for job in (forward, of_input, of_kernel)]
    assert flops == [flops[0]] * 3


def test_feature_groups_split_both_channels() -> None:
    problem = convolution_of(conv("f32[2,8,8,12] f32[3,3,4,30]", "f32[2,6,6,30]", "size=3x3", feature_group_count="3"))
    assert (problem.groups, problem.in_channels, problem.out_channels, problem.batch) == (3, 4, 10, 2)


def test_batch_groups_split_batch_and_out_channels() -> None:
    problem = convolution_of(conv("f32[12,8,8,5] f32[3,3,5,30]", "f32[4,6,6,30]", "size=3x3", batch_group_count="3"))
    assert (problem.groups, problem.in_channels, problem.out_channels, problem.batch) == (3, 5, 10, 4)


def test_a_kernel_of_one_element_is_a_matmul() -> None:
    cost = plan_convolution(conv("f16[4,14,14,64] f16[1,1,64,256]", "f16[4,14,14,256]", "size=1x1"), BOW)
    same = Matmul(groups=1, rows=784, inner=64, columns=256, left="f16", right="f16", result="f16", right_resident=True)
    expected = matmul_plan(same, BOW).cost
    assert (cost.cycles, cost.exchange_bytes, cost.flops) == (expected.cycles, expected.exchange_bytes, expected.flops)
    assert cost.family == "convolution"


def test_a_convolution_without_a_field_is_a_matmul() -> None:
    cost = plan_convolution(conv("f32[40,50] f32[50,60]", "f32[40,60]", labels="bf_io->bf"), BOW)
    assert cost.flops == 2 * 40 * 50 * 60


def rate(cost: StepCost) -> float:
    """Flops per cycle."""
    return cost.flops / cost.cycles


def test_wide_convolutions_run_on_the_matrix_unit() -> None:
    half = plan_convolution(conv("f16[16,56,56,64] f16[3,3,64,64]", "f16[16,56,56,64]", "size=3x3 pad=1_1x1_1"), BOW)
    single = plan_convolution(conv("f32[16,56,56,64] f32[3,3,64,64]", "f32[16,56,56,64]", "size=3x3 pad=1_1x1_1"), BOW)
    assert rate(half) > 0.4 * 1472 * 64
    assert rate(single) > 0.4 * 1472 * 32


def test_weight_gradient_is_not_walked_element_by_element() -> None:
    # 56 x 56 kernel elements, 3 x 3 outputs: windows become rows of a matmul.
    gradient = conv("f16[16,56,56,64] f16[16,56,56,64]", "f16[3,3,64,64]", "size=56x56 pad=1_1x1_1", "f01b_i01o->01bf")
    assert rate(plan_convolution(gradient, BOW)) > 0.2 * 1472 * 64


def test_depthwise_convolution_uses_vectors() -> None:
    # On the matrix unit each channel's block of 16 x 16 weights would be padding but for one.
    cost = plan_convolution(
        conv("f16[16,56,56,144] f16[3,3,1,144]", "f16[16,56,56,144]", "size=3x3 pad=1_1x1_1", feature_group_count="144"), BOW
    )
    assert rate(cost) > 1472


def test_integers_have_no_matrix_unit() -> None:
    shapes = ("{0}[2,9,9,32] {0}[3,3,32,32]", "{0}[2,7,7,32]", "size=3x3")
    whole, real = (plan_convolution(conv(*(text.format(dtype) for text in shapes)), BOW) for dtype in ("s32", "f32"))
    assert whole.compute_cycles > 1.2 * real.compute_cycles
    assert whole.flops == real.flops


@pytest.mark.parametrize(("operands", "result", "window", "labels", "flops"), [
    ("f32[3,20,4] f32[5,4,6]", "f32[3,16,6]", "size=5", "b0f_0io->b0f", 2 * 3 * 16 * 6 * 5 * 4),
    ("f32[2,6,6,6,4] f32[3,3,3,4,6]", "f32[2,4,4,4,6]", "size=3x3x3", "b012f_012io->b012f", 2 * 2 * 64 * 6 * 27 * 4),
    ("f32[2,4,9,9] f32[6,4,3,3]", "f32[2,6,7,7]", "size=3x3", "bf01_oi01->bf01", 2 * 2 * 49 * 6 * 9 * 4),
])  # fmt: skip
def test_any_number_of_dimensions_and_any_labels(operands: str, result: str, window: str, labels: str, flops: int) -> None:
    for ipu in (TOY, tiles(1), BOW):
        cost = plan_convolution(conv(operands, result, window, labels), ipu)
        assert cost.compute_cycles > 0
        assert cost.flops == flops


def test_more_tiles_are_used_by_larger_fields() -> None:
    small = plan_convolution(conv("f32[1,8,8,16] f32[3,3,16,16]", "f32[1,6,6,16]", "size=3x3"), BOW)
    large = plan_convolution(conv("f32[1,200,200,16] f32[3,3,16,16]", "f32[1,198,198,16]", "size=3x3"), BOW)
    assert rate(large) > 20 * rate(small)


def test_empty_convolutions_cost_nothing() -> None:
    assert plan_convolution(conv("f32[0,8,8,4] f32[3,3,4,4]", "f32[0,6,6,4]", "size=3x3"), BOW).cycles == 0


def test_labels_that_are_not_understood_are_an_error() -> None:
    with pytest.raises(HloError, match="dim_labels='nhwc' of a convolution should look like"):
        plan_convolution(conv("f32[1,8,8,4] f32[3,3,4,4]", "f32[1,6,6,4]", "size=3x3", "nhwc"), BOW)


def test_windows_that_do_not_fit_are_laid_out_in_serial_parts() -> None:
    job = conv("f16[256,224,224,3] f16[7,7,3,64]", "f16[256,112,112,64]", "size=7x7 stride=2x2 pad=3_3x3_3")
    cost = plan_convolution(job, BOW)
    assert cost.temporary_tile_bytes <= 0.6 * BOW.tile.sram_bytes
    assert cost.result_tile_elements >= 256 * 112 * 112 * 64 // BOW.num_tiles
