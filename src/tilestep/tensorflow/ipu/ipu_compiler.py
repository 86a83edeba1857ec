"""`tensorflow.python.ipu.ipu_compiler`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tilestep.tensorflow.compilation import compiled
from tilestep.tensorflow.untyped import Structure


def compile(computation: Callable[..., Any], inputs: Sequence[Any] | None = None) -> Structure:
    """Compiles a function into one node of the graph, which runs on the device that `ipu_scope` and `IPUConfig` choose.

    Args:
        computation: a function of tensors. It returns tensors, then nodes.
        inputs: tensors, or what becomes one: its arguments.
    Returns:
        The tensors that it returns, with its structure. A list of one for a single tensor; a node if there is none.
    Raises:
        UnsupportedError: for what XLA cannot lower, and outside of a graph of TensorFlow 1.
    """
    return compiled(computation, inputs)
