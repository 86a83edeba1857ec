"""A batch cut into microbatches, of which the last ones may be filled up."""

from typing import Final

import numpy as np

from tilestep.train.numbers import whole_number
from tilestep.train.other_arguments import require_tree
from tilestep.train.untyped import Pytree
from tilestep.train.untyped import jax as _jax

_MOST: Final = 1_000_000  # microbatches, each of which takes the memory of a row at least


def microbatches_of(batch: Pytree, count: int, *, replicas: int = 1) -> tuple[Pytree, np.ndarray]:
    """Cuts a batch of n rows into `count` microbatches of equally many rows, with a mask of the rows that the batch has.

    Rows stay in order. If n is no multiple, the last rows are copies of the first row, with False in the mask, so that values computed from
    them stay finite. A loss must leave them out, by `(losses * mask).sum() / n`, and so must statistics of batches.

    Args:
        batch: a pytree of arrays [n, ...], rows along the first axis.
        count: microbatches, 1 or more.
        replicas: 1 or more.

    Returns:
        (The pytree of NumPy arrays [count, rows, ...], the mask, bool[count, rows]), with rows = ceil(n / (count * replicas)). With several
        replicas [count, replicas, rows, ...] and bool[count, replicas, rows].

    Raises:
        TypeError: when a number is no whole number.
        ValueError: when a number is below 1, when all are above 1,000,000 together, or when arrays have no rows
            or different numbers of rows.
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
