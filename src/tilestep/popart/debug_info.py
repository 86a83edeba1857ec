"""DebugContext and DebugInfo: who asked for a part of a program, and the file that lists it.

`initializePoplarDebugInfo(filename)` begins a list, and `closePoplarDebugInfo()` writes it: a JSON object with "contexts", the last first,
and the "stringTable" into which their numbers point.
"""

from __future__ import annotations

import inspect
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, final, overload

from tilestep.popart.exceptions import popart_exception


@final
@dataclass(frozen=True)
class SourceLocation:
    """A place in a program's source. Args: functionName, fileName, lineNumber: where it is."""

    functionName: str
    fileName: str
    lineNumber: int


@final
class DebugContext:
    """A name, and where it was given.

    `DebugContext()`, `DebugContext(name[, loc])` and `DebugContext(debugInfo, name[, loc])` are the ways to make one; without `loc` the
    caller's line is taken.

    Attributes:
        name: may be "".
        location: where it was given.
        parent: what it is a part of; None: of nothing.
    """

    @overload
    def __init__(self, name: str = "", loc: SourceLocation | None = None) -> None: ...
    @overload
    def __init__(self, debugInfo: DebugInfo, name: str, loc: SourceLocation | None = None) -> None: ...
    def __init__(self, *given: Any, **named: Any) -> None:
        values = {**dict(zip(("debugInfo", "name", "loc") if _nested(given, named) else ("name", "loc"), given, strict=False)), **named}
        name, location = values.get("name", ""), values.get("loc")
        if not isinstance(name, str) or values.keys() - {"debugInfo", "name", "loc"} or len(given) > 3:
            raise TypeError(f"DebugContext: incompatible constructor arguments {given!r}, {named!r}")
        self.name: Final = name
        self.parent: Final[DebugInfo | None] = values.get("debugInfo")
        self.location: Final[SourceLocation] = _caller() if location is None else location

    @property
    def pathName(self) -> str:
        """Its name behind those of what it is a part of, with "/" between."""
        above = self.parent.context.pathName if self.parent is not None else ""
        return "/".join(part for part in (above, self.name) if part)


@final
class DebugInfo:
    """Facts about a part of a program, which the list gets while one is kept.

    Args:
        debugContext: who asked for it, or a name.
        layer: the part of the library that made it.
    """

    def __init__(self, debugContext: DebugContext | str, layer: str) -> None:
        self.context: Final = DebugContext(debugContext, _caller()) if isinstance(debugContext, str) else debugContext
        self.layer: Final = layer
        self.values: Final[dict[str, Any]] = {}
        self._id = _LIST.add(self)

    def setValue(self, name: str, value: Any) -> bool:
        """Adds a fact. Args: value: a text, or a list of texts. Returns: whether a list is kept that will have it."""
        self.values[name] = value
        return _LIST.file is not None

    def getId(self) -> int:
        """Its number in the list, from 1."""
        return self._id


@dataclass
class _List:
    """The list of the process. Attributes: file: where it goes; None: none is kept. infos: in the order in which they were made."""

    file: Path | None = None
    infos: list[DebugInfo] = field(default_factory=list[DebugInfo])
    next_id: int = 1

    def add(self, info: DebugInfo) -> int:
        number = self.next_id
        self.next_id += 1
        if self.file is not None:
            self.infos.append(info)
        return number

    def text(self) -> str:
        strings: dict[str, int] = {}

        def at(text: str) -> int:
            return strings.setdefault(text, len(strings))

        contexts = [
            {
                "id": info.getId(),
                "name": at(info.context.name),
                "layer": info.layer,
                "location": {
                    "functionName": at(info.context.location.functionName),
                    "fileName": at(info.context.location.fileName),
                    "lineNumber": info.context.location.lineNumber,
                },
                **({} if info.context.parent is None else {"parentId": info.context.parent.getId()}),
                **info.values,
            }
            for info in reversed(self.infos)
        ]
        return json.dumps({"contexts": contexts, "stringTable": list(strings)})


_LIST: Final = _List()


def initializePoplarDebugInfo(filename: str, format: str = "json") -> None:
    """Begins a list of what programs are made of.

    Args:
        filename: where `closePoplarDebugInfo` writes it.
        format: "json".
    Raises: popart_exception for another format.
    """
    if format != "json":
        raise popart_exception(f'Debug information is written as "json", not as {format!r}')
    _LIST.file, _LIST.infos, _LIST.next_id = Path(filename), [], 1


def closePoplarDebugInfo() -> None:
    """Writes the list that was begun, and keeps none from here on. Nothing happens if none was begun."""
    if _LIST.file is not None:
        _LIST.file.write_text(_LIST.text(), encoding="utf-8")
    _LIST.file, _LIST.infos = None, []


def _nested(given: tuple[Any, ...], named: dict[str, Any]) -> bool:
    return "debugInfo" in named or (bool(given) and isinstance(given[0], DebugInfo))


def _caller() -> SourceLocation:
    """The nearest line of the stack outside of this file."""
    frame = inspect.currentframe()
    while frame is not None and frame.f_code.co_filename == __file__:
        frame = frame.f_back
    if frame is None:
        return SourceLocation("", "", 0)
    return SourceLocation(frame.f_code.co_name, frame.f_code.co_filename, frame.f_lineno)
