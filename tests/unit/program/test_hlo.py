"""The reader of XLA's text form: what it finds, and what it says when it does not understand."""

import re

import pytest

from tests.golden.texts import hlo_text, module_text
from tests.together import each
from tilestep.errors import HloError
from tilestep.program import ArrayShape, parse_hlo
from tilestep.program.context import Context
from tilestep.program.product_attributes import with_attributes
from tilestep.program.shapes import array_of
from tilestep.program.work import DTYPE_BITS


def instruction(line: str, *, before: str = ""):
    """One parsed instruction, the root of an entry of its own."""
    return parse_hlo(module_text(f"{before}\n  ROOT %r = {line}")).entry.root


def test_a_type_has_as_many_bits_as_its_name_says() -> None:
    assert {name: bits for name, bits in DTYPE_BITS.items() if name not in ("pred", "token", "opaque")} == {
        name: int(found[0]) for name in DTYPE_BITS if (found := re.search(r"\d+", name))
    }


def test_a_module_has_its_computations_entry_and_parameters_in_order() -> None:
    module = parse_hlo(hlo_text("mlp_train_step"))
    assert module.name == "jit_mlp_step"
    assert [parameter.op_name for parameter in module.entry.parameters] == ["params['b1']", "params['w1']", "params['w2']", "x", "y"]
    assert module.entry.root.opcode == "tuple"
    assert module.entry.by_name["dot_general.5"].operands == ("x.1", "params__w1__.1")
    assert {"region_0.2", module.entry.name} < set(module.computations)


def test_donated_arguments_are_read_from_the_header() -> None:
    module = parse_hlo(hlo_text("mlp_train_step"))
    assert dict(module.input_output_aliases) == {0: 0, 1: 1, 2: 2}


def test_the_alias_of_a_single_result_and_a_buffer_donor_are_read() -> None:
    head = (
        "HloModule m, input_output_alias={ {}: (1, {}, must-alias) }, buffer_donor={ (0, {}) }, "
        "entry_computation_layout={(f32[2]{0}, f32[2]{0:S(5)})->f32[2]{0}}, replica_count=2, num_partitions=4"
    )
    module = parse_hlo(module_text("  %a = f32[2]{0} parameter(0)\n  ROOT %b = f32[2]{0} parameter(1)", head=head))
    assert dict(module.input_output_aliases) == {0: 1}
    assert module.buffer_donors == (0,)
    assert (module.num_replicas, module.num_partitions) == (2, 4)
    assert module.argument_spaces == (0, 5)
    assert module.result_spaces == (0,)


def test_an_array_has_dtype_dimensions_and_layout() -> None:
    (leaf,) = instruction("bf16[2,<=3,4]{0,2,1:T(8,128)S(1)} iota(), iota_dimension=0").leaves
    assert leaf == ArrayShape("bf16", (2, 3, 4), (0, 2, 1))


def test_tuples_nest_to_any_depth_and_say_where_an_element_lies() -> None:
    found = instruction(
        '(s32[], (f32[2]{0}, token[]), /*index=2*/(), pred[3]{0}) custom-call(%p), custom_call_target="x"',
        before="  %p = f32[] parameter(0)",
    )
    assert [str(leaf) for leaf in found.leaves] == ["s32[]", "f32[2]", "token[]", "pred[3]"]
    assert [found.shape.span(index) for index in range(4)] == [(0, 1), (1, 3), (3, 3), (3, 4)]
    assert found.shape.leaf((1, 1)) == 2
    assert str(found.shape) == "(s32[], (f32[2], token[]), (), pred[3])"


def test_attributes_are_split_at_commas_outside_of_brackets_and_strings() -> None:
    found = instruction(
        'f32[2]{0} custom-call(%p), custom_call_target="a, b=\\"{\\"", slice={[0:1], [0:8]}, replica_groups=[4,2]<=[2,4]T(1,0), '
        'frontend_attributes={tilestep.site="3",other="{x}, y=1"}, metadata={op_type="t" op_name="jit(f)/s[\\\'a\\\']" source_line=3}, '
        'backend_config={"known_trip_count":{"n":"12"},"s":"}"}',
        before="  %p = f32[] parameter(0)",
    )
    assert dict(found.attributes) == {
        "custom_call_target": 'a, b="{"',
        "slice": "{[0:1], [0:8]}",
        "replica_groups": "[4,2]<=[2,4]T(1,0)",
        "frontend_attributes": '{tilestep.site="3",other="{x}, y=1"}',
        "backend_config": '{"known_trip_count":{"n":"12"},"s":"}"}',
    }
    assert found.op_name == "jit(f)/s['a']"
    assert found.frontend_attributes.get("tilestep.site") == "3"
    assert found.frontend_attributes.get("other") == "{x}, y=1"
    assert found.frontend_attributes.get("absent") is None
    assert found.trip_count == 12


