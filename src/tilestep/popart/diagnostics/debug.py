"""Debug contexts: names of operators with the place in the program that made them, and the file that collects them."""

from __future__ import annotations

import itertools
import json
import sys
import weakref
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, final

from tilestep.popart.exceptions import popart_exception

Value = str | list[str] | dict[str, str]


@final
@dataclass(frozen=True)
class SourceLocation:
    """A place in a program."""

    functionName: str
    fileName: str
    lineNumber: int


@dataclass
class _Record:
    """What is known of one step. Attributes: name: of its context alone; parent: number of the step around it, or None."""

    number: int
    name: str
    parent: int | None
    layer: str
    place: SourceLocation | None
    values: dict[str, Value] = field(default_factory=dict[str, Value])


@dataclass
class _Stream:
    """The file that is open. Attributes: ended: records of steps that are over, in the order in which they ended."""

    path: Path | None = None
    numbers: Any = field(default_factory=lambda: itertools.count(1))
    ended: list[_Record] = field(default_factory=list[_Record])
    open: dict[int, _Record] = field(default_factory=dict[int, _Record])

    def begin(self, record: _Record) -> None:
        if self.path is not None:
            self.open[record.number] = record

    def end(self, number: int) -> None:
        record = self.open.pop(number, None)
        if record is not None:
            self.ended.append(record)


_stream: Final = _Stream()  # one for the process, as the original's functions that open and close it have no handle


@final
class DebugInfo:
    """One step of a program's making, which contexts of inner steps name as their parent.

    Args: debugContext: where it belongs, as an object or a name; layer: of the software, such as "model".
    """

    def __init__(self, debugContext: DebugContext | str, layer: str) -> None:
        context = DebugContext(debugContext) if isinstance(debugContext, str) else debugContext
        self._record = _Record(number=next_id(), name=context.name, parent=context.parent, layer=layer, place=context.place)
        self._path = context.getPathName()
        _stream.begin(self._record)
        weakref.finalize(self, _stream.end, self._record.number)

    def setValue(self, name: str, value: Value) -> bool:
        """Notes a value of the step. Returns: True."""
        self._record.values[name] = value
        return True

    def getId(self) -> int:
        """The number of the step."""
        return self._record.number

    def getPathName(self) -> str:
        """Names of the steps around this one and its own, with "/" between them."""
        return self._path


@final
class DebugContext:
    """A name for what is made next, and the place in the program.

    `DebugContext()`, `(name)`, `(name, loc)`, `(debugInfo, name)` and `(debugInfo, name, loc)` are the ways to make one. Without `loc` the
    place is the caller's.

    Attributes: name; parent: number of the step around it, or None; place.
    """

    def __init__(self, *args: Any, **named: Any) -> None:
        debug_info, name, location = _arguments(args, named)
        self.name = name
        self.parent = None if debug_info is None else debug_info.getId()
        frame = sys._getframe(1)  # inspect.stack() reads all files of the stack
        here = SourceLocation(frame.f_code.co_name, frame.f_code.co_filename, frame.f_lineno)
        self.place = here if location is None else location
        around = "" if debug_info is None else debug_info.getPathName()
        self._path = "/".join(filter(None, (around, name)))

    def getPathName(self) -> str:
        """Names of the steps around it and its own, with "/" between them."""
        return self._path


def _arguments(args: tuple[Any, ...], named: Mapping[str, Any]) -> tuple[DebugInfo | None, str, SourceLocation | None]:
    first_is_info = (args and isinstance(args[0], DebugInfo)) or "debugInfo" in named
    order = ("debugInfo", "name", "loc") if first_is_info else ("name", "loc")
    given = {**dict(zip(order, args, strict=False)), **named}
    info, name, location = given.pop("debugInfo", None), given.pop("name", ""), given.pop("loc", None)
    fits = isinstance(name, str) and (location is None or isinstance(location, SourceLocation))
    if given or len(args) > len(order) or not fits:
        raise TypeError(f"DebugContext: incompatible constructor arguments {args}, {dict(named)}")
    return info, name, location


def next_id() -> int:
    """The number of the next step. Nodes of models hold it as `__debug_info_id`."""
    return next(_stream.numbers)


def note(context: str, layer: str, values: Mapping[str, Value]) -> int:
    """Notes a step that is over at once. Returns: its number."""
    number = next_id()
    if _stream.path is not None:
        _stream.ended.append(_Record(number=number, name=context, parent=None, layer=layer, place=None, values=dict(values)))
    return number


def initializePoplarDebugInfo(filename: str, format: str = "json") -> None:
    """Begins to collect debug information for a file, with numbers from 1 on. Args: format: "json".

    Raises: popart_exception for "cbor".
    """
    if format == "cbor":
        raise popart_exception("initializePoplarDebugInfo: format 'cbor' is not written here: use 'json'")
    _stream.path, _stream.numbers = Path(filename), itertools.count(1)
    _stream.ended.clear()
    _stream.open.clear()


def closePoplarDebugInfo() -> None:
    """Writes the file that was begun; steps that are not over come last, the innermost first."""
    if _stream.path is None:
        return
    records = [*_stream.ended, *reversed(_stream.open.values())]
    _stream.path.write_text(json.dumps(_document(records)), encoding="utf-8")
    _stream.path = None


def _document(records: list[_Record]) -> dict[str, Any]:
    texts: dict[str, int] = {}

    def number(text: str) -> int:
        return texts.setdefault(text, len(texts))

    contexts: list[dict[str, Any]] = []
    for record in records:
        context: dict[str, Any] = {"id": record.number, "layer": record.layer, "name": number(record.name), **record.values}
        if record.parent is not None:
            context["parentId"] = record.parent
        if record.place is not None:
            place = record.place
            names = {"fileName": number(place.fileName), "functionName": number(place.functionName)}
            context["location"] = {**names, "lineNumber": place.lineNumber}
        contexts.append(context)
    return {"contexts": contexts, "stringTable": list(texts)}
