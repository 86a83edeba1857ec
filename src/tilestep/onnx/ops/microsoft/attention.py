"""Attention as ONNX Runtime's tools fuse it: projections, masks, caches and rotary embeddings in one node."""

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tilestep.onnx.interpreter.interpret import Call
from tilestep.onnx.interpreter.registry import op
from tilestep.onnx.interpreter.values import known_scalar
from tilestep.onnx.ops.interpolation import flattened
from tilestep.onnx.ops.microsoft.limits import MS, require_absent, require_inert
from tilestep.onnx.ops.nn.attention import rotary_embedding, scores_of, split_heads, weighted
from tilestep.onnx.ops.quantise import distances, exact


@dataclass(frozen=True, kw_only=True)
class _Heads:
    """Attributes: mask_filter_value: is added to a masked score. scale: 0 is 1 / sqrt(size).
    unidirectional: whether queries, the last of the keys, see no key behind their own.
    """

    num_heads: int
    mask_filter_value: float = -10000.0
    scale: float = 0.0
    unidirectional: int = 0


def _heads_of(attributes: Mapping[str, Any], **inert: Any) -> _Heads:
    """Raises: ValueError for an attribute that is not supported."""
    own = {name: value for name, value in attributes.items() if name in _Heads.__dataclass_fields__}
    require_inert({name: value for name, value in attributes.items() if name not in own}, **inert)
    return _Heads(**own)


