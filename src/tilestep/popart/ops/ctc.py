"""The loss of connectionist temporal classification: minus the logarithm of the probability of all ways to emit the targets.

Source: Graves et al. 2006, "Connectionist temporal classification", section 4.1.
"""

from __future__ import annotations

import functools
from typing import Any, Final

import jax
import jax.numpy as jnp
import numpy as np
from onnx import helper

from tilestep.onnx.interpret import Call
from tilestep.onnx.ops.interpolation import wide
from tilestep.onnx.registry import op
from tilestep.popart.exceptions import popart_exception
from tilestep.popart.ops.describing import DOMAIN, op_text, shape_text, type_text
from tilestep.popart.ops.losses import reduced, reduction_of

_NEVER: Final = -1e30  # the logarithm of probability 0: with it differences are numbers


@op("Ctc", domain=DOMAIN)
def ctc_loss(
    call: Call,
    logarithms: Any,
    targets: Any,
    input_lengths: Any,
    target_lengths: Any,
    *,
    reduction: str = "Mean",
    blank: int = 0,
    outDataType: int = 0,
    zeroInfinity: int = 0,
    enableReducedClassesInLabel: int = 0,
) -> Any:
    """The loss of log-probabilities [T, N, C] for targets [N, S], and the gradient of each example's loss [T, N, C].

    A mean divides each loss by the length of its target first.

    Args:
        outDataType: ONNX's number of the type of the results; 0 for that of the log-probabilities.
        zeroInfinity: whether a loss that is infinite, because a target is too long for its input, counts as 0.
    """
    _check(call, logarithms, targets, (input_lengths, target_lengths))
    kind = helper.tensor_dtype_to_np_dtype(outDataType) if outDataType else np.dtype(logarithms.dtype)
    if not jnp.issubdtype(kind, jnp.floating):
        raise popart_exception(
            f"Unsupported data type for output 0 of Op {op_text(call.node)} (expected a floating point type, got {type_text(kind)})."
        )
    scores = wide(jnp.asarray(logarithms))
    label, times, lengths = (jnp.asarray(values).astype(np.int32) for values in (targets, input_lengths, target_lengths))
    each = functools.partial(_losses, targets=label, times=times, lengths=lengths, blank=blank, zero_infinity=bool(zeroInfinity))
    loss = each(scores).astype(kind)
    if reduction_of(reduction) == "Mean":
        loss = loss / jnp.maximum(lengths, 1).astype(kind)
    result = reduced(loss, reduction)
    if not call.wants(1):
        return result
    return result, jax.lax.stop_gradient(jax.grad(lambda values: each(values).sum())(scores).astype(kind))


def require_logarithms(name: str, logarithms: Any) -> None:
    """Checks the first input of the operator `name`. Raises: popart_exception for another rank or type."""
    if logarithms.ndim != 3:
        raise popart_exception(
            f"Unsupported shape for input 0 of Op {name} (expected a 'logarithmized probabilities' tensor of rank 3, got a tensor with "
            f"shape {shape_text(logarithms.shape)})."
        )
    if not jnp.issubdtype(logarithms.dtype, jnp.floating):
        raise popart_exception(
            f"Unsupported data type for input 0 of Op {name} (expected a 'logarithmized probabilities' tensor comprised of floating point "
            f"data, got {type_text(logarithms.dtype)})."
        )


def _check(call: Call, logarithms: Any, targets: Any, lengths: tuple[Any, Any]) -> None:
    name = op_text(call.node)
    require_logarithms(name, logarithms)
    batch = logarithms.shape[1]
    if targets.ndim != 2 or targets.shape[0] != batch:
        raise popart_exception(
            f"Unsupported shape for input 1 of Op {name} (expected a 'targets' tensor of rank 2 with the size of the first dimension being "
            f"{batch} to match the size of the second dimension of the 'logarithmized probabilities' tensor, got "
            f"{shape_text(targets.shape)})."
        )
    for position, (what, values) in enumerate(zip(("input", "target"), lengths, strict=True), start=2):
        if values.shape != (batch,):
            raise popart_exception(
                f"Unsupported shape for input {position} of Op {name} (expected a '{what} lengths' tensor of shape [{batch}], got "
                f"{shape_text(values.shape)})."
            )


def _losses(scores: Any, *, targets: Any, times: Any, lengths: Any, blank: int, zero_infinity: bool) -> Any:
    """The loss of each example [N]. The forward recursion goes over the targets with a blank before, between and behind them."""
    count, states = scores.shape[1], 2 * targets.shape[1] + 1
    labels = jnp.full((count, states), blank, np.int32).at[:, 1::2].set(targets)
    skips = jnp.zeros((count, states), bool).at[:, 2:].set((labels[:, 2:] != blank) & (labels[:, 2:] != labels[:, :-2]))
    emitted = jnp.maximum(jnp.take_along_axis(scores, jnp.broadcast_to(labels, (scores.shape[0], count, states)), axis=2), _NEVER)
    first = jnp.where(jnp.arange(states) < 2, emitted[0], _NEVER)
    first = jnp.where((jnp.arange(states) == 1) & (lengths[:, None] == 0), _NEVER, first)

    def step(alpha: Any, now: tuple[Any, Any]) -> tuple[Any, None]:
        time, emission = now
        before = jnp.pad(alpha, ((0, 0), (1, 0)), constant_values=_NEVER)[:, :-1]
        skipped = jnp.where(skips, jnp.pad(alpha, ((0, 0), (2, 0)), constant_values=_NEVER)[:, :-2], _NEVER)
        new = jnp.maximum(jax.nn.logsumexp(jnp.stack([alpha, before, skipped]), axis=0) + emission, _NEVER)
        return jnp.where(time < times[:, None], new, alpha), None

    alpha, _ = jax.lax.scan(step, first, (jnp.arange(1, scores.shape[0]), emitted[1:]))
    ends = jnp.stack([2 * lengths, jnp.maximum(2 * lengths - 1, 0)], axis=1)
    last = jnp.take_along_axis(alpha, ends, axis=1)
    last = jnp.where((lengths[:, None] == 0) & (jnp.arange(2) == 1), _NEVER, last)
    total = jax.nn.logsumexp(last, axis=1)
    possible = total > _NEVER / 2
    return jnp.where(possible, -jnp.where(possible, total, 0), 0 if zero_infinity else jnp.inf)
