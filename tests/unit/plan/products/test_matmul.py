"""The matmul planner: never worse than brute force, operands that stay, memory, dtypes."""

import math
import random
from dataclasses import replace

import pytest

from tests.unit.cost.machines import BOW, C600, GC2, TOY, tiles, work
from tests.unit.plan.products.brute_force import only_cut, without_pruning
from tilestep.cost.splits import useful_splits
from tilestep.machine.spec import IpuSpec
from tilestep.options import PlanOptions
from tilestep.plan.products import matmul
from tilestep.plan.products.matmul import Matmul, matmul_of, matmul_plan, plan_dot

HALF = PlanOptions(partials_type="half")
DTYPES = ("f32", "f16", "bf16", "s32", "c64", "f8e4m3fnuz")


def dense(rows: int, inner: int, columns: int, dtype: str = "f32", *, groups: int = 1, resident: bool = True) -> Matmul:
    """[groups, rows, inner] x [groups, inner, columns], weights on the right."""
    return Matmul(groups=groups, rows=rows, inner=inner, columns=columns, left=dtype, right=dtype, result=dtype, right_resident=resident)


def problems() -> list[Matmul]:
    chosen = random.Random(0)
    sizes = (1, 2, 3, 7, 8, 15, 16, 17, 31, 33, 50, 64, 100, 129, 300)
    return [
        Matmul(
            groups=chosen.choice((1, 1, 2, 3, 6)),
            rows=chosen.choice(sizes),
            inner=chosen.choice(sizes),
            columns=chosen.choice(sizes),
            left=dtype,
            right=dtype,
            result="f16" if dtype == "f8e4m3fnuz" else dtype,
            left_resident=chosen.random() < 0.4,
            right_resident=chosen.random() < 0.4,
        )
        for _ in range(8)
        for dtype in DTYPES
    ]


@pytest.mark.parametrize("ipu", [TOY, tiles(13), tiles(4, C600)], ids=["4 tiles", "13 tiles", "4 tiles with 8-bit floats"])
def test_no_plan_of_all_is_cheaper(ipu: IpuSpec, monkeypatch: pytest.MonkeyPatch) -> None:
    pruned = {problem: matmul_plan.__wrapped__(problem, ipu) for problem in problems()}
    without_pruning(monkeypatch)
    for problem, plan in pruned.items():
        assert plan.cost.cycles == matmul_plan.__wrapped__(problem, ipu).cost.cycles, problem


def test_fewer_parts_may_be_cheaper_if_their_number_is_even() -> None:
    # Two groups on six tiles: three parts of the rows each would leave no pair of tiles on one bus that reads the same.
    plan = matmul_plan(dense(3, 1, 24, groups=2, resident=False), tiles(6))
    assert dict(plan.splits) == {"groups": 2, "columns": 1, "inner": 1, "rows": 2}


