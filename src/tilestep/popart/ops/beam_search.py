"""The most probable label sequences of connectionist temporal classification, by prefix beam search.

Source: Hannun et al. 2014, "First-Pass Large Vocabulary Continuous Speech Recognition using Bi-Directional Recurrent DNNs", algorithm 1,
without a language model.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from tilestep.onnx.interpret import Call
from tilestep.onnx.registry import op
from tilestep.popart.exceptions import popart_exception
from tilestep.popart.ops.ctc import require_logarithms
from tilestep.popart.ops.describing import DOMAIN, op_text, shape_text
from tilestep.popart.ops.gradients import without_gradient


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
