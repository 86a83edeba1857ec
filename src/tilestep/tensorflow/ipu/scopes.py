"""`tensorflow.python.ipu.scopes`: where a function's nodes go."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator

from tilestep.tensorflow.tf_private import graphs
from tilestep.tensorflow.tracing import current_scope
from tilestep.train.numbers import whole_number


@contextlib.contextmanager
def ipu_scope(device: str) -> Iterator[None]:
    """Nodes inside are for the IPU. Variables made inside are resource variables. Args: device: such as "/device:IPU:0"."""
    if not isinstance(device, str):
        raise TypeError(f"ipu_scope got {device!r}: it must be the name of a device, such as '/device:IPU:0'")
    with graphs.resource_variables():
        yield


@contextlib.contextmanager
def ipu_shard(index: int | list[int]) -> Iterator[None]:
    """Nodes inside are for one IPU of the replica.

    A replica then has as many IPUs as there are shards. Its nodes run on the first of them: only stages of a pipeline run apart.
    """
    indices = [whole_number("index", each, least=0) for each in (index if isinstance(index, list | tuple) else [index])]
    scope = current_scope()
    if scope is not None:
        scope.shards = max(scope.shards, *(each + 1 for each in indices))
        if any(indices) and not _told:
            _told.append(True)
            warnings.warn(
                "ipu_shard divides the IPUs into replicas, but its operations run on the first IPU of each: stages of pipelining_ops."
                "pipeline run on IPUs of their own",
                UserWarning,
                stacklevel=3,
            )
    yield


_told: list[bool] = []
ipu_jit_scope = ipu_scope
