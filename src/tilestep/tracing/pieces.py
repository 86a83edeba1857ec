"""The file of a traced process: pieces while it runs, each a recording of its own, which are joined when it ends."""

import contextlib
import itertools
import os
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, final

from tilestep.recording.schema import SUFFIX
from tilestep.recording.storage.container import Builder, read_recording, write_recording
from tilestep.tracing.table import TraceTable


@final
class TracePieces:
    """The pieces of one process's trace.

    Args:
        directory: of the file; made when the first is written.
        begin_ns: the trace's begin, in Unix time.
    Attributes:
        path: of the file when it is whole.
    """

    def __init__(self, directory: Path, begin_ns: int) -> None:
        self._begin_ns = begin_ns
        self.path = _unused(directory, _stem(begin_ns))
        self._pieces: list[Path] = []

    def new_table(self) -> TraceTable:
        """An empty table of this trace."""
        return TraceTable(self._begin_ns)

    def write(self, table: TraceTable, notes: list[str]) -> None:
        """Writes a piece, as 'NAME.part1.tilestep'. Raises: OSError if it cannot be written."""
        path = self.path.with_name(f"{self.path.stem}.part{len(self._pieces) + 1}{SUFFIX}")
        self._write(path, table, notes, None)
        self._pieces.append(path)

    def finish(self, rest: TraceTable, notes: list[str], add: Callable[[Builder], None] | None) -> None:
        """Writes the whole file, and removes the pieces.

        Args:
            rest: what is in no piece yet; the pieces are added to it.
            notes: of the trace.
            add: adds further tables.
        Raises: OSError or RecordingError if it cannot be written; then the pieces stay, and the rest is lost.
        """
        for piece in self._pieces:
            rest.add_tables(read_recording(piece))
        self._write(self.path, rest, notes, add)
        self.remove()

    def remove(self) -> None:
        """Removes what has been written, but for the whole file."""
        while self._pieces:
            with contextlib.suppress(FileNotFoundError):
                self._pieces.pop().unlink()

    def _write(self, path: Path, table: TraceTable, notes: list[str], add: Callable[[Builder], None] | None) -> None:
        builder = Builder(kind="trace", notes=self._manifest(notes))
        table.build(builder, pid=os.getpid(), command=_command())
        if add is not None:
            add(builder)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_recording(path, builder.tables(), quickly=True)  # the program waits for it

    def _manifest(self, notes: list[str]) -> Mapping[str, Any]:
        return {
            "begin_unix_ns": self._begin_ns,
            "begin": time.strftime("%Y-%m-%dT%H:%M:%S%z", _local(self._begin_ns)),
            "notes": list(notes),
        }


def _local(unix_ns: int) -> time.struct_time:
    return time.localtime(unix_ns // 10**9)


def _stem(begin_ns: int) -> str:
    """Date, time with milliseconds, time zone and process: '20261123T140509.123+0100-4711'."""
    local = _local(begin_ns)
    return f"{time.strftime('%Y%m%dT%H%M%S', local)}.{begin_ns // 10**6 % 1000:03}{time.strftime('%z', local)}-{os.getpid()}"


def _unused(directory: Path, stem: str) -> Path:
    """A path that no file has; processes of two containers may have equal numbers."""
    names = itertools.chain((stem,), (f"{stem}-{count}" for count in itertools.count(2)))
    return next(path for name in names if not os.path.exists(path := directory / f"{name}{SUFFIX}"))


def _command() -> str:
    """The program's name, without its directory and arguments, which may be private."""
    return os.path.basename(sys.argv[0]) if getattr(sys, "argv", None) and sys.argv[0] else "python"
