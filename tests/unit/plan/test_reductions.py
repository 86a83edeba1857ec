"""What reductions do beside reducing: epilogues, and supersteps that several share."""

from __future__ import annotations

from tests.golden.texts import module_text
from tilestep.machine import load_machine
from tilestep.options import PlanOptions
from tilestep.plan import Superstep, lower
from tilestep.program import parse_hlo

MACHINE = load_machine("bow-2000")
_SUM = """
  %zero = f32[] constant(0)
  %s = f32[64]{0} reduce(%x, %zero), dimensions={0}, to_apply=%sum"""
_ADDS = """
%sum (a: f32[], b: f32[]) -> f32[] {
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT %c = f32[] add(%a, %b)
}
"""


def steps(lines: str, **options: str) -> list[Superstep]:
    text = module_text(lines)
    header, _, rest = text.partition("ENTRY")
    program = lower(parse_hlo(f"{header}{_ADDS}\nENTRY{rest}"), MACHINE, name="program", num_ipus=1, options=PlanOptions().changed(options))
    return [node for node in program.body.nodes if isinstance(node, Superstep)]


def test_a_scale_and_a_conversion_are_done_by_the_reduction() -> None:
    found = steps(f"""
  %x = f32[512,64]{{1,0}} parameter(0){_SUM}
  %n = f32[] constant(0.125)
  %each = f32[64]{{0}} broadcast(%n), dimensions={{}}
  %m = f32[64]{{0}} multiply(%s, %each)
  ROOT %h = f16[64]{{0}} convert(%m)""")
    assert [step.family for step in found] == ["reduce"]


def test_more_than_a_scale_is_a_pass_of_its_own() -> None:
    found = steps(f"""
  %x = f32[512,64]{{1,0}} parameter(0){_SUM}
  ROOT %m = f32[64]{{0}} multiply(%s, %s)""")
    assert [step.family for step in found] == ["reduce", "elementwise"]


def test_two_reductions_of_one_input_share_supersteps_and_none_of_what_the_other_made() -> None:
    two = f"""
  %x = f32[512,64]{{1,0}} parameter(0){_SUM}
  %q = f32[512,64]{{1,0}} multiply(%x, %x)
  %t = f32[64]{{0}} reduce(%q, %zero), dimensions={{0}}, to_apply=%sum
  ROOT %both = f32[64]{{0}} add(%s, %t)"""
    one, other = (step for step in steps(two) if step.family == "reduce")
    assert one.sync_cycles > 0 == other.sync_cycles
    assert other.compute_cycles > 0
    apart = [step for step in steps(two, ipu_fusion="none") if step.family == "reduce"]
    assert all(step.sync_cycles > 0 for step in apart)
    chained = f"""
  %x = f32[512,64]{{1,0}} parameter(0){_SUM}
  %each = f32[512,64]{{1,0}} broadcast(%s), dimensions={{1}}
  %q = f32[512,64]{{1,0}} subtract(%x, %each)
  ROOT %t = f32[64]{{0}} reduce(%q, %zero), dimensions={{0}}, to_apply=%sum"""
    assert all(step.sync_cycles > 0 for step in steps(chained) if step.family == "reduce")
