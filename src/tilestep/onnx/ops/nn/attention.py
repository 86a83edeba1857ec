"""Attention as one pattern: product, softmax, product. Also rotary embeddings, and attention without a softmax."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from onnx import helper

from tilestep.onnx.interpreter.graph import Graph
from tilestep.onnx.interpreter.interpret import Call
from tilestep.onnx.interpreter.registry import op
from tilestep.onnx.interpreter.values import jax_dtype
from tilestep.onnx.ops.interpolation import flattened, wide

_RULES = ("linear", "gated", "delta", "gated_delta")


@op("Attention", since=23)
def attention(
    call: Call,
    q: Any,
    k: Any,
    v: Any,
    mask: Any = None,
    past_key: Any = None,
    past_value: Any = None,
    lengths: Any = None,
    *,
    is_causal: int = 0,
    kv_num_heads: int | None = None,
    left_window_size: int = -1,
    q_num_heads: int | None = None,
    qk_matmul_output_mode: int = 0,
    right_window_size: int = -1,
    scale: float | None = None,
    softcap: float = 0.0,
    softmax_precision: int | None = None,
) -> tuple[Any, Any, Any, Any]:
    """softmax(q @ k.T * scale + mask) @ v; the keys and values, past ones included; the scores.

    Args:
        q: [batch, heads, queries, size], or [batch, queries, heads * size].
        k: [batch, kv heads, keys, size], or as q; a kv head serves heads / kv heads heads.
        mask: where it is true, or what is added; it is broadcast to [batch, heads, queries, keys], and missing keys at the end don't count.
        past_key: [batch, kv heads, past keys, size], which come before k; past_value as well.
        lengths: [batch], of the keys that count; queries are the last of them. From version 24.
        left_window_size, right_window_size: keys before and behind a query's own that count; -1 is all. From version 25.
        qk_matmul_output_mode: which scores: 0 as multiplied, 1 after the cap, 2 after the mask, 3 after the softmax.

    A query without keys has a result of 0.
    """
    if (past_key is None) != (past_value is None) or (past_key is not None and lengths is not None):
        raise ValueError("past_key and past_value go together, and without nonpad_kv_seqlen")
    if min(left_window_size, right_window_size) < -1:
        raise ValueError(f"windows are {left_window_size} and {right_window_size}, and must be at least -1")
    packed = q.ndim == 3
    q, k, v = _heads(q, q_num_heads), _heads(k, kv_num_heads), _heads(v, kv_num_heads)
    past = 0 if past_key is None else past_key.shape[2]
    if past_key is not None:
        k, v = jnp.concatenate([past_key, k], 2), jnp.concatenate([past_value, v], 2)
    scores = [scores_of(q, k, scale)]
    scores.append(jnp.tanh(scores[0] / softcap) * np.asarray(softcap, q.dtype) if softcap > 0 else scores[0])
    offset = past if lengths is None else jnp.reshape(lengths, (-1, 1, 1, 1)) - q.shape[2]
    allowed = _allowed(q.shape[2], k.shape[2], offset, bool(is_causal), left_window_size, right_window_size)
    if lengths is not None:
        allowed = _both(allowed, jnp.arange(k.shape[2]) < jnp.reshape(lengths, (-1, 1, 1, 1)))
    always = mask is None and lengths is None and max(left_window_size, right_window_size) < 0  # each query has a key then
    biased, allowed = _masked(scores[1], mask, allowed)
    scores.append(biased)
    precision = q.dtype if softmax_precision is None else jax_dtype(helper.tensor_dtype_to_np_dtype(softmax_precision))
    probabilities = _softmax(biased.astype(precision), None if always else allowed).astype(q.dtype)
    scores.append(probabilities)
    y = weighted(probabilities, v).astype(q.dtype)
    if packed:
        y = flattened(jnp.swapaxes(y, 1, 2), 2)
    if not 0 <= qk_matmul_output_mode <= 3:
        raise ValueError(f"qk_matmul_output_mode is {qk_matmul_output_mode}, and may be 0 to 3")
    return y, k, v, scores[qk_matmul_output_mode]


@op("FlexAttention", domain="ai.onnx.preview")
def flex_attention(
    call: Call,
    q: Any,
    k: Any,
    v: Any,
    *,
    prob_mod: Graph | None = None,
    scale: float | None = None,
    score_mod: Graph | None = None,
    softmax_precision: int | None = None,
) -> Any:
    """Attention of [batch, heads, tokens, size] with two graphs of the model's: one changes scores, one probabilities."""
    q, k, v = jnp.asarray(q), jnp.asarray(k), jnp.asarray(v)
    precision = jnp.promote_types(q.dtype, np.float32)
    if softmax_precision is not None:
        precision = jax_dtype(helper.tensor_dtype_to_np_dtype(softmax_precision))
    scores = scores_of(q, k, scale).astype(precision)
    if score_mod is not None:
        scores = call.subgraph(score_mod, [scores])[0]
    probabilities = jax.nn.softmax(scores, axis=-1)
    if prob_mod is not None:
        probabilities = call.subgraph(prob_mod, [probabilities])[0]
    return weighted(probabilities, v.astype(precision)).astype(v.dtype)


