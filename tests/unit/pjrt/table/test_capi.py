"""One description of PJRT's C layout, three views of it: the text, ctypes, and what the C compiler made of it."""

import ctypes
import re
from pathlib import Path

import pytest

from scripts import generate_capi
from tilestep.pjrt import _native
from tilestep.pjrt.table import capi
from tilestep.profiling import plugin

ROOT = Path(__file__).resolve().parents[4]


def test_generated_files_are_what_the_description_gives() -> None:
    assert list(generate_capi.stale()) == [], "run python scripts/generate_capi.py"


def test_every_struct_of_the_description_is_used() -> None:
    sources = [path for pattern in ("*.py", "*.[ch]") for path in (ROOT / "src/tilestep/pjrt").rglob(pattern)]
    texts = [path.read_text(encoding="utf-8") for path in sources if path.name not in ("capi.py", "pjrt_layout.h")]
    structs = generate_capi.read(generate_capi.SOURCE.read_text(encoding="utf-8")).structs
    used = {word for text in texts for word in re.findall(r"\w+", text)} | {"PJRT_Api_Version"}  # the table begins with it
    used |= {f"{function}_Args" for text in texts for function in re.findall(r'(?:@entry_point|answers)\(\s*"(\w+)"', text)}
    used |= {kind for struct in structs for _, kind in (*struct.fields, *struct.union)}
    assert [struct.name for struct in structs if struct.name not in used] == []


def test_ctypes_and_the_c_compiler_agree_on_every_struct_and_field() -> None:
    facts = _native.layout_facts()
    assert {struct for struct, _, _ in facts} == {struct.__name__ for struct in capi.STRUCTS}
    for struct, field, value in facts:
        kind = getattr(capi, struct)
        found = ctypes.sizeof(kind) if not field else getattr(kind, field).offset
        assert found == value, f"{struct}.{field or 'size'}: ctypes says {found}, the C compiler {value}"


def _field_of(function: str) -> str:
    """PLUGIN_Profiler_collect_data, of PLUGIN_Profiler_CollectData: the profiler's table is a struct of fields."""
    name = function.removeprefix("PLUGIN_Profiler_").replace("_", "")
    return "PLUGIN_Profiler_" + re.sub("(?<=[a-z])(?=[A-Z])", "_", name).lower()


def test_the_profilers_table_has_the_size_that_jaxlib_compares() -> None:
    assert ctypes.sizeof(capi.PLUGIN_Profiler_Api) == 80  # another size ends the process with the session
    assert ctypes.sizeof(capi.PJRT_Profiler_Extension) == 40
    assert ctypes.sizeof(capi.PLUGIN_Profiler_CollectData_Args) == 32


def test_every_entry_with_arguments_of_ours_is_in_a_table() -> None:
    known = {entry for entries in capi.TABLES.values() for entry in entries}
    known |= {f"PLUGIN_Profiler_{field}" for field, _ in capi.PLUGIN_Profiler_Api._fields_}
    ours = {s.__name__.removesuffix("_Args") for s in capi.STRUCTS if s.__name__.endswith("_Args") and "_Api_" not in s.__name__}
    ours = {_field_of(name) if name.startswith("PLUGIN_Profiler_") else name for name in ours}
    not_functions = {name for name in ours if name not in known}
    assert not not_functions, f"structs named like arguments of functions that do not exist: {sorted(not_functions)}"


def test_an_entry_that_nobody_wrote_is_an_error_that_names_it() -> None:
    plugin.initialize()

    class Table(ctypes.Structure):
        _fields_ = (("head", ctypes.c_byte * (8 + 8 + ctypes.sizeof(capi.PJRT_Api_Version))), ("entries", ctypes.c_void_p * 160))

    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    table = Table.from_address(pointer(_native.capsule(), b"pjrt_c_api"))
    index = capi.TABLES["PJRT_Api"].index("PJRT_Client_DmaMap")
    error = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)(table.entries[index])(None)
    message = capi.PJRT_Error_Message_Args(error=error)
    ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)(table.entries[1])(ctypes.addressof(message))
    assert message.message is not None
    text = ctypes.string_at(message.message, message.message_size).decode()
    ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)(table.entries[0])(ctypes.addressof(capi.PJRT_Error_Destroy_Args(error=error)))
    assert "PJRT_Client_DmaMap is not implemented" in text


ROWS = _native.Layout(b"{0}")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((1, (2, 3), (0,), 24, ROWS), "another rank"),
        ((1, [2], (0,), 8, ROWS), "must be tuple"),
        ((1, (2,), (0,), 8, "{0}"), "must be tilestep.pjrt._native.Layout"),
    ],
)
def test_a_shape_refuses_what_is_no_shape(arguments: tuple[object, ...], message: str) -> None:
    with pytest.raises((ValueError, TypeError), match=message):
        _native.Shape(*arguments)  # type: ignore[arg-type]  # bad on purpose
