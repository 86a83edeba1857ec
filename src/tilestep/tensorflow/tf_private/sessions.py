"""Sees each run of a session: which one runs, before and after it; and runs parts of its graph for itself, which nobody sees."""

import contextlib
import functools
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from typing import Any, Final

import numpy as np

from tilestep.tensorflow.untyped import Graph, Session, Tensor, tf

_client: Final[Any] = import_module("tensorflow.python.client.session")
_run: Final[Any] = _client.BaseSession.run
_config: Final[Any] = import_module("tensorflow.core.protobuf.config_pb2")
_IN_THIS_THREAD: Final[Any] = _config.RunOptions(inter_op_thread_pool=-1)

_failures: Final[dict[int, BaseException]] = {}  # by the id of the session: what a function of ours raised in its run


def run_unseen(session: Session, fetches: Any, feed: dict[Any, Any] | None = None) -> Any:
    """What `session.run` gives, in the calling thread alone: TensorFlow's own threads may all wait for functions that want this."""
    return _run(session, fetches, feed, _IN_THIS_THREAD)


def elements(session: Session, tensors: Sequence[Tensor]) -> Iterator[list[Any]]:
    """The values of tensors each time that they run, until a dataset ends."""
    options = _config.CallableOptions(fetch=[each.name for each in tensors], run_options=_IN_THIS_THREAD)
    take = session._make_callable_from_options(options)
    with contextlib.suppress(tf.errors.OutOfRangeError):
        while True:
            yield take()


def watch(using: Callable[[Session, Any], None]) -> None:
    """From now on this is told of each run of each session: before it with its fetches, after it with None."""

    @functools.wraps(_run)
    def run(self: Session, fetches: Any, feed_dict: Any = None, options: Any = None, run_metadata: Any = None) -> Any:
        using(self, fetches)
        around, _here.session = getattr(_here, "session", None), self
        if self.graph in _numbers:
            _sessions[id(self)] = self
            feed_dict = {**(feed_dict or {}), _numbers[self.graph]: id(self)}
            options = options or _IN_THIS_THREAD
        try:
            return _run(self, fetches, feed_dict, options, run_metadata)
        except tf.errors.OpError as error:
            raised = _failures.pop(id(self), None)
            if raised is None:
                raise
            raise raised from error
        finally:
            _here.session = around
            using(self, None)

    _client.BaseSession.run = run


_here: Final[Any] = threading.local()  # `session`: that a thread runs
_order: Final = threading.Lock()  # held while a function runs
_numbers: Final[weakref.WeakKeyDictionary[Graph, Tensor]] = weakref.WeakKeyDictionary()  # says to nodes of ours which session runs them
_sessions: Final[weakref.WeakValueDictionary[int, Session]] = weakref.WeakValueDictionary()  # by that number
_WORKER: Final = ThreadPoolExecutor(max_workers=1, thread_name_prefix="tilestep_tensorflow")  # for TensorFlow's own threads


def node(
    graph: Graph, function: Callable[..., Any], inputs: Sequence[Tensor], specs: Sequence[Any], name: str, *, beside: bool = False
) -> Any:
    """A node of a graph that calls a function of (its session, *arrays), whose exceptions come out of `session.run` as they are.

    One function runs at a time: what they dispatch has one order. A function runs in the thread that runs the session, whose line profiles
    name, or in one of ours if TensorFlow calls it in any of its own.

    Args: specs: dtypes and shapes of its results. beside: whether it runs in the thread that calls it while another one is busy.
    Returns: a list of its results; without any, the node.
    """

    def in_order(*arguments: Any) -> Any:
        with _order:
            return function(*arguments)

    def call(number: Any, *arguments: Any) -> Any:
        session = _sessions[int(number)]
        try:
            if beside and _order.locked():
                return function(session, *arguments)
            if getattr(_here, "session", None) is session:
                return in_order(session, *arguments)
            return _WORKER.submit(in_order, session, *arguments).result()
        except BaseException as error:
            _failures[id(session)] = error
            raise

    with graph.as_default(), tf.device("/CPU:0"):
        if graph not in _numbers:
            with tf.control_dependencies(None):
                _numbers[graph] = tf.compat.v1.placeholder_with_default(np.int64(0), ())
        made = tf.numpy_function(call, [_numbers[graph], *inputs], [each.dtype for each in specs], name=name)
    for tensor, spec in zip(made if specs else (), specs, strict=True):
        tensor.set_shape(spec.shape)
    return made
