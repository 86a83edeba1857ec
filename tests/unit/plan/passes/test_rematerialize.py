"""Wider values are made where they are read, and squares are added up by the reduction."""

from tests.golden.texts import module_text
from tilestep.cost import ELEMENTWISE
from tilestep.cost.reductions.reduce import SQUARES
from tilestep.plan.passes.fuse import fuse
from tilestep.plan.passes.rematerialize import computed_again
from tilestep.program import parse_hlo
from tilestep.program.context import Context

SUM = "%sum (a: f32[], b: f32[]) -> f32[] {\n  %a = f32[] parameter(0)\n  %b = f32[] parameter(1)\n  ROOT %c = f32[] add(%a, %b)\n}"
MOST = SUM.replace("%sum", "%most").replace("add", "maximum")


def changed(lines: str, *others: str) -> dict[str, tuple[str, tuple[str, ...]]]:
    """Opcode and operands of each instruction of the entry, by its name."""
    module = parse_hlo(module_text(lines, computations="\n\n".join(others)))
    entry = computed_again(module.entry, Context(computations=module.computations))
    return {i.name: (i.opcode, i.operands) for i in entry.instructions if i.opcode != "parameter"}


TWO_READERS = """
  %x = f16[8]{0} parameter(0)
  %y = f32[8]{0} parameter(1)
  %w = f32[8]{0} convert(%x)
  %s = f32[8]{0} sort(%y), dimensions={0}
  %a = f32[8]{0} add(%w, %y)
  %d = f32[8]{0} sort(%a), dimensions={0}
  ROOT %b = f32[8]{0} multiply(%w, %d)"""


def test_each_reader_converts_for_itself() -> None:
    assert changed(TWO_READERS) == {
        "s": ("sort", ("y",)),
        "w/a": ("convert", ("x",)),
        "a": ("add", ("w/a", "y")),
        "d": ("sort", ("a",)),
        "w/b": ("convert", ("x",)),
        "b": ("multiply", ("w/b", "d")),
    }


def test_it_converts_in_the_pass_that_reads() -> None:
    module = parse_hlo(module_text(TWO_READERS))
    found = fuse(computed_again(module.entry, Context(computations=module.computations)), elementwise=ELEMENTWISE)
    assert [[member.name for member in unit.members] for unit in found.order if unit.fused] == [["w/a", "a"], ["w/b", "b"]]


def test_narrower_values_and_other_readers_stay_as_they_are() -> None:
    lines = """
  %x = f32[8]{0} parameter(0)
  %n = f16[8]{0} convert(%x)
  %a = f16[8]{0} negate(%n)
  %s = f16[8]{0} sort(%n), dimensions={0}
  ROOT %t = (f16[8]{0}, f16[8]{0}) tuple(%a, %s)"""
    assert list(changed(lines)) == ["n", "a", "s", "t"]
    wide = """
  %x = f16[8]{0} parameter(0)
  %w = f32[8]{0} convert(%x)
  %s = f32[8]{0} sort(%w), dimensions={0}
  %a = f32[8]{0} add(%w, %s)
  ROOT %t = (f32[8]{0}) tuple(%a)"""
    assert list(changed(wide)) == ["w", "s", "w/a", "a", "t"]  # the sort reads an array


def test_a_reduction_reads_halves_whoever_else_reads_them_wide() -> None:
    lines = """
  %x = f16[8]{0} parameter(0)
  %z = f32[] constant(0)
  %w = f32[8]{0} convert(%x)
  %r = f32[] reduce(%w, %z), dimensions={0}, to_apply=%sum
  %s = f32[8]{0} sort(%w), dimensions={0}
  ROOT %t = (f32[], f32[8]{0}) tuple(%r, %s)"""
    assert changed(lines, SUM)["r"] == ("reduce", ("x", "z"))
    assert changed(lines.replace("f16", "s32"), SUM)["r"] == ("reduce", ("w", "z"))


SQUARED = """
  %x = f16[8]{0} parameter(0)
  %z = f32[] constant(0)
  %w = f32[8]{0} convert(%x)
  %q = f32[8]{0} multiply(%w, %w)
  ROOT %r = f32[] reduce(%q, %z), dimensions={0}, to_apply=%sum"""


