"""What a training loop says while it runs: values of each step, to be read after it or, from another thread, during it."""

from __future__ import annotations

import contextlib
import threading
import warnings
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final, Literal, final

import numpy as np
from jax.extend.core import get_opaque_trace_state

from tilestep import hints
from tilestep.errors import QueueError
from tilestep.messages import shortened
from tilestep.train import patience as waits
from tilestep.train.ctrl_c import whole
from tilestep.train.feeds.random_keys import keys_on_host, kind, numbers_of
from tilestep.train.numbers import whole_number
from tilestep.train.other_arguments import belongs_to, require_one_of
from tilestep.train.patience import Aloud, is_alone
from tilestep.train.untyped import Pytree, Structure
from tilestep.train.untyped import jax as _jax

Mode = Literal["all", "last"]
WhenFull = Literal["block", "drop", "error"]
MODES: Final[tuple[Mode, ...]] = ("all", "last")
WHEN_FULL: Final[tuple[WhenFull, ...]] = ("block", "drop", "error")
WARN_BYTES: Final = 1 << 30
_MOST_TREE_CHARACTERS: Final = 200  # in a message
_Kind = tuple[tuple[int, ...], Any, str]  # (shape, dtype, generator of the random keys whose numbers they are: random_keys.py)


@dataclass(kw_only=True)
class _Chunk:
    """Stacked elements of one chunk; `first` to `last` (excluded) are still to be read."""

    leaves: list[Any]  # arrays on devices, or NumPy's once somebody has looked
    first: int
    last: int

    @property
    def element_bytes(self) -> int:
        return sum(leaf.nbytes // len(leaf) for leaf in self.leaves)

    @property
    def is_on_host(self) -> bool:
        return all(isinstance(leaf, np.ndarray) for leaf in self.leaves)

    def to_host(self) -> None:
        """Waits for the values."""
        self.leaves = [np.asarray(leaf) for leaf in self.leaves]

    def is_ready(self) -> bool:
        return all(isinstance(leaf, np.ndarray) or leaf.is_ready() for leaf in self.leaves)


@final
class OutfeedQueue:
    """Takes results out of `repeat` and `while_loop`: `enqueue` in the loop's body, `dequeue` or iteration outside.

    Values leave with the results of a chunk, so each can be read at most one chunk after its step. A queue serves one loop at a time, and
    keeps what is not read until the next ones.

    Args:
        mode: "all" keeps each step's values, "last" those of the newest step only.
        buffer_depth: steps whose values it holds at most, 1 or more. None: any number, with one warning above 1 GiB.
        when_full: what a loop does when there is no room for a chunk's values. "block": waits until another thread has read enough; raises
            QueueError if the program has no other. "drop": forgets the oldest values. "error": raises QueueError before the chunk. Chunks
            are no longer than `buffer_depth`, except with "drop".
        replicas: the length of the leading axis of each array that is enqueued, [replicas, ...]; with one replica the queue removes that
            axis. None: arrays come out as they were enqueued.

    Raises:
        TypeError: when a number is no whole number.
        ValueError: when an argument is out of its bounds.
    """

    def __init__(
        self, mode: Mode = "all", *, buffer_depth: int | None = None, when_full: WhenFull = "block", replicas: int | None = None
    ) -> None:
        for name, value, known in (("mode", mode, MODES), ("when_full", when_full, WHEN_FULL)):
            require_one_of(name, value, known, belongs_to(value, "buffer_depth"))
        self.mode: Final = mode
        self.buffer_depth: Final = None if buffer_depth is None else whole_number("buffer_depth", buffer_depth, least=1)
        self.when_full: Final = when_full
        self.replicas: Final = None if replicas is None else whole_number("replicas", replicas, least=1)
        self._condition = threading.Condition()
        self._chunks: deque[_Chunk] = deque()
        self._count = 0  # elements in them
        self._structure: Any = None  # known once there was an element
        self._shapes: list[_Kind] = []
        self._user: str | None = None  # the loop that runs
        self._loop_thread = 0  # where a loop runs, or ran last
        self._has_unread_loop = False  # one that began, and whose end no iteration has seen
        self._warned = self._closed = False
        self._is_restored = False  # its structure is that of a checkpoint, which knows dicts, lists and tuples

    def __enter__(self) -> OutfeedQueue:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def __len__(self) -> int:
        """Steps whose values wait to be read, those included that are being computed."""
        return self._count

    def __repr__(self) -> str:
        return f"<OutfeedQueue: mode {self.mode!r}, {self._count:,} steps to be read, {'closed' if self._closed else self._user or 'idle'}>"

    # --------------------------------------------------------------------------------------------------- in the body

    def enqueue(self, values: Pytree) -> None:
        """Sends a pytree out of a step. Called once in the body of a loop that was given this queue.

        Args:
            values: a pytree of arrays, random keys or numbers, of any shapes.

        Raises:
            QueueError: outside of such a body, a second time in it, or inside of a function that the body transforms (`jax.jit`,
                `lax.cond`, `lax.scan`, `jax.grad`, ...).
            TypeError: when a leaf is no array or number.
        """
        collector = _collectors.find(self)
        if collector is None:
            raise QueueError(
                "enqueue() was called outside of a loop that has this queue: call it in the body of repeat() or while_loop(), and give "
                "that the queue as outfeed"
            )
        collector.add(values)

    # ------------------------------------------------------------------------------------------------------- reading

    def dequeue(self, wait: bool = False) -> Pytree:
        """Takes out the values that are there.

        If no loop runs, these are all that loops have enqueued. While one runs in another thread, those that have been computed.

        Args:
            wait: whether to wait first for the end of the loop that runs.

        Returns:
            In mode "all" the values of all these steps: the enqueued pytree, of NumPy arrays [steps, ...], or None if no loop has enqueued
            values yet. In mode "last" the newest values, [...]. Random keys are a jax.Array of keys in the host's memory.

        Raises:
            QueueError: in mode "last", when there are no new values; when the loop's own thread waits.
        """
        aloud = Aloud(lambda: f"the end of {self._user}, in dequeue(wait=True)")
        with self._condition:
            while wait and self._user is not None and not self._closed:
                self._require_other_thread("dequeue(wait=True)")
                with _jax.profiler.TraceAnnotation(hints.OUTFEED_WAIT):
                    waits.wait(self._condition, None, aloud)
            running = self._user is not None
            taken: list[_Chunk] = []
            with self._looking():
                while self._chunks and (not running or self._chunks[0].is_ready()):
                    taken.append(self._chunks.popleft())
            self._count -= sum(chunk.last - chunk.first for chunk in taken)
            self._condition.notify_all()
        if self.mode == "last":
            if not taken:
                raise QueueError("there is nothing new in the OutfeedQueue: no step has enqueued values since they were read last")
            return self._tree([leaf[-1] for leaf in self._on_host(taken[-1])])
        if self._structure is None:
            return None
        if not taken:
            return self._tree([np.empty((0, *shape), dtype=dtype) for shape, dtype, _ in self._shapes])
        parts = [[leaf[chunk.first : chunk.last] for leaf in self._on_host(chunk)] for chunk in taken]
        return self._tree([pieces[0] if len(parts) == 1 else np.concatenate(pieces) for pieces in _columns(parts)])

    def __iter__(self) -> Iterator[Pytree]:
        """The values of each step in order, taken out one by one.

        In the thread that runs the loops it ends when nothing is left. In another thread it waits for the next values while a loop runs,
        or for a loop to begin if none has begun since the last such iteration ended; it ends when that loop is over and nothing is left,
        or the queue is closed.

        Raises: QueueError in mode "last".
        """
        if self.mode == "last":
            raise QueueError("an OutfeedQueue of mode 'last' has no sequence of values: call dequeue(), or make it with mode 'all'")
        return self._elements()

    def _elements(self) -> Iterator[Pytree]:
        while (taken := self._next_element()) is not None:
            chunk, index = taken
            yield self._tree([leaf[index] for leaf in self._on_host(chunk)])

    def _next_element(self) -> tuple[_Chunk, int] | None:
        aloud = Aloud(lambda: f"the next values of an OutfeedQueue ({self._user or 'no loop'} runs)")
        with self._condition:
            elsewhere = threading.get_ident() != self._loop_thread
            while elsewhere and not self._chunks and not self._closed and (self._user is not None or not self._has_unread_loop):
                with _jax.profiler.TraceAnnotation(hints.OUTFEED_WAIT):
                    waits.wait(self._condition, None, aloud)
                elsewhere = threading.get_ident() != self._loop_thread
            if not self._chunks:
                self._has_unread_loop = False
                return None
            chunk = self._chunks[0]
            index = chunk.first
            chunk.first += 1
            self._count -= 1
            if chunk.first == chunk.last:
                self._chunks.popleft()
            self._condition.notify_all()
            return chunk, index

    def close(self) -> None:
        """Ends iterations, and waits in `dequeue`. What is there can still be read; loops cannot use the queue any more."""
        with self._condition:
            self._closed = True
            self._condition.notify_all()

    def _looking(self) -> AbstractContextManager[None]:
        """A thread beside the loop's holds up no emulated machine when it waits for values, and the loop's own does."""
        return contextlib.nullcontext() if threading.get_ident() == self._loop_thread else hints.untimed()

    def _on_host(self, chunk: _Chunk) -> list[Any]:
        if not chunk.is_on_host:
            with self._looking():
                chunk.to_host()
        return chunk.leaves

    def _tree(self, leaves: list[Any]) -> Pytree:
        return _jax.tree.unflatten(self._structure, keys_on_host(leaves, [generator for _, _, generator in self._shapes]))

    def _require_other_thread(self, name: str) -> None:
        if threading.get_ident() == self._loop_thread:
            raise QueueError(f"{name} would wait for ever: the loop runs in this thread")

    # ---------------------------------------------------------------------------------------------------- checkpoints

    def unread(self) -> dict[str, Any] | None:
        """What waits to be read, and stays: the number of "steps", and their "values" as `dequeue` gives them in mode "all". None: nothing.

        Containers other than dicts, lists and tuples are a list of all arrays in them. Random keys are their numbers, and "keys" says of
        which generator each array has keys, '' for none.
        """
        with self._condition:
            chunks = [_Chunk(leaves=chunk.leaves, first=chunk.first, last=chunk.last) for chunk in self._chunks]
        if not chunks:
            return None
        parts = [[leaf[chunk.first : chunk.last] for leaf in self._on_host(chunk)] for chunk in chunks]
        leaves = [np.concatenate(each) for each in _columns(parts)]
        values, generators = _jax.tree.unflatten(self._structure, leaves), [generator for _, _, generator in self._shapes]
        unread = {"steps": sum(chunk.last - chunk.first for chunk in chunks), "values": values if _is_plain(values) else leaves}
        return unread | ({"keys": generators} if any(generators) else {})

    def require_empty(self) -> None:
        """Raises: QueueError if something waits already, or a loop runs."""
        with self._condition:
            if self._user is not None or self._count:
                raise QueueError("the OutfeedQueue is in use, or something waits to be read in it: restore into a queue that is empty")

    def restore_unread(self, unread: Mapping[str, Any] | None) -> None:
        """Lets what `unread()` gave wait to be read. The next loop's values say again in which containers it is.

        Raises: QueueError as `require_empty`. TypeError, ValueError for what `unread()` has not given.
        """
        self.require_empty()
        if unread is None:
            return
        if not isinstance(unread, Mapping) or set(unread) - {"keys"} != {"steps", "values"} or type(unread["steps"]) is not int:
            raise ValueError("what was not read of an OutfeedQueue is another thing")
        leaves, structure = _jax.tree.flatten(unread["values"])
        steps, generators = unread["steps"], unread.get("keys", [""] * len(leaves))
        if not isinstance(generators, list) or [type(each) for each in generators] != [str] * len(leaves):
            raise ValueError("what was not read of an OutfeedQueue does not say of each array whether it has random keys")
        if steps < 1 or any(not isinstance(leaf, np.ndarray) or leaf.shape[:1] != (steps,) for leaf in leaves):
            raise ValueError(f"what was not read of an OutfeedQueue is no arrays of {steps} steps")
        keys_on_host(leaves, generators)  # JAX says of what it can make no keys
        with self._condition:
            self._structure, self._is_restored = structure, True
            self._shapes = [(leaf.shape[1:], leaf.dtype, generator) for leaf, generator in zip(leaves, generators, strict=True)]
            self._chunks.append(_Chunk(leaves=leaves, first=0, last=steps))
            self._count = steps
            self._has_unread_loop = True

    # ------------------------------------------------------------------------------------------------ the loop's side

    @whole
    def reserve(self, user: str) -> None:
        """A loop of this thread begins to use the queue. Raises: QueueError if it is closed, or another loop does."""
        with self._condition:
            if self._closed:
                raise QueueError("the OutfeedQueue is closed: make another one")
            if self._user is not None:
                raise QueueError(
                    f"{user} cannot use the OutfeedQueue while {self._user} does: give each loop that runs at once a queue of its own"
                )
            self._user = user
            self._loop_thread = threading.get_ident()
            self._has_unread_loop = True
            self._condition.notify_all()

    @whole
    def release(self) -> None:
        """The loop has ended."""
        with self._condition:
            self._user = None
            self._condition.notify_all()

    @whole
    def make_room(self, steps: int, check: Callable[[], None] | None = None) -> None:
        """Before a chunk of `steps` steps: waits, or raises QueueError, if its values would find no place, or no thread can make one.

        Args: check: called again and again while it waits. What it raises ends the wait.
        """
        depth = self.buffer_depth
        if depth is None or self.mode == "last" or self.when_full == "drop":
            return
        aloud = Aloud(lambda: f"room in an OutfeedQueue: it holds {self._count:,} steps, and another thread has to read them")
        with self._condition:
            while self._count + steps > depth:
                if self._closed:
                    raise QueueError("the OutfeedQueue was closed while a loop waited for room in it")
                if self.when_full == "error":
                    raise QueueError(
                        f"the OutfeedQueue is full: it holds the values of {self._count:,} steps, the next chunk has {steps:,}, and "
                        f"buffer_depth is {depth:,}; read it more often, or choose when_full='block' or 'drop', or a greater buffer_depth"
                    )
                if is_alone():
                    raise QueueError(
                        f"the OutfeedQueue is full, and the program has no other thread that could read it: it holds the values of "
                        f"{self._count:,} steps, the next chunk has {steps:,}, and buffer_depth is {depth:,}; read it in another thread, "
                        "or choose when_full='drop', or a greater buffer_depth"
                    )
                with _jax.profiler.TraceAnnotation(hints.OUTFEED_ROOM):
                    waits.wait(self._condition, check, aloud)

    def require_alike(self, kinds: Callable[[], Any]) -> None:
        """Before a loop's first chunk. Raises: QueueError if what waits to be read is not like that chunk's stacked values will be.

        Args: kinds: gives their shapes and dtypes; called only if something waits.
        """
        if self._count:
            leaves, structure = _jax.tree.flatten(kinds())
            self._require_alike(structure, _numbers(leaves)[1])

    @whole
    def _require_alike(self, structure: Structure, shapes: list[_Kind]) -> None:
        with self._condition:
            if self._is_restored and shapes == self._shapes:
                self._structure, self._is_restored = structure, False
            if self._structure is not None and self._count and (structure, shapes) != (self._structure, self._shapes):
                raise QueueError(
                    f"the loop enqueues {_described(structure, shapes)}, but values like {_described(self._structure, self._shapes)} wait "
                    "to be read: dequeue() them first, or use another OutfeedQueue"
                )

    @whole
    def deliver(self, values: Pytree, steps: int) -> None:
        """Takes over the stacked values of a chunk's first `steps` steps; in mode "last", stacked alone, those of its last one."""
        if not steps:
            return
        leaves, structure = _jax.tree.flatten(values)
        leaves, shapes = _numbers(leaves)
        with self._condition:
            self._require_alike(structure, shapes)
            self._structure, self._shapes = structure, shapes
            if self.mode == "last":
                self._chunks.clear()
                self._count = 0
                steps = 1
            self._chunks.append(_Chunk(leaves=leaves, first=0, last=steps))
            self._count += steps
            if self.buffer_depth is not None:
                self._drop(self._count - self.buffer_depth)
            elif not self._warned and self._count * self._chunks[-1].element_bytes > WARN_BYTES:
                self._warned = True
                warnings.warn(
                    f"an OutfeedQueue holds more than 1 GiB ({self._count:,} steps): read it during the loop, or give it a buffer_depth",
                    ResourceWarning,
                    stacklevel=4,
                )
            self._condition.notify_all()

    def _drop(self, steps: int) -> None:
        """Forgets the oldest `steps` steps, if that is more than none."""
        while steps > 0:
            chunk = self._chunks[0]
            dropped = min(steps, chunk.last - chunk.first)
            chunk.first += dropped
            self._count -= dropped
            steps -= dropped
            if chunk.first == chunk.last:
                self._chunks.popleft()


@final
class Collector:
    """What the body of one loop enqueues while it is traced."""

    def __init__(self, queue: OutfeedQueue) -> None:
        self.queue = queue
        self._trace = get_opaque_trace_state()
        self._values: Any = None
        self._called = False

    def add(self, values: Pytree) -> None:
        """Keeps what is enqueued. Raises: QueueError or TypeError if it cannot be."""
        if self._called:
            raise QueueError("enqueue() was called twice in one body: enqueue all values at once, as a dictionary or tuple")
        if get_opaque_trace_state() != self._trace:
            raise QueueError(
                "enqueue() was called inside of a function that the body transforms (jax.jit, lax.cond, lax.scan, jax.grad, jax.vmap, "
                "shard_map ...): return the values from there, and enqueue them in the body itself"
            )
        leaves, structure = _jax.tree_util.tree_flatten_with_path(values)
        self._values = _jax.tree.unflatten(structure, [self._array(path, leaf) for path, leaf in leaves])
        self._called = True

    def _array(self, path: Any, leaf: Any) -> Any:
        where = _jax.tree_util.keystr(path)
        try:
            array = _jax.numpy.asarray(leaf)
        except (TypeError, ValueError) as error:
            raise TypeError(f"enqueued value{where} is a {type(leaf).__name__}, no array or number: {error}") from error
        replicas = self.queue.replicas
        if replicas is None:
            return array
        if array.shape[:1] != (replicas,):
            raise TypeError(
                f"enqueued value{where} has shape {array.shape}: its leading axis must be that of the queue's {replicas} replicas"
            )
        return array if replicas > 1 else array[0]

    @property
    def values(self) -> Any:
        """What was enqueued. Raises: QueueError if nothing was."""
        if not self._called:
            raise QueueError(
                "the loop has an outfeed, but its body did not enqueue(): call outfeed.enqueue(values) in it, or leave outfeed away"
            )
        return self._values


@final
class _Collectors(threading.local):
    """The bodies that are being traced in this thread, innermost last."""

    def __init__(self) -> None:
        self.stack: list[Collector] = []

    def find(self, queue: OutfeedQueue) -> Collector | None:
        return next((collector for collector in reversed(self.stack) if collector.queue is queue), None)


_collectors = _Collectors()


@contextlib.contextmanager
def collecting(queue: OutfeedQueue) -> Iterator[Collector]:
    """A body that may enqueue to `queue` is traced inside."""
    collector = Collector(queue)
    _collectors.stack.append(collector)
    try:
        yield collector
    finally:
        _collectors.stack.pop()


@contextlib.contextmanager
def uncollected() -> Iterator[None]:
    """A body is traced inside only to be looked at: what it enqueues is not wanted."""
    queues = [collector.queue for collector in _collectors.stack]
    with contextlib.ExitStack() as aside:
        for queue in queues:
            aside.enter_context(collecting(queue))
        yield


def _is_plain(tree: Pytree) -> bool:
    """Whether it has dicts, lists and tuples alone."""
    if type(tree) is dict:
        return all(type(key) is str and _is_plain(value) for key, value in tree.items())
    return all(map(_is_plain, tree)) if type(tree) in (list, tuple) else isinstance(tree, np.ndarray)


def _columns(rows: list[list[Any]]) -> list[list[Any]]:
    return [list(column) for column in zip(*rows, strict=True)]


def _numbers(leaves: list[Any]) -> tuple[list[Any], list[_Kind]]:
    """(Stacked arrays, those of random keys as numbers; what they are without the axis of steps)."""
    pairs = [numbers_of(leaf) for leaf in leaves]
    return [leaf for leaf, _ in pairs], [(leaf.shape[1:], leaf.dtype, generator) for leaf, generator in pairs]


def _described(structure: Structure, shapes: list[_Kind]) -> str:
    specs = _jax.tree.unflatten(structure, [kind(_jax.ShapeDtypeStruct(shape, dtype), generator) for shape, dtype, generator in shapes])
    return shortened(specs, _MOST_TREE_CHARACTERS)
