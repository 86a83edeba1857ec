"""Which tiles hold an array."""

from __future__ import annotations

import pytest

from tilestep.plan.tile_layout import aligned, block_layout, even_layout


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