@op("Attention", domain=MS)
def attention(
    call: Call,
    x: Any,
    weights: Any,
    bias: Any = None,
    mask: Any = None,
    past: Any = None,
    attention_bias: Any = None,
    past_sequence_length: Any = None,
    *,
    qkv_hidden_sizes: Sequence[int] = (),
    **attributes: Any,
) -> Any:
    """Attention of x [batch, tokens, inputs] with itself, and the keys and values [2, batch, heads, tokens, size].

    Args:
        weights: [inputs, sizes of queries, keys and values]. bias: [of them].
        mask: see `_masking`.
        past: [2, batch, heads, past tokens, size], which come first.
        attention_bias: is added to the scores.
        past_sequence_length: says how much of a shared buffer counts; nothing is shared here.
    """
    heads = _heads_of(attributes, do_rotary=0, past_present_share_buffer=0, rotary_embedding_dim=0)
    projected = jnp.matmul(x, weights)
    sizes = tuple(qkv_hidden_sizes) or (weights.shape[1] // 3,) * 3
    projected = projected if bias is None else projected + bias
    return _of_projected(projected, sizes, mask, past, attention_bias, heads)


@op("QAttention", domain=MS)
def quantised_attention(
    call: Call,
    x: Any,
    weights: Any,
    bias: Any,
    x_scale: Any,
    weight_scale: Any,
    mask: Any = None,
    x_zero_point: Any = None,
    weight_zero_point: Any = None,
    past: Any = None,
    **attributes: Any,
) -> Any:
    """Attention whose x and weights are quantised, with a scale for all weights or one for each column; the rest is float32."""
    heads = _heads_of(attributes, do_rotary=0, past_present_share_buffer=0)
    product = exact(jnp.matmul(distances(x, x_zero_point), distances(weights, weight_zero_point)))
    projected = product * (exact(x_scale) * exact(weight_scale)) + bias
    return _of_projected(projected, (weights.shape[1] // 3,) * 3, mask, past, None, heads)


@op("MultiHeadAttention", domain=MS)
def multi_head_attention(
    call: Call,
    q: Any,
    k: Any = None,
    v: Any = None,
    bias: Any = None,
    mask: Any = None,
    attention_bias: Any = None,
    past_key: Any = None,
    past_value: Any = None,
    past_sequence_length: Any = None,
    cache_indirection: Any = None,
    **attributes: Any,
) -> Any:
    """Attention of queries, keys and values that are projected; the keys and values with those of the past; the scores.

    Args:
        q: [batch, tokens, heads * size]; k and v as well, or [batch, heads, tokens, size].
        bias: of all three, [sizes of queries, keys and values].
        mask: of keys; see `_masking`.
    """
    require_absent(past_sequence_length=past_sequence_length, cache_indirection=cache_indirection)
    heads = _heads_of(attributes)
    if k is None or v is None or q.ndim != 3:
        raise ValueError("queries, keys and values in one input are not supported: give inputs 'key' and 'value'")
    parts = [q, k, v]
    if bias is not None:
        ends = np.cumsum([q.shape[2], q.shape[2]])
        parts = [part + own if part.ndim == 3 else part for part, own in zip(parts, jnp.split(jnp.asarray(bias), ends), strict=True)]
    q, k, v = (_by_head(part, heads.num_heads) for part in parts)
    if past_key is not None:
        k, v = jnp.concatenate([past_key, k], 2), jnp.concatenate([past_value, v], 2)
    y, scores, _ = _attended(q, k, v, heads.scale, added=(attention_bias, _masking(mask, q, k, heads)))
    return y, k, v, scores


@op("GroupQueryAttention", domain=MS, needs=(6,))
def group_query_attention(
    call: Call,
    q: Any,
    k: Any,
    v: Any,
    past_key: Any,
    past_value: Any,
    last: Any,
    longest: Any,
    cosines: Any = None,
    sines: Any = None,
    position_ids: Any = None,
    attention_bias: Any = None,
    head_sink: Any = None,
    k_scale: Any = None,
    v_scale: Any = None,
    q_norm_weight: Any = None,
    k_norm_weight: Any = None,
    query_lengths: Any = None,
    *,
    num_heads: int,
    kv_num_heads: int,
    causal: int = 1,
    do_rotary: int = 0,
    local_window_size: int = -1,
    qk_output: int = 0,
    rotary_interleaved: int = 0,
    scale: float = 0.0,
    smooth_softmax: int = 0,
    softcap: float = 0.0,
    **others: Any,
) -> Any:
    """Attention with a cache: heads / kv heads heads share a kv head. It gives the new keys and values besides, and the scores.

    Args:
        q: [batch, tokens, heads * size], with keys and values behind them if k and v are absent.
        past_key, past_value: [batch, kv heads, places, size], of which each row's first ones count.
        last: [batch], a row's number of tokens with those of the past, minus 1.
        longest: the largest such number; a prompt without a past has as many tokens.
        position_ids: [batch, tokens], at which queries and keys are turned. Of a prompt without a past the first one counts, and the
            others follow it.
        head_sink: [heads], a score of each head that takes its share of the probabilities, and has no value.
        query_lengths: [batch], how many of a row's tokens count, the first ones; all by default.
        local_window_size: how many keys count, a query's own and those before it; -1 is all.
        qk_output: which scores: 1 as they go into the softmax, 2 as they leave it; [batch, heads, tokens, `longest`].
        smooth_softmax: whether heads have a sink of 0.
    """
    require_absent(k_scale=k_scale, v_scale=v_scale, q_norm_weight=q_norm_weight, k_norm_weight=k_norm_weight)
    require_inert(others, kv_cache_bit_width=0, k_quant_type="NONE", v_quant_type="NONE", sliding_window_cache=0)
    if not causal and local_window_size != -1:
        raise ValueError(f"attribute 'local_window_size' is {local_window_size}, and must be -1 where 'causal' is 0")
    if not 0 <= qk_output <= 2:
        raise ValueError(f"attribute 'qk_output' is {qk_output}, and may be 0 to 2")
    if k is None:
        size = q.shape[2] // (num_heads + 2 * kv_num_heads)
        q, k, v = jnp.split(jnp.asarray(q), [num_heads * size, (num_heads + kv_num_heads) * size], 2)
    q, k, v = _by_head(q, num_heads), _by_head(k, kv_num_heads), _by_head(v, kv_num_heads)
    tokens, total = q.shape[2], int(known_scalar(longest, "the total sequence length"))
    lengths = jnp.reshape(last, (-1,)).astype(np.int32) + 1
    is_prompt = tokens == total and query_lengths is None
    before = jnp.zeros_like(lengths) if is_prompt else lengths - (tokens if query_lengths is None else query_lengths)
    places = before[:, None] + np.arange(tokens)
    if do_rotary:
        turned = {"interleaved": rotary_interleaved, "rotary_embedding_dim": 2 * cosines.shape[1]}
        at = places if position_ids is None else position_ids[:1, :1] + places if is_prompt else position_ids
        q, k = (rotary_embedding(call, part, cosines, sines, at, **turned) for part in (q, k))
    k, v = _cached(past_key, k, before, total), _cached(past_value, v, before, total)
    room = k.shape[2]
    if causal:
        distance = places[:, None, :, None] - np.arange(room)
        seen = (distance >= 0) & (distance < local_window_size) if local_window_size >= 0 else distance >= 0
    else:
        seen = np.arange(room) < lengths[:, None, None, None]
    if attention_bias is not None:
        attention_bias = jnp.pad(jnp.asarray(attention_bias), [*[(0, 0)] * 3, (0, room - attention_bias.shape[3])])
    if head_sink is None and smooth_softmax:
        head_sink = np.zeros(num_heads, q.dtype)
    y, scores, probabilities = _attended(q, k, v, scale, softcap, added=(attention_bias,), seen=seen, sink=head_sink)
    shown = (None, jnp.where(seen, scores, 0), probabilities)[qk_output]
    return y, k, v, None if shown is None else shown[..., :total]


@op("RotaryEmbedding", domain=MS)
def rotary(
    call: Call,
    x: Any,
    position_ids: Any,
    cosines: Any,
    sines: Any,
    *,
    interleaved: int = 0,
    num_heads: int = 0,
    rotary_embedding_dim: int = 0,
    **others: Any,
) -> Any:
    """Pairs of elements turned by the angle of their token's position. One position is that of the first token."""
    require_inert(others, is_packed_batching=0, scale=1.0)
    tokens, batch = x.shape[2 if x.ndim == 4 else 1], x.shape[0]
    if position_ids.size == 1:
        position_ids = jnp.broadcast_to(jnp.reshape(position_ids, (1, 1)) + np.arange(tokens), (batch, tokens))
    heads = num_heads or (None if x.ndim == 4 else x.shape[2] // (2 * cosines.shape[1]))
    turned = {"interleaved": interleaved, "rotary_embedding_dim": rotary_embedding_dim}
    return rotary_embedding(call, x, cosines, sines, position_ids, num_heads=heads, **turned)


def _by_head(x: Any, heads: int) -> Any:
    """x as [batch, heads, tokens, size]."""
    return jnp.asarray(x) if x.ndim == 4 else jnp.swapaxes(split_heads(jnp.asarray(x), heads), 1, 2)


def _of_projected(projected: Any, sizes: Sequence[int], mask: Any, past: Any, attention_bias: Any, heads: _Heads) -> tuple[Any, Any]:
    """Attention of [batch, tokens, sizes of queries, keys and values], and its keys and values.

    Args: mask: see `_masking`; [1, 1] and [batch, 1] mask nothing.
    """
    if len(sizes) != 3 or sum(sizes) != projected.shape[2]:
        raise ValueError(f"queries, keys and values of sizes {list(sizes)} are not the {projected.shape[2]} columns of the weights")
    q, k, v = (_by_head(part, heads.num_heads) for part in jnp.split(projected, np.cumsum(sizes)[:2], 2))
    if past is not None:
        k, v = jnp.concatenate([past[0], k], 2), jnp.concatenate([past[1], v], 2)
    mask = None if mask is not None and mask.shape in ((1, 1), (q.shape[0], 1)) else mask
    y, _, _ = _attended(q, k, v, heads.scale, added=(attention_bias, _masking(mask, q, k, heads)))
    return y, jnp.stack([k, v]) if k.shape == v.shape else None


def _attended(
    q: Any, k: Any, v: Any, scale: float, softcap: float = 0.0, *, added: Sequence[Any] = (), seen: Any = None, sink: Any = None
) -> tuple[Any, Any, Any]:
    """softmax(q @ k.T * scale + added) @ v as [batch, tokens, heads * size]; scores before the softmax, and behind it.

    Args:
        scale: 0 is 1 / sqrt(size).
        added: None adds nothing.
        seen: where a query sees a key; one that sees none has a result of 0. None: all are seen.
        sink: a score of each head that counts in the softmax alone.
    """
    scores = scores_of(q, k, scale or None)
    if softcap:
        scores = jnp.tanh(scores / softcap) * np.asarray(softcap, scores.dtype)
    for part in added:
        scores = scores if part is None else scores + part
    counting = scores if seen is None else jnp.where(seen, scores, jnp.finfo(scores.dtype).min)
    if sink is not None:
        column = jnp.broadcast_to(jnp.reshape(sink, (1, -1, 1, 1)), (*scores.shape[:3], 1)).astype(scores.dtype)
        counting = jnp.concatenate([counting, column], -1)
    probabilities = jax.nn.softmax(counting, axis=-1)[..., : scores.shape[3]]
    probabilities = probabilities if seen is None else jnp.where(seen, probabilities, 0)
    return flattened(jnp.swapaxes(weighted(probabilities, v), 1, 2), 2), scores, probabilities


def _masking(mask: Any, q: Any, k: Any, heads: _Heads) -> Any:
    """What is added to scores [batch, heads, queries, keys]; None if nothing.

    Args: mask: [batch], how many keys of a row count; [2 * batch], their ends, then their starts; [3 * batch + 2], how many count, then
        what other devices' kernels read; [batch, keys] or [batch, queries, keys], 0 where a key does not.
    """
    batch, queries, keys = q.shape[0], q.shape[2], k.shape[2]
    places, added = np.arange(keys), None
    if mask is not None:
        mask = jnp.asarray(mask)
        if mask.shape in ((batch,), (2 * batch,), (3 * batch + 2,)):
            counts = places < mask[:batch, None]
            if mask.shape == (2 * batch,):
                counts &= places >= mask[batch:, None]
        elif mask.shape in ((batch, keys), (batch, queries, keys)):
            counts = mask > 0
        else:
            raise ValueError(f"a mask of {list(mask.shape)} for a batch of {batch}, {queries} queries and {keys} keys is not supported")
        added = jnp.where(counts.reshape(batch, 1, -1, keys), 0, heads.mask_filter_value).astype(q.dtype)
    if heads.unidirectional:
        ahead = places > np.arange(queries)[:, None] + (keys - queries)
        added = jnp.where(ahead, jnp.finfo(q.dtype).min, 0 if added is None else added).astype(q.dtype)
    return added


def _cached(past: Any, new: Any, before: Any, total: int) -> Any:
    """A cache [batch, heads, places, size] with new rows behind the first ones of each row of the batch that count."""
    room = total if past is None else max(total, past.shape[2])
    held = jnp.zeros((*new.shape[:2], room, new.shape[3]), new.dtype)
    held = held if past is None else held.at[:, :, : past.shape[2]].set(past)
    return jax.vmap(functools.partial(jax.lax.dynamic_update_slice_in_dim, axis=1))(held, new, before)
