"""Units as tasks: values that share memory keep their readers in front of their writers."""

from __future__ import annotations

from collections.abc import Mapping

from tests.golden.texts import module_text
from tilestep.cost import ELEMENTWISE
from tilestep.plan.fuse import fuse
from tilestep.program import parse_hlo

# A weight's update, and the weight's last reader. Both are ready when the gradient is; the update frees the gradient.
UPDATE = """
  %w = f32[8]{0} parameter(0)
  %x = f32[64]{0} parameter(1)
  %g = f32[64]{0} sort(%x), dimensions={0}
  %part = f32[8]{0} slice(%g), slice={[0:8]}
  %last = f32[8]{0} sort(%w), dimensions={0}
  %new = f32[8]{0} subtract(%w, %part)
  ROOT %t = (f32[8]{0}, f32[8]{0}) tuple(%new, %last)"""


def order(lines: str, taken_over: Mapping[int, tuple[int, int]] | None = None) -> list[str]:
    found = fuse(parse_hlo(module_text(lines)).entry, elementwise=ELEMENTWISE, taken_over=taken_over or {})
    return [unit.members[-1].name for unit in found.order if unit.members[0].opcode not in ("parameter", "constant")]


def test_an_update_waits_for_all_readers_of_the_old_value() -> None:
    assert order(UPDATE, {0: (0, 0)}) == ["g", "part", "last", "new", "t"]


def test_a_result_with_memory_of_its_own_does_not() -> None:
    assert order(UPDATE) == ["g", "part", "new", "last", "t"]


def test_a_result_that_comes_too_early_for_that_has_memory_of_its_own() -> None:
    lines = UPDATE.splitlines()
    lines[-3], lines[-2] = lines[-2], lines[-3]
    assert order("\n".join(lines), {0: (0, 0)}) == ["g", "part", "new", "last", "t"]


def test_a_write_into_an_array_waits_for_all_that_read_it_before() -> None:
    lines = """
  %x = f32[8]{0} parameter(0)
  %i = s32[] parameter(1)
  %u = f32[1]{0} parameter(2)
  %a = f32[8]{0} sort(%x), dimensions={0}
  %last = f32[8,8]{1,0} broadcast(%a), dimensions={0}
  %read = f32[8,8]{1,0} sort(%last), dimensions={0}
  %new = f32[8]{0} dynamic-update-slice(%a, %u, %i)
  ROOT %t = (f32[8,8]{1,0}, f32[8]{0}) tuple(%read, %new)"""
    assert order(lines) == ["a", "last", "read", "new", "t"]
