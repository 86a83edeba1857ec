"""Several processes of one program: started together by JAX, and ended together when one of them dies."""

from __future__ import annotations

import atexit
import json
import math
import os
import secrets
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any, Final

import jax
import numpy as np
from jax.experimental import multihost_utils

_LEAST_TIMEOUT_S: Final = 1.0
_MOST_TIMEOUT_S: Final = 1e6  # JAX has its own in milliseconds of 32 bits
_JAX_SLACK_S: Final = 30  # by which JAX's own time-outs are longer: it ends processes without saying readably whose fault it was
_ERROR_CHARACTERS: Final = 1000  # of the exception with which a process ends
_NOTES_CHARACTERS: Final = 300  # of its notes: in which stage of a pipeline it was, say
_SAID_BYTES: Final = 512  # of process 0's address

_jax: Any = jax
_broadcast: Any = multihost_utils.broadcast_one_to_all


def start_processes(
    *,
    timeout_s: float = 60.0,
    coordinator_address: str | None = None,
    num_processes: int | None = None,
    process_id: int | None = None,
    local_device_ids: int | list[int] | None = None,
) -> None:
    """Makes this process one of several of a program, as `jax.distributed.initialize` does, and watches that all of them are there.

    Called by each process before it does anything else with JAX. What is None is found out by JAX where it knows the cluster (SLURM, MPI,
    Kubernetes, Cloud TPU). When a process is killed, crashes, ends with an exception or before the others, or gives no sign of life, the
    others end within `timeout_s` with exit status 1 (some by JAX's own abort), and each prints which process it was and how it ended.

    Beside each process runs a sentinel, a small Python process that ends with it; the sentinels talk to that of process 0 by TCP, on a
    port that the system chooses.

    Args:
        timeout_s: 1 to 1,000,000; a process may be silent for three quarters of it. A thread gives its signs of life; code that holds
            Python's lock for so long counts as silence. So long the first process that has come to its end waits for the others.
        coordinator_address: "host:port" of process 0, at which all processes find each other.
        num_processes: how many they are.
        process_id: this one's number, from 0 on.
        local_device_ids: which of this machine's devices are this process's.
    Raises: ValueError for a time-out that is too short, or too long. What `jax.distributed.initialize` raises.
    """
    if not _LEAST_TIMEOUT_S <= timeout_s <= _MOST_TIMEOUT_S:
        raise ValueError(f"timeout_s is {timeout_s!r}: it must be {_LEAST_TIMEOUT_S:g} to {_MOST_TIMEOUT_S:,.0f} seconds")
    _jax.distributed.initialize(
        coordinator_address,
        num_processes,
        process_id,
        local_device_ids,
        heartbeat_timeout_seconds=math.ceil(timeout_s) + _JAX_SLACK_S,
        shutdown_timeout_seconds=math.ceil(timeout_s) + _JAX_SLACK_S,
    )
    count, me = _jax.process_count(), _jax.process_index()
    if count == 1:
        return
    listener: socket.socket | None = None
    said: dict[str, Any] = {}
    if me == 0:
        listener = socket.create_server(("", 0), backlog=count)
        said = {"addresses": [(host, listener.getsockname()[1]) for host in _own_hosts(coordinator_address)], "token": secrets.token_hex(8)}
    text = json.dumps(said).encode().ljust(_SAID_BYTES)
    said = json.loads(np.asarray(_broadcast(np.frombuffer(text, np.uint8))).tobytes())
    settings = said | {"process": me, "count": count, "pid": os.getpid(), "timeout_s": timeout_s}
    if listener is not None:
        settings["listener"] = listener.fileno()
    sentinel = subprocess.Popen(
        [sys.executable, "-I", "-S", str(Path(__file__).with_name("sentinel.py"))],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        pass_fds=() if listener is None else (listener.fileno(),),
        start_new_session=True,  # what ends this process's group leaves it there to tell
    )
    _say(sentinel, json.dumps(settings))  # not as an argument, which everybody on this machine can see: it has the token
    if listener is not None:
        listener.close()
    threading.Thread(target=_live, args=(sentinel, timeout_s / 8), name="tilestep-alive", daemon=True).start()
    threading.Thread(target=_obey, args=(sentinel,), name="tilestep-sentinel", daemon=True).start()
    atexit.register(_leave, sentinel)


def _own_hosts(coordinator_address: str | None) -> list[str]:
    """Where the other processes may find this one: the coordinator's host is process 0's."""
    given = coordinator_address or os.environ.get("JAX_COORDINATOR_ADDRESS")
    hosts = [given.rsplit(":", 1)[0].strip("[]")] if given else []
    return [*hosts, *(host for host in (socket.getfqdn(), socket.gethostname()) if host not in hosts)]


def _say(sentinel: subprocess.Popen[bytes], line: str) -> None:
    assert sentinel.stdin is not None  # it is a pipe
    os.write(sentinel.stdin.fileno(), line.encode() + b"\n")


def _live(sentinel: subprocess.Popen[bytes], pause_s: float) -> None:
    """Gives signs of life."""
    gone = threading.Event()
    while not gone.wait(pause_s):
        try:
            _say(sentinel, ".")
        except OSError:
            return


def _obey(sentinel: subprocess.Popen[bytes]) -> None:
    """Ends this process when the sentinel says so, which has printed why."""
    assert sentinel.stdout is not None
    if sentinel.stdout.read(1):
        sys.stdout.flush()
        os._exit(1)


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
