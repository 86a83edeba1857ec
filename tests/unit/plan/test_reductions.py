"""What reductions do beside reducing: epilogues, and supersteps that several share."""

import pytest

from tests.golden.texts import module_text
from tests.together import each
from tilestep.errors import HloError
from tilestep.machine import load_machine
from tilestep.options import PlanOptions
from tilestep.plan import Superstep, lower
from tilestep.plan.collectives import groups_of, kind_of, pairs_of, parse_groups
from tilestep.program import Instruction, parse_hlo

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


def collective(text: str) -> Instruction:
    return parse_hlo(module_text(f"  %x = f32[8]{{0}} parameter(0)\n  ROOT %r = f32[8]{{0}} {text}")).entry.root


@each(
    "text, groups",
    [
        ("{}", ((0, 1, 2, 3, 4, 5, 6, 7),)),
        ("{{0,1},{2,3}}", ((0, 1), (2, 3))),
        ("{{0},{1}}", ((0,), (1,))),
        ("[2,4]<=[8]", ((0, 1, 2, 3), (4, 5, 6, 7))),
        ("[4,2]<=[2,4]T(1,0)", ((0, 4), (1, 5), (2, 6), (3, 7))),
        ("[2,2,2]<=[2,2,2]T(1,0,2)", ((0, 1, 4, 5), (2, 3, 6, 7))),
        ("mesh['a'=2,'b'=4] {'b'}", ((0, 1, 2, 3), (4, 5, 6, 7))),
        ("mesh[a=2,b=4] {a}", ((0, 4), (1, 5), (2, 6), (3, 7))),
        ("mesh['a'=2,'b'=2,'c'=2] {'a','c'}", ((0, 1, 4, 5), (2, 3, 6, 7))),
        ("mesh['a'=2,'b'=4] {'b':(2)2}", ((0, 1), (2, 3), (4, 5), (6, 7))),
        ("mesh['a'=2,'b'=4] {'b':(1)2}", ((0, 2), (1, 3), (4, 6), (5, 7))),
        ("mesh['a'=2,'b'=4], device_ids=([4,2]T(1,0)) {'b'}", ((0, 2, 4, 6), (1, 3, 5, 7))),
        ("mesh['a'=2,'b'=2], device_ids=(0,2,1,3) {'b'}", ((0, 2), (1, 3))),
        ("mesh['a'=2] {}", ((0,), (1,))),
    ],
)
def test_replica_groups_are_read(text: str, groups: tuple[tuple[int, ...], ...]) -> None:
    assert parse_groups(text, 8) == groups
    assert groups_of(collective(f"all-reduce(%x), replica_groups={text}, to_apply=%main"), 8) == tuple(g for g in groups if len(g) > 1)


@pytest.mark.parametrize("text", ["[2,4]", "mesh", "<=[8]", "mesh['a'=2] {'b'}"])
def test_other_texts_are_an_error(text: str) -> None:
    with pytest.raises(HloError, match="replica_groups"):
        parse_groups(text, 8)


def test_a_device_beyond_the_programs_own_is_an_error() -> None:
    with pytest.raises(HloError, match=r"'r' names device 3, the program runs on 2"):
        groups_of(collective("all-reduce(%x), replica_groups={{0,3}}, to_apply=%main"), 2)


def test_a_permute_has_pairs_and_one_group_of_all_that_take_part() -> None:
    permute = collective("collective-permute(%x), source_target_pairs={{0,1},{1,2},{3,3}}")
    assert pairs_of(permute, 4) == ((0, 1), (1, 2), (3, 3))
    assert groups_of(permute, 4) == ((0, 1, 2),)
    assert groups_of(collective("collective-permute(%x), source_target_pairs={{0,0}}"), 4) == ()


def test_only_collectives_have_a_kind() -> None:
    assert kind_of(collective("all-gather(%x), replica_groups={}, dimensions={0}")) == "all-gather"
    assert kind_of(collective("negate(%x)")) is None
