"""Attention as ONNX Runtime's tools fuse it: projections, masks, caches and rotary embeddings in one node."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tilestep.onnx.interpret import Call
from tilestep.onnx.ops.attention import rotary_embedding, scores_of, split_heads, weighted
from tilestep.onnx.ops.interpolation import flattened
from tilestep.onnx.ops.microsoft.limits import MS, require_absent, require_inert
from tilestep.onnx.ops.quantise import distances, exact
from tilestep.onnx.registry import op
from tilestep.onnx.values import known_scalar


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
    """
    require_absent(past_sequence_length=past_sequence_length)
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
    """Attention of queries, keys and values that are projected; the keys and values with those of the past; the probabilities.

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
    y, probabilities = _attended(q, k, v, _masking(mask, q, k, heads), attention_bias, heads.scale)
    return y, k, v, probabilities


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
    *more: Any,
    num_heads: int,
    kv_num_heads: int,
    do_rotary: int = 0,
    local_window_size: int = -1,
    rotary_interleaved: int = 0,
    scale: float = 0.0,
    softcap: float = 0.0,
    **others: Any,
) -> Any:
    """Causal attention with a cache: heads / kv heads heads share a kv head. It gives the new keys and values besides.

    Args:
        q: [batch, tokens, heads * size], with keys and values behind them if k and v are absent.
        past_key, past_value: [batch, kv heads, places, size], of which each row's first ones count.
        last: [batch], a row's number of tokens with those of the past, minus 1.
        longest: the largest such number; a prompt without a past has as many tokens.
        local_window_size: how many keys count, a query's own and those before it; -1 is all.
    """
    require_absent(position_ids=position_ids, head_sink=head_sink, **{f"number {12 + i}": value for i, value in enumerate(more)})
    require_inert(
        others,
        causal=1,
        smooth_softmax=0,
        qk_output=0,
        kv_cache_bit_width=0,
        k_quant_type="NONE",
        v_quant_type="NONE",
        sliding_window_cache=0,
    )
    if k is None:
        size = q.shape[2] // (num_heads + 2 * kv_num_heads)
        q, k, v = jnp.split(jnp.asarray(q), [num_heads * size, (num_heads + kv_num_heads) * size], 2)
    q, k, v = _by_head(q, num_heads), _by_head(k, kv_num_heads), _by_head(v, kv_num_heads)
    tokens, total = q.shape[2], int(known_scalar(longest, "the total sequence length"))
    lengths = jnp.reshape(last, (-1,)).astype(np.int32) + 1
    before = jnp.zeros_like(lengths) if tokens == total else lengths - tokens
    places = before[:, None] + np.arange(tokens)
    if do_rotary:
        turned = {"interleaved": rotary_interleaved, "rotary_embedding_dim": 2 * cosines.shape[1]}
        q, k = (rotary_embedding(call, part, cosines, sines, places, **turned) for part in (q, k))
    k, v = _cached(past_key, k, before, total), _cached(past_value, v, before, total)
    distance = places[:, None, :, None] - np.arange(k.shape[2])
    seen = (distance >= 0) & (distance < local_window_size) if local_window_size >= 0 else distance >= 0
    if attention_bias is not None:
        attention_bias = jnp.pad(jnp.asarray(attention_bias), [*[(0, 0)] * 3, (0, k.shape[2] - attention_bias.shape[3])])
    y, _ = _attended(q, k, v, jnp.where(seen, 0, -jnp.inf).astype(q.dtype), attention_bias, scale, softcap)
    return y, k, v


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
    """Attention of [batch, tokens, sizes of queries, keys and values], and its keys and values."""
    if len(sizes) != 3 or sum(sizes) != projected.shape[2]:
        raise ValueError(f"queries, keys and values of sizes {list(sizes)} are not the {projected.shape[2]} columns of the weights")
    q, k, v = (_by_head(part, heads.num_heads) for part in jnp.split(projected, np.cumsum(sizes)[:2], 2))
    if past is not None:
        k, v = jnp.concatenate([past[0], k], 2), jnp.concatenate([past[1], v], 2)
    y, _ = _attended(q, k, v, _masking(mask, q, k, heads), attention_bias, heads.scale)
    return y, jnp.stack([k, v]) if k.shape == v.shape else None


def _attended(q: Any, k: Any, v: Any, masking: Any, bias: Any, scale: float, softcap: float = 0.0) -> tuple[Any, Any]:
    """softmax(q @ k.T * scale + bias + masking) @ v as [batch, tokens, heads * size], and the probabilities.

    Args: scale: 0 is 1 / sqrt(size).
    """
    scores = scores_of(q, k, scale or None)
    if softcap:
        scores = jnp.tanh(scores / softcap) * np.asarray(softcap, scores.dtype)
    scores = scores if bias is None else scores + bias
    probabilities = jax.nn.softmax(scores if masking is None else scores + masking, axis=-1)
    return flattened(jnp.swapaxes(weighted(probabilities, v), 1, 2), 2), probabilities


def _masking(mask: Any, q: Any, k: Any, heads: _Heads) -> Any:
    """What is added to scores [batch, heads, queries, keys]; None if nothing.

    Args: mask: [batch], how many keys of a row count; [2 * batch], their ends, then their starts; [batch, keys] or
        [batch, queries, keys], 0 where a key does not.
    """
    batch, queries, keys = q.shape[0], q.shape[2], k.shape[2]
    places, added = np.arange(keys), None
    if mask is not None:
        mask = jnp.asarray(mask)
        if mask.shape in ((batch,), (2 * batch,)):
            ends, *starts = jnp.split(mask[:, None], mask.shape[0] // batch)
            counts = places < ends if not starts else (places < ends) & (places >= starts[0])
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
