"""The convolution planner: exact counts, gradients, groups, and the three methods."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from tests.unit.cost.machines import BOW, C600, TOY, tiles, work
from tests.unit.plan.products.brute_force import only_cut, without_pruning
from tilestep.cost import StepCost
from tilestep.cost.attributes import WindowDimension
from tilestep.errors import HloError
from tilestep.machine.spec import IpuSpec
from tilestep.options import PlanOptions
from tilestep.plan.products import conv as planner
from tilestep.plan.products import conv_methods
from tilestep.plan.products.conv import convolution_of, convolution_plan, plan_convolution
from tilestep.plan.products.conv_methods import WORK_LISTS_SHARE_OF_ROOM, ConvMethod, Convolution, methods, search
from tilestep.plan.products.field import Axis
from tilestep.plan.products.matmul import Matmul, matmul_plan
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


def test_one_output_takes_all_products() -> None:
    assert [axis(3, 3).taps, axis(4, 3).taps, axis(2, 3, pad=1).taps] == [3, 3, 2]


def test_a_run_of_outputs_reads_its_inputs_and_margins() -> None:
    axis = Axis(inputs=20, outputs=9, window=WindowDimension(size=3, stride=2, dilation=2))
    assert [int(axis.reach(np.array(n))) for n in (1, 2, 9)] == [5, 7, 20]
    dilated = Axis(inputs=20, outputs=40, window=WindowDimension(size=3, base_dilation=2))
    assert int(dilated.reach(np.array(4))) == 3


def test_flops_leave_out_padding() -> None:
    cost = plan_convolution(conv("f32[2,8,8,5] f32[3,3,5,7]", "f32[2,8,8,7]", "size=3x3 pad=1_1x1_1"), BOW)
    assert cost.flops == 2 * 2 * 5 * 7 * (3 * 8 - 2) ** 2


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


HALF = PlanOptions(partials_type="half")


def axis(inputs: int, size: int, *, stride: int = 1, dilation: int = 1, base: int = 1, pad: int = 0) -> Axis:
    """One dimension of a field, padded by the same on both sides."""
    outputs = ((inputs - 1) * base + 1 + 2 * pad - (size - 1) * dilation - 1) // stride + 1
    window = WindowDimension(size=size, stride=stride, pad_low=pad, pad_high=pad, dilation=dilation, base_dilation=base)
    return Axis(inputs=inputs, outputs=outputs, window=window)


def problem(
    *field: Axis, channels: tuple[int, int], groups: int = 1, batch: int = 2, dtype: str = "f16", resident: bool = True
) -> Convolution:
    return Convolution(
        groups=groups, batch=batch, field=field, in_channels=channels[0], out_channels=channels[1],
        left=dtype, right=dtype, result="f16" if dtype.startswith("f8") else dtype, right_resident=resident,
    )  # fmt: skip


KINDS = {
    "forward": problem(axis(9, 3, pad=1), axis(7, 3, pad=1), channels=(20, 33)),
    "forward, strided, f32": problem(axis(14, 7, stride=2, pad=3), axis(14, 7, stride=2, pad=3), channels=(3, 16), dtype="f32"),
    "forward, wide": problem(axis(4, 3, pad=1), axis(4, 3, pad=1), channels=(130, 70), resident=False),
    "forward, one dimension": problem(axis(40, 5), channels=(8, 20), dtype="f32"),
    "forward, three dimensions": problem(axis(4, 3), axis(5, 3), axis(6, 3), channels=(4, 6)),
    "input-gradient": problem(axis(9, 3, pad=1), axis(9, 3, pad=1), channels=(33, 20)),
    "input-gradient, strided": problem(axis(7, 3, base=2, pad=2), axis(7, 3, base=2, pad=2), channels=(24, 16), dtype="f32"),
    "weight-gradient": problem(axis(12, 12, pad=1), axis(12, 12, pad=1), channels=(4, 16), batch=16, resident=False),
    "weight-gradient, strided": problem(axis(13, 6, dilation=2, pad=1), axis(9, 4, dilation=2, pad=1), channels=(5, 9), dtype="f32"),
    "grouped": problem(axis(8, 3, pad=1), axis(8, 3, pad=1), channels=(4, 8), groups=6),
    "depthwise": problem(axis(10, 3, pad=1), axis(10, 3, pad=1), channels=(1, 1), groups=24),
    "depthwise, strided, f32": problem(axis(11, 5, stride=2, pad=2), axis(11, 5, stride=2, pad=2), channels=(1, 1), groups=24, dtype="f32"),
    "depthwise, multiplied": problem(axis(8, 3), axis(8, 3), channels=(1, 3), groups=10),
    "dilated": problem(axis(12, 3, dilation=2, pad=2), axis(12, 3, dilation=3, pad=3), channels=(16, 16)),
    "integers": problem(axis(6, 3), axis(6, 3), channels=(3, 4), dtype="s32"),
    "complex": problem(axis(6, 3), axis(6, 3), channels=(8, 8), dtype="c64"),
    "8-bit floats": problem(axis(7, 3, pad=1), axis(9, 3, pad=1), channels=(40, 33), dtype="f8e4m3fnuz"),
    "8-bit floats, few channels": problem(axis(9, 3, stride=2, pad=1), axis(9, 3, stride=2, pad=1), channels=(3, 8), dtype="f8e4m3fnuz"),
    "8-bit floats, depthwise": problem(axis(6, 3, pad=1), axis(6, 3, pad=1), channels=(1, 1), groups=12, dtype="f8e5m2fnuz"),
}  # fmt: skip


@pytest.mark.parametrize(
    "options", [PlanOptions(), HALF, PlanOptions(available_memory_proportion=0.02)], ids=["float", "half", "little memory"]
)
@pytest.mark.parametrize("ipu", [TOY, tiles(4, C600)], ids=["toy", "4 tiles with 8-bit floats"])
def test_no_plan_of_all_is_cheaper(ipu: IpuSpec, options: PlanOptions, monkeypatch: pytest.MonkeyPatch) -> None:
    pruned = {name: convolution_plan.__wrapped__(kind, ipu, options).cycles for name, kind in KINDS.items()}
    without_pruning(monkeypatch)
    every = {name: convolution_plan.__wrapped__(kind, ipu, options).cycles for name, kind in KINDS.items()}
    assert pruned == every


def test_lists_of_work_take_a_share_of_the_room_at_most() -> None:
    """Of a gradient by weights whose kernel is the field, and whose results are many short rows."""
    kind = problem(axis(28, 28), axis(28, 28), channels=(20, 128), batch=512, dtype="f16")
    (method,) = (method for method in methods(kind, BOW, HALF) if method.name == "sliding window, 1 x 4")
    free = search(method, BOW, HALF, flops=kind.flops, at_most=None)
    bound = search(method, BOW, HALF, flops=kind.flops, at_most=None, room=0.15)
    share = WORK_LISTS_SHARE_OF_ROOM * 0.15 * BOW.tile.sram_bytes
    assert free is not None
    assert free.cost.footprint is not None
    assert free.cost.footprint.list_bytes > 4 * share
    if bound is not None:
        assert bound.cost.footprint is not None
        assert bound.cost.footprint.list_bytes <= 1.1 * share  # pointers are beside the lists


def test_what_a_convolution_can_be_computed_by() -> None:
    def names(kind: str, options: PlanOptions = HALF) -> list[str]:
        return [method.name for method in methods(KINDS[kind], BOW, options)]

    sliding = [f"sliding window, {side} x {channels}" for side, channels in ((1, 4), (2, 2), (4, 1), (8, 1), (16, 1))]
    two, four = (f"matrix unit, {rows} kernel rows together" for rows in (2, 4))
    assert names("forward") == ["matrix unit", four, *sliding, "dot products"]
    assert names("forward, strided, f32") == ["matrix unit", two, "dot products"]
    assert names("dilated") == names("input-gradient, strided") == ["matrix unit", "dot products"]
    assert names("grouped") == ["matrix unit", two, four, *sliding, "dot products"]
    assert names("grouped", PlanOptions()) == ["matrix unit", two, four, *sliding[:3], "dot products"]
    side_by_side = [f"multiply-adds side by side, {side}" for side in (4, 8, 16)]
    assert names("depthwise") == ["matrix unit", two, four, "matrix unit, groups combined", *sliding, "dot products", *side_by_side]
    assert names("depthwise", PlanOptions())[-1] == side_by_side[0]
    assert names("depthwise, strided, f32") == ["matrix unit", two, four, "matrix unit, groups combined", "dot products"]
    assert names("integers") == ["dot products"]


def test_what_a_convolution_of_8_bit_floats_can_be_computed_by() -> None:
    def names(kind: str, ipu: IpuSpec) -> list[str]:
        return [method.name for method in methods(KINDS[kind], ipu, PlanOptions())]

    assert names("8-bit floats", C600) == ["matrix unit", "sliding window, 1 x 8", "dot products"]
    # Each group by itself: nothing is combined for them; what the vector unit does is added up in halves, too.
    side_by_side = [f"multiply-adds side by side, {side}" for side in (4, 8, 16)]
    assert names("8-bit floats, depthwise", C600) == ["matrix unit", "sliding window, 1 x 8", "dot products", *side_by_side]
    # Without a unit for them they are halves.
    as_halves = replace(KINDS["8-bit floats, depthwise"], left="f16", right="f16")
    assert names("8-bit floats, depthwise", BOW) == [method.name for method in methods(as_halves, BOW, PlanOptions())]
    assert "converted to f16" in convolution_plan(KINDS["8-bit floats"], BOW).assumptions[0]
    assert "added up in halves" in " ".join(convolution_plan(KINDS["8-bit floats"], C600).assumptions)


def test_a_convolution_of_8_bit_floats_is_quicker_than_of_halves() -> None:
    eight = problem(axis(28, 3, pad=1), axis(28, 3, pad=1), channels=(128, 128), batch=64, dtype="f8e4m3fnuz")
    half = replace(eight, left="f16", right="f16")
    assert 1.3 < convolution_plan(half, C600, HALF).cycles / convolution_plan(eight, C600, HALF).cycles < 2


def cheapest_method(kind: Convolution, ipu: IpuSpec = BOW, options: PlanOptions = HALF) -> str:
    plans = [(plan.cost.cycles, plan.method) for method in methods(kind, ipu, options)
             if (plan := search(method, ipu, options, flops=kind.flops, at_most=None)) is not None]  # fmt: skip
    return min(plans)[1]


def image(channels: int, dtype: str, proportion: float) -> tuple[Convolution, PlanOptions]:
    thin = problem(axis(512, 3, pad=1), axis(512, 3, pad=1), channels=(channels, channels), dtype=dtype)
    return replace(thin, batch=1, left_resident=False), PlanOptions(available_memory_proportion=proportion)


def test_few_channels_use_the_units_depth_for_rows_of_the_kernel() -> None:
    thin, options = image(4, "f32", 0.6)
    assert cheapest_method(thin, BOW, options) == "matrix unit, 2 kernel rows together"
    alone = next(methods(thin, BOW, options))
    plan = search(alone, BOW, options, flops=thin.flops, at_most=None)
    assert plan is not None
    assert convolution_plan(thin, BOW, options).compute_cycles < 0.85 * plan.cost.compute_cycles


def test_results_that_the_unit_pads_are_regrouped() -> None:
    def regrouping(channels: int) -> int:
        kind = replace(image(16, "f16", 0.6)[0], out_channels=channels)
        method = next(methods(kind, BOW, HALF))
        plan = search(method, BOW, HALF, flops=kind.flops, at_most=None)
        assert plan is not None
        held = int(method.compute(method.work(tuple(np.array([-(-size // dict(plan.splits)[name])])
                   for size, name in zip(method.sizes, conv_methods.NAMES, strict=True))))[0])  # fmt: skip
        return plan.cost.compute_cycles - held

    assert regrouping(16) == 0
    assert regrouping(8) > 587


def test_a_field_is_never_cut_into_serial_parts() -> None:
    # What fits into little memory is slow: sums of whole groups of channels do not, those of single channels do.
    quick, little = (convolution_plan(*image(4, "f32", 0.6)[:1], BOW, image(4, "f32", room)[1]).cycles for room in (0.6, 0.012))
    assert little > 4 * quick
    # A batch can be cut, because its images become output channels where the operands change places.
    assert convolution_plan(replace(image(4, "f32", 0.6)[0], batch=64), BOW, image(4, "f32", 0.012)[1]).cycles < 64 * little
    # Where nothing fits there is more memory for it than the options allow: twice as much, and so on.
    assert convolution_plan(image(4, "f32", 0.6)[0], BOW, PlanOptions(available_memory_proportion=0.006)).cycles == little


def test_a_gradient_by_the_weights_of_few_channels_is_expanded_along_one_dimension() -> None:
    gradient = problem(axis(95, 95, pad=1), axis(95, 95, pad=1), channels=(3, 16), groups=9, batch=16, resident=False)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(planner, "partly_expanded", lambda *_, **__: None)
        without = convolution_plan.__wrapped__(gradient, BOW, HALF)
    found = convolution_plan(gradient, BOW, HALF)
    assert found.cycles < 0.9 * without.cycles
    assert found.flops == without.flops


def test_a_sliding_window_pads_the_field_where_there_is_padding() -> None:
    def padded(*field: Axis) -> bool:
        (method,) = (each for each in methods(problem(*field, channels=(16, 16)), BOW, HALF) if each.name == "sliding window, 1 x 4")
        return method.padded

    assert [padded(axis(9, 3), axis(7, 3)), padded(axis(9, 3, pad=1), axis(7, 3))] == [False, True]


def test_of_a_resident_kernel_tiles_hold_a_part_each() -> None:
    kind = problem(axis(3, 3), axis(3, 3), channels=(64, 64), batch=64)
    held, sent = (
        search(next(methods(each, BOW, HALF)), BOW, HALF, flops=kind.flops, at_most=None)
        for each in (kind, replace(kind, right_resident=False))
    )
    assert held is not None
    assert sent is not None
    assert held.splits == sent.splits
    block_bytes = 3 * 16 * 16 * 2  # a row of the kernel, a quarter of both channels
    assert sent.cost.exchange_bytes - held.cost.exchange_bytes == block_bytes // dict(held.splits)["batch"]


def test_the_kernel_is_cut_over_tiles_where_the_field_is_small() -> None:
    # A gradient by the weights: few outputs, a kernel as large as the field.
    gradient = problem(axis(56, 56, pad=1), axis(56, 56, pad=1), channels=(64, 64), batch=16, resident=False)
    plan = next(methods(gradient, BOW, HALF))
    found = search(plan, BOW, HALF, flops=gradient.flops, at_most=None)
    assert found is not None
    assert dict(found.splits)["kernel"] > 1


@pytest.mark.few(7)
@pytest.mark.parametrize("name", KINDS)
def test_a_fixed_plan_never_gets_quicker_when_the_convolution_grows(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Channels grow by whole groups of the matrix unit: a plan that pads its operand or its results is another one."""
    kind = KINDS[name]
    for number, method in enumerate(methods(kind, C600, HALF)):
        splits = (1, 2, 1, 2, 2, 1, 1)
        if method.one_block:
            splits = (1, 2, 1, 1, 1, *method.sizes[5:])
            if np.prod(splits) > C600.num_tiles:
                continue
        only_cut(monkeypatch, conv_methods, splits)
        group = 32 if kind.left.startswith("f8") else 16
        for field, step in (("batch", 1), ("groups", 1), ("out_channels", 16), ("in_channels", group)):
            if method.one_block and field.endswith("channels"):
                continue
            before = 0
            for times in range(12):
                grown = replace(kind, **{field: getattr(kind, field) + times * step})
                if grown.groups > 1 and field.endswith("channels"):
                    break
                same = [each for each in methods(grown, C600, HALF) if each.name == method.name]
                if not same:
                    break  # rows of the kernel share no block where channels are many
                cycles = cycles_at(same[0])
                assert cycles >= before, (number, method.name, field, times)
                before = cycles


def cycles_at(method: ConvMethod) -> int:
    found = search(method, C600, HALF, flops=method.problem.flops, at_most=None)
    assert found is not None
    return found.cost.cycles


@pytest.mark.parametrize("name", ["forward", "weight-gradient", "depthwise"])
def test_a_fixed_plan_never_gets_quicker_on_fewer_tiles(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    method = next(methods(KINDS[name], BOW, HALF))
    only_cut(monkeypatch, conv_methods, (1, 2, 1, 1, 3, 1, 1))
    plans = [search(method, tiles(count), HALF, flops=KINDS[name].flops, at_most=None) for count in (1472, 100, 13, 7, 6)]
    cycles = [plan.cost.cycles for plan in plans if plan is not None]
    assert cycles == sorted(cycles)
    assert len(cycles) == len(plans)
