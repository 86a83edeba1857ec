"""A machine as JSON: its name, and every field with its value, unit and source."""

from __future__ import annotations

import dataclasses
from typing import Any, cast, get_args

from tilestep.errors import RecordingError, SpecError
from tilestep.machine import describe
from tilestep.machine.assemble import FIELD_KINDS, assemble
from tilestep.machine.fields import QUANTITIES, Basis, FieldSource
from tilestep.machine.spec import MachineSpec
from tilestep.messages import shown

_LONGEST_TEXT = 4000


def machine_document(machine: MachineSpec) -> dict[str, Any]:
    """The machine as plain dicts, lists, texts and numbers."""
    fields = [dataclasses.asdict(entry) for entry in describe(machine)]
    return {"name": machine.name, "description": machine.description, "fields": fields}


def machine_of(document: Any) -> MachineSpec:
    """The machine of `machine_document`. Raises: RecordingError if it describes no machine."""
    table = _object(document, "the machine")
    rows = table.get("fields")
    if not isinstance(rows, list):
        raise RecordingError("the machine of a recording has no list of fields")
    sources = {entry.path: entry for entry in map(_entry, cast("list[Any]", rows))}
    missing = [path for path in QUANTITIES if path not in sources]
    if missing:
        raise RecordingError(f"the machine of a recording lacks {missing[0]}")
    try:
        return assemble(name=_text(table, "name"), description=_text(table, "description"), sources=sources)
    except (SpecError, TypeError) as error:
        raise RecordingError(f"the machine of a recording cannot be: {error}") from None


def _entry(row: Any) -> FieldSource:
    table = _object(row, "a field of the machine")
    path = _text(table, "path")
    if path not in FIELD_KINDS:
        raise RecordingError(f"{shown(path)} is no field of a machine")
    kind, quantity, value = FIELD_KINDS[path], QUANTITIES[path], table.get("value")
    if isinstance(value, bool) or not isinstance(value, (int, float) if kind is float else kind):
        raise RecordingError(f"field {path} of the machine is {shown(value)}: it must be of type {kind.__name__}")
    if isinstance(value, int | float) and not quantity.lowest <= value <= quantity.highest:
        raise RecordingError(f"field {path} of the machine is {shown(value)}: it must be {quantity.lowest:g} to {quantity.highest:g}")
    if isinstance(value, str) and quantity.choices and value not in quantity.choices:
        raise RecordingError(f"field {path} of the machine is {shown(value)}: it must be one of {', '.join(quantity.choices)}")
    basis = _text(table, "basis")
    if basis not in get_args(Basis):
        raise RecordingError(f"the basis of field {path} is {shown(basis)}: it must be one of {', '.join(get_args(Basis))}")
    return FieldSource(path=path, value=kind(value), unit=quantity.unit, source=_text(table, "source"), basis=cast("Basis", basis))


def _object(value: Any, what: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise RecordingError(f"{what} of a recording is {shown(value)}: it must be an object")
    return cast("dict[str, Any]", value)


def _text(table: dict[str, Any], key: str) -> str:
    value = table.get(key)
    if not isinstance(value, str) or len(value) > _LONGEST_TEXT:
        raise RecordingError(f"{key} of the machine of a recording is {shown(value)}: it must be a text of at most {_LONGEST_TEXT:,} characters")
    return value
