"""`tensorflow.python.ipu.nn_ops`."""

from __future__ import annotations

from typing import Any

from tilestep.tensorflow.untyped import Tensor, tf


def gelu(x: Tensor, approximate: bool = True, name: str | None = None) -> Tensor:
    """The Gaussian error linear unit; by default its approximation with tanh, as the original's."""
    return tf.nn.gelu(x, approximate=approximate, name=name)


def swish(x: Tensor, beta: float = 1.0, name: str | None = None) -> Tensor:
    """x times the sigmoid of beta x."""
    return tf.multiply(x, tf.sigmoid(beta * x), name=name)


def hard_sigmoid(x: Tensor, name: str | None = None) -> Tensor:
    """0.2 x + 0.5 between 0 and 1."""
    return tf.clip_by_value(0.2 * x + 0.5, 0.0, 1.0, name=name)


def softmax(x: Tensor, stable: bool = False, name: str | None = None) -> Tensor:
    """Softmax over the last axis. Args: stable: it always is."""
    del stable
    return tf.nn.softmax(x, name=name)


def multi_conv(function: Any = None, options: Any = None) -> Any:
    """The function as it is: XLA plans each convolution by itself."""
    del options
    return function if function is not None else lambda inner: inner
