"""Reductions, windows, look-ups, sorts, random numbers, transforms and linear algebra: sums by hand."""

import pytest

from tests.unit.cost.machines import BOW, TOY, tiles, work
from tilestep.cost import StepCost, estimate
from tilestep.cost.elementwise.rates import SOFTWARE_FUNCTION


def parts(cost: StepCost) -> tuple[int, int, int]:
    return cost.compute_cycles, cost.exchange_cycles, cost.sync_cycles


def test_reduction_of_whole_rows_on_each_tile_by_hand() -> None:
    # 24 rows of 100 floats: six rows a tile, 300 vectors, 50 a worker at two bundles; one result a worker: 22 bundles.
    cost = estimate(work("reduce", "f32[24,100] f32[]", "f32[24]", body="add", dimensions="{1}"), TOY)
    assert parts(cost) == (11 + 6 * (20 + 22 + 2 * 50), 0, 1000)
    assert cost.flops == 24 * 99


def test_reduction_of_a_long_vector_adds_up_in_stages() -> None:
    cost = estimate(work("reduce", "f32[240000] f32[]", "f32[]", body="add", dimensions="{0}"), TOY)
    # Four tiles reduce 60,000 each, one stage of exchange brings four partial sums together.
    local = 11 + 6 * (20 + 22 + 2 * 5000)
    last = 11 + 6 * (20 + 22 + 2 * 1)
    assert parts(cost) == (local + last, 4, 2 * 1000 + 100)
    assert cost.temporary_tile_bytes == 4 + 16


def test_reduction_of_little_stays_on_one_tile() -> None:
    cost = estimate(work("reduce", "f32[200] f32[]", "f32[]", body="add", dimensions="{0}"), BOW)
    assert cost.exchange_bytes == 0


def test_argmax_compares_and_selects_both_arrays() -> None:
    both = estimate(work("reduce", "f32[9,99] s32[9,99] f32[] s32[]", "f32[9] s32[9]", body="compare select select", dimensions="{1}"), BOW)
    one = estimate(work("reduce", "f32[9,99] f32[]", "f32[9]", body="maximum", dimensions="{1}"), BOW)
    assert both.compute_cycles > one.compute_cycles


def test_what_was_assumed_of_a_reduction_s_function_and_of_its_elements_is_said() -> None:
    doubles = estimate(work("reduce", "f64[9,99] f64[]", "f64[9]", body="add", dimensions="{1}"), TOY)
    assert any("f64 is emulated" in sentence for sentence in doubles.assumptions)
    sines = estimate(work("reduce", "bf16[9,99] bf16[]", "bf16[9]", body="sine add", dimensions="{1}"), TOY)
    assert any("bf16 is converted" in sentence for sentence in sines.assumptions)
    assert any(str(SOFTWARE_FUNCTION) in sentence for sentence in sines.assumptions)


def test_a_scan_of_rows_that_lie_on_one_tile_waits_for_no_other() -> None:
    rows, parted = (
        estimate(work("scan", f"{shape} f32[4]", shape, body="add", dimensions="{1}"), TOY) for shape in ("f32[24,100]", "f32[1,9600]")
    )
    assert parts(rows)[1:] == (0, 1000)
    assert parted.sync_cycles == 3 * 1000 + 2 * 100


def test_wide_window_of_stride_one_keeps_running_results() -> None:
    narrow = estimate(work("reduce-window", "f32[4800] f32[]", "f32[4800]", body="add", window="{size=3 pad=2_0}"), TOY)
    wide = estimate(work("reduce-window", "f32[4800] f32[]", "f32[4800]", body="add", window="{size=4800 pad=4799_0}"), TOY)
    assert wide == narrow
    # 100 vectors a worker, 22 bundles for a result and three for each of three taps.
    assert wide.compute_cycles == 11 + 6 * (20 + 100 * (22 + 3 * 3))
    assert wide.exchange_bytes == 4800 * 3 // 2


def test_only_the_dimensions_in_which_a_window_is_wide_keep_running_results() -> None:
    line = estimate(work("reduce-window", "f32[4800] f32[]", "f32[4800]", body="add", window="{size=9 pad=8_0}"), TOY)
    rows = estimate(work("reduce-window", "f32[1,4800] f32[]", "f32[1,4800]", body="add", window="{size=1x9 pad=0_0x8_0}"), TOY)
    assert rows == line


def test_strided_window_reads_all_its_elements() -> None:
    pool = estimate(work("reduce-window", "f32[9600] f32[]", "f32[4800]", body="add", window="{size=8 stride=2 pad=3_3}"), TOY)
    assert pool.compute_cycles == 11 + 6 * (20 + 100 * (22 + 8 * 3))


