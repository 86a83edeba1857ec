"""Sees each run of a session: which one runs, before and after it; and runs parts of its graph for itself, which nobody sees."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from importlib import import_module
from typing import Any, Final, Protocol

from tilestep.tensorflow.untyped import Session, tf

_client: Final[Any] = import_module("tensorflow.python.client.session")
_run: Final[Any] = _client.BaseSession.run


class Watcher(Protocol):
    """What wants to see runs."""

    def before(self, session: Session, fetches: Any) -> None: ...

    def after(self, session: Session, fetches: Any) -> None: ...


class _Running(threading.local):
    session: Session | None = None


_failures: Final[dict[int, BaseException]] = {}  # by the id of the session: what a function of ours raised in its run


def run_unseen(session: Session, fetches: Any, feed: dict[Any, Any] | None = None) -> Any:
    """What `session.run` gives."""
    return _run(session, fetches, feed)


def watch(watcher: Watcher) -> None:
    """From now on each run of each session is seen."""

    @functools.wraps(_run)
    def run(self: Session, fetches: Any, feed_dict: Any = None, options: Any = None, run_metadata: Any = None) -> Any:
        watcher.before(self, fetches)
        current = _sessions.setdefault(id(self.graph), [])
        current.append(self)
        try:
            return _run(self, fetches, feed_dict, options, run_metadata)
        except tf.errors.OpError as error:
            raised = _failures.pop(id(self), None)
            if raised is None:
                raise
            raise raised from error
        finally:
            current.remove(self)
            watcher.after(self, fetches)

    _client.BaseSession.run = run


_sessions: Final[dict[int, list[Session]]] = {}  # by the id of a graph: those that run it now


def running(graph: Any) -> Session:
    """The session that runs a graph now."""
    return _sessions[id(graph)][-1]


def keeps_errors(graph: Any, function: Callable[..., Any]) -> Callable[..., Any]:
    """A function for a node, whose exceptions come out of `session.run` as they are, not as TensorFlow's."""

    @functools.wraps(function)
    def call(*arguments: Any) -> Any:
        session = running(graph)
        try:
            return function(session, *arguments)
        except BaseException as error:
            _failures[id(session)] = error
            raise

    return call
