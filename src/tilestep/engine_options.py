"""Engine options: the JSON object of POPLAR_ENGINE_OPTIONS, with the names and the meaning that Poplar gave them.

`poplar_keys.py` lists those that do nothing here. settings.py reads the variable.
"""

import json
import math
import os
import re
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tilestep.errors import SettingsError
from tilestep.files import writable_directory
from tilestep.messages import nearest, no_json, plain, shown
from tilestep.poplar_keys import NO_EFFECT, Key, Kind

VARIABLE: Final = "POPLAR_ENGINE_OPTIONS"
DEFAULT_RUNS_IN_DETAIL: Final = 2

_EXAMPLE: Final = 'a JSON object such as {"autoReport.all": "true"}'
_FLAG: Final = '"true" or "false"'
_MOST_WHOLE_NUMBER: Final = 2**63 - 1
_LONGEST_PATTERN: Final = 1000  # characters of a regular expression

_ALL: Final = "autoReport.all"
_DIRECTORY: Final = "autoReport.directory"
_LINES: Final = "autoReport.outputDebugInfo"
_RUNS: Final = "autoReport.executionProfileProgramRunCount"
_OUT_OF_MEMORY: Final = "debug.allowOutOfMemory"
_RETAIN: Final = "debug.retainDebugInformation"
BLOCKS_FILTER: Final = "profiler.blocks.filter"
PROGRAMS_FILTER: Final = "profiler.programs.filter"
_REPORT_PARTS: Final = {  # whether autoReport.all has it
    "autoReport.outputGraphProfile": True,
    "autoReport.outputExecutionProfile": True,
    _LINES: True,
    "autoReport.outputSerializedGraph": False,
    "autoReport.outputLoweredVars": False,
}
EFFECTIVE: Final[Mapping[str, str]] = {  # option -> its values, for messages and documents
    _ALL: _FLAG,
    _DIRECTORY: "the path of a directory",
    **dict.fromkeys(_REPORT_PARTS, _FLAG),
    _RUNS: "a whole number from 1",
    _OUT_OF_MEMORY: _FLAG,
    _RETAIN: _FLAG,
    BLOCKS_FILTER: "a regular expression",
    PROGRAMS_FILTER: "a regular expression",
}

Stated = str | int | float | bool


@dataclass(frozen=True, kw_only=True)
class EngineOptions:
    """What POPLAR_ENGINE_OPTIONS asks for.

    Attributes:
        directory: of the process's own report, absolute; None: it writes none.
        graph_profile: whether the report has a folder for each program: its steps and its memory.
        execution_profile: whether it has a recording of the runs, the profile and its summary.
        debug_info: whether it names lines of the user's source.
        serialized_graph: whether the folder of a program has its HLO.
        lowered_vars: whether the folder of a program has a list of all its values with their tiles.
        runs_in_detail: how many runs of each program a recording keeps event by event.
        allow_out_of_memory: whether a program that does not fit is reported instead of refused.
        retain_debug_information: whether what a program was planned from stays when nothing else needs the program.
        blocks: regular expression, as `re` reads it: named scopes whose whole name matches are blocks; None: it was not stated.
        programs: regular expression: runs of programs whose whole name matches are blocks; None: it was not stated.
        stated: (option, value) as the user wrote them, in the order of their names.
    """

    directory: Path | None = None
    graph_profile: bool = False
    execution_profile: bool = False
    debug_info: bool = False
    serialized_graph: bool = False
    lowered_vars: bool = False
    runs_in_detail: int = DEFAULT_RUNS_IN_DETAIL
    allow_out_of_memory: bool = False
    retain_debug_information: bool = False
    blocks: str | None = None
    programs: str | None = None
    stated: tuple[tuple[str, Stated], ...] = ()

    @property
    def of_programs(self) -> bool:
        """Whether the report has a folder for each program."""
        return self.graph_profile or self.serialized_graph or self.lowered_vars

    @property
    def hides_lines(self) -> bool:
        """Whether lines of the user's source are not only not asked for, but refused."""
        return not self.debug_info and _LINES in dict(self.stated)

    def recorded(self, *, lines: bool) -> dict[str, Stated]:
        """The options that were stated, for a recording. Args: lines: whether it names lines; else it has no path of a directory either."""
        return {key: value for key, value in self.stated if lines or key != _DIRECTORY}

    @property
    def notes(self) -> tuple[str, ...]:
        """A sentence about each option that was stated and has no effect."""
        return tuple(f"Engine option {key} has no effect: {NO_EFFECT[key].why}." for key, _ in self.stated if key in NO_EFFECT)


