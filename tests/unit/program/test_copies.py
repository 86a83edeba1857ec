"""Copies: those that only XLA's buffers need go, those that a machine needs too stay."""

from __future__ import annotations

from tests.golden.texts import clean, hlo_text, module_text
from tilestep.program import Computation, parse_hlo

HEAD = "HloModule m, input_output_alias={ {0}: (0, {}, may-alias) }"


def entry(lines: str, *, head: str = "HloModule m") -> Computation:
    return clean(parse_hlo(module_text(lines, head=head))).entry


def copies(computation: Computation) -> list[str]:
    return [instruction.name for instruction in computation.instructions if instruction.opcode == "copy"]


def test_the_copy_of_a_donated_weight_that_is_only_read_before_its_update_goes() -> None:
    assert copies(clean(parse_hlo(hlo_text("mlp_train_step"))).entry) == []


def test_the_copy_of_a_donated_argument_that_is_read_after_its_update_stays() -> None:
    lines = """
  %p = f32[8]{0} parameter(0)
  %old = f32[8]{0} copy(%p)
  %new = f32[8]{0} negate(%p)
  %both = f32[8]{0} add(%old, %new)
  ROOT %t = (f32[8]{0}, f32[8]{0}) tuple(%new, %both)"""
    assert copies(entry(lines, head=HEAD)) == ["old"]
    assert copies(entry(lines)) == []  # not donated: nothing overwrites it


def test_the_copy_of_an_argument_to_write_into_goes_if_nobody_else_reads_it() -> None:
    lines = """
  %p = f32[8]{0} parameter(0)
  %u = f32[1]{0} parameter(1)
  %i = s32[] parameter(2)
  %mine = f32[8]{0} copy(%p)
  %updated = f32[8]{0} dynamic-update-slice(%mine, %u, %i)
  ROOT %t = (f32[8]{0}, f32[8]{0}) tuple(%updated, %X)"""
    assert copies(entry(lines.replace("%X", "%updated"))) == []
    assert copies(entry(lines.replace("%X", "%p"))) == ["mine"]


def test_a_copy_in_another_layout_stays() -> None:
    lines = "  %p = f32[8,4]{1,0} parameter(0)\n  %c = f32[8,4]{0,1} copy(%p)\n  ROOT %r = f32[8,4]{0,1} negate(%c)"
    assert copies(entry(lines)) == ["c"]


def test_a_loop_that_swaps_what_it_carries_keeps_its_copies() -> None:
    body = """
%body (t: (f32[8], f32[8])) -> (f32[8], f32[8]) {
  %t = (f32[8]{0}, f32[8]{0}) parameter(0)
  %a = f32[8]{0} get-tuple-element(%t), index=0
  %b = f32[8]{0} get-tuple-element(%t), index=1
  %a2 = f32[8]{0} copy(%a)
  %b2 = f32[8]{0} copy(%b)
  ROOT %n = (f32[8]{0}, f32[8]{0}) tuple(%b2, %a2)
}

%cond (t: (f32[8], f32[8])) -> pred[] {
  %t = (f32[8]{0}, f32[8]{0}) parameter(0)
  ROOT %c = pred[] constant(true)
}"""
    lines = """
  %p = (f32[8]{0}, f32[8]{0}) parameter(0)
  ROOT %w = (f32[8]{0}, f32[8]{0}) while(%p), condition=%cond, body=%body"""
    module = clean(parse_hlo(module_text(lines, computations=body)))
    assert copies(module.computations["body"]) == ["a2", "b2"]


def test_the_copies_of_a_loop_that_updates_weights_go() -> None:
    module = clean(parse_hlo(hlo_text("train_loop")))
    (loop,) = [i for i in module.entry.instructions if i.opcode == "while"]
    assert copies(module.computations[loop.called("body")[0]]) == []
