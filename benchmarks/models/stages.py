"""The transformer of `pipelines.py` in four unlike stages: its parameters, its elements, its stages, and how it is optimised."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

STAGES, MICROBATCHES = 4, 16
RATE, BETAS, EPSILON = 1e-3, (0.9, 0.999), 1e-8  # of Adam; torch's and optax's own


@dataclass(frozen=True, kw_only=True)
class Size:
    """A model's."""

    words: int
    width: int
    tokens: int
    rows: int
    heads: int


SIZES = {
    "mid": Size(words=2048, width=256, tokens=64, rows=8, heads=4),
    "tiny": Size(words=64, width=16, tokens=8, rows=2, heads=2),
}


def parameters(size: Size) -> list[dict[str, Any]]:
    rng = np.random.default_rng(0)

    def matrix(rows: int, columns: int) -> np.ndarray:
        return (rng.normal(size=(rows, columns)) / rows**0.5).astype(np.float32)

    def norm() -> dict[str, Any]:
        return {"scale": np.ones(size.width, np.float32), "shift": np.zeros(size.width, np.float32)}

    def perceptron() -> dict[str, Any]:
        wide = 4 * size.width
        return {
            "norm": norm(),
            "up": matrix(size.width, wide),
            "up_bias": np.zeros(wide, np.float32),
            "down": matrix(wide, size.width),
            "down_bias": np.zeros(size.width, np.float32),
        }

    def block() -> dict[str, Any]:
        return {"norm": norm(), "qkv": matrix(size.width, 3 * size.width), "out": matrix(size.width, size.width), "mlp": perceptron()}

    table = 0.1 * rng.normal(size=(size.words, size.width))
    embedding = {"table": table.astype(np.float32), "place": 0.1 * matrix(size.tokens, size.width), "mlp": perceptron()}
    return [embedding, block(), block(), {"norm": norm(), "out": matrix(size.width, size.words)}]


def batches(size: Size) -> tuple[np.ndarray, np.ndarray]:
    tokens = np.random.default_rng(1).integers(0, size.words, (MICROBATCHES, size.rows, size.tokens)).astype(np.int32)
    return tokens, np.roll(tokens, -1, -1)


def normed(p: Any, x: Any) -> Any:
    mean = x.mean(-1, keepdims=True)
    return (x - mean) * jax.lax.rsqrt(((x - mean) ** 2).mean(-1, keepdims=True) + 1e-5) * p["scale"] + p["shift"]


def perceptron(p: Any, x: Any) -> Any:
    return x + jax.nn.gelu(normed(p["norm"], x) @ p["up"] + p["up_bias"]) @ p["down"] + p["down_bias"]


def stages(size: Size) -> list[Any]:
    def embed(p: Any, tokens: Any, labels: Any) -> Any:
        return perceptron(p["mlp"], p["table"][tokens] + p["place"]), labels

    def block(p: Any, x: Any, labels: Any) -> Any:
        rows, tokens, width = x.shape
        parts = jnp.split(normed(p["norm"], x) @ p["qkv"], 3, -1)
        q, k, v = (part.reshape(rows, tokens, size.heads, -1).transpose(0, 2, 1, 3) for part in parts)
        scores = q @ k.swapaxes(-1, -2) / np.float32((width // size.heads) ** 0.5)
        scores = jnp.where(jnp.tril(jnp.ones((tokens, tokens), bool)), scores, -1e9)
        mixed = (jax.nn.softmax(scores) @ v).transpose(0, 2, 1, 3).reshape(x.shape)
        return perceptron(p["mlp"], x + mixed @ p["out"]), labels

    def head(p: Any, x: Any, labels: Any) -> Any:
        scores = jax.nn.log_softmax(normed(p["norm"], x) @ p["out"])
        return -jnp.take_along_axis(scores, labels[..., None], -1).mean()

    return [embed, block, block, head]


def adam() -> Any:
    return optax.adam(RATE, *BETAS, eps=EPSILON)
