"""Explains an exception of a stage that does not fit in its device's memory."""

from __future__ import annotations

import math
from typing import Final

from tilestep.train.pipeline.compile.stage import Stage
from tilestep.train.untyped import jax as _jax

_MOST_NAMED: Final = 3  # parameters


def is_too_large(error: BaseException) -> bool:
    """Whether a program has not been compiled because it needs more memory than there is."""
    return isinstance(error, MemoryError) or "RESOURCE_EXHAUSTED" in str(error)


def what_is_large(stage: Stage) -> str:
    """For such an exception: what of a stage's parameters takes most."""
    leaves = _jax.tree_util.tree_flatten_with_path(stage.params)[0]
    sizes = sorted(
        ((math.prod(leaf.shape) * leaf.dtype.itemsize, _jax.tree_util.keystr(path, simple=True, separator="/")) for path, leaf in leaves),
        reverse=True,
    )
    named = ", ".join(f"{path} {size:,} B" for size, path in sizes[:_MOST_NAMED]) or "none"
    return f"raised before microbatch 0 of the update began; the stage's parameters, largest first: {named}"