def test_window_over_a_dilated_array_meets_elements_and_not_gaps() -> None:
    # 3 x 3 on every other element: two of three in each dimension, four applications of three bundles.
    mean = estimate(
        work("reduce-window", "f32[30,40] f32[]", "f32[60,80]", body="add", window="{size=3x3 pad=1_1x1_1 lhs_dilate=2x2}"), TOY
    )
    assert mean.compute_cycles == 11 + 6 * (20 + 100 * (22 + 4 * 3))


def test_dynamic_slice_sends_indices_only() -> None:
    cost = estimate(work("dynamic-slice", "f32[10,4000] s32[] s32[]", "f32[1,4000]"), TOY)
    assert parts(cost) == (288 + 500, 2, 1100)


def test_dynamic_update_slice_sends_the_update_too() -> None:
    cost = estimate(work("dynamic-update-slice", "f32[10,4000] f32[1,4000] s32[] s32[]", "f32[10,4000]"), TOY)
    assert parts(cost) == (288 + 500, 1002, 1100)


def test_gather_of_wide_rows_is_cut_by_columns() -> None:
    # 6 look-ups of rows of 4 x 200 floats: each tile holds 200 columns of all rows, and copies 100 vectors for each.
    cost = estimate(work("gather", "f32[10,800] s32[6,1]", "f32[6,800]", slice_sizes="{1,800}"), TOY)
    assert cost.compute_cycles == 11 + 6 * (20 + 1 * (19 + 2 * 100))
    assert cost.exchange_bytes == 6 * (4 + 800)
    assert cost.sync_cycles == 2 * (1000 + 100)


def test_scatter_of_many_updates_adds_up_partial_tables() -> None:
    many = estimate(work("scatter", "f32[50] s32[100000,1] f32[100000]", "f32[50]", body="add", update_window_dims="{}"), BOW)
    assert many.sync_cycles >= 2 * (500 + 126)
    overwrite = estimate(work("scatter", "f32[50] s32[100000,1] f32[100000]", "f32[50]", update_window_dims="{}"), BOW)
    assert overwrite.compute_cycles > many.compute_cycles  # the last of equal indices wins: no partial tables


