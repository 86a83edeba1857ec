"""Makes the ctypes and the C side of PJRT's layout from one description.

python scripts/generate_capi.py    writes src/tilestep/pjrt/table/capi.py and src/tilestep/pjrt/native/pjrt_layout.h

The build does the same (setup.py), before any of its commands looks for them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

PJRT = Path(__file__).resolve().parent.parent / "src" / "tilestep" / "pjrt"
SOURCE = PJRT / "native" / "pjrt_layout.txt"
CTYPES = {"ptr": "c_void_p", "size": "c_size_t", "i32": "c_int32", "i64": "c_int64", "u64": "c_uint64", "f32": "c_float", "bool": "c_bool"}
PYTHON = {"ptr": "int | None", "size": "int", "i32": "int", "i64": "int", "u64": "int", "f32": "float", "bool": "bool"}
C = {"ptr": "void*", "size": "size_t", "i32": "int32_t", "i64": "int64_t", "u64": "uint64_t", "f32": "float", "bool": "bool"}
HEAD = "made by scripts/generate_capi.py from pjrt_layout.txt; do not edit"


@dataclass(frozen=True, kw_only=True)
class Struct:
    """A struct: fields in C order; a field without a name is a union of the fields in `union`."""

    name: str
    fields: tuple[tuple[str, str], ...]
    union: tuple[tuple[str, str], ...] = ()
    union_at: int = -1


@dataclass(frozen=True, kw_only=True)
class Layout:
    """The whole description."""

    version: tuple[int, int]
    enums: tuple[tuple[str, int], ...]
    structs: tuple[Struct, ...]
    tables: tuple[tuple[str, tuple[str, ...]], ...]


def read(text: str) -> Layout:
    """Reads the description. Raises: ValueError naming the line."""
    version, enums, structs, tables = (0, 0), [], [], []
    entries: list[str] | None = None
    for number, raw in enumerate(text.splitlines(), 1):
        line = raw.strip()
        if not line or line.startswith("#"):
            continue
        word, _, rest = line.partition(" ")
        if word == "version":
            major, minor = rest.split()
            version = (int(major), int(minor))
        elif word == "enum":
            name, *values = rest.split()
            enums += [(f"PJRT_{name}_{value.split('=')[0]}", int(value.split("=")[1])) for value in values]
        elif word in ("struct", "args"):
            structs.append(_struct(word, rest))
        elif word == "table":
            entries = []
            tables.append((rest, entries))
        elif entries is not None and not rest:
            entries.append(word)
        else:
            raise ValueError(f"{SOURCE.name}:{number}: {line!r} is no line of the description")
    return Layout(version=version, enums=tuple(enums), structs=tuple(structs), tables=tuple((n, tuple(e)) for n, e in tables))


def _struct(word: str, rest: str) -> Struct:
    name, _, body = rest.partition(" ")
    fields = [("struct_size", "size"), ("extension_start", "ptr")] if word == "args" else []
    union: list[tuple[str, str]] = []
    at = -1
    for part in re.findall(r"\{[^}]*\}|\S+", body):
        pairs = [tuple(item.split(":")) for item in part.strip("{}").split()]
        if part.startswith("{"):
            at, union = len(fields), pairs
        else:
            fields += pairs
    return Struct(name=name, fields=tuple(fields), union=tuple(union), union_at=at)


def ctypes_text(layout: Layout) -> str:
    """Text of capi.py."""
    out = [f'"""PJRT\'s C layout as ctypes: {HEAD}."""', "", "from __future__ import annotations", ""]
    out += ["from ctypes import Structure, Union, c_bool, c_float, c_int32, c_int64, c_size_t, c_uint64, c_void_p", ""]
    out += [f"VERSION = {layout.version!r}", ""]
    out += [f"{name} = {value}" for name, value in layout.enums]
    for struct in layout.structs:
        members = list(struct.fields)
        extra = ""
        annotated = list(struct.fields)
        if struct.union:
            union = f"_{struct.name}_Union"
            out += ["", "", f"class {union}(Union):"]
            out += [f"    {n}: {PYTHON.get(t, t)}" for n, t in struct.union]
            out += ["    _fields_ = (", *[f'        ("{n}", {CTYPES.get(t, t)}),' for n, t in struct.union], "    )"]
            members.insert(struct.union_at, ("u", union))
            annotated += list(struct.union)
            extra = '    _anonymous_ = ("u",)\n'
        out += ["", "", f"class {struct.name}(Structure):"]
        out += [f"    {n}: {PYTHON.get(t, t)}" for n, t in annotated]
        out += [extra + "    _fields_ = (", *[f'        ("{n}", {CTYPES.get(t, t)}),' for n, t in members], "    )"]
    out += ["", "", "TABLES = {"]
    for name, entries in layout.tables:
        out += [f'    "{name}": (', *[f'        "{entry}",' for entry in entries], "    ),"]
    out += ["}", "STRUCTS: tuple[type[Structure], ...] = (", *[f"    {s.name}," for s in layout.structs], ")"]
    return "\n".join(out) + "\n"


