"""Planned programs as JSON, so that another process need not plan them again.

The text may come from anywhere, so nothing in it names code. The first item of a record picks one of the classes of `plan.steps`, and
every field is checked against the type that its class declares.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import types
import typing
from typing import Any

from tilestep.errors import StoredError
from tilestep.messages import shown
from tilestep.plan import steps

_CLASSES = {name: cls for name, cls in vars(steps).items() if isinstance(cls, type) and dataclasses.is_dataclass(cls)}


def dump_program(program: steps.Program) -> str:
    """The program as JSON text; equal programs give equal text."""
    return json.dumps(_plain(program), separators=(",", ":"))


def load_program(text: str | bytes) -> steps.Program:
    """The program that `dump_program` wrote.

    Raises: StoredError if the text is no JSON, or has another form than this version of the package writes.
    """
    try:
        record = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise StoredError(f"a stored plan is no JSON: {error}") from None
    try:
        program: steps.Program = _checked(record, steps.Program, "program")
        _check_frames(program.body, len(program.frames))
    except RecursionError:  # without its thousand frames
        raise StoredError("a stored plan has records nested too deep: loops within loops as no program of JAX has them") from None
    for index, frame in enumerate(program.frames):
        if not 0 <= frame.parent <= index:
            raise StoredError(f"a stored plan has {frame.parent} as program.frames[{index}].parent: it must be from 0 to {index}")
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
        raise StoredError(f"a stored plan has {node.frame} as frame of {shown(node.name)}: it must be from 0 to {count}")


def _plain(value: Any) -> Any:
    """A record is [class, field, field, ...]."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return [type(value).__name__, *(_plain(getattr(value, name)) for name, _ in _fields(type(value)))]
    if isinstance(value, tuple):
        return [_plain(item) for item in typing.cast("tuple[Any, ...]", value)]
    return value


@functools.cache
def _fields(cls: type) -> tuple[tuple[str, Any], ...]:
    """(name, type) of each field."""
    hints = typing.get_type_hints(cls)
    return tuple((field.name, hints[field.name]) for field in dataclasses.fields(cls))


def _checked(value: Any, declared: Any, where: str) -> Any:
    """`value` as its declared type. Raises: StoredError naming the field."""
    origin, arguments = typing.get_origin(declared), typing.get_args(declared)
    if isinstance(declared, type) and declared.__name__ in _CLASSES:
        return _record(value, (declared,), where)
    if origin in (types.UnionType, typing.Union):
        classes = tuple(choice for choice in arguments if isinstance(choice, type) and choice.__name__ in _CLASSES)
        if classes:
            return _record(value, classes, where)
        if value is None and types.NoneType in arguments:
            return None
        (only,) = (choice for choice in arguments if choice is not types.NoneType)
        return _checked(value, only, where)
    items = _items(value)
    if origin is tuple and items is not None:
        if len(arguments) == 2 and arguments[1] is Ellipsis:
            return tuple(_checked(item, arguments[0], f"{where}[{i}]") for i, item in enumerate(items))
        if len(items) == len(arguments):
            return tuple(_checked(item, choice, f"{where}[{i}]") for i, (item, choice) in enumerate(zip(items, arguments, strict=True)))
    if origin is typing.Literal and value in arguments:
        return value
    if declared in (int, str, bool) and type(value) is declared:
        return value
    raise StoredError(f"a stored plan has {shown(value)} as {where}: it must be {getattr(declared, '__name__', declared)}")


def _items(value: Any) -> list[Any] | None:
    return typing.cast("list[Any]", value) if isinstance(value, list) else None


def _record(value: Any, classes: tuple[type, ...], where: str) -> Any:
    names = [cls.__name__ for cls in classes]
    record = _items(value)
    if not record or record[0] not in names:
        raise StoredError(f"a stored plan has {shown(value)} as {where}: it must be a record of {' or '.join(names)}")
    name, *items = record
    fields = _fields(_CLASSES[name])
    if len(items) != len(fields):
        raise StoredError(f"a stored plan has {len(items)} fields in {where}: {name} has {len(fields)}")
    return _CLASSES[name](
        **{field: _checked(item, declared, f"{where}.{field}") for (field, declared), item in zip(fields, items, strict=True)}
    )