def test_useful_splits_reach_every_largest_part() -> None:
    for size in (1, 2, 3, 15, 16, 24, 100, 997):
        for limit in (1, 4, 13, 1472):
            parts = {-(-size // split) for split in range(1, min(size, limit) + 1)}
            found = useful_splits(size, limit)
            assert {-(-size // split) for split in found} == parts
            assert len(found) == len(parts)


def test_small_products_take_few_tiles_and_large_ones_nearly_all() -> None:
    assert matmul_plan(dense(8, 8, 8), BOW).tiles <= 64
    assert matmul_plan(dense(4096, 4096, 1024, "f16"), BOW).tiles > 0.95 * 1472


def test_operands_that_stay_are_not_sent_where_one_tile_uses_them() -> None:
    # One row: no tile shares its weights with another, so only the row and the partial sums move.
    stays = matmul_plan(dense(1, 2048, 2048), BOW).cost
    moves = matmul_plan(dense(1, 2048, 2048, resident=False), BOW).cost
    assert stays.exchange_bytes < 2048 * 4
    assert moves.exchange_bytes > 2048 * 2048 * 4 / 1472
    assert moves.cycles > stays.cycles


def test_either_operand_may_be_the_weights() -> None:
    problem = dense(40, 500, 2000)
    one, other = matmul_plan(problem, BOW).cost, matmul_plan(problem.swapped, BOW).cost
    assert replace(one, footprint=None, held=()) == replace(other, footprint=None, held=())
    assert one.held == other.held[::-1]
    assert one.footprint is not None
    assert other.footprint is not None
    assert one.footprint == replace(other.footprint, received_bytes=other.footprint.received_bytes[::-1])
    assert problem.swapped.swapped == problem


def test_products_of_halves_are_summed_in_floats_by_default() -> None:
    problem = dense(4096, 4096, 1024, "f16")
    floats, halves = matmul_plan(problem, BOW).cost, matmul_plan(problem, BOW, HALF).cost
    assert 1.5 < floats.compute_cycles / halves.compute_cycles < 2.1
    assert floats.flops == halves.flops == 2 * 4096 * 4096 * 1024


def test_what_moves_fits_into_the_memory_for_temporary_data() -> None:
    for problem in (dense(4096, 4096, 4096), dense(50_000, 768, 30_000, "f16"), dense(2048, 2048, 2048, "bf16")):
        for ipu in (BOW, GC2):
            plan = matmul_plan(problem, ipu)
            assert plan.cost.temporary_tile_bytes <= 0.6 * ipu.tile.sram_bytes
    assert plan.serial_passes > 1


def test_integers_are_multiplied_on_the_vector_unit() -> None:
    whole, real = matmul_plan(dense(500, 500, 500, "s32"), BOW), matmul_plan(dense(500, 500, 500), BOW)
    assert (whole.method, real.method) == ("dot products", "matrix unit")
    assert whole.cost.compute_cycles > 10 * real.cost.compute_cycles


def test_conversions_are_stated() -> None:
    assert any("bf16 is converted" in sentence for sentence in matmul_plan(dense(30, 30, 30, "bf16"), BOW).cost.assumptions)
    assert matmul_plan(dense(30, 30, 30), BOW).cost.assumptions == ()


FLOAT8 = replace(dense(512, 512, 512, "f8e4m3fnuz"), result="f16")


def test_8_bit_floats_take_half_the_time_and_bytes_of_halves_where_the_machine_has_them() -> None:
    large = replace(dense(4096, 4096, 4096, "f8e4m3fnuz", resident=False), result="f16")
    eight, half = matmul_plan(large, C600, HALF), matmul_plan(replace(large, left="f16", right="f16"), C600, HALF)
    assert (eight.method, half.method) == ("matrix unit", "matrix unit")
    assert 1.7 < half.cost.compute_cycles / eight.cost.compute_cycles < 2
    assert eight.cost.exchange_bytes < 0.75 * half.cost.exchange_bytes
    assert eight.cost.flops == half.cost.flops


def test_8_bit_floats_are_added_up_in_halves_whatever_the_option_says() -> None:
    assert replace(matmul_plan(FLOAT8, C600).cost) == matmul_plan(FLOAT8, C600, HALF).cost
    assert matmul_plan(FLOAT8, C600).cost.assumptions == (
        "products of 8-bit floats are added up in halves: the matrix unit has no other sums for them",
    )
    one_tile = tiles(1, C600)
    halves, floats = (
        matmul_plan(replace(FLOAT8, rows=60, columns=16, inner=32, result=result), one_tile).cost for result in ("f16", "f32")
    )
    assert floats.compute_cycles == halves.compute_cycles + 11 + 6 * (20 + 3 * 80)  # 960 results, 80 pairs for each worker


def test_formats_that_are_not_the_units_own_are_taken_for_them() -> None:
    mixed = matmul_plan(replace(FLOAT8, left="f8e4m3fn", right="f8e5m2"), C600).cost
    assert replace(mixed, assumptions=()) == replace(matmul_plan(FLOAT8, C600).cost, assumptions=())
    assert any("own formats, whatever their bias" in sentence for sentence in mixed.assumptions)


def test_8_bit_floats_become_halves_where_the_matrix_unit_has_none_or_not_these() -> None:
    def text(problem: Matmul, ipu: IpuSpec) -> str:
        return " ".join(matmul_plan(problem, ipu).cost.assumptions)

    assert "converted to f16" in text(FLOAT8, BOW)
    assert "converted to f16" in text(replace(FLOAT8, left="f8e3m4"), C600)
    assert "converted to f16" in text(replace(FLOAT8, left="f16"), C600)
    bow = replace(C600, macs_per_cycle_float8=0)
    half = matmul_plan(replace(FLOAT8, left="f16", right="f16"), bow, HALF).cost
    assert half.compute_cycles < matmul_plan(FLOAT8, bow, HALF).cost.compute_cycles < 1.5 * half.compute_cycles
    assert matmul_plan(FLOAT8, C600).cost.compute_cycles < half.compute_cycles


def test_an_8_bit_product_by_hand() -> None:
    # One tile, nothing moves but the operands, a byte each: 48 positions, 8 for each worker, one block of 32 x 16.
    problem = replace(dense(48, 32, 16, "f8e4m3fnuz", resident=False), result="f16")
    cost = matmul_plan(problem, tiles(1, C600)).cost
    assert cost.exchange_bytes == 48 * 32 + 32 * 16
    # The workers end together: 14 cycles more for the last.
    products = 46 + (2 * 6 + 9) + (6 * 6 + 10) + (20 * 6 + 11) + 64 + 6 * (17 + 27 - 5 + 4 * 5) + 14
    regrouped = math.ceil(587 + 0.4404 * 48 * 16)  # results leave in groups of 16 channels, are read in groups of 32, as 8-bit floats
    assert cost.compute_cycles == products + regrouped


def test_supersteps_by_hand() -> None:
    # One tile: behind the exchange and sync that bring the operands it multiplies, in one superstep; nothing to add up.
    cost = matmul_plan(dense(16, 8, 16, resident=False), tiles(1, TOY)).cost
    assert cost.sync_cycles == 1000 + 100
    assert cost.exchange_bytes == (16 * 8 + 8 * 16) * 4
    # Matrix unit: worker of three positions 46 bundles and 26 to zero, 14 cycles because they do not tie; see test_amp.py.
    regrouped = 587 + 451  # 16 x 16 floats leave in groups of 16 channels, are read in groups of 8: 0.4404 x 1024 B, rounded up
    assert cost.compute_cycles == 50 + (12 + 1) + 11 + (19 - 1) + 7 + 64 + 6 * (46 + 2 + 8 * 3) + regrouped


def test_dot_is_read_from_its_attributes() -> None:
    job = work(
        "dot",
        "f16[7,5,11,3] f16[7,13,11,2]",
        "f32[7,5,3,13,2]",
        resident=(False, True),
        lhs_batch_dims="{0}",
        rhs_batch_dims="{0}",
        lhs_contracting_dims="{2}",
        rhs_contracting_dims="{2}",
    )
    assert matmul_of(job) == Matmul(
        groups=7,
        rows=15,
        inner=11,
        columns=26,
        left="f16",
        right="f16",
        result="f32",
        left_resident=False,
        right_resident=True,
        left_apart=True,  # rows of 3 halves
    )
    assert plan_dot(job, BOW).flops == 2 * 7 * 15 * 11 * 26


def test_vectors_and_scalars_are_products_too() -> None:
    inner = work("dot", "f32[50] f32[50]", "f32[]", lhs_contracting_dims="{0}", rhs_contracting_dims="{0}")
    outer = work("dot", "f32[50] f32[60]", "f32[50,60]")
    assert plan_dot(inner, BOW).flops == 100
    assert plan_dot(outer, BOW).flops == 2 * 50 * 60


def test_each_row_of_a_ragged_dot_uses_one_group() -> None:
    job = work(
        "ragged-dot",
        "f32[90,16] f32[4,16,24] s32[4]",
        "f32[90,24]",
        lhs_contracting_dims="{1}",
        rhs_contracting_dims="{1}",
        rhs_group_dims="{0}",
    )
    assert plan_dot(job, BOW).flops == 2 * 90 * 16 * 24


def test_empty_products_cost_nothing() -> None:
    job = work("dot", "f32[0,5] f32[5,3]", "f32[0,3]", lhs_contracting_dims="{1}", rhs_contracting_dims="{0}")
    assert plan_dot(job, BOW).cycles == 0
    job = work("dot", "f32[2,0] f32[0,3]", "f32[2,3]", lhs_contracting_dims="{1}", rhs_contracting_dims="{0}")
    assert plan_dot(job, BOW).cycles == 0


def methods_of(problem: Matmul) -> list[str]:
    return [method.name for method in matmul.methods(problem, BOW, HALF)]


def test_what_a_product_can_be_computed_by() -> None:
    assert methods_of(dense(5, 6, 7)) == ["matrix unit", "dot products"]
    assert methods_of(dense(5, 6, 7, "s32")) == ["dot products"]
    assert methods_of(dense(5, 1, 7)) == ["matrix unit", "dot products", "outer products"]
    assert [method.name for method in matmul.methods(replace(FLOAT8, inner=1), C600, HALF)] == ["matrix unit", "dot products"]


def test_each_method_is_the_cheapest_of_some_product() -> None:
    assert matmul_plan(dense(512, 512, 512), BOW).method == "matrix unit"
    assert matmul_plan(dense(1, 512, 512), BOW).method == "dot products"
    assert matmul_plan(dense(60, 1, 100), BOW).method == "outer products"


def test_a_fixed_plan_never_gets_quicker_on_fewer_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    only_cut(monkeypatch, matmul, (1, 2, 12, 1))
    problem = dense(30, 500, 70, "f16")
    for method in matmul.methods(problem, BOW, HALF):
        plans = [matmul.search(problem, method, tiles(count), HALF, at_most=None) for count in (1472, 400, 100, 47, 30, 24)]
        cycles = [plan.cost.cycles for plan in plans if plan is not None]
        assert cycles == sorted(cycles)
        assert len(cycles) == len(plans)


def test_rows_that_begin_inside_of_words_are_moved_by_their_parts() -> None:
    # 197 tokens are an odd number of halves, 196 and 198 whole words.
    def cycles(tokens: int, dtype: str = "f16") -> int:
        weights, values = f"{dtype}[96,{tokens},{tokens}]", f"{dtype}[96,{tokens},64]"
        job = work(
            "dot",
            f"{weights} {values}",
            f"{dtype}[96,{tokens},64]",
            lhs_batch_dims="{0}",
            rhs_batch_dims="{0}",
            lhs_contracting_dims="{2}",
            rhs_contracting_dims="{1}",
        )
        return plan_dot(job, BOW).cycles

    assert cycles(197) > 1.2 * cycles(198) > cycles(196)
    assert cycles(197, "f32") <= cycles(198, "f32")
