"""The loss of connectionist temporal classification: minus the logarithm of the probability of all ways to emit the targets.

Source: Graves et al. 2006, "Connectionist temporal classification", section 4.1.
"""

import functools
from typing import Any, Final, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from onnx import helper

from tilestep.onnx.interpreter.interpret import Call
from tilestep.onnx.interpreter.registry import op
from tilestep.onnx.ops.interpolation import wide
from tilestep.popart.exceptions import popart_exception
from tilestep.popart.ops.describing import DOMAIN, op_text, shape_text, type_text
from tilestep.popart.ops.gradients import without_gradient
from tilestep.popart.ops.nn.losses import reduced, reduction_of

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


class _Beams(NamedTuple):
    """The best prefixes: labels [W, T], lengths [W], and logarithms of the probabilities that they end in a blank, and that they don't."""

    labels: Any
    lengths: Any
    blank: Any
    other: Any


@op("CtcBeamSearchDecoder", domain=DOMAIN)
def ctc_beam_search(
    call: Call, logarithms: Any, lengths: Any, *, blank: int = 0, beam_width: int = 100, top_paths: int = 1
) -> tuple[Any, Any, Any]:
    """The best `top_paths` sequences for log-probabilities [T, N, C], of which item n has `lengths[n]` times.

    Returns: logarithms of their probabilities [N, P], their lengths [N, P], and their labels [N, P, T] with zeros behind them.
    """
    name = op_text(call.node)
    require_logarithms(name, logarithms)
    if lengths.shape != (logarithms.shape[1],):
        raise popart_exception(
            f"Unsupported shape for input 1 of Op {name} (expected a 'data lengths' tensor of shape [{logarithms.shape[1]}], got "
            f"{shape_text(lengths.shape)})."
        )
    if top_paths > beam_width:
        raise popart_exception(f"top_paths is {top_paths}, and at most beam_width, which is {beam_width}")
    scores = without_gradient(jnp.asarray(logarithms)).astype(np.float32)
    search = functools.partial(_search, blank=blank, width=beam_width, paths=top_paths)
    found = jax.vmap(search, in_axes=(1, 0))(scores, jnp.asarray(lengths).astype(np.int32))
    probabilities = jnp.logaddexp(found.blank, found.other).astype(logarithms.dtype)
    return probabilities, found.lengths.astype(np.uint32), found.labels.astype(np.uint32)


def _search(scores: Any, end: Any, *, blank: int, width: int, paths: int) -> _Beams:
    """The best sequences for scores [T, C] of one item."""
    times = scores.shape[0]
    none = jnp.full((width,), -jnp.inf, scores.dtype)
    first = _Beams(jnp.zeros((width, times), np.int32), jnp.zeros((width,), np.int32), none.at[0].set(0), none)

    def step(beams: _Beams, now: tuple[Any, Any]) -> tuple[_Beams, None]:
        time, score = now
        new = _grown(beams, score, blank, width)
        return jax.tree.map(lambda old, fresh: jnp.where(time < end, fresh, old), beams, new), None

    last, _ = jax.lax.scan(step, first, (jnp.arange(times), scores))
    best = jnp.argsort(jnp.logaddexp(last.blank, last.other), descending=True, stable=True)[:paths]
    return jax.tree.map(lambda values: values[best], last)


def _grown(beams: _Beams, score: Any, blank: int, width: int) -> _Beams:
    """The best prefixes after one more time, whose scores are [C]."""
    classes = score.shape[0]
    rows = jnp.arange(width)
    final = jnp.where(beams.lengths > 0, jnp.take_along_axis(beams.labels, jnp.maximum(beams.lengths - 1, 0)[:, None], 1)[:, 0], -1)
    whole = jnp.logaddexp(beams.blank, beams.other)
    # A prefix stays what it is by a blank, or by its last label again.
    stay_blank = whole + score[blank]
    stay_other = jnp.where(final >= 0, beams.other + score[jnp.maximum(final, 0)], -jnp.inf)
    # A prefix becomes longer by a label; by its last label only if a blank stands between the two.
    longer = jnp.where(jnp.arange(classes) == final[:, None], beams.blank[:, None], whole[:, None]) + score
    longer = longer.at[:, blank].set(-jnp.inf)
    # Where the longer one is among the prefixes already, it joins that one.
    inside = jnp.arange(beams.labels.shape[1]) < beams.lengths[:, None]
    same = jnp.where(inside[:, None, :], beams.labels[:, None, :] == beams.labels[None, :, :], True).all(-1)
    joins = same & (beams.lengths[None, :] == beams.lengths[:, None] + 1) & (whole > -jnp.inf)[None, :]  # [shorter, longer]
    joined = jnp.where(joins, longer[:, jnp.maximum(final, 0)], -jnp.inf)
    stay_other = jnp.logaddexp(stay_other, jax.nn.logsumexp(joined, axis=0))
    longer = longer.at[rows[:, None], jnp.where(joins, final[None, :], classes)].set(-jnp.inf, mode="drop")
    ranking = jnp.concatenate([jnp.logaddexp(stay_blank, stay_other), longer.ravel()])
    _, best = jax.lax.top_k(ranking, width)
    stays = best < width
    source = jnp.where(stays, best, (best - width) // classes)
    label = (best - width) % classes
    old_lengths = beams.lengths[source]
    labels = beams.labels[source]
    written = labels.at[rows, jnp.where(stays, labels.shape[1], old_lengths)].set(label, mode="drop")
    return _Beams(
        written,
        old_lengths + ~stays,
        jnp.where(stays, stay_blank[source], -jnp.inf),
        jnp.where(stays, stay_other[source], longer[source, jnp.where(stays, 0, label)]),
    )