def read_engine_options(text: str, given: Mapping[str, Any] | None = None, *, source: str = VARIABLE) -> EngineOptions:
    """The options that a text states.

    Args: text: of POPLAR_ENGINE_OPTIONS; empty: nothing is stated. given: that a program states, which go before those of the text.
        source: what states them, for errors.

    Raises: SettingsError naming the option that does not exist, or has a value that is not allowed.
    """
    try:
        return _options({**_object(text), **(given or {})})
    except _OptionError as error:
        raise SettingsError(f"{source}{error}") from error.__cause__


class _OptionError(Exception):
    """What is wrong with an option, as it goes on behind the name of what states it."""


def _options(given: Mapping[str, Any]) -> EngineOptions:
    """Raises: _OptionError."""
    stated: dict[str, Stated] = {}
    for key in sorted(given):
        if key not in EFFECTIVE and key not in NO_EFFECT:
            near = nearest(key, [*EFFECTIVE, *NO_EFFECT])
            hint = f"; the nearest is {near}" if near else ""
            raise _OptionError(
                f" has {shown(key)}: it may have {', '.join(EFFECTIVE)}, and the options of Poplar that have no effect here{hint}"
            )
        stated[key] = _checked(key, given[key])
    parts = _parts(stated)
    graph, execution, debug, serialized, lowered = parts.values()
    directory = _directory(stated.get(_DIRECTORY, "."))
    return EngineOptions(
        directory=_absolute(directory) if any(parts.values()) else None,
        graph_profile=graph,
        execution_profile=execution,
        debug_info=debug,
        serialized_graph=serialized,
        lowered_vars=lowered,
        runs_in_detail=_whole(stated.get(_RUNS, DEFAULT_RUNS_IN_DETAIL)),
        allow_out_of_memory=_is_true(stated.get(_OUT_OF_MEMORY)),
        retain_debug_information=_is_true(stated.get(_RETAIN)),
        blocks=_pattern(BLOCKS_FILTER, stated),
        programs=_pattern(PROGRAMS_FILTER, stated),
        stated=tuple(stated.items()),
    )


def _parts(stated: Mapping[str, Stated]) -> dict[str, bool]:
    """Part of the report -> whether it is wanted.

    autoReport.all asks for most of them. A part that is stated itself is in the report or not, whatever autoReport.all says.
    A directory alone asks for a report in it, unless the user has said what is to be in it.
    """
    if _ALL in stated:
        everything = _is_true(stated[_ALL])
    else:
        everything = _DIRECTORY in stated and not any(_is_true(stated.get(part)) for part in _REPORT_PARTS)
    return {part: _is_true(stated[part]) if part in stated else everything and usual for part, usual in _REPORT_PARTS.items()}


def _checked(key: str, value: object) -> Stated:
    """The value as it was stated, if it is allowed. Raises: _OptionError."""
    if key in NO_EFFECT:
        return _require(key, value, NO_EFFECT[key])
    match EFFECTIVE[key]:
        case "the path of a directory" | "a regular expression" as allowed:
            if not isinstance(value, str) or not value or "\0" in value:
                raise _bad(key, value, allowed)
            return value
        case "a whole number from 1" as allowed:
            if not _fits(value, "whole number") or _whole(value) < 1:
                raise _bad(key, value, allowed)
            return value  # pyrefly: ignore[bad-return]  # _fits has seen that it is a number or a text
        case allowed:
            if not _fits(value, "flag"):
                raise _bad(key, value, allowed)
            return value  # pyrefly: ignore[bad-return]