def test_a_mesh_keeps_its_device_ids() -> None:
    found = instruction(
        "f32[2]{0} all-reduce(%p), channel_id=1, replica_groups=mesh['a'=2,'b'=2], device_ids=(0,2,1,3) {'b'}, to_apply=%main",
        before="  %p = f32[2]{0} parameter(0)",
    )
    assert found.attributes["replica_groups"] == "mesh['a'=2,'b'=2], device_ids=(0,2,1,3) {'b'}"
    assert found.calls == ("main",)


def test_literals_may_hold_brackets_and_commas() -> None:
    assert instruction("c64[2]{0} constant({(1, 2), (3, -inf)})").literal == "{(1, 2), (3, -inf)}"
    assert instruction('s32[2,1]{1,0} constant({ {1}, {2} }), metadata={op_name="c"}').op_name == "c"


def test_a_name_outside_of_ascii_is_read_from_its_octal_escapes() -> None:
    assert instruction('f32[] parameter(0), metadata={op_name="gr\\303\\266\\303\\237e"}').op_name == "größe"


def test_a_text_may_go_on_in_the_next_line() -> None:
    module = parse_hlo('HloModule m\n\nENTRY %main () -> f32[] {\n  ROOT %r = f32[] constant(1), metadata={op_name="a\nb"}\n}\n')
    assert module.entry.root.op_name == "a\nb"


def test_called_computations_are_found_by_role() -> None:
    module = parse_hlo(hlo_text("while_data"))
    loops = [i for computation in module.computations.values() for i in computation.instructions if i.opcode == "while"]
    (loop,) = loops
    assert loop.trip_count is None
    assert loop.frontend_attributes.get("tilestep.site") == "0"
    assert module.computations[loop.called("condition")[0]].root.leaves[0].dtype == "pred"
    assert module.computations[loop.called("body")[0]].root.opcode == "tuple"
    (branch,) = [i for computation in module.computations.values() for i in computation.instructions if i.opcode == "conditional"]
    assert len(branch.called("branch_computations")) == 2


def test_tables_of_source_locations_are_skipped() -> None:
    text = module_text('  ROOT %r = f32[] constant(1), metadata={op_name="c" stack_frame_id=1}')
    tables = (
        'FileNames\n1 "a.py"\n\nFunctionNames\n1 "<module>"\n\nFileLocations\n1 {file_name_id=1 line=3}\n\nStackFrames\n1 {parent=1}\n\n'
    )
    with_tables = text.replace("\n\n", f"\n\n{tables}", 1)
    assert with_tables != text
    assert parse_hlo(with_tables).entry.root.op_name == "c"


@each(
    "text, message",
    [
        ("module @jit_f {}", r"line 1: the text of a module starts with 'HloModule'"),
        ("HloModule m\n", r"no ENTRY computation"),
        ("HloModule m\n\nENTRY %main () -> f32[] {\n  ROOT %r = f32[] constant(1)\n", r"computation 'main' has no closing"),
        (module_text("  ROOT %r = f32[] constant(1) extra"), r"line 4: expected ', key=value', found ' extra'"),
        (module_text("  what is this"), r"line 4: not an instruction"),
        (module_text("  ROOT %r = q7[2]{0} iota()"), r"line 4: dtype 'q7' is unknown"),
        (module_text("  ROOT %r = f32[2 iota()"), r"line 4: 'f32\[2' is no shape"),
        (module_text("  ROOT %r = f32[] constant(1"), r"line 4: '\(' is never closed"),
        (module_text("  ROOT %r = f32[] parameter(x)"), r"line 4: a parameter needs a number, found 'x'"),
        (module_text("  ROOT %r = f32[] custom-call(), to_apply=%gone"), r"line 4: 'r' calls 'gone', which the module does not have"),
    ],
)
def test_text_that_is_not_understood_is_an_error_that_names_the_line(text: str, message: str) -> None:
    with pytest.raises(HloError, match=message):
        parse_hlo(text)


