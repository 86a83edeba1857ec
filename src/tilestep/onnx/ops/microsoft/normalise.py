"""Layer norms with the sum before them, and the embeddings of a transformer."""

from typing import Any

import jax.numpy as jnp
import numpy as np

from tilestep.onnx.interpreter.interpret import Call
from tilestep.onnx.interpreter.registry import op
from tilestep.onnx.ops.microsoft.limits import MS
from tilestep.onnx.ops.nn.norm import axes_from, by_mean_square, layer_norm, standardised

op("LayerNormalization")(layer_norm)  # before version 17 it is ONNX Runtime's own, in ONNX's domain


@op("SimplifiedLayerNormalization")
def simplified_layer_norm(call: Call, x: Any, scale: Any, *, axis: int = -1, epsilon: float = 1e-5, stash_type: int = 1) -> Any:
    """Mean square 1 over `axis` and all behind it, then times the scale; and 1 / root mean square. It stands in ONNX's domain."""
    y, inverse = by_mean_square(jnp.asarray(x), axes_from(axis, x.ndim), epsilon)
    return y * scale, inverse


@op("SkipLayerNormalization", domain=MS)
def skip_layer_norm(call: Call, x: Any, skip: Any, gamma: Any, beta: Any = None, bias: Any = None, *, epsilon: float = 1e-12) -> Any:
    """The layer norm of x + skip + bias; its means, its 1 / deviations, and the sum. Of the skip the batch may be missing."""
    total = _sum(x, skip, bias)
    y, mean, inverse = standardised(total, (total.ndim - 1,), epsilon)
    return y * gamma if beta is None else y * gamma + beta, mean, inverse, total


@op("SkipSimplifiedLayerNormalization", domain=MS)
def skip_simplified_layer_norm(call: Call, x: Any, skip: Any, gamma: Any, bias: Any = None, *, epsilon: float = 1e-12) -> Any:
    """x + skip + bias with mean square 1, times gamma; nothing; 1 / root mean square; and the sum."""
    total = _sum(x, skip, bias)
    y, inverse = by_mean_square(total, (total.ndim - 1,), epsilon)
    return y * gamma, None, inverse, total


@op("EmbedLayerNormalization", domain=MS)
def embed_layer_norm(
    call: Call,
    ids: Any,
    segments: Any,
    words: Any,
    positions: Any,
    segment_table: Any,
    gamma: Any,
    beta: Any,
    mask: Any = None,
    position_ids: Any = None,
    *,
    epsilon: float = 1e-12,
    mask_index_type: int = 0,
) -> Any:
    """The layer norm of a token's embeddings by word, position and segment; tokens of each row that count, int32; the embeddings."""
    places = np.arange(ids.shape[1])[None] if position_ids is None else position_ids
    total = jnp.asarray(words)[ids] + jnp.asarray(positions)[places]
    if segment_table is not None and segments is not None:
        total = total + jnp.asarray(segment_table)[segments]
    y, _, _ = standardised(total, (2,), epsilon)
    counts = jnp.zeros(ids.shape[0], np.int32) if mask is None else (jnp.asarray(mask) == 1).sum(1).astype(np.int32)
    return y * gamma + beta, counts, total


def _sum(x: Any, skip: Any, bias: Any) -> Any:
    total = jnp.asarray(x) + skip
    return total if bias is None else total + bias
