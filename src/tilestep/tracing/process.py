"""The trace of this process: begins when tilestep is imported, if PVTI_OPTIONS says so, and ends with the process. Forks have their own."""

from __future__ import annotations

import atexit
import os
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from tilestep.settings import trace_options

if TYPE_CHECKING:
    from tilestep.recording.storage.container import Builder
    from tilestep.tracing.tracer import Tracer

_BEHIND_OTHERS: Final = -100  # among multiprocessing's callbacks

_tracer: Tracer | None = None


def start_if_asked() -> None:
    """Begins to trace this process if the environment says so. A process that is not traced imports nothing here."""
    text = trace_options()
    if text is None or _tracer is not None:
        return
    from tilestep.messages import shown
    from tilestep.tracing.options import VARIABLE, parse_trace_options
    from tilestep.tracing.tracer import Tracer, tell

    options, told = parse_trace_options(text)
    for line in told:
        tell(line)
    if not options.enable:
        return
    try:
        options = replace(options, directory=os.path.abspath(options.directory))
    except OSError as error:
        tell(f"{VARIABLE}: directory {shown(options.directory)} has no absolute path: {error.strerror}; this process is not traced")
        return

    def fork(*, follows_jax: bool) -> None:
        global _tracer
        _tracer = Tracer(options, follows_jax=follows_jax)
        _tracer.start()

    def before_fork() -> None:
        if _tracer is not None:
            _tracer.before_fork()

    def after_fork_in_parent() -> None:
        if _tracer is not None:
            _tracer.after_fork_in_parent()

    def after_fork_in_child() -> None:
        if _tracer is not None:
            _tracer.abandon()
            fork(follows_jax=False)
            _finish_with_multiprocessing()

    fork(follows_jax=True)
    atexit.register(close)
    os.register_at_fork(before=before_fork, after_in_parent=after_fork_in_parent, after_in_child=after_fork_in_child)
    _finish_with_multiprocessing()


def close() -> None:
    """Ends the trace of this process and writes its file. Nothing happens if there is none, or it is closed already."""
    global _tracer
    tracer, _tracer = _tracer, None
    if tracer is not None:
        tracer.finish()


def discard() -> None:
    """Ends the trace of this process without a file."""
    global _tracer
    tracer, _tracer = _tracer, None
    if tracer is not None:
        tracer.stop_thread()
        tracer.abandon()
        tracer.remove_pieces()


def current_file() -> str | None:
    """The path of this process's file, which is written when the trace is closed or the process ends; None: it is not traced."""
    return None if _tracer is None else str(_tracer.path)


def include(add: Callable[[Builder], None]) -> None:
    """Lets `add` add further tables, of emulated time, to this process's file when it is written, if channel Poplar is on then."""
    if _tracer is not None:
        _tracer.include(add)


def _finish_with_multiprocessing() -> None:
    """Processes of multiprocessing call its own callbacks at their end, in place of those of atexit."""
    util: Any = sys.modules.get("multiprocessing.util")
    if util is None:
        return

    def finish_at_end(_: object) -> None:
        util.Finalize(None, close, exitpriority=_BEHIND_OTHERS)

    finish_at_end(None)
    util.register_after_fork(_tracer, finish_at_end)  # where such a process begins, it forgets callbacks from before
