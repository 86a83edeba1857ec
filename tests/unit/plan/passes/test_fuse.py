"""Which operations share a pass, and that passes never need each other in a circle."""

import random

import pytest

from tests.golden.texts import clean, hlo_text, module_text
from tests.together import each
from tilestep.plan.passes.fuse import Units, fuse
from tilestep.program import Computation, parse_hlo
from tilestep.program.inline import inline_calls

ELEMENTWISE = frozenset({"add", "negate", "multiply", "copy", "select", "compare", "maximum", "convert"})


def units(lines: str) -> tuple[Computation, Units]:
    computation = parse_hlo(module_text(lines)).entry
    return computation, fuse(computation, elementwise=ELEMENTWISE)


def passes(found: Units) -> list[list[str]]:
    return [[member.name for member in unit.members] for unit in found.order if unit.fused]


def assert_order_is_sound(found: Units) -> None:
    """Each unit follows everything that it reads, and every instruction is in one unit."""
    done: set[str] = set()
    for unit in found.order:
        own = {member.name for member in unit.members}
        assert not own & done
        for member in unit.members:
            assert set(member.operands) <= done | own
            assert set(member.after) <= done
        done |= own


def test_a_chain_of_elementwise_operations_is_one_pass() -> None:
    _, found = units("""
  %x = f32[8]{0} parameter(0)
  %a = f32[8]{0} negate(%x)
  %b = f32[8]{0} add(%a, %x)
  ROOT %c = f32[8]{0} multiply(%b, %a)""")
    assert passes(found) == [["a", "b", "c"]]


def test_one_operation_is_one_pass_where_the_front_end_fuses_nothing_but_for_a_call_of_a_library() -> None:
    gelu, norm = (f'frontend_attributes={{tilestep.call="{mark}"}}' for mark in ("gelu", ""))
    computation = parse_hlo(
        module_text(f"""
  %x = f32[8]{{0}} parameter(0)
  %a = f32[8]{{0}} negate(%x)
  %b = f32[8]{{0}} add(%a, %x), {gelu}
  %c = f32[8]{{0}} multiply(%b, %a), {gelu}
  %d = f32[8]{{0}} multiply(%c, %a), {norm}
  %e = f32[8]{{0}} multiply(%d, %a), {norm}
  ROOT %f = f32[8]{{0}} negate(%e)""")
    ).entry
    assert passes(fuse(computation, elementwise=ELEMENTWISE, apart=True)) == [["a"], ["b", "c"], ["d"], ["e"], ["f"]]
    assert passes(fuse(computation, elementwise=ELEMENTWISE)) == [["a", "b", "c"], ["d"], ["e"], ["f"]]


def test_a_call_that_another_operation_leads_back_to_does_not_need_itself() -> None:
    gelu = 'frontend_attributes={tilestep.call="gelu"}'
    computation = parse_hlo(
        module_text(f"""
  %x = f32[8]{{0}} parameter(0)
  %a = f32[8]{{0}} negate(%x), {gelu}
  %b = f32[8]{{0}} add(%a, %x)
  %c = f32[8]{{0}} multiply(%b, %a), {gelu}
  ROOT %d = f32[8]{{0}} multiply(%c, %a), {gelu}""")
    ).entry
    found = fuse(computation, elementwise=ELEMENTWISE, apart=True)
    assert_order_is_sound(found)
    assert passes(found) == [["a"], ["b"], ["c", "d"]]


def test_a_broadcast_is_read_through_where_only_elementwise_operations_read_it() -> None:
    _, found = units("""
  %x = f32[8,4]{1,0} parameter(0)
  %one = f32[] constant(1)
  %b = f32[8,4]{1,0} broadcast(%one), dimensions={}
  %n = f32[8,4]{1,0} negate(%x)
  ROOT %c = f32[8,4]{1,0} add(%n, %b)""")
    assert passes(found) == [["n", "c"]]
    assert found.absorbed == {"b"}