@each(
    "text, message",
    [
        (module_text("  ROOT %r = f32[2 3]{0} iota()"), r"line 4: 'f32\[2 3\]\{0\}' is no shape"),
        (module_text("  ROOT %r = f32[2,3]{1,,0} iota()"), r"line 4: 'f32\[2,3\]\{1,,0\}' is no shape"),
        (module_text(f"  ROOT %r = f32[{'9' * 5000}] iota()"), r"line 4: 'f32\[999.*' is no shape"),
        (module_text(f"  ROOT %r = {'(' * 200}{')' * 200} iota()"), r"line 4: a shape has more than 100 tuples in each other"),
        (module_text("  ROOT %r = f32[] parameter(\N{SUPERSCRIPT TWO})"), r"line 4: a parameter needs a number, found '²'"),
        (module_text(f"  ROOT %r = f32[] parameter({'9' * 5000})"), r"line 4: a parameter needs a number, found '999"),
        (
            module_text("  ROOT %r = f32[] constant(1)").replace("\n", ", num_partitions=x\n", 1),
            r"line 1: num_partitions is 'x': it must be",
        ),
        (
            module_text("  ROOT %r = f32[] constant(1)").replace("\n", ", input_output_alias={ {3}: (0, {}, may-alias) }\n", 1),
            r"line 1: shape f32\[\] has no element 3",
        ),
    ],
)
def test_numbers_that_are_none_are_errors_of_their_line(text: str, message: str) -> None:
    with pytest.raises(HloError, match=message) as caught:
        parse_hlo(text)
    assert len(str(caught.value)) < 1000


def test_a_string_without_an_end_and_a_word_without_one_are_read_once() -> None:
    """Each quote or letter would look through the rest of its line: a minute for these."""
    for line in ("  ROOT %r = " + "a" * 100_000, "  ROOT %r = f32[] iota(" + '"' + '\\"' * 100_000):
        with pytest.raises(HloError, match="line 4: "):
            parse_hlo(module_text(line))


def test_escapes_that_are_none_stay_as_letters() -> None:
    assert instruction(r'f32[] parameter(0), metadata={op_name="\d \x \8 \ud800 \" \\ \n \101"}').op_name == 'd x 8 ud800 " \\ \n A'


@pytest.mark.parametrize(
    ("text", "dims"),
    [
        ("f32[2,3]{1,0}", (2, 3)),
        ("s32[]", ()),
        ("", None),
        ("(f32[2], f32[3])", None),
        ("x7[2]", None),
        (f"f32[{'9' * 5_000}]", None),  # of a recording that anybody may have made
    ],
)
def test_the_array_of_a_text_is_none_where_there_is_not_one(text: str, dims: tuple[int, ...] | None) -> None:
    found = array_of(text)
    assert (None if found is None else found.dims) == dims


LINES = """
  %x = f32[2,8,8,4]{{3,2,1,0}} parameter(0)
  %k = f32[3,3,4,4]{{3,2,1,0}} parameter(1)
  %y = f32[2,8,8,4]{{3,2,1,0}} convolution(%x, %k), window={{size=3x3 pad=1_1x1_1}}, dim_labels=b01f_01io->b01f{own}
  %v = f32[2,4,8,8]{{1,3,2,0}} bitcast(%y)
  ROOT %r = f32[2,4,8,8]{{1,3,2,0}} {last}"""
MARK = 'frontend_attributes={mark="1"}'
NAME = 'metadata={op_name="conv"}'


@pytest.mark.parametrize(
    ("own", "last", "found"),
    [
        ("", f"copy(%v), {MARK}, {NAME}", '{mark="1"}'),
        ("", f"copy(%v), {NAME}", None),
        ("", f"negate(%v), {MARK}, {NAME}", '{mark="1"}'),
        ("", "negate(%v)", None),
        ("", f"add(%v, %v), {MARK}, {NAME}", None),  # two users: it ends what XLA made, but not for the convolution alone
        (f", {NAME}", f"copy(%v), {MARK}, {NAME}", None),
        (', frontend_attributes={mark="2"}', f"copy(%v), {MARK}, {NAME}", '{mark="2"}'),
    ],
)
def test_attributes_come_from_the_end_of_what_was_made(own: str, last: str, found: str | None) -> None:
    computation = with_attributes(parse_hlo(module_text(LINES.format(own=own, last=last))).entry, Context(computations={}))
    assert computation.by_name["y"].attributes.get("frontend_attributes") == found
    assert computation.root is computation.by_name["r"]
