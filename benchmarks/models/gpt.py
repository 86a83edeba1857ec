"""A GPT (Brown et al. 2020, "Language models are few-shot learners", table 2.1) with a training step, for a mesh of IPUs.

All layers have the same shapes, so their parameters are stacked and a scan walks them: the program is one layer long,
however many there are. Each layer's activations are recomputed in the backward pass.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec

from benchmarks.models.training import cross_entropy

Params = dict[str, Any]

_EPSILON = 1e-5
_BETAS = (0.9, 0.95)  # of Adam, appendix B there
_ADAM_EPSILON = 1e-8


@dataclass(frozen=True, kw_only=True)
class Gpt:
    """Sizes."""

    layers: int
    width: int
    heads: int
    vocabulary: int = 50_304  # GPT-3's 50,257, rounded up to a multiple of 128 so that it can be cut
    context: int = 2048

    @property
    def num_parameters(self) -> int:
        """Elements of all parameters; the output layer is the embedding."""
        return sum(shape.size for shape in jax.tree.leaves(shapes(self)))


GPT3 = Gpt(layers=96, width=12_288, heads=96)


def shapes(model: Gpt, dtype: Any = jnp.float16) -> Params:
    """Shapes of all parameters; those of the layers have the layer first."""
    layers, width = model.layers, model.width

    def array(*dims: int) -> jax.ShapeDtypeStruct:
        return jax.ShapeDtypeStruct(dims, dtype)

    def dense(inputs: int, outputs: int) -> Params:
        return {"kernel": array(layers, inputs, outputs), "bias": array(layers, outputs)}

    norm = {"scale": array(layers, width), "bias": array(layers, width)}
    return {
        "words": array(model.vocabulary, width),
        "positions": array(model.context, width),
        "layers": {
            "norm1": norm,
            "qkv": dense(width, 3 * width),
            "out": dense(width, width),
            "norm2": norm,
            "up": dense(width, 4 * width),
            "down": dense(4 * width, width),
        },
        "norm": {"scale": array(width), "bias": array(width)},
    }


def state_shapes(model: Gpt) -> tuple[Params, Params, Params]:
    """Shapes of parameters (half) and of Adam's two moments (float)."""
    return shapes(model), shapes(model, jnp.float32), shapes(model, jnp.float32)


def specs() -> Params:
    """How parameters are cut over mesh axes 'data' and 'model': of two products in a row, columns and then rows by model."""
    columns = {"kernel": PartitionSpec(None, "data", "model"), "bias": PartitionSpec(None, "model")}
    rows = {"kernel": PartitionSpec(None, "model", "data"), "bias": PartitionSpec(None, "data")}
    norm = {"scale": PartitionSpec(), "bias": PartitionSpec()}
    return {
        "words": PartitionSpec("model", "data"),
        "positions": PartitionSpec(None, "data"),
        "layers": {"norm1": norm, "qkv": columns, "out": rows, "norm2": norm, "up": columns, "down": rows},
        "norm": norm,
    }


def forward(model: Gpt, params: Params, words: jax.Array) -> jax.Array:
    """[batch, tokens, vocabulary] logits of [batch, tokens] numbers of words."""

    @jax.checkpoint
    def layer(x: jax.Array, own: Params) -> tuple[jax.Array, None]:
        x = x + _attention(model, own, _norm(own["norm1"], x))
        inner = jax.nn.gelu(_dense(own["up"], _norm(own["norm2"], x)))
        return x + _dense(own["down"], inner), None

    x = params["words"][words] + params["positions"][: words.shape[1]]
    x, _ = jax.lax.scan(layer, x, params["layers"])
    return _norm(params["norm"], x) @ params["words"].T


def loss(model: Gpt, params: Params, words: jax.Array) -> jax.Array:
    """Mean cross entropy of each next word."""
    return cross_entropy(forward(model, params, words[:, :-1]), words[:, 1:])


def train_step(model: Gpt, state: tuple[Params, Params, Params], words: jax.Array) -> tuple[tuple[Params, Params, Params], jax.Array]:
    """One step of Adam on [batch, tokens + 1] words: new (parameters, moments), and the loss of the old ones."""
    params, means, squares = state
    value, gradients = jax.value_and_grad(lambda params: loss(model, params, words))(params)
    gradients = jax.tree.map(lambda gradient: gradient.astype(jnp.float32), gradients)
    means = jax.tree.map(lambda mean, gradient: _BETAS[0] * mean + (1 - _BETAS[0]) * gradient, means, gradients)
    squares = jax.tree.map(lambda square, gradient: _BETAS[1] * square + (1 - _BETAS[1]) * gradient**2, squares, gradients)
    params = jax.tree.map(
        lambda param, mean, square: (param - 6e-5 * mean / (jnp.sqrt(square) + _ADAM_EPSILON)).astype(param.dtype), params, means, squares
    )
    return (params, means, squares), value


def _attention(model: Gpt, params: Params, x: jax.Array) -> jax.Array:
    batch, tokens, width = x.shape
    size = width // model.heads
    qkv = _dense(params["qkv"], x).reshape(batch, tokens, model.heads, 3, size)  # a head's three parts lie together: heads can be cut
    queries, keys, values = (qkv[:, :, :, part] for part in range(3))
    scores = jnp.einsum("bqhd,bkhd->bhqk", queries * size**-0.5, keys)
    seen = jnp.tril(jnp.ones((tokens, tokens), bool))
    weights = jax.nn.softmax(jnp.where(seen, scores, jnp.finfo(scores.dtype).min))
    return _dense(params["out"], jnp.einsum("bhqk,bkhd->bqhd", weights, values).reshape(batch, tokens, width))


def _norm(params: Params, x: jax.Array) -> jax.Array:
    centred = x - x.mean(-1, keepdims=True)
    return centred * jax.lax.rsqrt(jnp.square(centred).mean(-1, keepdims=True) + _EPSILON) * params["scale"] + params["bias"]


def _dense(params: Params, x: jax.Array) -> jax.Array:
    return x @ params["kernel"] + params["bias"]
