"""A batch cut into microbatches, of which the last ones may be filled up."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from tilestep.train.numbers import whole_number
from tilestep.train.other_arguments import require_tree
from tilestep.train.untyped import jax as _jax

_MOST: Final = 1_000_000  # microbatches, each of which takes the memory of a row at least


def microbatches_of(batch: Any, count: int, *, replicas: int = 1) -> tuple[Any, np.ndarray]:
    """A batch of n rows as `count` microbatches (of so many replicas) of equally many rows, and which of these are rows of the batch.

    Rows stay in order. Where n is no multiple the last ones are the first row again, with False in the mask: a loss must leave them out, by
    `(losses * mask).sum() / n`, and so must statistics of batches. That the rows are real ones keeps what is computed of them finite.

    Args: batch: a pytree of arrays with the rows along their first axis, of one length.
    Returns: (the pytree of NumPy arrays [count, rows, ...], bool[count, rows]); with several replicas [count, replicas, rows, ...].
    Raises: TypeError, ValueError for numbers below 1, or above 1,000,000 in all, and arrays without rows or of several lengths.
    """
    count, replicas = whole_number("count", count, least=1, most=_MOST), whole_number("replicas", replicas, least=1, most=_MOST)
    whole_number("count x replicas", count * replicas, least=1, most=_MOST)
    require_tree("batch", batch)
    leaves = _jax.tree.leaves(batch)
    lengths = {np.shape(leaf)[:1] for leaf in leaves}
    if len(lengths) != 1 or () in lengths or (0,) in lengths:
        raise ValueError(
            f"batch has arrays of shapes {', '.join(str(np.shape(leaf)) for leaf in leaves) or 'none'}: the first axis of each must be the "
            "batch's rows, one or more"
        )
    ((number,),) = lengths
    rows = -(-number // (count * replicas))
    shape = (count, rows) if replicas == 1 else (count, replicas, rows)
    places = np.arange(count * replicas * rows)
    mask = places < number
    places[~mask] = 0
    return _jax.tree.map(lambda leaf: np.asarray(leaf)[places].reshape(*shape, *np.shape(leaf)[1:]), batch), mask.reshape(shape)
