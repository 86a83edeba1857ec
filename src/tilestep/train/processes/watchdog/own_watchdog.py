"""Starts the watchdog beside this process, tells it how this process ends, and ends this process when the watchdog says so or is gone."""

import atexit
import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any, Final

from tilestep.train.processes.watchdog.lines import END
from tilestep.train.processes.watchdog.watchdog import BEATS

_MOST_ERROR_CHARACTERS: Final = 1000
_MOST_NOTES_CHARACTERS: Final = 300  # they say in which stage of a pipeline it was, for instance
_START: Final = 3  # time-outs in which the first sign of life must come, because Python starts before it
_REAPED_WALL_S: Final = 1.0  # from the end of a process's pipe until its exit status is known


def start_watchdog(settings: Mapping[str, Any], listener: socket.socket | None) -> None:
    """Starts the watchdog, and the threads that keep in touch with it. At its end this process tells the watchdog whether it ends well.

    Args:
        settings: process, count, timeout_s, token, addresses.
        listener: for process 0's watchdog, which owns it from now on.
    """
    watchdog = subprocess.Popen(
        [sys.executable, "-I", "-S", str(Path(__file__).with_name("run_watchdog.py"))],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        pass_fds=() if listener is None else (listener.fileno(),),
        start_new_session=True,  # a signal to this process's group leaves the watchdog alive
    )
    settings_line = dict(settings) | {"pid": os.getpid()} | ({} if listener is None else {"listener": listener.fileno()})
    say(watchdog, json.dumps(settings_line))  # an argument would show the token to everybody on this machine
    if listener is not None:
        listener.close()
    process, timeout_s = settings["process"], settings["timeout_s"]
    threading.Thread(target=_live, args=(watchdog, timeout_s / BEATS), name="tilestep-alive", daemon=True).start()
    threading.Thread(target=_obey, args=(watchdog, process, timeout_s), name="tilestep-watchdog", daemon=True).start()
    atexit.register(_leave, watchdog)


def say(watchdog: subprocess.Popen[bytes], line: str) -> None:
    """Writes a line to the watchdog."""
    assert watchdog.stdin is not None  # it is a pipe
    os.write(watchdog.stdin.fileno(), line.encode(errors="backslashreplace") + b"\n")  # a file's name in an error may not be text


def _live(watchdog: subprocess.Popen[bytes], pause_s: float) -> None:
    """Writes signs of life."""
    gone = threading.Event()
    while not gone.wait(pause_s):
        try:
            say(watchdog, ".")
        except OSError:
            return


def _obey(watchdog: subprocess.Popen[bytes], process: int, timeout_s: float) -> None:
    """Ends this process when the watchdog says so, after it has printed why, or when the watchdog itself is gone."""
    assert watchdog.stdout is not None
    pipe = watchdog.stdout.fileno()
    how, silent, most = "", 0, BEATS * _START
    while not how:
        if wait([pipe], timeout_s / BEATS):
            data = os.read(pipe, 1 << 10)
            if END in data:
                break
            if not data:
                how = f"has ended with status {_status(watchdog)}"
            silent, most = 0, BEATS
        else:  # counted, because the clock goes on while the whole machine stands still
            silent += 1
            how = f"has given no sign of life for {timeout_s * most / BEATS:g} s" if silent > most else ""
    if how:  # pyrefly: ignore[redundant-condition]
        watchdog.kill()  # one that is stopped would stay
        print(
            f"tilestep: the watchdog of process {process} (pid {watchdog.pid}) {how}; process {process} ends, too",
            file=sys.stderr,
            flush=True,
        )
    sys.stdout.flush()
    os._exit(1)


def _status(watchdog: subprocess.Popen[bytes]) -> int | None:
    try:
        return watchdog.wait(_REAPED_WALL_S)
    except subprocess.TimeoutExpired:
        return None


def _leave(watchdog: subprocess.Popen[bytes]) -> None:
    """At the end of this process: tells the watchdog whether it ends well."""
    error: BaseException | None = getattr(sys, "last_value", None)
    notes = "; ".join(getattr(error, "__notes__", ()))[:_MOST_NOTES_CHARACTERS]
    text = f"{type(error).__name__}: {error}"[:_MOST_ERROR_CHARACTERS] + (f"; {notes}" if notes else "")
    try:
        say(watchdog, "bye" if error is None else f"error {time.time():.6f} {text}".replace("\n", " "))
    except OSError:
        return
    if error is not None:  # JAX would wait here for the others, which wait for this process
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(1)
