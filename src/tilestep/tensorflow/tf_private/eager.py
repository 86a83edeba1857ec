"""Sees what programs of TensorFlow 2 do: which variables they use outside of graphs, and what they take from iterators."""

from __future__ import annotations

import functools
from collections.abc import Callable
from importlib import import_module
from typing import Any, Final

from tilestep.tensorflow.tf_private import graphs
from tilestep.tensorflow.untyped import Structure, Tensor, tf

_variables: Final[Any] = import_module("tensorflow.python.ops.resource_variable_ops").BaseResourceVariable
_concrete: Final[Any] = import_module("tensorflow.python.eager.polymorphic_function.concrete_function").ConcreteFunction
_polymorphic: Final[Any] = import_module("tensorflow.python.eager.polymorphic_function.polymorphic_function").Function
_iterators: Final[Any] = import_module("tensorflow.python.data.ops.iterator_ops").OwnedIterator
_call_flat: Final[Any] = _concrete._call_flat
_call: Final[Any] = _polymorphic.__call__
_next: Final[Any] = _iterators._next_internal


def next_of(iterator: Any) -> Structure:
    """The next element of an iterator itself. Raises: tf.errors.OutOfRangeError when there is none."""
    return _next(iterator)


def watch(
    *,
    is_tracing: Callable[[], bool],
    named: Callable[[Any, Tensor], None],
    touched: Callable[[Tensor], None],
    next_element: Callable[[Any], Structure],
) -> None:
    """From now on all of it is seen.

    Args:
        is_tracing: whether this thread traces a program.
        named: the program that is being traced uses a variable: (it, its handle).
        touched: somebody outside of programs is about to read or change the variable of a handle.
        next_element: the next element of an iterator, in a trace and outside.
    """

    def handle(self: Any) -> Tensor:
        if tf.executing_eagerly():
            touched(self._handle)
        elif is_tracing():
            named(self, self._handle)
        return self._handle

    @functools.wraps(_call_flat)
    def call_flat(self: Any, tensor_inputs: Any, captured_inputs: Any) -> Any:
        if tf.executing_eagerly():
            for each in captured_inputs:
                touched(each)
        return _call_flat(self, tensor_inputs, captured_inputs)

    @functools.wraps(_call)
    def call(self: Any, *arguments: Any, **options: Any) -> Any:
        if tf.executing_eagerly() or not is_tracing():
            return _call(self, *arguments, **options)
        return graphs.with_graph_loops(self.python_function)(*arguments, **options)  # a part of the program around it

    _variables.handle = property(handle)
    _concrete._call_flat = call_flat
    _polymorphic.__call__ = call
    _iterators._next_internal = lambda self: next_element(self)