def test_a_broadcast_that_something_else_reads_is_stored() -> None:
    _, found = units("""
  %x = f32[8,8]{1,0} parameter(0)
  %one = f32[] constant(1)
  %b = f32[8,8]{1,0} broadcast(%one), dimensions={}
  %n = f32[8,8]{1,0} add(%x, %b)
  ROOT %d = f32[8,8]{1,0} dot(%n, %b), lhs_contracting_dims={1}, rhs_contracting_dims={0}""")
    assert found.absorbed == frozenset()


def test_a_reversal_that_only_convolutions_read_is_not_stored() -> None:
    lines = """
  %x = f32[1,8,4]{2,1,0} parameter(0)
  %k = f32[3,4,4]{2,1,0} parameter(1)
  %turned = f32[3,4,4]{2,1,0} reverse(%k), dimensions={0}
  %y = f32[1,6,4]{2,1,0} convolution(%x, %turned), window={size=3}, dim_labels=b0f_0io->b0f
"""
    _, found = units(lines + "  ROOT %z = f32[1,6,4]{2,1,0} negate(%y)")
    assert found.absorbed == {"turned"}
    _, found = units(lines + "  ROOT %z = (f32[1,6,4]{2,1,0}, f32[3,4,4]{2,1,0}) tuple(%y, %turned)")
    assert not found.absorbed


def test_a_pass_does_not_reach_around_an_operation_between_its_members() -> None:
    _, found = units("""
  %x = f32[8,8]{1,0} parameter(0)
  %a = f32[8,8]{1,0} negate(%x)
  %d = f32[8,8]{1,0} dot(%a, %a), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT %c = f32[8,8]{1,0} add(%d, %a)""")
    assert passes(found) == [["a"], ["c"]]
    assert_order_is_sound(found)


def test_a_view_between_two_members_belongs_to_the_pass() -> None:
    _, found = units("""
  %x = f32[8,4]{1,0} parameter(0)
  %a = f32[8,4]{1,0} negate(%x)
  %v = f32[32]{0} bitcast(%a)
  ROOT %c = f32[32]{0} add(%v, %v)""")
    assert passes(found) == [["a", "v", "c"]]
    assert_order_is_sound(found)


def test_a_copy_into_another_layout_is_no_elementwise_operation() -> None:
    _, found = units("""
  %x = f32[8,4]{1,0} parameter(0)
  %a = f32[8,4]{1,0} copy(%x)
  ROOT %c = f32[8,4]{0,1} copy(%a)""")
    assert passes(found) == [["a"]]


def test_small_copies_share_a_pass_and_large_ones_do_not() -> None:
    lines = """
  %x = f32[{n}]{{0}} parameter(0)
  %y = f32[{n}]{{0}} parameter(1)
  %a = f32[{n}]{{0}} copy(%x)
  %b = f32[{n}]{{0}} copy(%y)
  ROOT %t = (f32[{n}]{{0}}, f32[{n}]{{0}}) tuple(%a, %b)"""
    assert passes(units(lines.format(n=4))[1]) == [["a", "b"]]
    assert passes(units(lines.format(n=4096))[1]) == [["a"], ["b"]]


def test_elements_of_a_result_are_deeper_than_what_made_them() -> None:
    _, found = units("""
  %x = f32[8]{0} parameter(0)
  %a = f32[8]{0} negate(%x)
  %s = (f32[8]{0}, f32[8]{0}) sort(%a, %x), dimensions={0}
  %e = f32[8]{0} get-tuple-element(%s), index=1
  ROOT %c = f32[8]{0} add(%e, %a)""")
    assert passes(found) == [["a"], ["c"]]
    assert_order_is_sound(found)


BARRIER = """
  %x = f32[8]{0} parameter(0)
  %y = f32[8]{0} parameter(1)
  %s = f32[8]{0} sort(%y), dimensions={0}
  %t = (f32[8]{0}, f32[8]{0}) tuple(%x, %s)
  %o = (f32[8]{0}, f32[8]{0}) opt-barrier(%t)
  %e = f32[8]{0} get-tuple-element(%o), index=0
  %n = f32[8]{0} negate(%e)
  ROOT %r = f32[8]{0} add(%n, %x)"""


