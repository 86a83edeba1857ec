"""`tensorflow.python.ipu.replication_ops`."""

from __future__ import annotations

from tilestep.tensorflow import markers
from tilestep.tensorflow.untyped import Tensor


def replication_index(name: str | None = None) -> Tensor:
    """The number of the replica, int32[], from 0 on."""
    del name
    return markers.index()
