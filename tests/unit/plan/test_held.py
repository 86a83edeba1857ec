"""Where weights lie that stay on their tiles: in whole grains, from the last tile of their plan on."""

import pytest

from tests.unit.cost.machines import BOW, TOY, work
from tilestep.cost.gather import gather
from tilestep.cost.step import Held
from tilestep.plan.memory.timeline import Buffers
from tilestep.plan.products.conv import plan_convolution
from tilestep.plan.products.matmul import Matmul, matmul_plan
from tilestep.plan.products.partition import held

GRAIN = 16 * 16  # of halves: 512 bytes


@pytest.mark.parametrize(
    ("grains", "sharers", "most"),
    [
        (32, 8, 4),
        (33, 8, 5),  # one of the tiles holds a grain more
        (90, 8, 12),
        (3, 8, 1),  # a grain is never cut: five tiles hold nothing
    ],
)
def test_tiles_that_need_the_same_weights_share_them_in_whole_grains(grains: int, sharers: int, most: int) -> None:
    assert held(grains * GRAIN, "f16", grain=GRAIN, sharers=sharers, weights_of=1472) == Held(tile_bytes=most * 512, end=1472)


def test_small_parts_of_a_block_lie_together() -> None:
    # Sixty grains of 32 bytes: parts of weights have 256 bytes or more, those of inputs 128.
    assert held(60 * 16, "f16", grain=16, sharers=100, weights_of=100).tile_bytes == 9 * 32
    assert held(60 * 16, "f16", grain=16, sharers=100).tile_bytes == 4 * 32


def most_on_a_tile(*laid: Held, size_bytes: int = 3 * 512) -> int:
    """Of four tiles; each array has three grains."""
    buffers = Buffers(4)
    tiles = [0] * 4
    for lies in laid:
        buffer = buffers.new("w", size_bytes)
        buffers.lay(buffer, lies)
        layout = buffers.layouts[buffer]
        for number in range(layout.tiles):
            tiles[(layout.start + number) % 4] += layout.tile_bytes
    return max(tiles)


def test_equal_layers_pile_up_and_those_of_other_plans_spread() -> None:
    two_grains = Held(tile_bytes=1024, end=4)  # on tiles 2 and 3
    assert most_on_a_tile(two_grains, two_grains) == 2048
    assert most_on_a_tile(two_grains, Held(tile_bytes=1024, end=2)) == 1024
    assert most_on_a_tile(two_grains, Held(tile_bytes=1024)) == 1024  # inputs begin at tile 0


def test_weights_of_a_product_do_not_lie_evenly() -> None:
    # 4,096 grains on 1,472 tiles: 2.8 a tile, so the fullest has three or more.
    problem = Matmul(groups=1, rows=2304, inner=1024, columns=1024, left="f16", right="f16", result="f16", right_resident=True)
    plan = matmul_plan(problem, BOW)
    _, weights = plan.cost.held
    assert weights is not None
    assert weights.tile_bytes >= 3 * 512
    assert weights.tile_bytes % 512 == 0
    assert weights.end == plan.tiles


def test_the_kernel_of_a_convolution_lies_in_grains_too() -> None:
    asked = work(
        "convolution",
        "f16[4,28,28,128] f16[3,3,128,128]",
        "f16[4,28,28,128]",
        resident=(False, True),
        window="{size=3x3 pad=1_1x1_1}",
        dim_labels="b01f_01io->b01f",
    )
    _, kernel = plan_convolution(asked, BOW).held
    assert kernel is not None
    assert kernel.tile_bytes % 256 == 0  # groups of 16 x 8 channels


def test_a_table_lies_as_its_look_ups_cut_it() -> None:
    # Four tiles have 200 of the 800 columns each.
    assert gather(work("gather", "f32[10,800] s32[6,1]", "f32[6,800]", slice_sizes="{1,800}"), TOY).held == (Held(tile_bytes=8000),)
