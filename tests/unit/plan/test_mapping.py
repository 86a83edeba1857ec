"""Where values lie, and what loops keep in place."""

import pytest

from tests.golden.texts import clean, hlo_text
from tilestep.cost import ELEMENTWISE
from tilestep.plan.mapping import ANYWHERE, MappedArray, keeping_layout, place_fusion
from tilestep.plan.passes.fuse import fusible_in
from tilestep.plan.tile_layout import aligned, block_layout, even_layout
from tilestep.program import ArrayShape, Computation, parse_hlo

FULL, ROW = ArrayShape("f32", (8, 4)), ArrayShape("f32", (4,))


def loop_body(name: str) -> Computation:
    """The body of the one loop of a stored module, cleaned."""
    module = clean(parse_hlo(hlo_text(name)))
    (loop,) = [i for i in module.entry.instructions if i.opcode == "while"]
    return module.computations[loop.called("body")[0]]


def test_a_pass_runs_where_its_first_operand_lies_and_others_move_there() -> None:
    placed = place_fusion(
        "p",
        [(MappedArray(0, "a"), FULL), (MappedArray(1, "b"), FULL), (MappedArray(2, ANYWHERE), FULL), (MappedArray(3, "c"), ROW)],
        32,
        frozenset(),
    )
    assert (placed.home, placed.moved_bytes) == ("a", 128)


def test_a_pass_comes_to_the_result_of_a_product() -> None:
    placed = place_fusion("p", [(MappedArray(0, "a"), FULL), (MappedArray(1, "dot"), FULL)], 32, frozenset({"dot"}))
    assert (placed.home, placed.moved_bytes) == ("dot", 128)


def test_a_pass_over_arguments_is_a_home_of_its_own_and_moves_nothing() -> None:
    placed = place_fusion("p", [(MappedArray(0, ANYWHERE), FULL), (MappedArray(1, ANYWHERE), FULL)], 32, frozenset())
    assert (placed.home, placed.moved_bytes) == ("p", 0)


def test_a_training_loop_keeps_its_weights_and_batch_in_place() -> None:
    body = loop_body("train_loop")
    kept = keeping_layout(body, fusible_in(body, ELEMENTWISE))
    assert kept == set(range(6))  # counter, b1, w1, w2, x, y


def test_a_hidden_state_that_goes_through_a_product_does_not_stay_in_place() -> None:
    body = loop_body("scan")
    kept = keeping_layout(body, fusible_in(body, ELEMENTWISE))
    assert kept == {0, 2, 3}  # counter, outputs written in place, inputs; not the state at 1


@pytest.mark.parametrize(
    ("size_bytes", "tile_bytes", "tiles"),
    [
        (0, 0, 0),
        (4, 8, 1),  # a scalar lies on one tile
        (128, 128, 1),
        (129, 128, 2),
        (8 * 128, 128, 8),
        (8 * 128 + 1, 136, 8),  # a ninth of 1,025 bytes would be 129: eight bytes more for an aligned region
        (80_000, 10_000, 8),
    ],
)
def test_an_array_lies_on_as_many_tiles_as_it_has_128_bytes_for(size_bytes: int, tile_bytes: int, tiles: int) -> None:
    found = even_layout(size_bytes, 8)
    assert (found.tile_bytes, found.tiles) == (tile_bytes, tiles)
    assert found.tile_bytes * found.tiles >= size_bytes


def test_blocks_of_a_plan_keep_their_size_and_leave_tiles_empty() -> None:
    found = block_layout(1000, 300, 8)
    assert (found.tile_bytes, found.tiles) == (304, 4)


def test_no_tile_holds_less_than_an_even_share_of_what_all_must_hold() -> None:
    found = block_layout(8000, 300, 8)
    assert (found.tile_bytes, found.tiles) == (1000, 8)


def test_regions_are_multiples_of_eight_bytes() -> None:
    assert [aligned(size) for size in (0, 1, 8, 9)] == [0, 8, 8, 16]
