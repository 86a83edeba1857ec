"""PopART's log: one line for each message, on stderr unless POPART_LOG_DEST says otherwise.

Each part of the library has a level of its own. POPART_LOG_LEVEL sets all, POPART_LOG_CONFIG names a JSON file with some
({"popart:session": "DEBUG"}), and `getLogger(name).setLevel(level)` changes one, or all if the name is "all".
"""

import os
import sys
import threading
from datetime import UTC, datetime
from enum import IntEnum
from typing import Final, TextIO, final

from tilestep.messages import shown
from tilestep.popart.diagnostics.environment import read_environment
from tilestep.popart.exceptions import popart_exception

PARTS: Final = ("session", "ir", "devicex", "popart", "transform", "pattern", "builder", "op", "opx", "ces", "python")


class Level(IntEnum):
    """How important a message is. A part writes those of its level and above."""

    TRACE = 0
    DEBUG = 1
    INFO = 2
    WARN = 3
    ERR = 4
    CRITICAL = 5
    OFF = 6


class _Log:
    """The levels and the destination, which all sessions of the process share."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._levels: dict[str, Level] | None = None  # read when first needed
        self._begun = ""  # the file that has this process's lines

    @property
    def levels(self) -> dict[str, Level]:
        """Part -> level."""
        if self._levels is None:
            environment = read_environment()
            self._levels = dict.fromkeys(PARTS, Level[environment.log_level])
            for part, level in environment.log_config.items():
                self._levels[part] = Level[level]
            for note in environment.notes:
                self.write("popart", Level.WARN, note)
        return self._levels

    def write(self, part: str, level: Level, message: str) -> None:
        if level < self.levels[part]:
            return
        moment = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        line = f"{moment} popart:{part} {os.getpid()}.{threading.get_native_id()} {level.name[0]}: {message}\n"
        destination = read_environment().log_destination
        with self._lock:
            if destination in ("stderr", "stdout"):
                stream: TextIO = getattr(sys, destination)
                stream.write(line)
                stream.flush()
            else:
                with open(destination, "w" if destination != self._begun else "a", encoding="utf-8") as file:
                    file.write(line)
                self._begun = destination


_LOG: Final = _Log()


def log(part: str, level: Level, message: str) -> None:
    """Writes a message, if the part's level lets it through. Args: part: one of PARTS."""
    _LOG.write(part, level, message)


def logged(part: str, level: Level) -> bool:
    """Whether a message of that level would be written. A caller asks where a message is dear to make."""
    return level >= _LOG.levels[part]


def warn(message: str, part: str = "session") -> None:
    """Writes a warning."""
    log(part, Level.WARN, message)


@final
class Logger:
    """Writes messages of a program, and sets levels.

    Args: name: the part whose level `setLevel` sets; "all": every one. Messages are of part "python".
    """

    def __init__(self, name: str) -> None:
        self._name = name

    def setLevel(self, level: str) -> None:
        """Sets the level.

        Args: level: TRACE, DEBUG, INFO, WARN, ERR, CRITICAL or OFF.
        Raises: popart_exception if there is no such level, or no part of the logger's name.
        """
        if level not in Level.__members__:
            raise popart_exception(f"Unknown log level {shown(level)}: it must be one of {', '.join(Level.__members__)}")
        if self._name != "all" and self._name not in PARTS:
            raise popart_exception(f"Unknown logger {shown(self._name)}: it must be all, or one of {', '.join(PARTS)}")
        for part in PARTS if self._name == "all" else (self._name,):
            _LOG.levels[part] = Level[level]

    def debug(self, info: str) -> None:
        """Writes a message of level DEBUG."""
        log("python", Level.DEBUG, info)

    def info(self, info: str) -> None:
        """Writes a message of level INFO."""
        log("python", Level.INFO, info)

    def warn(self, info: str) -> None:
        """Writes a message of level WARN."""
        log("python", Level.WARN, info)

    def error(self, info: str) -> None:
        """Writes a message of level ERR."""
        log("python", Level.ERR, info)

    def critical(self, info: str) -> None:
        """Writes a message of level CRITICAL."""
        log("python", Level.CRITICAL, info)


def getLogger(name: str = "all") -> Logger:
    """The logger of a part of the library, or of all parts."""
    return Logger(name)
