"""What programs of TensorFlow 2 use: variables outside of graphs, and iterators, which are queues of the runtime's.

What a program did not use of an iterator is the next program's, or the user's.
"""

import functools
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any, Final, final

from tilestep.errors import UnsupportedError
from tilestep.tensorflow.residency import touched
from tilestep.tensorflow.tf_private import graphs
from tilestep.tensorflow.tracing import Scope, Taken, current_scope
from tilestep.tensorflow.untyped import Structure, Tensor, tf, v1
from tilestep.train import InfeedQueue
from tilestep.train.feeds.chunks import DEFAULT_CHUNK

_variables: Final[Any] = import_module("tensorflow.python.ops.resource_variable_ops").BaseResourceVariable
_concrete: Final[Any] = import_module("tensorflow.python.eager.polymorphic_function.concrete_function").ConcreteFunction
_polymorphic: Final[Any] = import_module("tensorflow.python.eager.polymorphic_function.polymorphic_function").Function
_iterators: Final[Any] = import_module("tensorflow.python.data.ops.iterator_ops").OwnedIterator
_call_flat: Final[Any] = _concrete._call_flat
_call: Final[Any] = _polymorphic.__call__
_next: Final[Any] = _iterators._next_internal
_DEPTH: Final = 3  # chunks ahead, as an IPUInfeedQueue


@functools.cache
def watch_functions() -> None:
    """From now on functions of TensorFlow 2 can be programs. A second call changes nothing."""

    def traced() -> Scope | None:
        """That of a function of TensorFlow 2."""
        scope = current_scope()
        return scope if scope is not None and scope.compilation is None else None

    def handle(self: Any) -> Tensor:
        if tf.executing_eagerly():
            touched(self._handle)
        elif (scope := traced()) is not None:
            scope.variables[id(self._handle)] = self
        return self._handle

    @functools.wraps(_call_flat)
    def call_flat(self: Any, tensor_inputs: Any, captured_inputs: Any) -> Any:
        if tf.executing_eagerly():
            for each in captured_inputs:
                touched(each)
        return _call_flat(self, tensor_inputs, captured_inputs)

    @functools.wraps(_call)
    def call(self: Any, *arguments: Any, **options: Any) -> Any:
        if tf.executing_eagerly() or traced() is None:
            return _call(self, *arguments, **options)
        return graphs.with_graph_loops(self.python_function)(*arguments, **options)  # a part of the program around it

    def next_internal(self: Any) -> Structure:
        if tf.executing_eagerly():
            close(self)
            return next_element(self)
        if (scope := traced()) is None:
            return _next(self)
        placeholders = [v1.placeholder(each.dtype, each.shape) for each in element_specs(self)]
        scope.taken.append(Taken(self, v1.get_default_graph(), placeholders))
        return tf.nest.pack_sequence_as(self.element_spec, placeholders)

    def next_as_optional(self: Any, own: Callable[[Any], Any] = _iterators.get_next_as_optional) -> Any:
        if not tf.executing_eagerly() and traced() is not None:
            raise UnsupportedError("a program on the IPU cannot loop over an iterator: take next(iterator) in a loop over tf.range")
        return own(self)

    _iterators.get_next_as_optional = next_as_optional
    _variables.handle = property(handle)
    _concrete._call_flat = call_flat
    _polymorphic.__call__ = call
    _iterators._next_internal = next_internal


@final
class IteratorFeed:
    """Elements of iterators, which live as long as others want them. A step takes from them in their order; one may come twice."""

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

            def next_arrays() -> tuple[Any, ...] | None:
                feed = this()  # the queue's thread keeps the feed alive in no pause, so that it ends with it
                return None if feed is None else feed.next_arrays()

            self._queue = InfeedQueue(lambda: iter(next_arrays, None), prefetch_depth=_DEPTH, replicas=wanted, copy=False)
        return self._queue

    def next_arrays(self) -> tuple[Any, ...] | None:
        """The next element, flat; None when there is none."""
        try:
            element = [next_element(each()) for each in self.iterators]
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
    return left.popleft() if left else _next(iterator)


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