def _require(key: str, value: object, declared: Key) -> Stated:
    if value in declared.words or _fits(value, declared.kind):
        return value  # pyrefly: ignore[bad-return]
    raise _bad(key, value, declared.allowed)


def _fits(value: object, kind: Kind) -> bool:
    match kind:
        case "flag":
            return isinstance(value, bool) or value in ("true", "false")
        case "text":
            return isinstance(value, str) and bool(value) and "\0" not in value
        case "whole number":
            return 0 <= _whole(value) <= _MOST_WHOLE_NUMBER
        case "number":
            return _number(value) >= 0
        case "word":
            return False


def _is_true(value: object) -> bool:
    return value in ("true", True)


def _whole(value: object) -> int:
    """A whole number, also as a text, with 0x before hexadecimal digits; -1 if it is none."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    try:
        return int(value, 0) if isinstance(value, str) else -1
    except ValueError:
        return -1


def _number(value: object) -> float:
    """A finite number, also as a text; -1 if it is none."""
    try:
        number = float(value) if isinstance(value, (str, int, float)) and not isinstance(value, bool) else -1.0
    except (ValueError, OverflowError):
        return -1.0
    return number if math.isfinite(number) else -1.0


def _pattern(key: str, stated: Mapping[str, Stated]) -> str | None:
    text = stated.get(key)
    if not isinstance(text, str):
        return None
    try:
        if len(text) > _LONGEST_PATTERN:
            raise ValueError(f"it has {len(text):,} characters, {_LONGEST_PATTERN:,} are the most")
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # an expression that Python may read otherwise one day is not clear
            re.compile(text)
    except (re.error, ValueError, OverflowError, RecursionError, Warning) as error:
        raise _bad(key, text, f"a regular expression ({plain(error)})") from None
    return text


def _bad(key: str, value: object, allowed: str) -> _OptionError:
    """The error about a value that is not allowed."""
    return _OptionError(f": {key} is {shown(value)}: it must be {allowed}")


def _directory(value: Stated) -> Path:
    try:
        os.fsencode(str(value))
    except UnicodeEncodeError as error:
        raise _bad(_DIRECTORY, value, EFFECTIVE[_DIRECTORY]) from error
    return Path(str(value))


def _absolute(directory: Path) -> Path:
    """The path from the root, because the program may change its working directory."""
    try:
        return directory.absolute()
    except OSError as error:
        raise _bad(_DIRECTORY, str(directory), f"an absolute path: the working directory is gone ({error.strerror})") from error


def _object(text: str) -> dict[str, Any]:
    if not text.strip():
        return {}
    try:
        found: object = json.loads(text)
    except RecursionError:  # without its thousand frames
        raise SettingsError(f"{VARIABLE} is {shown(text)}: it must be {_EXAMPLE} (this is nested too deep)") from None
    except ValueError as error:  # JSONDecodeError is one
        raise SettingsError(f"{VARIABLE} is {shown(text)}: it must be {_EXAMPLE} ({no_json(error)})") from error
    if not isinstance(found, dict):
        raise SettingsError(f"{VARIABLE} is {shown(text)}: it must be {_EXAMPLE}")
    return found  # JSON's objects have string keys


def require_report_directory(directory: Path | None) -> None:
    """Makes the directory that POPLAR_ENGINE_OPTIONS names, if it names one, because an error at the end of the program would reach nobody.

    Raises: SettingsError if no file can be written there.
    """
    if directory is None:
        return
    try:
        writable_directory(directory)
    except OSError as error:
        raise SettingsError(
            f"POPLAR_ENGINE_OPTIONS: autoReport.directory is '{plain(directory)}': it must be a directory that can be written to "
            f"({error.strerror})"
        ) from error
