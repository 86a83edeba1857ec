"""`tensorflow.python.ipu.rand_ops`."""

from __future__ import annotations

from typing import Any

from tilestep.tensorflow.untyped import Tensor, tf


def dropout(x: Tensor, seed: Any = None, rate: float = 0.5, noise_shape: Any = None, name: str | None = None, **others: Any) -> Tensor:
    """Sets elements to 0 at random, and scales the others by 1 / (1 - rate). Backward has the same mask.

    Args:
        seed: int32[2], for the same mask each time; None: another one in each step.
        rate: the part that is 0.
        others: `ref`, which has no effect.
    Raises: TypeError for other arguments.
    """
    if set(others) - {"ref"}:
        raise TypeError(
            f"rand_ops.dropout has no argument {sorted(set(others) - {'ref'})[0]!r}; it has x, seed, rate, noise_shape and name"
        )
    if seed is None:
        return tf.nn.dropout(x, rate=rate, noise_shape=noise_shape, name=name)
    return tf.nn.experimental.stateless_dropout(x, rate, seed=seed, noise_shape=noise_shape, name=name)
