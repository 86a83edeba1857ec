"""Machines by name, or from a TOML file that lists differences from a named one (docs/reference/machines.md)."""

import os
import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from tilestep.errors import SpecError
from tilestep.files import read_file
from tilestep.machine.assemble import FIELD_KINDS, assemble, describe
from tilestep.machine.catalog import machine_names, named_machine
from tilestep.machine.fields import QUANTITIES, FieldSource
from tilestep.machine.spec import MachineSpec
from tilestep.messages import nearest, plain, shown

_MOST_FILE_BYTES: Final = 2**20  # some hundred times the size of a file with every field
_MOST_BARE: Final = 2**16  # characters of it beside strings, comments and blanks; one with every field has 2,000
_MOST_KEY_PARTS: Final = 32  # tomllib takes a time that grows with the square of their number
_MOST_NUMBER_CHARACTERS: Final = 1000  # or those of a bare key; Python refuses to read numbers of more than 4,300 digits
_STRING_OR_COMMENT: Final = re.compile(  # one that does not end goes to the end of the line, or of the text
    r"""
      \"{3} (?: [^"\\] | \\. | "{1,2}(?!") )*+ (?: "{3,5} | \Z )
    | '{3} (?: [^'] | '{1,2}(?!') )*+ (?: '{3,5} | \Z )
    | " (?: [^"\\\n] | \\[^\n] )*+ "?
    | ' [^'\n]*+ '?
    | \# [^\n]*+
    """,
    re.VERBOSE | re.DOTALL,
)
_DOTTED: Final = re.compile(r"[\w \t.-]+")
_WORD: Final = re.compile(r"\w+")