def test_look_ups_that_do_not_fit_go_in_passes() -> None:
    cost = estimate(work("scatter", "f32[50] s32[1000000,1] f32[1000000]", "f32[50]", update_window_dims="{}"), TOY)
    assert cost.temporary_tile_bytes <= 0.6 * TOY.tile.sram_bytes
    passes = -(-8_000_000 // 60_000)
    assert cost.sync_cycles == passes * (1000 + 100)


def test_sort_on_one_tile_by_hand() -> None:
    # 8 keys: 6 steps; two elements a worker: compare 3, select 4, load and store one vector each.
    cost = estimate(work("sort", "f32[8]", "f32[8]", body="compare", dimensions="{0}"), tiles(1, TOY))
    assert parts(cost) == (6 * (11 + 6 * (20 + 3 + 4 + 2)), 0, 1000)


def test_sort_of_many_keys_exchanges_between_tiles() -> None:
    cost = estimate(work("sort", "f32[100000]", "f32[100000]", body="compare", dimensions="{0}"), BOW)
    assert cost.exchange_bytes > 0
    assert cost.cycles < estimate(work("sort", "f32[100000]", "f32[100000]", body="compare", dimensions="{0}"), tiles(1)).cycles / 20


def test_top_k_is_cheaper_than_a_sort() -> None:
    top = estimate(work("topk", "f32[50000]", "f32[10] s32[10]"), BOW)
    keys = estimate(work("sort", "f32[50000] s32[50000]", "f32[50000] s32[50000]", body="compare", dimensions="{0}"), BOW)
    assert top.cycles < keys.cycles


def test_top_k_on_one_tile_by_hand() -> None:
    # 16 keys in runs of two: steps on 16, 16, 8, 8, 4, 4 and 2 keys, which are 3, 2, 1 and 1 a worker. On n of them: compare 3 and
    # select 4 per pair, select 2 per position, one load and two stores per pair.
    cost = estimate(work("topk", "f32[16]", "f32[2] s32[2]"), tiles(1, TOY))
    assert parts(cost) == (7 * (11 + 6 * 20) + 6 * (2 * 26 + 2 * 14 + 3 * 12), 0, 1000)
    assert cost.flops == (16 + 16 + 8 + 8 + 4 + 4 + 2) // 2


def test_the_highest_few_of_many_keys_cost_little_more_than_reading_them() -> None:
    few = estimate(work("topk", "f32[4000000]", "f32[8] s32[8]"), BOW)
    all_ = estimate(work("sort", "f32[4000000] s32[4000000]", "f32[4000000] s32[4000000]", body="compare", dimensions="{0}"), BOW)
    assert 20 * few.cycles < all_.cycles


@pytest.mark.parametrize(("algorithm", "bundles"), [("rng_default", 4 * 50), ("rng_philox", 40 * 100), ("rng_three_fry", 58 * 100)])
def test_random_bits_by_their_algorithm(algorithm: str, bundles: int) -> None:
    # 2,400 words on 24 workers: 100 words, or 50 times 64 bits, each.
    cost = estimate(work("rng-bit-generator", "u64[2]", "u32[2400]", algorithm=algorithm), TOY)
    assert parts(cost) == (11 + 6 * (20 + 22 + bundles), 4, 1100)


def test_random_state_is_advanced_on_one_tile() -> None:
    assert parts(estimate(work("rng-get-and-update-state", "", "u64[2]"), TOY)) == (11 + 6 * (20 + 8), 4, 1100)


def test_transforms_that_fit_on_their_tiles_exchange_nothing() -> None:
    # 24 transforms of 64: six a tile, 192 butterflies each, 192 a worker at ten bundles.
    cost = estimate(work("fft", "c64[24,64]", "c64[24,64]", fft_type="FFT", fft_length="{64}"), TOY)
    assert parts(cost) == (11 + 6 * 20 + 6 * 192 * 10, 0, 1000)
    assert cost.flops == 24 * 192 * 10


def test_real_transforms_take_half_the_butterflies() -> None:
    whole = estimate(work("fft", "c64[24,64]", "c64[24,64]", fft_type="FFT", fft_length="{64}"), TOY)
    real = estimate(work("fft", "f32[24,64]", "c64[24,33]", fft_type="RFFT", fft_length="{64}"), TOY)
    assert real.flops == whole.flops // 2


@pytest.mark.parametrize(
    ("routine", "flops_per_cube"),
    [("potrf", 1 / 3), ("getrf", 2 / 3), ("geqrf", 4 / 3), ("gesdd", 22), ("syevd", 9), ("geev", 25), ("gehrd", 10 / 3)],
)
def test_factorisations_count_the_textbooks_operations(routine: str, flops_per_cube: float) -> None:
    cost = estimate(work(f"custom-call:lapack_s{routine}_ffi", "f32[300,300]", "f32[300,300]"), BOW)
    assert cost.flops == pytest.approx(flops_per_cube * 300**3, rel=1e-6)
    assert not cost.fallback


def test_triangular_solve_counts_its_right_hand_sides() -> None:
    cost = estimate(work("triangular-solve", "f32[5,30,30] f32[5,30,7]", "f32[5,30,7]"), BOW)
    assert cost.flops == 5 * 30 * 30 * 7
    call = estimate(work("custom-call:lapack_strsm_ffi", "f32[5,30,30] f32[5,30,7] f32[]", "f32[5,30,7]"), BOW)
    assert call.flops == cost.flops


def test_short_tridiagonal_systems_are_eliminated_and_one_long_one_is_reduced_by_all_tiles() -> None:
    # 24 systems of 50 rows: one a worker, 20 bundles for each row.
    short = estimate(work("custom-call:lapack_sgtsv_ffi", "f32[24,50] f32[24,50] f32[24,50] f32[24,50,1]", "f32[24,50,1]"), TOY)
    assert parts(short) == (11 + 6 * (20 + 20 * 50), 6 * 50 * 4 * 4 // 4, 1100)
    # 24,000 rows: 15 rounds, in each 1,000 rows a worker, and two rows of four numbers for every one.
    long = estimate(work("custom-call:lapack_sgtsv_ffi", "f32[24000] f32[24000] f32[24000] f32[24000,1]", "f32[24000,1]"), TOY)
    assert parts(long) == (15 * (11 + 6 * (20 + 20 * 1000)), 15 * 2 * 6000 * 16 // 4, 15 * 1100)
    assert long.temporary_tile_bytes == 2 * 6000 * 16


def test_small_matrices_are_factored_one_per_tile() -> None:
    cost = estimate(work("cholesky", "f32[1472,8,8]", "f32[1472,8,8]"), BOW)
    assert cost.exchange_bytes == 0


def test_iterations_are_stated_as_assumed() -> None:
    cost = estimate(work("custom-call:lapack_zheevd_ffi", "c128[30,30]", "c128[30,30] f64[30] s32[]"), BOW)
    assert any("iteration" in sentence for sentence in cost.assumptions)
    assert any("emulated" in sentence for sentence in cost.assumptions)
