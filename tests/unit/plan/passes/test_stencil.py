"""Slices that elementwise expressions read: stencils keep their block and get its margins, single slices move."""

from tests.unit.cost.machines import TOY, array
from tilestep.machine import load_machine
from tilestep.plan import Superstep, lower
from tilestep.plan.passes.stencil import halo, starts
from tilestep.plan.steps import Program
from tilestep.program import parse_hlo

STENCIL = """HloModule stencil, entry_computation_layout={(f32[64,64,4]{2,1,0})->f32[62,62,4]{2,1,0}}

ENTRY %main (x: f32[64,64,4]) -> f32[62,62,4] {
  %x = f32[64,64,4]{2,1,0} parameter(0)
  %a = f32[62,62,4]{2,1,0} slice(%x), slice={[0:62], [0:62], [0:4]}
  %b = f32[62,62,4]{2,1,0} slice(%x), slice={[2:64], [2:64], [0:4]}
  ROOT %sum = f32[62,62,4]{2,1,0} add(%a, %b)
}
"""
PART = """HloModule part, entry_computation_layout={(f32[100,8]{1,0}, f32[50,8]{1,0})->f32[50,8]{1,0}}

ENTRY %main (x: f32[100,8], y: f32[50,8]) -> f32[50,8] {
  %x = f32[100,8]{1,0} parameter(0)
  %y = f32[50,8]{1,0} parameter(1)
  %r = f32[8,100]{1,0} transpose(%x), dimensions={1,0}
  %t = f32[100,8]{1,0} transpose(%r), dimensions={1,0}
  %a = f32[50,8]{1,0} slice(%t), slice={[50:100], [0:8]}
  %z = f32[8,50]{1,0} transpose(%y), dimensions={1,0}
  %w = f32[50,8]{1,0} transpose(%z), dimensions={1,0}
  ROOT %sum = f32[50,8]{1,0} add(%w, %a)
}
"""


def lowered(text: str) -> Program:
    return lower(parse_hlo(text), load_machine("bow-2000"), name="program", num_ipus=1)


def test_starts_of_a_slice() -> None:
    assert starts("{[0:62], [2:64:2], [10:14]}") == (0, 2, 10)


def test_halo_by_hand() -> None:
    # 64 x 64 places of 4 floats on four tiles: 1,024 places a tile, a block of 32 x 32 with 34 x 34 around it.
    found = halo(array("f32[64,64,4]"), [(0, 0, 0), (1, 1, 0), (2, 2, 0)], TOY)
    assert found.received_bytes == (34 * 34 - 32 * 32) * 4 * 4
    assert found.copied_bytes == 64 * 64 * 4 * 4 // 4 + found.received_bytes


def test_slices_that_start_together_have_no_halo() -> None:
    assert halo(array("f32[64,64]"), [(1, 1), (1, 1)], TOY).received_bytes == 0


def test_a_stencil_is_one_superstep_that_receives_margins_and_copies_its_block() -> None:
    (step,) = lowered(STENCIL).body.nodes
    assert isinstance(step, Superstep)
    assert step.family == "elementwise"
    whole = 62 * 62 * 4 * 4
    assert 0 < step.exchange_bytes < whole // 4
    assert step.temporary_tile_bytes > -(-whole // 1472)
    assert step.compute_cycles > 587


def test_part_of_an_array_moves_to_what_it_meets() -> None:
    steps = [node for node in lowered(PART).body.nodes if isinstance(node, Superstep)]
    assert steps[-1].family == "elementwise"
    assert steps[-1].exchange_bytes == -(-50 * 8 * 4 // 1472)
    assert not any(step.name == "a" for step in steps)
