"""Iterators of TensorFlow 2 as the runtime's queues: what a program did not use is the next one's, or the user's."""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any, Final, final

from tilestep.tensorflow.tf_private import eager
from tilestep.tensorflow.untyped import Structure, tf
from tilestep.train import InfeedQueue
from tilestep.train.feeds.chunks import DEFAULT_CHUNK

_DEPTH: Final = 3  # chunks ahead, as an IPUInfeedQueue


@final
class IteratorFeed:
    """Elements of iterators, which live as long as others want them.

    Args: iterators: from which a step takes, in its order; one may come twice.
    """

    def __init__(self, iterators: Sequence[Any]) -> None:
        self.iterators: Final = [weakref.ref(each) for each in iterators]
        self._queue: InfeedQueue | None = None
        self._ahead: deque[list[Structure]] = deque()  # elements that the queue has got, and programs have not used
        self._used = 0  # elements that are in it no more

    def opened(self, replicas: int) -> InfeedQueue:
        """What loops of the runtime take. Args: replicas: of the program."""
        wanted = None if replicas == 1 else replicas
        if self._queue is not None and self._queue.replicas != wanted:
            self.close()
        if self._queue is None:
            this = weakref.ref(self)
            self._queue = InfeedQueue(lambda: _elements(this), prefetch_depth=_DEPTH, replicas=wanted, copy=False)
        return self._queue

    def next_arrays(self) -> tuple[Any, ...] | None:
        """The next element, flat; None when there is none."""
        iterators = [each() for each in self.iterators]
        try:
            element = [next_element(each) for each in iterators]
        except tf.errors.OutOfRangeError:
            return None
        if self._queue is not None:
            self._forget(self._queue.consumed - self._queue.elements_per_step * DEFAULT_CHUNK)  # a loop may give its chunk back
        self._ahead.append(element)
        return tuple(each.numpy() for each in tf.nest.flatten(element))

    def _forget(self, used: int) -> None:
        while self._used < used and self._ahead:
            self._ahead.popleft()
            self._used += 1

    def close(self) -> None:
        """Ends the queue. What it has taken and nobody has used comes next again."""
        queue, self._queue = self._queue, None
        if queue is None:
            return
        queue.close()
        self._forget(queue.consumed)
        while self._ahead:
            for iterator, element in zip(reversed(self.iterators), reversed(self._ahead.pop()), strict=True):
                _left.setdefault(iterator(), deque()).appendleft(element)
        self._used = 0


def _elements(this: weakref.ref[IteratorFeed]) -> Iterator[Any]:
    """Keeps the feed alive in no pause, so that its thread ends with it."""
    while (feed := this()) is not None and (element := feed.next_arrays()) is not None:
        del feed
        yield element


_feeds: Final[weakref.WeakKeyDictionary[Any, IteratorFeed]] = weakref.WeakKeyDictionary()
_left: Final[weakref.WeakKeyDictionary[Any, deque[Structure]]] = weakref.WeakKeyDictionary()
_shapes: Final[weakref.WeakKeyDictionary[Any, list[Any]]] = weakref.WeakKeyDictionary()


def feed(iterators: Sequence[Any]) -> IteratorFeed:
    """The feed of these iterators, which no other takes from any more."""
    found = _feeds.get(iterators[0])
    if found is None or [each() for each in found.iterators] != list(iterators):
        for each in iterators:
            close(each)
        found = IteratorFeed(iterators)
        _feeds.update(dict.fromkeys(iterators, found))
    return found


def close(iterator: Any) -> None:
    """No feed takes from an iterator any more."""
    found = _feeds.pop(iterator, None)
    if found is not None:
        found.close()


def next_element(iterator: Any) -> Structure:
    """The next element. Raises: tf.errors.OutOfRangeError when there is none."""
    left = _left.get(iterator)
    return left.popleft() if left else eager.next_of(iterator)


def element_specs(iterator: Any) -> list[Any]:
    """Specs of an element's tensors. The next element has the shapes that the dataset leaves open; it stays the next.

    Raises: tf.errors.OutOfRangeError when there is none.
    """
    specs = tf.nest.flatten(iterator.element_spec)
    if all(each.shape.is_fully_defined() for each in specs):
        return specs
    if iterator not in _shapes:
        close(iterator)
        with tf.init_scope():
            element = next_element(iterator)
        _left.setdefault(iterator, deque()).appendleft(element)
        _shapes[iterator] = [each.shape for each in tf.nest.flatten(element)]
    return [tf.TensorSpec(shape, each.dtype) for shape, each in zip(_shapes[iterator], specs, strict=True)]
