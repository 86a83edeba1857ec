"""`tensorflow.python.ipu.embedding_ops`."""

from __future__ import annotations

from typing import Any

from tilestep.errors import UnsupportedError
from tilestep.tensorflow.untyped import Tensor, tf


def embedding_lookup(
    params: Tensor, ids: Tensor, name: str | None = None, serialization_factor: int = 1, indices_are_sorted: bool = False
) -> Tensor:
    """Rows of a table. Args: serialization_factor, indices_are_sorted: no effect; XLA plans the lookup."""
    del serialization_factor, indices_are_sorted
    return tf.nn.embedding_lookup(params, ids, name=name)


def create_host_embedding(*arguments: Any, **options: Any) -> Any:
    """Raises: UnsupportedError, as tables stay in the device's memory, or are parameters that `tilestep.train.placed` offloads."""
    raise UnsupportedError("tilestep has no host embeddings: make the table a variable, and look up its rows with embedding_lookup")
