"""Planned programs as JSON, so that another process need not plan them again. `typed_json` checks what it reads."""

from typing import Any

from tilestep import typed_json
from tilestep.errors import StoredError
from tilestep.messages import shown
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
    return _with_frames_checked(typed_json.load(text, steps.Program, _CLASSES, _WHAT))


def program_of(record: Any) -> steps.Program:
    """The program of a record that was JSON. Raises: as `load_program`."""
    return _with_frames_checked(typed_json.checked(record, steps.Program, _CLASSES, _WHAT))


def _with_frames_checked(program: steps.Program) -> steps.Program:
    _check_frames(program.body, len(program.frames))
    for index, frame in enumerate(program.frames):
        if not 0 <= frame.parent <= index:
            raise StoredError(f"{_WHAT} has {frame.parent} as program.frames[{index}].parent: it must be from 0 to {index}")
    return program


def _check_frames(node: steps.Node, count: int) -> None:
    """Raises: StoredError if a node names a frame that is not there."""
    match node:
        case steps.Series(nodes=nodes):
            for child in nodes:
                _check_frames(child, count)
            return
        case steps.Loop(body=body):
            _check_frames(body, count)
        case steps.Branch(arms=arms):
            for arm in arms:
                _check_frames(arm, count)
        case _:
            pass
    if not 0 <= node.frame <= count:
        raise StoredError(f"{_WHAT} has {node.frame} as frame of {shown(node.name)}: it must be from 0 to {count}")
