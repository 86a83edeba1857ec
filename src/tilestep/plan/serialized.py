"""Planned programs as JSON, so that another process need not plan them again. `typed_json` checks what it reads."""

from __future__ import annotations

from typing import Any

from tilestep import typed_json
from tilestep.plan import steps

_CLASSES = typed_json.classes_of(steps)
_WHAT = "a stored plan"


def dump_program(program: steps.Program) -> str:
    """The program as JSON text; equal programs give equal text."""
    return typed_json.dump(program)


def load_program(text: str | bytes) -> steps.Program:
    """The program that `dump_program` wrote.

    Raises: StoredError if the text is no JSON, or has another form than this version of the package writes.
    """
    return typed_json.load(text, steps.Program, _CLASSES, _WHAT)


def program_of(record: Any) -> steps.Program:
    """The program of a record that was JSON. Raises: as `load_program`."""
    return typed_json.checked(record, steps.Program, _CLASSES, _WHAT)
