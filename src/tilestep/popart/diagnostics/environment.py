"""What the environment variables of PopART ask for. settings.py reads them; this file says what each of them does here."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, cast

from tilestep.errors import SettingsError
from tilestep.messages import nearest, plain, shown
from tilestep.settings import popart_variables

LEVELS: Final = ("TRACE", "DEBUG", "INFO", "WARN", "ERR", "CRITICAL", "OFF")

EFFECTS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "POPART_LOG_LEVEL": f"the level of the log: {', '.join(LEVELS)}; WARN if unset",
        "POPART_LOG_DEST": "where the log goes: stderr, stdout, or the path of a file; stderr if unset",
        "POPART_LOG_CONFIG": 'a JSON file with the levels of parts of the library, as {"popart:session": "DEBUG"}',
        "POPART_CACHE_DIR": "sets enableEngineCaching and cachePath of new SessionOptions",
        "POPXL_CACHE_DIR": "the same; it goes before POPART_CACHE_DIR",
    }
)
NO_EFFECT: Final[Mapping[str, str]] = MappingProxyType(
    {
        "POPART_LOG_FORMAT": "lines of the log have one form",
        "POPART_IR_DUMP": "there is no intermediate representation of PopART's; the model is what Builder.getModelProto() gives",
        "POPART_DOT_CHECKS": "no pictures of graphs are drawn: tilestep has no stages of PopART's intermediate representation",
        "POPART_PRELOAD_POPEF": "a cached executable is read when a session needs it",
        "POPART_PRINT_TENSORS": "operator printtensor prints a tensor",
        "POPART_OPX_TRACE": "no program of Poplar is made",
        "POPART_POPLINER_OUTLINER_REGEX": "XLA decides which parts of a program are outlined",
        "POPART_LOG_DEVICE_ACCESS_IN_TESTS": "devices are emulated, so nobody waits for one",
        "POPART_TEST_NAME": "it names a test in a log that is not written",
    }
)


@dataclass(frozen=True, kw_only=True)
class PopartEnvironment:
    """What the variables ask for.

    Attributes:
        log_level: of all parts of the library.
        log_destination: "stderr", "stdout" or a path.
        log_config: part -> level.
        cache_dir: where executables are cached; None: they are not.
        notes: a sentence about each variable that is set and has no effect, or does not exist.
    """

    log_level: str = "WARN"
    log_destination: str = "stderr"
    log_config: Mapping[str, str] = field(default_factory=dict[str, str])
    cache_dir: str | None = None
    notes: tuple[str, ...] = ()


def read_environment(environ: Mapping[str, str] | None = None) -> PopartEnvironment:
    """What the variables ask for now.

    Args: environ: environment variables, the process's own if None.
    Raises: SettingsError for a value that is not allowed; it names the variable, the value and what is allowed.
    """
    given = popart_variables(environ)
    config = given.get("POPART_LOG_CONFIG")
    return PopartEnvironment(
        log_level=_level("POPART_LOG_LEVEL", given.get("POPART_LOG_LEVEL", "WARN")),
        log_destination=given.get("POPART_LOG_DEST", "stderr"),
        log_config={} if config is None else _config(config),
        cache_dir=given.get("POPXL_CACHE_DIR", given.get("POPART_CACHE_DIR")),
        notes=tuple(_notes(given)),
    )


def _level(variable: str, value: object) -> str:
    if not isinstance(value, str) or value not in LEVELS:
        raise SettingsError(f"{variable} has {shown(value)}: a level must be one of {', '.join(LEVELS)}")
    return value


def _config(path: str) -> dict[str, str]:
    try:
        found: Any = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise SettingsError(f"POPART_LOG_CONFIG is {shown(path)}: it must be the path of a JSON file ({plain(error)})") from None
    if not isinstance(found, dict):
        raise SettingsError(f"POPART_LOG_CONFIG: {plain(path)} must hold a JSON object of parts and levels")
    where = f"POPART_LOG_CONFIG: {plain(path)}"
    return {part.removeprefix("popart:"): _level(where, level) for part, level in cast("dict[str, object]", found).items()}


def _notes(given: Mapping[str, str]) -> list[str]:
    notes = [f"Variable {name} has no effect: {NO_EFFECT[name]}." for name in sorted(given) if name in NO_EFFECT]
    known = [*EFFECTS, *NO_EFFECT]
    for name in sorted(given):
        if name not in known:
            near = nearest(name, known)
            notes.append(f"Variable {plain(name)} does not exist{f'; the nearest that does is {near}' if near else ''}.")
    return notes
