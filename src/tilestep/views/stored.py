"""The profile of a recording, read back: what its summary says is what the run's own summary said."""

from __future__ import annotations

import dataclasses
import functools
import math
import types
import typing
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, cast

from tilestep.advice import Finding, Gain, Line, Other, Steady, Together
from tilestep.errors import RecordingError
from tilestep.figures.reader import Report
from tilestep.figures.records import Figures
from tilestep.messages import shown
from tilestep.units import seconds_from_cycles
from tilestep.views.summary import render

_ABSENT: Final = {"loaded_on_busiest": (), "loaded_elsewhere": (), "timeline": ()}  # evidence for advice, which has been given
_FIGURES: Final = (  # of the document
    *("machine", "emulated_cycles", "programs", "groups", "reshaped", "batches", "supersteps", "busiest_ipu", "num_ipus_used"),
    *("cycles_by_kind", "io_tiles_cycles", "dispatches", "dispatch_cycles", "assumptions", "refused", "interval", "ended_by"),
)


@dataclass(frozen=True, kw_only=True)
class StoredProfile:
    """The figures of a recording, and the advice that was given on them."""

    figures: Figures
    findings: tuple[Finding, ...]
    together: Together | None
    steady: Steady | None

    def summary(self, *, width: int, before: Sequence[Finding] = ()) -> str:
        """The text of `Profile.summary`. Args: before: findings that come first, about programs that did not fit."""
        return render(self.figures, self.findings, self.steady, before=before, together=self.together, width=width, color=False)


def stored_profile(report: Report) -> StoredProfile | None:
    """The profile of a recording; None if it has none. Raises: RecordingError if it is damaged, or of a newer form."""
    document = report.profile
    if not document.get("schema"):
        return None
    try:
        read = _Reader(document)
        return StoredProfile(figures=read.figures(), findings=read.findings(), together=read.together(), steady=read.steady())
    except (_DamagedError, ArithmeticError) as error:
        raise RecordingError(f"the profile of {report.where} is damaged: {error}") from None


class _DamagedError(Exception):
    """Something of the document has another form than it should."""


class _Reader:
    """Args: document: of `Profile.as_document`, from anybody."""

    def __init__(self, document: Mapping[str, Any]) -> None:
        self._document = document

    def figures(self) -> Figures:
        document = dict(self._document)
        kinds = document.get("cycles_by_kind")
        if isinstance(kinds, dict):
            document["cycles_by_kind"] = {kind: cycles for kind, cycles in cast("dict[str, Any]", kinds).items() if kind != "idle"}
        found: Figures = _record({name: document.get(name) for name in _FIGURES if name in document}, Figures, "profile", **_ABSENT)
        keys = {program.key for program in found.programs}
        steps = cast("list[dict[str, Any]]", document["supersteps"])
        if any(step.key not in keys for step in found.supersteps):
            raise _DamagedError("a superstep is of a program that it has not")
        operations = {str(step.get("scope")): str(step.get("operation") or "") for step in steps}

        def operation_of(scope: str) -> str:
            return operations.get(scope, "")

        return replace(found, operation_of=operation_of)

    def findings(self) -> tuple[Finding, ...]:
        found = self._document.get("findings", [])  # absent from a recording that names no lines
        return tuple(self._finding(each) for each in _value(found, tuple[dict[str, Any], ...], "findings"))

    def together(self) -> Together | None:
        found = _value(self._document.get("together"), dict[str, Any] | None, "together")
        return None if found is None else _record(found, Together, "together", gain=self._gain(found))

    def steady(self) -> Steady | None:
        found = _value(self._document.get("steady"), dict[str, Any] | None, "steady")
        return None if found is None else _record(found, Steady, "steady", starts={})

    def _finding(self, record: dict[str, Any]) -> Finding:
        lines = [_value(each, dict[str, Any], "lines") for each in _value(record.get("lines", []), tuple[dict[str, Any], ...], "lines")]
        shares = tuple((_line(each), float(_value(each.get("share"), float, "share"))) for each in lines)
        line = None if record.get("line") is None else _line(record["line"])
        others = _value(record.get("others", []), tuple[dict[str, Any], ...], "others")
        gain = None if record.get("how") is None else self._gain(record)
        ways = tuple(Other(edit=_value(each.get("edit"), str, "edit"), gain=self._gain(each)) for each in others)
        known = {"gain": gain, "line": line, "shares": shares, "others": ways}
        return _record(record, Finding, "findings", **known)

    def _gain(self, record: Any) -> Gain:
        given = {name.removeprefix("gain_"): value for name, value in _value(record, dict[str, Any], "gain").items()}
        known = {name: value for name, value in given.items() if value is not None}
        gain: Gain = _record(known, Gain, "gain")
        return replace(gain, seconds=self._seconds(gain.cycles), step_seconds=self._seconds(gain.step_cycles or 0))

    def _seconds(self, cycles: int) -> float:
        machine = _value(self._document.get("machine"), dict[str, Any], "machine")
        return seconds_from_cycles(cycles, _value(machine.get("clock_hz"), float, "clock_hz"))


def _line(record: Any) -> Line:
    found = _value(record, dict[str, Any], "line")
    return Line(file=_value(found.get("file"), str, "file"), number=_value(found.get("line"), int, "line"))


@functools.cache
def _fields(cls: Any) -> tuple[tuple[str, Any, bool], ...]:
    """(name, type, whether it has a default) of each field."""
    hints = typing.get_type_hints(cls)
    missing = dataclasses.MISSING
    return tuple((f.name, hints[f.name], f.default is not missing or f.default_factory is not missing) for f in dataclasses.fields(cls))


def _record(record: Any, cls: Any, where: str, **known: Any) -> Any:
    """A dataclass of an object, its fields checked against their types; one that is absent has its default. Args: known: as they are."""
    given = _value(record, dict[str, Any], where)
    values = {
        name: _value(given.get(name), declared, f"{where}.{name}")
        for name, declared, has_default in _fields(cls)
        if name not in known and (name in given or not has_default)
    }
    return cls(**values, **known)


def _value(value: Any, declared: Any, where: str) -> Any:
    origin: Any = typing.get_origin(declared)
    arguments = typing.get_args(declared)
    if dataclasses.is_dataclass(declared):
        return _record(value, declared, where)
    if origin in (types.UnionType, typing.Union) and types.NoneType in arguments:
        (only,) = (choice for choice in arguments if choice is not types.NoneType)
        return None if value is None else _value(value, only, where)
    items, named = _items(value), _named(value)
    if origin is tuple and items is not None:
        each = arguments[:1] * len(items) if arguments[1:] == (Ellipsis,) else arguments
        if len(items) == len(each):
            return tuple(_value(item, choice, f"{where}[{i}]") for i, (item, choice) in enumerate(zip(items, each, strict=True)))
    if origin in (dict, Mapping) and named is not None:
        return {_value(name, arguments[0], where): _value(each, arguments[1], f"{where}.{name}") for name, each in named.items()}
    if declared is Any or (origin is typing.Literal and value in arguments):
        return value
    if declared is float and type(value) in (int, float) and math.isfinite(value):
        return float(value)
    if declared in (int, str, bool) and type(value) is declared:
        return value
    raise _DamagedError(f"{where} is {shown(value)}")


def _items(value: Any) -> list[Any] | None:
    return cast("list[Any]", value) if isinstance(value, list) else None


def _named(value: Any) -> dict[Any, Any] | None:
    return cast("dict[Any, Any]", value) if isinstance(value, dict) else None
