"""Where types end: TensorFlow has none that a type checker here could read, and is imported when this package is."""

from __future__ import annotations

from typing import Any, Final, TypeAlias

import tensorflow as _untyped  # pyrefly: ignore[missing-import]

tf: Final[Any] = _untyped
v1: Final[Any] = tf.compat.v1

Tensor: TypeAlias = Any  # of a graph
Operation: TypeAlias = Any  # a node of a graph
Graph: TypeAlias = Any  # a tf.Graph; a FuncGraph is one too
Session: TypeAlias = Any  # a tf.compat.v1.Session, or another one of its base class
Structure: TypeAlias = Any  # nested lists, tuples and dicts of tensors
TensorSpec: TypeAlias = Any  # a tf.TensorSpec