def test_squares_are_added_up_by_the_reduction() -> None:
    assert changed(SQUARED, SUM) == {"z": ("constant", ()), "r": ("reduce", ("x", "z"))}
    module = parse_hlo(module_text(SQUARED, computations=SUM))
    entry = computed_again(module.entry, Context(computations=module.computations))
    assert SQUARES in entry.root.attributes


def test_squares_that_are_not_added_up_alone_stay() -> None:
    products = SQUARED.replace("multiply(%w, %w)", "multiply(%w, %y)").replace("  %z", "  %y = f32[8]{0} parameter(1)\n  %z")
    for lines in (SQUARED.replace("%sum", "%most"), products):
        assert "q" in changed(lines, SUM, MOST)
    read_twice = SQUARED.replace("ROOT %r", "%r") + "\n  ROOT %t = (f32[], f32[8]{0}) tuple(%r, %q)"
    assert changed(read_twice, SUM)["r"] == ("reduce", ("q", "z"))


RECTIFIER = """
  %x = f16[8]{0} parameter(0)
  %g = f16[8]{0} parameter(1)
  %zero = f16[] constant(0)
  %zeros = f16[8]{0} broadcast(%zero), dimensions={}
  %e = f16[8]{0} exponential(%x)
  %positive = pred[8]{0} compare(%e, %zeros), direction=DIRECTION
  %y = f16[8]{0} maximum(%e, %zeros)
  %s = f16[8]{0} sort(%y), dimensions={0}
  %a = f16[8]{0} add(%g, %s)
  %r = f16[8]{0} select(%positive, %a, %zeros)
  ROOT %t = (f16[8]{0}, f16[8]{0}) tuple(%y, %r)"""


def test_the_gradient_of_a_rectifier_asks_its_result() -> None:
    module = parse_hlo(module_text(RECTIFIER.replace("DIRECTION", "GT")))
    entry = computed_again(module.entry, Context(computations=module.computations))
    assert entry.by_name["positive"].operands == ("y", "zeros")
    assert [i.name for i in entry.instructions].index("y") < [i.name for i in entry.instructions].index("positive")
    found = fuse(entry, elementwise=ELEMENTWISE)
    assert [[member.name for member in unit.members] for unit in found.order if unit.fused] == [["e", "y"], ["positive", "a", "r"]]


def test_other_comparisons_stay() -> None:
    assert changed(RECTIFIER.replace("DIRECTION", "GE"))["positive"] == ("compare", ("e", "zeros"))
    assert changed(RECTIFIER.replace("DIRECTION", "GT").replace("constant(0)", "constant(1)"))["positive"] == ("compare", ("e", "zeros"))


def test_a_copy_of_one_number_is_filled_with_it() -> None:
    """A loop writes into each copy, and the value that is copied need not outlive the first."""
    lines = """
  %x = f32[8]{0} parameter(0)
  %zero = f32[] constant(0)
  %zeros = f32[8]{0} broadcast(%zero), dimensions={}
  %first = f32[8]{0} copy(%zeros)
  %second = f32[8]{0} copy(%zeros)
  %own = f32[8]{0} copy(%x)
  ROOT %t = (f32[8]{0}, f32[8]{0}, f32[8]{0}) tuple(%first, %second, %own)"""
    assert changed(lines) == {
        "zero": ("constant", ()),
        "first": ("broadcast", ("zero",)),
        "second": ("broadcast", ("zero",)),
        "own": ("copy", ("x",)),
        "t": ("tuple", ("first", "second", "own")),
    }


def test_a_copy_of_one_number_into_the_host_s_memory_stays_a_copy() -> None:
    lines = """
  %zero = f32[] constant(0)
  %zeros = f32[8]{0} broadcast(%zero), dimensions={}
  ROOT %copy = f32[8]{0:S(5)} copy(%zeros)"""
    assert changed(lines)["copy"] == ("copy", ("zeros",))


def test_a_copy_of_a_row_stays_a_copy() -> None:
    lines = """
  %x = f32[8]{0} parameter(0)
  %rows = f32[4,8]{1,0} broadcast(%x), dimensions={1}
  ROOT %copy = f32[4,8]{1,0} copy(%rows)"""
    assert changed(lines) == {"rows": ("broadcast", ("x",)), "copy": ("copy", ("rows",))}