def read_toml(path: Path) -> dict[str, Any]:
    """The tables of a TOML file.

    Raises: SpecError naming the file, and the line where there is one, if it cannot be read, is too large or is no TOML.
    """
    file = plain(path)
    try:
        text = read_file(path, most_bytes=_MOST_FILE_BYTES).decode("utf-8-sig")  # some editors begin a file with a byte-order mark
    except OSError as error:
        raise SpecError(f"{file}: the machine's description cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise SpecError(f"{file}: this is no TOML: {error}") from error
    _require_bounded(file, text)
    try:
        return tomllib.loads(text)
    except RecursionError:  # without its thousand frames
        raise SpecError(f"{file}: arrays or tables are nested too deep; the deepest table of a machine is [ipu.tile]") from None
    except ValueError as error:  # TOMLDecodeError is one
        raise SpecError(f"{file}: this is no TOML: {plain(error)}") from error


def _require_bounded(file: str, text: str) -> None:
    """Raises: SpecError for keys and numbers that tomllib or Python would take too long for."""
    bare = _STRING_OR_COMMENT.sub(lambda found: "\n" * found[0].count("\n"), text)
    for number, line in enumerate(bare.split("\n"), 1):
        where = f"{file}: line {number}"
        if line.count(".") >= _MOST_KEY_PARTS and max(key.count(".") for key in _DOTTED.findall(line)) >= _MOST_KEY_PARTS:
            raise SpecError(f"{where}: a key has more than {_MOST_KEY_PARTS} parts, where a field of a machine has three at most")
        if len(line) > _MOST_NUMBER_CHARACTERS and max(map(len, _WORD.findall(line)), default=0) > _MOST_NUMBER_CHARACTERS:
            key = plain(line.partition("=")[0].strip()[:100])
            raise SpecError(f"{where}: {key} has more than {_MOST_NUMBER_CHARACTERS:,} digits or letters in a row, which no machine needs")
    size = len("".join(bare.split()))
    if size > _MOST_BARE:
        raise SpecError(f"{file}: keys and values have {size:,} characters beside strings: a machine needs no more than {_MOST_BARE:,}")


_WORDS: Final = ("inherits", "name", "description")  # keys of the file that are no fields
_LONGEST_TEXT: Final = 1000  # characters of a name or description, which every summary and message repeats
_KIND_NAMES = {int: "a whole number", float: "a number", str: "a string"}


def load_machine(
    name_or_path: str,
    *,
    num_ipus: int | None = None,
    num_tiles: int | None = None,
    sync_pattern: str | None = None,
    simulated_ipus: int | None = None,
) -> MachineSpec:
    """The machine of this name in the catalogue, or of this TOML file.

    Args:
        name_or_path: a name of `machine_names()`; else the path of a file, recognised by its suffix .toml, by a directory in it, or because
            the file exists.
        num_ipus: IPUs in all, 1 to 256, instead of the machine's own; several of the same IPU-Machines if one has not enough.
        num_tiles: tiles of each IPU, instead of the machine's own.
        sync_pattern: 'full', 'singlePipeline' or 'replicaAndLadder', instead of the machine's own.
        simulated_ipus: IPUs that are simulated, of which the others do the same; 0: all.

    Raises:
        SpecError: for an unknown name, a file that cannot be read, or a value outside of its bounds.
    """
    path = Path(name_or_path)
    is_file = name_or_path not in machine_names() and (path.suffix == ".toml" or os.sep in name_or_path or _is_there(path))
    machine = _from_file(path) if is_file else named_machine(name_or_path)
    return changed_machine(machine, num_ipus=num_ipus, num_tiles=num_tiles, sync_pattern=sync_pattern, simulated_ipus=simulated_ipus)


def changed_machine(
    machine: MachineSpec,
    *,
    num_ipus: int | None = None,
    num_tiles: int | None = None,
    sync_pattern: str | None = None,
    simulated_ipus: int | None = None,
) -> MachineSpec:
    """The machine with some values changed.

    Args:
        machine: the machine to change.
        num_ipus: IPUs in all, as for `load_machine`; None: as it is.
        num_tiles: tiles of each IPU; None: as it is.
        sync_pattern, simulated_ipus: as for `load_machine`; None: as it is.

    Raises:
        SpecError: for a value outside of its bounds.
    """
    wanted = {
        "num_ipus": ("num_ipus", num_ipus),
        "num_tiles": ("ipu.num_tiles", num_tiles),
        "sync_pattern": ("sync_pattern", sync_pattern),
        "simulated_ipus": ("simulated_ipus", simulated_ipus),
    }
    asked = [
        checked_field(field_path, value, where=f"{machine.name}, asked for with", source=f"asked for: {argument}={plain(value)}")
        for argument, (field_path, value) in wanted.items()
        if value is not None
    ]
    return _with(machine, asked) if asked else machine


def _with(machine: MachineSpec, changes: list[FieldSource], *, name: str = "", description: str = "") -> MachineSpec:
    sources = {entry.path: entry for entry in (*describe(machine), *changes)}
    return assemble(name=name or machine.name, description=description or machine.description, sources=sources)


def _from_file(path: Path) -> MachineSpec:
    file = plain(path)
    tables = read_toml(path)
    for key in _WORDS:
        _require_text(file, key, tables.get(key, "-"))
    inherits = tables.get("inherits")
    if inherits is None:
        raise SpecError(
            f'{file}: it must say which named machine it starts from, as inherits = "bow-2000" (one of {", ".join(machine_names())})'
        )
    if inherits not in machine_names():
        near = nearest(inherits.lower(), machine_names())
        hint = f" (did you mean '{near}'?)" if near else ""
        raise SpecError(
            f"{file}: inherits is {shown(inherits)}, but no machine is called {shown(inherits)}{hint}: it must be one of "
            f"{', '.join(machine_names())}; a file cannot start from another file"
        )
    changes = [
        checked_field(field_path, value, where=f"{file}:", source=file)
        for field_path, value in _flat(file, {key: value for key, value in tables.items() if key not in _WORDS})
    ]
    try:
        base = named_machine(inherits)
        name, description = tables.get("name", plain(path.stem)), tables.get("description", f"{inherits}, changed by {file}")
        return _with(base, changes, name=name, description=description)
    except SpecError as error:
        raise SpecError(f"{file}: {error}") from error


def _require_text(file: str, key: str, value: object) -> None:
    if not isinstance(value, str):
        raise SpecError(f"{file}: {key} is {shown(value)}: it must be a string")
    if not value.strip():
        raise SpecError(f"{file}: {key} is empty: leave it out, or say something")
    if not value.isprintable() or len(value) > _LONGEST_TEXT:
        raise SpecError(f"{file}: {key} is {shown(value)}: it must be one line of at most {_LONGEST_TEXT:,} characters that can be printed")


def _is_there(path: Path) -> bool:
    try:
        return bool(path.name) and path.exists()  # without a name it is a directory
    except (OSError, ValueError):  # no file can have such a name
        return False


def _flat(file: str, table: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """(field path, value) of every key. Raises: SpecError for a key that is no field."""
    for key, value in table.items():
        field_path = prefix + key
        is_table = any(known.startswith(field_path + ".") for known in FIELD_KINDS)
        if is_table and isinstance(value, dict):
            yield from _flat(file, value, field_path + ".")  # TOML's tables have string keys
        elif is_table:
            raise SpecError(f"{file}: {field_path} is {shown(value)}: it must be a table, [{field_path}]")
        elif field_path not in FIELD_KINDS:
            near = nearest(field_path, (*FIELD_KINDS, *(_WORDS if not prefix else ())))
            hint = f"; did you mean '{near}'?" if near else ""
            raise SpecError(f"{file}: {shown(field_path)} is no field of a machine{hint} (`tilestep machines bow-2000` shows them all)")
        else:
            yield field_path, value


def checked_field(field_path: str, value: object, *, where: str, source: str) -> FieldSource:
    """The entry for a value that a user gives.

    Raises: SpecError if it is of another type, or so far out that it must be in another unit.
    """
    kind, quantity = FIELD_KINDS[field_path], QUANTITIES[field_path]
    match value:
        case bool():
            raise _type_error(where, field_path, value, kind)
        case int() | float() if kind is float:
            pass
        case int() | float() | str() if isinstance(value, kind):
            pass
        case _:
            raise _type_error(where, field_path, value, kind)
    if isinstance(value, str):
        if quantity.choices and value not in quantity.choices:
            raise SpecError(f"{where} {field_path} is {shown(value)}: it must be one of {', '.join(quantity.choices)}")
        if not value.strip():
            raise SpecError(f"{where} {field_path} is empty: it must be a name")
        if not value.isprintable() or len(value) > _LONGEST_TEXT:
            raise SpecError(
                f"{where} {field_path} is {shown(value)}: it must be a name of at most {_LONGEST_TEXT:,} characters that can be printed"
            )
    elif not quantity.lowest <= value <= quantity.highest:  # pyrefly: ignore[unsupported-operation]  # nor is a NaN
        raise SpecError(
            f"{where} {field_path} is {shown(value)}: it must be {_number(quantity.lowest)} to {_number(quantity.highest)} {quantity.unit}"
        )
    return FieldSource(path=field_path, value=kind(value), unit=quantity.unit, source=source, basis="assumed")


def _type_error(where: str, field_path: str, value: object, kind: type) -> SpecError:
    unit = QUANTITIES[field_path].unit
    return SpecError(f"{where} {field_path} is {shown(value)}: it must be {_KIND_NAMES[kind]}{f' in {unit}' if unit else ''}")


def _number(value: float) -> str:
    return f"{value:,.0f}" if value == int(value) and abs(value) < 1e7 else f"{value:g}"