@op("RotaryEmbedding", since=23)
def rotary_embedding(
    call: Call,
    x: Any,
    cosines: Any,
    sines: Any,
    positions: Any = None,
    *,
    interleaved: int = 0,
    num_heads: int | None = None,
    rotary_embedding_dim: int = 0,
) -> Any:
    """Pairs of elements of x turned by the angle of their token's position.

    Args:
        x: [batch, heads, tokens, size], or [batch, tokens, heads * size].
        cosines: [positions, pairs], or [batch, tokens, pairs] without `positions`; sines as well.
        positions: [batch, tokens].
        interleaved: whether a pair is two neighbours; else it is an element of the first half and one of the second.
        rotary_embedding_dim: how many elements of each head are turned, the first ones; 0 is all.
    """
    whole = jnp.asarray(x)
    heads = 1 if whole.ndim == 4 else 2
    if whole.ndim == 3:
        whole = split_heads(whole, num_heads)
    if positions is not None:
        cosines, sines = (jnp.take(jnp.asarray(cache), positions, axis=0) for cache in (cosines, sines))
    turned = rotary_embedding_dim or whole.shape[-1]
    if cosines.shape[-1] != turned // 2 or turned > whole.shape[-1] or turned % 2:
        raise ValueError(f"{turned} of {whole.shape[-1]} elements are to be turned, and there are {cosines.shape[-1]} angles")
    cosines, sines = jnp.expand_dims(cosines, heads), jnp.expand_dims(sines, heads)
    part, rest = whole[..., :turned], whole[..., turned:]
    first, second = (part[..., 0::2], part[..., 1::2]) if interleaved else jnp.split(part, 2, -1)
    pair = [cosines * first - sines * second, sines * first + cosines * second]
    part = jnp.stack(pair, -1).reshape(part.shape) if interleaved else jnp.concatenate(pair, -1)
    return (jnp.concatenate([part, rest], -1) if rest.shape[-1] else part).reshape(x.shape)


@op("LinearAttention", since=27)
def linear_attention(
    call: Call,
    q: Any,
    k: Any,
    v: Any,
    past: Any = None,
    decay: Any = None,
    beta: Any = None,
    *,
    kv_num_heads: int,
    q_num_heads: int,
    chunk_size: int = 64,
    scale: float = 0.0,
    update_rule: str = "gated_delta",
) -> tuple[Any, Any]:
    """A state S of each head that each token updates and reads: S = exp(decay) * S + k v, y = scale * q S; and the last state.

    Args:
        q: [batch, tokens, heads * size]; k and v as well, of the kv heads.
        past: the first state [batch, kv heads, size of k, size of v]; 0 if it is absent.
        decay: [batch, tokens, kv heads], or [.., kv heads * size of k]; rules "gated" and "gated_delta" have it.
        beta: [batch, tokens, kv heads], or [.., 1]; rules "delta" and "gated_delta", which write beta * (v - k S) in v's place.
        chunk_size: a hint, which changes no result.
    """
    if update_rule not in _RULES:
        raise ValueError(f"update_rule is {update_rule!r}, and may be one of {', '.join(_RULES)}")
    if ("gated" in update_rule) != (decay is not None) or ("delta" in update_rule) != (beta is not None):
        raise ValueError(f"update_rule {update_rule!r} and the inputs decay and beta don't fit")
    batch = q.shape[0]
    group = q_num_heads // _count(kv_num_heads, q_num_heads)
    rows = {"q": _by_token(q, kv_num_heads, group), "k": _by_token(k, kv_num_heads), "v": _by_token(v, kv_num_heads)}
    if decay is not None:
        rows["decay"] = jnp.exp(_by_token(decay, kv_num_heads))
    if beta is not None:
        rows["beta"] = _by_token(beta, min(beta.shape[2], kv_num_heads))
    factor = scale or rows["q"].shape[-1] ** -0.5
    shape = (batch, kv_num_heads, rows["k"].shape[-1], rows["v"].shape[-1])
    start = jnp.zeros(shape, rows["q"].dtype) if past is None else wide(jnp.asarray(past))

    def step(state: Any, row: dict[str, Any]) -> tuple[Any, Any]:
        if "decay" in row:
            state = state * row["decay"][..., None]
        value = row["v"]
        if "beta" in row:
            value = row["beta"] * (value - jnp.einsum("bhkv,bhk->bhv", state, row["k"]))
        state = state + row["k"][..., None] * value[..., None, :]
        return state, jnp.einsum("bhgk,bhkv->bhgv", row["q"], state) * factor

    state, y = jax.lax.scan(step, start, rows)
    return flattened(jnp.moveaxis(y, 0, 1), 2).astype(q.dtype), state.astype(q.dtype if past is None else past.dtype)


