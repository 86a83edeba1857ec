"""The sentinel beside this process: how it is started, what it is told, and how this process ends when it says so, or is gone."""

from __future__ import annotations

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

from tilestep.train.processes.watchdog import BEATS, END

_ERROR_CHARACTERS: Final = 1000  # of the exception with which a process ends
_NOTES_CHARACTERS: Final = 300  # of its notes: in which stage of a pipeline it was, say
_START: Final = 3  # times the time-out: in which the first sign of life must come, before which Python starts
_REAPED_WALL_S: Final = 1.0  # in which it is known how a process has ended whose pipe has


def start_sentinel(settings: Mapping[str, Any], listener: socket.socket | None) -> None:
    """Starts it, and the threads that keep in touch with it. At the end of this process it hears how that came.

    Args: settings: process, count, timeout_s, token, addresses. listener: that of process 0's, which is its own from now on.
    """
    sentinel = subprocess.Popen(
        [sys.executable, "-I", "-S", str(Path(__file__).with_name("run_watchdog.py"))],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        pass_fds=() if listener is None else (listener.fileno(),),
        start_new_session=True,  # what ends this process's group leaves it there to tell
    )
    said = dict(settings) | {"pid": os.getpid()} | ({} if listener is None else {"listener": listener.fileno()})
    _say(sentinel, json.dumps(said))  # not as an argument, which everybody on this machine can see: it has the token
    if listener is not None:
        listener.close()
    process, timeout_s = settings["process"], settings["timeout_s"]
    threading.Thread(target=_live, args=(sentinel, timeout_s / BEATS), name="tilestep-alive", daemon=True).start()
    threading.Thread(target=_obey, args=(sentinel, process, timeout_s), name="tilestep-sentinel", daemon=True).start()
    atexit.register(_leave, sentinel)


def _say(sentinel: subprocess.Popen[bytes], line: str) -> None:
    assert sentinel.stdin is not None  # it is a pipe
    os.write(sentinel.stdin.fileno(), line.encode(errors="backslashreplace") + b"\n")  # a file's name in an error may be no text


def _live(sentinel: subprocess.Popen[bytes], pause_s: float) -> None:
    """Gives signs of life."""
    gone = threading.Event()
    while not gone.wait(pause_s):
        try:
            _say(sentinel, ".")
        except OSError:
            return


def _obey(sentinel: subprocess.Popen[bytes], process: int, timeout_s: float) -> None:
    """Ends this process when the sentinel says so, which has printed why; or when the sentinel is gone: nobody would say so any more."""
    assert sentinel.stdout is not None
    pipe = sentinel.stdout.fileno()
    how, silent, most = "", 0, BEATS * _START
    while not how:
        if wait([pipe], timeout_s / BEATS):
            said = os.read(pipe, 1 << 10)
            if END in said:
                break
            if not said:
                how = f"has ended with status {_status(sentinel)}"
            silent, most = 0, BEATS
        else:  # counted, because the clock goes on where the whole machine stands still
            silent += 1
            how = f"has given no sign of life for {timeout_s * most / BEATS:g} s" if silent > most else ""
    if how:
        sentinel.kill()  # one that is stopped would stay
        print(
            f"tilestep: the sentinel of process {process} (pid {sentinel.pid}) {how}; process {process} ends, too",
            file=sys.stderr,
            flush=True,
        )
    sys.stdout.flush()
    os._exit(1)


def _status(sentinel: subprocess.Popen[bytes]) -> int | None:
    try:
        return sentinel.wait(_REAPED_WALL_S)
    except subprocess.TimeoutExpired:
        return None


def _leave(sentinel: subprocess.Popen[bytes]) -> None:
    """At the end of this process: says whether it is a good one."""
    error: BaseException | None = getattr(sys, "last_value", None)
    notes = "; ".join(getattr(error, "__notes__", ()))[:_NOTES_CHARACTERS]
    text = f"{type(error).__name__}: {error}"[:_ERROR_CHARACTERS] + (f"; {notes}" if notes else "")
    try:
        _say(sentinel, "bye" if error is None else f"error {time.time():.6f} {text}".replace("\n", " "))
    except OSError:
        return
    if error is not None:  # JAX would wait for the others here, who wait for this one
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(1)