def test_an_operation_behind_a_barrier_runs_behind_all_that_the_barrier_holds() -> None:
    """It reads the argument alone, but jax.checkpoint wants it late."""
    computation = clean(parse_hlo(module_text(BARRIER))).entry
    assert computation.by_name["n"].after == ("s", "x")
    found = fuse(computation, elementwise=ELEMENTWISE)
    names = [unit.members[0].name for unit in found.order]
    assert names.index("s") < names.index("n")
    assert_order_is_sound(found)


def test_what_comes_from_the_hosts_memory_is_computed_with_what_it_meets() -> None:
    lines = """
  %m = f32[8]{{0}} parameter(0)
  %g = f32[8]{{0}} parameter(1)
  %near = f32[8]{{0}} custom-call(%m), custom_call_target="{target}"
  %half = f32[8]{{0}} add(%near, %near)
  %less = f32[8]{{0}} negate(%half)
  %s = f32[8]{{0}} sort(%g), dimensions={{0}}
  %d = f32[8]{{0}} sort(%s), dimensions={{0}}
  ROOT %new = f32[8]{{0}} add(%less, %d)"""
    _, found = units(lines.format(target="MoveToDevice"))
    order = [[member.name for member in unit.members] for unit in found.order]
    assert order[-1] == ["half", "less", "new"]
    assert sorted(order[:-1]) == [["d"], ["g"], ["m"], ["near"], ["s"]]
    assert passes(units(lines.format(target="another"))[1]) == [["half", "less"], ["new"]]  # as soon as it can be
    stored = lines.replace("sort(%g)", "sort(%half)")  # which has to be there before
    assert passes(units(stored.format(target="MoveToDevice"))[1]) == [["half"], ["less", "new"]]


@pytest.mark.parametrize("name", ["mlp_train_step", "gelu_half", "cholesky", "psum", "conv"])
def test_units_of_real_programs_are_in_a_sound_order(name: str) -> None:
    computation = clean(parse_hlo(hlo_text(name))).entry
    assert_order_is_sound(fuse(computation, elementwise=ELEMENTWISE))


@each("seed", range(20))
def test_units_of_random_graphs_are_in_a_sound_order(seed: int) -> None:
    draw = random.Random(seed)
    shape = {1: "f32[]", 4: "f32[4]{0}", 16: "f32[4,4]{1,0}"}
    lines = [f"  %p{size} = {text} parameter({k})" for k, (size, text) in enumerate(shape.items())]
    names = {size: [f"p{size}"] for size in shape}
    for k in range(60):
        size = draw.choice(list(shape))
        kind = draw.choice(["add", "add", "copy", "bitcast", "broadcast", "reduce", "dot", "move", "barrier"])
        a, b = draw.choice(names[size]), draw.choice(names[size])
        smaller = [s for s in shape if s < size]
        larger = [s for s in shape if s > size]
        if kind == "broadcast" and smaller:
            a = draw.choice(names[draw.choice(smaller)])
        elif kind == "reduce" and larger:
            a = draw.choice(names[draw.choice(larger)])
        elif kind in ("broadcast", "reduce"):
            kind = "negate"
        operands = f"%{a}, %{b}" if kind in ("add", "dot") else f"%{a}"
        if kind == "barrier":
            lines.append(f"  %t{k} = ({shape[size]}, {shape[size]}) tuple(%{a}, %{b})")
            lines.append(f"  %o{k} = ({shape[size]}, {shape[size]}) opt-barrier(%t{k})")
            lines.append(f"  %n{k} = {shape[size]} get-tuple-element(%o{k}), index={draw.choice((0, 1))}")
        elif kind == "move":
            lines.append(f'  %n{k} = {shape[size]} custom-call(%{a}), custom_call_target="MoveToDevice"')
        else:
            lines.append(f"  %n{k} = {shape[size]} {kind}({operands})")
        names[size].append(f"n{k}")
    everything = ", ".join(f"%n{k}" for k in range(0, 60, 7))
    lines.append(f"  ROOT %t = (f32[]) tuple({everything})")
    computation = inline_calls(parse_hlo(module_text("\n".join(lines)))).entry
    assert_order_is_sound(fuse(computation, elementwise=ELEMENTWISE))