def c_text(layout: Layout) -> str:
    """Text of pjrt_layout.h."""
    out = [f"/* PJRT's C layout: {HEAD}. */", "#ifndef TILESTEP_PJRT_LAYOUT_H", "#define TILESTEP_PJRT_LAYOUT_H"]
    out += ["#include <stdbool.h>", "#include <stddef.h>", "#include <stdint.h>", ""]
    out += [f"#define TILESTEP_PJRT_MAJOR {layout.version[0]}", f"#define TILESTEP_PJRT_MINOR {layout.version[1]}", "", "enum {"]
    out += [f"  {name} = {value}," for name, value in layout.enums] + ["};"]
    checked = []
    for struct in layout.structs:
        out += ["", "typedef struct {"]
        members = [f"  {C.get(t, t)} {n};" for n, t in struct.fields]
        if struct.union:
            union = "  union { " + " ".join(f"{C.get(t, t)} {n};" for n, t in struct.union) + " };"
            members.insert(struct.union_at, union)
        out += [*members, f"}} {struct.name};"]
        checked.append((struct.name, [n for n, _ in (*struct.fields, *struct.union)]))
    for name, entries in layout.tables:
        version = ["  PJRT_Api_Version pjrt_api_version;"] if name == "PJRT_Api" else []
        head = ["  size_t struct_size;", "  void* extension_start;"] if name == "PJRT_Api" else ["  PJRT_Extension_Base base;"]
        out += ["", "typedef struct {", *head, *version, *[f"  void* {entry};" for entry in entries], f"}} {name};"]
    out += ["", "/* name of the struct, name of the field ('' is the struct's size), offset or size */"]
    out += ["typedef struct { const char* name; const char* field; size_t value; } tilestep_layout_fact;"]
    out += ["static const tilestep_layout_fact tilestep_layout_facts[] = {"]
    for name, fields in checked:
        out += [f'  {{"{name}", "", sizeof({name})}},']
        out += [f'  {{"{name}", "{n}", offsetof({name}, {n})}},' for n in fields]
    out += ["  {0, 0, 0},", "};", ""]
    for name, entries in layout.tables:
        out += [f"/* X(index, entry) for each entry of {name} */", f"#define TILESTEP_{name}_ENTRIES(X) \\"]
        out += [" \\\n".join(f"  X({i}, {entry})" for i, entry in enumerate(entries)), ""]
    return "\n".join([*out, "#endif"]) + "\n"


def stale() -> dict[Path, str]:
    """The generated files that are missing or differ from what the description gives, with the text that they should have."""
    layout = read(SOURCE.read_text(encoding="utf-8"))
    texts = {PJRT / "table" / "capi.py": ctypes_text(layout), PJRT / "native" / "pjrt_layout.h": c_text(layout)}
    return {path: text for path, text in texts.items() if not path.exists() or path.read_text(encoding="utf-8") != text}


def write() -> None:
    """Writes what is stale. A file that is up to date keeps its time, so nothing is compiled again because of it."""
    for path, text in stale().items():
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write()
