"""Losses of classifiers: of log-probabilities, and of scores."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tilestep.onnx.interpret import Call
from tilestep.onnx.ops.interpolation import wide
from tilestep.onnx.registry import op


@op("NegativeLogLikelihoodLoss", since=12)
def nll_loss(call: Call, x: Any, target: Any, weight: Any = None, *, ignore_index: int | None = None, reduction: str = "mean") -> Any:
    """Minus the log-probability x [N, C, D1, ...] of each target [N, D1, ...], times the weight [C] of its class.

    A mean divides by the weights. An item whose target is `ignore_index` has loss 0 and weight 0. Other targets outside of
    0 to C - 1 give no number.
    """
    return _loss(x, target, weight, ignore_index, reduction)


@op("SoftmaxCrossEntropyLoss", since=12)
def softmax_cross_entropy(
    call: Call, x: Any, target: Any, weight: Any = None, *, ignore_index: int | None = None, reduction: str = "mean"
) -> Any:
    """The loss above of the log-softmax of scores [N, C, D1, ...], and that log-softmax."""
    logarithms = jax.nn.log_softmax(jnp.asarray(x), axis=1)
    return _loss(logarithms, target, weight, ignore_index, reduction), logarithms


def _loss(x: Any, target: Any, weight: Any, ignore_index: int | None, reduction: str) -> Any:
    if reduction not in ("none", "sum", "mean"):
        raise ValueError(f"reduction is {reduction!r}, and may be none, sum or mean")
    x, target, classes = jnp.asarray(x), jnp.asarray(target), x.shape[1]
    counts = None if ignore_index is None else target != ignore_index
    index = target if counts is None else jnp.where(counts, target, 0)
    index = jnp.where(index < 0, classes, index)  # an index below 0 would count from the end
    loss = -jnp.take_along_axis(x, index[:, None], axis=1, mode="fill", fill_value=np.nan)[:, 0]
    weights = None if weight is None else jnp.take(jnp.asarray(weight), index, mode="fill", fill_value=np.nan)
    if weights is not None:
        loss = loss * weights
    if counts is not None:
        loss = jnp.where(counts, loss, 0)
        weights = counts.astype(x.dtype) if weights is None else jnp.where(counts, weights, 0)
    if reduction == "none":
        return loss
    total = wide(loss).sum()
    if reduction == "mean":
        total = total / (loss.size if weights is None else wide(weights).sum())
    return total.astype(x.dtype)
