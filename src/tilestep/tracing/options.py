"""What PVTI_OPTIONS asks for. A value that cannot be read never ends a program: it is told, and its default counts."""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, cast

from tilestep.messages import nearest, no_json, shown

VARIABLE: Final = "PVTI_OPTIONS"
_KEYS: Final = ("enable", "directory", "channels", "duration")
_MOST_WALL_S: Final = 1e9  # 31 years
_FLAGS: Final = {"true": True, "false": False}
_EXAMPLE: Final = '{"directory": "./reports"}'


@dataclass(frozen=True, kw_only=True)
class TraceOptions:
    """How a process is traced.

    Attributes:
        enable: whether it is.
        directory: of its file; relative to the working directory when the trace begins.
        channels: names of those that record, in small letters; empty: all.
        duration_wall_s: after which it records no more; 0: without end.
    """

    enable: bool = True
    directory: str = "."
    channels: tuple[str, ...] = ()
    duration_wall_s: float = 0.0

    def wants(self, channel: str) -> bool:
        """Whether a channel of this name records from the start."""
        return not self.channels or channel.casefold() in self.channels


def parse_trace_options(text: str) -> tuple[TraceOptions, tuple[str, ...]]:
    """The options that a value of the variable asks for, and a line for each thing in it that counts as its default.

    A text that is no JSON object turns tracing on with all defaults, as the variable does in Graphcore's tools.
    """
    try:
        found: object = json.loads(text)
    except (ValueError, RecursionError) as error:
        reason = "nested too deep" if isinstance(error, RecursionError) else no_json(error)
        return TraceOptions(), (f"{VARIABLE} is {shown(text)}, which is no JSON ({reason}): this process is traced with all defaults",)
    if not isinstance(found, dict):
        line = f"{VARIABLE} is {shown(text)}, which is no JSON object such as {_EXAMPLE}: this process is traced with all defaults"
        return TraceOptions(), (line,)
    return _from_object(cast("Mapping[str, Any]", found))


def _from_object(found: Mapping[str, Any]) -> tuple[TraceOptions, tuple[str, ...]]:
    told = [_unknown(key) for key in found if key not in _KEYS]
    default = TraceOptions()
    flag, directory, channels, duration = (found.get(key) for key in _KEYS)

    enable = _FLAGS.get(flag.strip().lower()) if isinstance(flag, str) else flag
    if not isinstance(enable, bool):
        enable = default.enable
        if flag is not None:
            told.append(_wrong("enable", flag, "true or false", "true"))

    if directory is not None and not _is_path(directory):
        told.append(_wrong("directory", directory, "the path of a directory", "the working directory"))
        directory = None

    names = [channels] if isinstance(channels, str) and channels.strip() else channels
    if names is not None and not _are_names(names):
        told.append(_wrong("channels", channels, "a list of names", "all channels"))
        names = None

    wall_s = _seconds(duration)
    if wall_s is None:
        wall_s = default.duration_wall_s
        if duration is not None:
            told.append(_wrong("duration", duration, f"a number of seconds, 0 (without end) to {_MOST_WALL_S:g}", "0"))

    options = TraceOptions(
        enable=enable,
        directory=directory or default.directory,
        channels=tuple(name.strip().casefold() for name in cast("list[str]", names or [])),
        duration_wall_s=wall_s,
    )
    return options, tuple(told)


def _unknown(key: str) -> str:
    near = nearest(key, _KEYS)
    hint = f"; the nearest is {near}" if near else ""
    return f"{VARIABLE} has {shown(key)}, which does nothing: it may have {', '.join(_KEYS)}{hint}"


def _wrong(key: str, value: object, allowed: str, default: str) -> str:
    return f"{VARIABLE}: {key} is {shown(value)}: it must be {allowed}; it counts as {default}"


def _is_path(value: object) -> bool:
    if not isinstance(value, str) or not value or "\0" in value:
        return False
    try:
        os.fsencode(value)
    except UnicodeEncodeError:
        return False
    return True


def _are_names(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(name, str) and name.strip() for name in cast("list[object]", value))


def _seconds(value: object) -> float | None:
    """The number of seconds; None if it is none."""
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= _MOST_WALL_S:
        return None
    return float(value)
