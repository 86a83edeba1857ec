"""Runs the settings of a sweep in parallel processes, and keeps what each has found."""

import contextlib
import hashlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final

from tilestep import __version__
from tilestep.cli.program import Program, ScriptProgram, program_words
from tilestep.cli.sweep.setting import LONGEST_ERROR, Measured
from tilestep.cli.sweep.settings import SweepPoint
from tilestep.files import read_file, write_file
from tilestep.messages import shortened
from tilestep.settings import read_settings

_MOST_KEPT: Final = 1 << 20  # bytes of a kept file
_SCHEMA: Final = "tilestep-sweep-setting"
_TAIL: Final = 1 << 14  # bytes of what a process has told


@dataclass(frozen=True, kw_only=True)
class SettingRun:
    """A setting, the program with it, and the variables of its process."""

    setting: SweepPoint
    program: Program
    environ: Mapping[str, str]
    trip_count: int | None = None

    def key(self) -> dict[str, Any]:
        """What has to be equal for a kept file to be of this run."""
        return {
            "version": __version__,
            "program": program_words(self.program),
            "source": _source(self.program),
            "setting": self.setting.cells(),
            "environ": dict(self.environ),
            "settings": _digest(repr(read_settings({**os.environ, **self.environ})).encode()),  # with all of the machine's file
            "trip_count": self.trip_count,
        }

    def file_name(self) -> str:
        """'bow-pod16_16_64_1a2b3c4d.json', which is the same for the same words."""
        words = json.dumps([program_words(self.program), dict(self.environ), self.trip_count])
        text = re.sub(r"[^\w.-]+", "-", "_".join(self.setting.cells().values()), flags=re.ASCII)
        return f"{text[:60].strip('.-')}_{_digest(words.encode())[:8]}.json"


def kept(run: SettingRun, folder: Path) -> Measured | None:
    """What a sweep before has kept of a run; None if it has not, or of another script, machine or version of this package."""
    try:
        document = json.loads(read_file(folder / run.file_name(), most_bytes=_MOST_KEPT))
        if document["schema"] != _SCHEMA or document["key"] != run.key():
            return None
        return Measured.from_document(document["measured"])
    except (OSError, ValueError, TypeError, KeyError):
        return None


def keep(run: SettingRun, found: Measured, folder: Path) -> None:
    """Writes the file of a run, but not of one that was killed, which is to be tried again. Raises: OSError naming it if it can't be."""
    if found.outcome == "killed":
        return
    document = {"schema": _SCHEMA, "key": run.key(), "measured": asdict(found)}
    write_file(folder / run.file_name(), json.dumps(document, indent=1, ensure_ascii=False) + "\n")


def measure(runs: Sequence[SettingRun], *, processes: int, done: Callable[[int, Measured], None]) -> None:
    """Measures each run in a process of its own, at most so many at once.

    Args: done: is called with a run's index and what it takes when it has ended, for one at a time, and before another starts in its place.

    If `done` raises, or Ctrl-C comes, those that run are killed.
    """
    started, stopped, lock = set[subprocess.Popen[bytes]](), threading.Event(), threading.Lock()

    def one(index: int, run: SettingRun) -> None:
        with tempfile.TemporaryDirectory(prefix="tilestep-") as folder, open(Path(folder, "told"), "w+b") as told:
            with lock:
                if stopped.is_set():
                    return
                process = _started(run, Path(folder, "row.json"), told)
                started.add(process)
            code = process.wait()
            with lock:
                started.discard(process)
                if not stopped.is_set():
                    done(index, _read(Path(folder, "row.json"), code, Path(folder, "told")))

    pool = ThreadPoolExecutor(max_workers=processes)
    try:
        for future in as_completed([pool.submit(one, index, run) for index, run in enumerate(runs)]):
            future.result()
    finally:
        with lock:
            stopped.set()
            for process in started:
                with contextlib.suppress(ProcessLookupError):  # it has just ended
                    os.killpg(process.pid, signal.SIGKILL)
        pool.shutdown(cancel_futures=True)


def _started(run: SettingRun, target: Path, told: Any) -> subprocess.Popen[bytes]:
    trips = "" if run.trip_count is None else str(run.trip_count)
    words = [sys.executable, "-m", "tilestep.cli.sweep.setting", str(target), trips, *program_words(run.program)]
    return subprocess.Popen(
        words,
        env={**os.environ, **run.environ},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=told,
        start_new_session=True,  # Ctrl-C is for the sweep, which ends them
    )


def _read(target: Path, code: int, told: Path) -> Measured:
    """What a process has found; if it has not, why: by a signal, or what it said last."""
    try:
        found = Measured.from_document(json.loads(read_file(target, most_bytes=_MOST_KEPT)))
    except (OSError, ValueError, TypeError, KeyError):
        found = Measured(outcome="failed", error=f"its process ended with exit status {code}")
    if code < 0:
        return Measured(outcome="killed", error=f"its process was ended by {signal.Signals(-code).name}")
    if found.error.endswith(f"exit status {code}"):
        lines = [line for line in _last(told).splitlines() if line.strip()]
        return replace(found, error=shortened(lines[-1].strip(), LONGEST_ERROR) if lines else found.error)
    return found


def _last(told: Path) -> str:
    with open(told, "rb") as file:
        file.seek(max(0, told.stat().st_size - _TAIL))
        return file.read().decode(errors="replace")


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _source(program: Program) -> str:
    """The digest of a script's own text; '' of other programs."""
    try:
        return _digest(Path(program.name).read_bytes()) if isinstance(program, ScriptProgram) else ""
    except OSError:
        return ""
