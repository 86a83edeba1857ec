"""Gives a program the interface of TensorFlow 1 under the name `tensorflow`."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any

from tilestep.tensorflow.untyped import tf


def use_version_1() -> None:
    """`import tensorflow` gives TensorFlow 1's interface and behaviour from now on, as Graphcore's TensorFlow 1 had it."""
    tf.compat.v1.disable_v2_behavior()
    dimension = import_module("tensorflow.python.framework.tensor_shape").Dimension
    exact = dimension.__init__

    def whole(self: Any, value: Any) -> None:
        """A whole float is a size, too, as in TensorFlow 1."""
        exact(self, int(value) if isinstance(value, float) and value.is_integer() else value)

    dimension.__init__ = whole
    first: Any = tf.compat.v1
    first.__path__ = tf.__path__
    first.python = import_module("tensorflow.python")
    place_on_host(first)
    sys.modules["tensorflow"] = first


def place_on_host(first: Any) -> None:
    """Nodes in `tf.device("/device:IPU:0")` are the host's: `ipu_compiler.compile` makes the IPU's. Args: first: TensorFlow 1."""
    made = first.device

    def device(device_name_or_function: Any) -> Any:
        is_ipu = isinstance(device_name_or_function, str) and "device:IPU" in device_name_or_function
        return made("/device:CPU:0" if is_ipu else device_name_or_function)

    first.device = device
