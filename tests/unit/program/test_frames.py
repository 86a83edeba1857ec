"""Tables of source lines in the text of a module."""

import pytest

from tests.golden.texts import clean, module_text
from tilestep.errors import HloError
from tilestep.program import HloModule, parse_hlo
from tilestep.program.frames import Frame, without_frames

TABLES = r"""HloModule m

FileNames
1 "/home/me/train.py"
2 "/home/me/gr\303\266\303\237e \"x\".py"

FunctionNames
1 "<module>"
2 "loss"

FileLocations
1 {file_name_id=1 function_name_id=1 line=30 end_line=30 column=0 end_column=0}
2 {file_name_id=2 function_name_id=2 line=7 end_line=8 column=4 end_column=9}

StackFrames
1 {file_location_id=1 parent_frame_id=0}
2 {file_location_id=2 parent_frame_id=1}
"""
MODULE = Frame(file="/home/me/train.py", function="<module>", line=30, column=0, parent=0)
LOSS = Frame(file='/home/me/größe "x".py', function="loss", line=7, column=5, parent=1)


def parsed(head: str = TABLES, metadata: str = 'op_name="jit(f)/add" stack_frame_id=2') -> HloModule:
    lines = f"  %p = f32[4]{{0}} parameter(0)\n  ROOT %r = f32[4]{{0}} add(%p, %p), metadata={{{metadata}}}"
    return parse_hlo(module_text(lines, head=head))


def test_an_instruction_has_its_line_and_the_line_its_caller() -> None:
    module = parsed()
    assert module.entry.root.frame == 2
    assert dict(module.frames) == {1: MODULE, 2: LOSS}


def test_numbers_of_parents_may_be_one_too_high_as_jaxlib_prints_them() -> None:
    shifted = TABLES.replace("parent_frame_id=1", "parent_frame_id=2").replace("parent_frame_id=0", "parent_frame_id=1")
    assert dict(parsed(shifted).frames) == {1: MODULE, 2: LOSS}


@pytest.mark.parametrize(
    ("metadata", "frame"),
    [
        ("stack_frame_id=2", 2),
        ('op_type="a" op_name="b" stack_frame_id=1', 1),
        ('op_name="stack_frame_id=1" source_line=3 stack_frame_id=2', 2),
        (r'op_name="s[\'a\'] stack_frame_id=1"', 0),
        ('op_name="a" source_file="x stack_frame_id=1" source_line=3', 0),
        (f'op_name="a" stack_frame_id={"9" * 5000}', 0),
        ("", 0),
    ],
)
def test_the_number_of_a_line_is_found_among_other_metadata(metadata: str, frame: int) -> None:
    assert parsed(metadata=metadata).entry.root.frame == frame


def test_a_text_without_tables_has_no_lines() -> None:
    module = parsed("HloModule m")
    assert (module.entry.root.frame, dict(module.frames)) == (2, {})


def test_rows_that_refer_to_no_row_have_unknown_parts() -> None:
    head = TABLES.replace("file_name_id=2", "file_name_id=9").replace("function_name_id=2", "function_name_id=9")
    assert parsed(head).frames[2] == Frame(file="", function="", line=7, column=5, parent=1)
    head = TABLES.replace("{file_location_id=2", "{file_location_id=7")
    assert parsed(head).frames[2] == Frame(file="", function="", line=0, column=0, parent=1)


def test_a_name_may_have_any_characters_and_the_program_behind_it_is_read() -> None:
    head = TABLES.replace('"loss"', '"a\\"\n%x {\nENTRY\n}"')  # XLA leaves line breaks as they are
    module = parsed(head)
    assert module.frames[2].function == 'a"\n%x {\nENTRY\n}'
    assert [i.opcode for i in module.entry.instructions] == ["parameter", "add"]


def test_errors_below_the_tables_name_the_right_line() -> None:
    text = module_text("  ROOT %r = nonsense", head=TABLES)
    line = text.split("\n").index("  ROOT %r = nonsense") + 1
    with pytest.raises(HloError, match=rf"^line {line}: "):
        parse_hlo(text)


def test_what_replaces_an_operation_keeps_its_line() -> None:
    computations = """%two (a: f32[4]) -> f32[4] {
  %a = f32[4]{0} parameter(0)
  %twice = f32[4]{0} add(%a, %a), metadata={op_name="jit(f)/add" stack_frame_id=1}
  ROOT %minus = f32[4]{0} negate(%twice)
}"""
    lines = """  %x = f32[4]{0} parameter(0)
  %s = f32[4]{0} all-reduce-start(%x), replica_groups={}, to_apply=%two
  %d = f32[4]{0} all-reduce-done(%s), metadata={op_name="jit(f)/psum" stack_frame_id=1}
  ROOT %r = f32[4]{0} call(%d), to_apply=%two, metadata={op_name="jit(f)/two" stack_frame_id=2}"""
    entry = clean(parse_hlo(module_text(lines, computations=computations, head=TABLES))).entry
    assert [(i.opcode, i.frame) for i in entry.instructions[1:]] == [("all-reduce", 1), ("add", 1), ("negate", 2)]


def test_an_erf_that_was_taken_apart_keeps_its_line() -> None:
    erf = """  %x = f32[4]{0} parameter(0)
  %a = f32[4]{0} multiply(%x, %x), metadata={op_name="jit(f)/erf" stack_frame_id=2}
  ROOT %b = f32[4]{0} add(%a, %x), metadata={op_name="jit(f)/erf" stack_frame_id=2}"""
    entry = clean(parse_hlo(module_text(erf, head=TABLES))).entry
    assert [(i.opcode, i.leaves[0].dtype, i.frame) for i in entry.instructions[1:]] == [("erf", "f32", 2)]


def test_the_tables_can_be_taken_out_of_a_text() -> None:
    text = 'HloModule m\n\nFileNames\n1 "/home/me/train.py"\n\nFunctionNames\n1 "loss"\n\n\nENTRY %main () -> f32[] {\n}\n'
    assert without_frames(text) == "HloModule m\n\nENTRY %main () -> f32[] {\n}\n"
    assert without_frames("HloModule m\n\nENTRY %main {\n}\n") == "HloModule m\n\nENTRY %main {\n}\n"
    assert without_frames("HloModule m") == "HloModule m"
