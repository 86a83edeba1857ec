"""Training of Conformer (Gulati et al. 2020) for speech in parts that pipelines cut between, as wenet and ESPnet lay it out.

Features are subsampled by two convolutions. Each encoder block has two half feed-forward nets around attention and a convolution; their
norms are layer norms. A Transformer decoder predicts words; the loss adds to its smoothed cross entropy that of connectionist temporal
classification (CTC, Graves et al. 2006), whose forward and backward variables take one scan here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import jax
import jax.numpy as jnp

from benchmarks.models.layers import library, log_softmax, shapes_in, silu, softmax
from benchmarks.models.pretraining import dense, dropped, normed

Params = dict[str, Any]
Data = dict[str, jax.Array]
Part = Literal["subsampling", "block", "heads"]

_KERNEL = 3  # of the subsampling's convolutions, which have stride 2
_FAR = -1e30  # a logarithm of nothing
_HIDDEN = 1e3


@dataclass(frozen=True, kw_only=True)
class Conformer:
    """Sizes of a run.

    Attributes:
        features: of a frame.
        frames: of a recording before the subsampling.
        width: of encoder and decoder.
        heads: of each attention.
        inner: width inside feed-forward nets.
        kernel: frames of the depthwise convolutions.
        decoders: layers of the decoder.
        words: of a text at most.
        vocabulary: words that exist; number 0 is CTC's blank.
        ctc_weight: CTC's share of the loss.
        smoothing: share of the labels that is spread over all words.
        dropout: share of dropped values.
    """

    features: int = 80
    frames: int = 1220
    width: int = 256
    heads: int = 4
    inner: int = 2048
    kernel: int = 15
    decoders: int = 6
    words: int = 48
    vocabulary: int = 4233
    ctc_weight: float = 0.3
    smoothing: float = 0.1
    dropout: float = 0.1


def subsampled(length: int) -> int:
    """What two convolutions of stride 2 leave of a length."""
    for _ in range(2):
        length = (length - _KERNEL) // 2 + 1
    return length


def parameters(model: Conformer, part: Part, dtype: Any = jnp.float16) -> Params:
    """Shapes of a part's parameters."""
    width, words = model.width, model.vocabulary

    array, product = shapes_in(dtype)
    norm = {"scale": array(width), "bias": array(width)}
    net = {"norm": norm, "up": product(width, model.inner), "down": product(model.inner, width)}
    attention = {"norm": norm, "queries": product(width, width), "keys and values": product(width, width), "out": product(width, width)}
    match part:
        case "subsampling":
            first = {"kernel": array(_KERNEL, _KERNEL, 1, width), "bias": array(width)}
            second = {"kernel": array(_KERNEL, _KERNEL, width, width), "bias": array(width)}
            return {"first": first, "second": second, "out": product(subsampled(model.features) * width, width)}
        case "block":
            bias = array(model.heads, width // model.heads)
            relative = {"positions": array(width, width), "content bias": bias, "position bias": bias}
            inside = {
                "in": array(width, 2 * width),
                "depthwise": array(model.kernel, 1, width),
                "inner norm": norm,
                "out": array(width, width),
            }
            return {"net1": net, "attention": {**attention, **relative}, "convolution": {"norm": norm, **inside}, "net2": net, "norm": norm}
        case "heads":
            layers = [{"own": attention, "speech": attention, "net": net}] * model.decoders
            decoder = {"words": array(words, width), "layers": layers, "norm": norm, "out": product(width, words)}
            return {"norm": norm, "ctc": product(width, words), "decoder": decoder}


def element(model: Conformer, rows: int, dtype: Any = jnp.float16) -> dict[str, jax.ShapeDtypeStruct]:
    """Shapes of the data of so many recordings; `lengths` are those of recordings after the subsampling, and of texts."""
    texts = jax.ShapeDtypeStruct((rows, model.words), jnp.int32)
    speech = jax.ShapeDtypeStruct((rows, model.frames, model.features), dtype)
    return {"speech": speech, "words": texts, "labels": texts, "lengths": jax.ShapeDtypeStruct((rows, 2), jnp.int32)}


def stage(model: Conformer, parts: Sequence[Part], *, first: bool) -> Callable[..., Any]:
    """A stage of `Pipeline`: (params, one pytree per part; x and positions unless it is the first; the element's arrays).

    It returns the next stage's arguments; the last stage returns the loss. Values inside any other are computed again backwards.
    """

    def body(params: Sequence[Params], x: jax.Array, positions: jax.Array | None, data: Data, key: jax.Array) -> Any:
        for number, (part, own) in enumerate(zip(parts, params, strict=True)):
            ours = jax.random.fold_in(key, number)
            if part == "heads":
                return _loss(model, own, x, data, ours)
            if part == "subsampling":
                x, positions = _subsampled(model, own, x, ours)
            else:
                x = block(model, own, x, positions, data["lengths"][:, 0], ours)
        return x, positions

    def values(params: Sequence[Params], x: jax.Array, positions: jax.Array | None, data: Data, key: jax.Array) -> Any:
        if "heads" in parts:
            return body(params, x, positions, data, key)
        return *jax.checkpoint(body)(params, x, positions, data, key), data

    if first:
        return lambda params, *, key, speech, **data: values(params, speech, None, data, key)
    return lambda params, x, positions, data, *, key: values(params, x, positions, data, key)


def _subsampled(model: Conformer, params: Params, speech: jax.Array, key: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Hidden values, and the encodings of their positions."""
    x = speech[..., None]
    for name in ("first", "second"):
        x = jax.lax.conv_general_dilated(x, params[name]["kernel"], (2, 2), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC"))
        x = jax.nn.relu(x + params[name]["bias"])
    x = dense(params["out"], x.reshape(*x.shape[:2], -1))
    positions = encodings(x.shape[1], model.width).astype(x.dtype)
    return dropped(x * math.sqrt(model.width), model.dropout, key), dropped(positions, model.dropout, jax.random.fold_in(key, 1))


def encodings(count: int, width: int) -> jax.Array:
    """[count, width] sines and cosines of positions (Vaswani et al. 2017)."""
    angles = jnp.arange(count)[:, None] * jnp.exp(jnp.arange(0, width, 2) * -(math.log(10_000.0) / width))
    return jnp.stack([jnp.sin(angles), jnp.cos(angles)], -1).reshape(count, width)


def block(model: Conformer, params: Params, x: jax.Array, positions: Any, lengths: jax.Array, key: jax.Array) -> jax.Array:
    """An encoder's block: [rows, frames, width] of the same."""
    keys = jax.random.split(key, 6)
    x = x + _net(model, params["net1"], x, silu, keys[:2]) * 0.5
    seen = (jnp.arange(x.shape[1]) < lengths[:, None])[:, None, None, :]
    y = normed(params["attention"]["norm"], x)
    x = x + dropped(_attention(model, params["attention"], y, y, seen, positions), model.dropout, keys[2])
    x = x + dropped(_convolution(model, params["convolution"], x), model.dropout, keys[3])
    x = x + _net(model, params["net2"], x, silu, keys[4:]) * 0.5
    return normed(params["norm"], x)


def _net(model: Conformer, params: Params, x: jax.Array, activation: Callable[..., jax.Array], keys: jax.Array) -> jax.Array:
    inner = dropped(activation(dense(params["up"], normed(params["norm"], x))), model.dropout, keys[0])
    return dropped(dense(params["down"], inner), model.dropout, keys[1])


def _attention(
    model: Conformer, params: Params, x: jax.Array, y: jax.Array, seen: jax.Array, positions: jax.Array | None = None
) -> jax.Array:
    """Attention of `x` to `y`, whose keys and values are one product, as in the published run.

    With positions, scores have a part for each key's position; ESPnet's shift to relative positions is left out there, too.
    """
    size = model.width // model.heads

    def of_heads(value: jax.Array) -> jax.Array:
        return value.reshape(*value.shape[:-1], model.heads, size).swapaxes(-2, -3)

    queries, keys = of_heads(dense(params["queries"], x)), of_heads(dense(params["keys and values"], y))
    if positions is None:
        scores = queries @ keys.swapaxes(-1, -2)
    else:
        places = of_heads(positions @ params["positions"])
        scores = (queries + params["content bias"][:, None]) @ keys.swapaxes(-1, -2)
        scores += (queries + params["position bias"][:, None]) @ places.swapaxes(-1, -2)
    kept = seen.astype(x.dtype)
    weights = softmax(scores * size**-0.5 * kept + (kept - 1) * jnp.asarray(_HIDDEN, x.dtype)) * kept
    return dense(params["out"], (weights @ keys).swapaxes(1, 2).reshape(x.shape))


def _convolution(model: Conformer, params: Params, x: jax.Array) -> jax.Array:
    y = jax.nn.glu(normed(params["norm"], x) @ params["in"])
    y = jax.lax.conv_general_dilated(
        y, params["depthwise"], (1,), "SAME", dimension_numbers=("NWC", "WIO", "NWC"), feature_group_count=model.width
    )
    return silu(normed(params["inner norm"], y)) @ params["out"]


def _loss(model: Conformer, params: Params, x: jax.Array, data: Data, key: jax.Array) -> jax.Array:
    """Both losses' weighted sum, per recording."""
    x, (frames, words) = normed(params["norm"], x), data["lengths"].T
    likely = log_softmax(dense(params["ctc"], x))
    heard = ctc(likely, data["labels"], frames, words).mean()
    scores = _decoded(model, params["decoder"], data["words"], x, frames, words, key)
    read = smoothed_divergence(scores, data["labels"], words, model.smoothing)
    return (1 - model.ctc_weight) * read + model.ctc_weight * heard


def _decoded(
    model: Conformer, params: Params, words: jax.Array, speech: jax.Array, frames: jax.Array, lengths: jax.Array, key: jax.Array
) -> Any:
    """[rows, words, vocabulary] scores of the next words."""
    count = words.shape[1]
    within = jnp.arange(count) < lengths[:, None]
    before = (within[:, None, :] & jnp.tril(jnp.ones((count, count), bool)))[:, None]
    spoken = (jnp.arange(speech.shape[1]) < frames[:, None])[:, None, None, :]
    x = params["words"][words] * math.sqrt(model.width) + encodings(count, model.width).astype(speech.dtype)
    x = dropped(x, model.dropout, key)
    for number, layer in enumerate(params["layers"]):
        keys = jax.random.split(jax.random.fold_in(key, number), 4)
        y = normed(layer["own"]["norm"], x)
        x = x + dropped(_attention(model, layer["own"], y, y, before), model.dropout, keys[0])
        y = normed(layer["speech"]["norm"], x)
        x = x + dropped(_attention(model, layer["speech"], y, speech, spoken), model.dropout, keys[1])
        x = x + _net(model, layer["net"], x, jax.nn.relu, keys[2:])
    return dense(params["out"], normed(params["norm"], x))


def smoothed_divergence(scores: jax.Array, labels: jax.Array, lengths: jax.Array, smoothing: float) -> jax.Array:
    """Kullback-Leibler divergence of softmax(scores) from smoothed labels, summed over a text's words; mean over texts."""
    count = scores.shape[-1]
    other = smoothing / (count - 1)
    wanted = jax.nn.one_hot(labels, count, dtype=scores.dtype) * (1 - smoothing - other) + other
    each = (wanted * (jnp.log(wanted) - log_softmax(scores))).sum(-1).astype(jnp.float32)
    return (each * (jnp.arange(labels.shape[1]) < lengths[:, None])).sum() / len(labels)


@jax.custom_vjp
def ctc(likely: jax.Array, labels: jax.Array, frames: jax.Array, words: jax.Array) -> jax.Array:
    """[rows] losses of connectionist temporal classification.

    Args:
        likely: [rows, frames, vocabulary] logarithms of probabilities; word 0 is the blank.
        labels: [rows, words] texts.
        frames, words: [rows] how many of them a row has.
    """
    return _ctc(likely, labels, frames, words)[0]


def _ctc(likely: jax.Array, labels: jax.Array, frames: jax.Array, words: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Losses, and the [rows, frames, 2 words + 1] shares of paths through each label: a gradient's negative.

    Forward and backward variables go on in the same scan, from both ends.
    """
    rows, count, _ = likely.shape
    states = 2 * labels.shape[1] + 1
    places = jnp.zeros((rows, states), labels.dtype).at[:, 1::2].set(labels)
    skips = jnp.pad((places[:, 2:] != places[:, :-2]) & (places[:, 2:] != 0), ((0, 0), (2, 0)))
    emitted = jnp.take_along_axis(likely, places[:, None, :], 2).astype(jnp.float32)
    ends = 2 * words[:, None]
    last = (jnp.arange(states) == ends) | (jnp.arange(states) == ends - 1)
    begin = jnp.where(jnp.arange(states) < 2, 0.0, _FAR) + jnp.zeros((rows, 1))
    finish = jnp.where(last, 0.0, _FAR)
    # The backward variables are forward ones of the reversed text. A frame behind the last one of its row begins them anew.
    jumps = jnp.stack([skips, jnp.pad(skips[:, 2:], ((0, 0), (0, 2)))[:, ::-1]])
    begins = jnp.stack([begin, finish[:, ::-1]])

    @library  # popnn::ctc has vertices that add a frame to the paths
    def step(before: jax.Array, now: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        here, starts = now
        one = jnp.pad(before[..., :-1], ((0, 0), (0, 0), (1, 0)), constant_values=_FAR)
        two = jnp.where(jumps, jnp.pad(before[..., :-2], ((0, 0), (0, 0), (2, 0)), constant_values=_FAR), _FAR)
        most = jnp.maximum(jnp.maximum(before, one), two)
        reached = most + jnp.log(jnp.exp(before - most) + jnp.exp(one - most) + jnp.exp(two - most))
        after = jnp.where(starts[..., None], begins, reached) + here
        return after, after

    both = jnp.stack([emitted, emitted[:, ::-1, ::-1]]).transpose(2, 0, 1, 3)
    first = jnp.arange(count)[:, None] == jnp.zeros(rows, int)
    late = jnp.arange(count)[:, None] <= count - frames
    _, paths = jax.lax.scan(step, begins, (both, jnp.stack([first, late], 1)))
    forward, backward = paths[:, 0], paths[::-1, 1, :, ::-1]
    through = (forward + backward).swapaxes(0, 1) - emitted
    total = jax.nn.logsumexp(through[:, 0], axis=-1)
    shares = jnp.exp(through - total[:, None, None]) * (jnp.arange(count) < frames[:, None])[..., None]
    return -total, shares


def _ctc_forward(likely: jax.Array, labels: jax.Array, frames: jax.Array, words: jax.Array) -> Any:
    losses, shares = _ctc(likely, labels, frames, words)
    return losses, (likely, labels, shares)


def _ctc_backward(kept: tuple[jax.Array, jax.Array, jax.Array], gradient: jax.Array) -> Any:
    likely, labels, shares = kept
    places = jnp.zeros((len(labels), shares.shape[-1]), labels.dtype).at[:, 1::2].set(labels)
    parts = (shares * -gradient[:, None, None]).astype(likely.dtype)
    rows, frames = jnp.arange(len(labels))[:, None, None], jnp.arange(likely.shape[1])[None, :, None]
    return jnp.zeros_like(likely).at[rows, frames, places[:, None, :]].add(parts), None, None, None


ctc.defvjp(_ctc_forward, _ctc_backward)
