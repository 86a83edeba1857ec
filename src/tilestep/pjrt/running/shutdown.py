"""Shutdown: daemon threads and JAX's own threads stand still before Python ends.

Python ends any thread that wants the interpreter later. If that thread is inside JAX's C++, the process crashes or hangs.
"""

import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType

import jax

from tilestep.pjrt import _native

OWN_THREADS = "tilestep-"  # prefix of the platform's own threads, which wait for work where Python may end them
_JAX = str(Path(jax.__file__).parent)
_JAX_POOLS = "tf_"  # prefix of JAX's own threads, of which some compile
_TASKS = Path("/proc/self/task")
_LOOK_EVERY_WALL_S = 0.002
_STILL_LOOKS = 8  # a thread that waits for the interpreter wakes up every 5 ms
_FAR_FROM_JAX_LOOKS = 100


def hold_back_daemons() -> None:
    """Holds daemon threads back: one that next calls into the platform stays there until the process has ended."""
    for thread in _daemons():
        _held(thread)


def stand_still(is_idle: Callable[[], bool], timeout_wall_s: float) -> bool:
    """Waits until JAX's threads sleep, and each daemon thread is held back, sleeps, or computes something that is not JAX's.

    Args: is_idle: whether nothing is compiled or waited for.
    Returns: False if the time ran out first.
    """
    end = time.monotonic() + timeout_wall_s
    seen: dict[int, tuple[object, int]] = {}  # by thread: its state, and for how many looks it has been in it
    in_jax: set[int] = set()
    look = quiet = 0  # looks in all, and since a thread of JAX ran Python
    while time.monotonic() < end:
        look += 1
        frames = sys._current_frames()
        known = {thread.ident for thread in threading.enumerate() if not isinstance(thread, threading._DummyThread)}
        quiet = quiet + 1 if known.issuperset(frames) else 0  # else a thread of JAX runs Python now
        watched = _jax_threads(pools_only=look > _FAR_FROM_JAX_LOOKS)
        for thread in _daemons():
            if _held(thread) or thread.ident is None or thread.native_id is None:
                continue
            if _is_in_jax(frames.get(thread.ident)):
                in_jax.add(thread.ident)
            if look <= _FAR_FROM_JAX_LOOKS or thread.ident in in_jax:
                watched.add(thread.native_id)
        for native_id in watched:
            now = _doing(native_id)
            before, looks = seen.get(native_id, (None, 0))
            seen[native_id] = (now, looks + 1 if now == before and now != "runs" else 0)
        if is_idle() and quiet > _STILL_LOOKS and all(seen[native_id][1] >= _STILL_LOOKS for native_id in watched):
            return True
        time.sleep(_LOOK_EVERY_WALL_S)
    return False


def _daemons() -> list[threading.Thread]:
    """Python's daemon threads but the platform's own. A thread of JAX that once ran Python is none of them."""
    return [
        thread
        for thread in threading.enumerate()
        if thread.daemon
        and thread is not threading.current_thread()
        and not isinstance(thread, threading._DummyThread)
        and not thread.name.startswith(OWN_THREADS)
    ]


def _jax_threads(*, pools_only: bool) -> set[int]:
    """Native ids of JAX's threads.

    Args: pools_only: leaves out threads without a name of their own, which have the process's name. XLA's, which run programs, have none.
    """
    own = {thread.native_id for thread in threading.enumerate() if not isinstance(thread, threading._DummyThread)}
    unnamed = None if pools_only else _name(_TASKS / str(os.getpid()))
    names = {int(task.name): _name(task) for task in _TASKS.iterdir()}
    return {number for number, name in names.items() if name.startswith(_JAX_POOLS) or (name == unnamed and number not in own)}


def _name(task: Path) -> str:
    try:
        return (task / "comm").read_text()
    except (FileNotFoundError, ProcessLookupError):  # the thread has ended meanwhile
        return ""


def _held(thread: threading.Thread) -> bool:
    return thread.ident is not None and _native.hold_back(thread.ident)


def _is_in_jax(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_filename.startswith(_JAX):
            return True
        frame = frame.f_back
    return False


def _doing(native_id: int) -> object:
    """How often a sleeping thread has been woken; or 'runs'; or 'is gone'."""
    try:
        status = dict(line.split(":\t", 1) for line in (_TASKS / str(native_id) / "status").read_text().splitlines() if ":\t" in line)
    except (FileNotFoundError, ProcessLookupError):
        return "is gone"
    if not status["State"].startswith("S"):
        return "runs"
    return status["voluntary_ctxt_switches"], status["nonvoluntary_ctxt_switches"]