def _heads(x: Any, heads: int | None) -> Any:
    """x as [batch, heads, tokens, size]."""
    if x.ndim == 4:
        if heads is not None and heads != x.shape[1]:
            raise ValueError(f"an input of shape {list(x.shape)} doesn't have {heads} heads")
        return jnp.asarray(x)
    return jnp.swapaxes(split_heads(jnp.asarray(x), heads), 1, 2)


def split_heads(x: Any, *heads: int | None) -> Any:
    """x [batch, tokens, heads * size] as [batch, tokens, heads, size]."""
    count = 1
    for number in heads:
        count *= _count(number, x.shape[2] // count)
    return x.reshape(*x.shape[:2], *heads, x.shape[2] // count)


def _count(heads: int | None, size: int) -> int:
    """The number of heads, checked to divide `size`."""
    if not heads or heads < 0 or size % heads:
        raise ValueError(f"{heads} heads don't divide {size}")
    return heads


def scores_of(q: Any, k: Any, scale: float | None) -> Any:
    """Products of queries and keys [batch, heads, queries, keys], times the scale, which is 1 / sqrt(size) by default."""
    batch, heads, queries, size = q.shape
    _count(k.shape[1], heads)
    times: float = size**-0.5 if scale is None else scale
    factor = np.asarray(np.sqrt(abs(times)), q.dtype)  # ONNX scales both, because of 16-bit floats
    grouped = (q * factor).reshape(batch, k.shape[1], heads // k.shape[1] * queries, size)
    return jnp.einsum("bhqd,bhkd->bhqk", grouped, k * (factor if times >= 0 else -factor)).reshape(batch, heads, queries, k.shape[2])


def weighted(probabilities: Any, v: Any) -> Any:
    """Sums of values [batch, heads, queries, size] by probabilities [batch, heads, queries, keys]."""
    batch, heads, queries, keys = probabilities.shape
    grouped = probabilities.reshape(batch, v.shape[1], heads // v.shape[1] * queries, keys)
    return jnp.einsum("bhqk,bhkd->bhqd", grouped, v).reshape(batch, heads, queries, v.shape[3])


def _allowed(queries: int, keys: int, offset: Any, causal: bool, left: int, right: int) -> Any:
    """Which keys a query sees, [batch or 1, 1, queries, keys]; None if all. Args: offset: keys before the first query's own."""
    if not causal and max(left, right) < 0:
        return None
    before = jnp.arange(queries)[:, None] + offset - jnp.arange(keys)  # how far a key is before the query's own
    seen = before >= 0 if causal else None
    if left >= 0:
        seen = _both(seen, before <= left)
    return _both(seen, before >= -right) if right >= 0 else seen


def _both(one: Any, other: Any) -> Any:
    return other if one is None else one & other


def _masked(scores: Any, mask: Any, allowed: Any) -> tuple[Any, Any]:
    """Scores with the mask, -inf where a key isn't seen; and where keys are seen at all, None if everywhere."""
    if mask is not None:
        missing = scores.shape[-1] - mask.shape[-1]
        mask = jnp.asarray(mask)
        if mask.dtype != np.bool_:
            mask = mask.astype(scores.dtype)
        if missing:
            fill = False if mask.dtype == np.bool_ else -np.inf
            mask = jnp.pad(mask, [(0, 0)] * (mask.ndim - 1) + [(0, missing)], constant_values=fill)
        if mask.dtype != np.bool_:
            scores = scores + mask
            mask = mask > -np.inf
        allowed = _both(allowed, mask)
    return scores if allowed is None else jnp.where(allowed, scores, -np.inf), allowed


def _softmax(scores: Any, allowed: Any) -> Any:
    """Softmax over keys; 0 for a query that has none. Args: allowed: None if each query has a key."""
    if allowed is None:
        return jax.nn.softmax(scores, axis=-1)
    some = allowed.any(-1, keepdims=True)
    return jnp.where(some, jax.nn.softmax(jnp.where(some, scores, 0), axis=-1), 0)


def _by_token(x: Any, *heads: int) -> Any:
    """x [batch, tokens, heads * size] as [tokens, batch, heads, size]."""
    return jnp.moveaxis(split_heads(wide(jnp.asarray(x)), *heads), 1, 0)
