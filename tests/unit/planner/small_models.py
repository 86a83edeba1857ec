"""Small models to plan, as lists of layers."""

import itertools
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np


class SmallModel(NamedTuple):
    """What `plan_training` takes. Attributes: layers, params, microbatch: as there."""

    layers: list[Any]
    params: list[Any]
    microbatch: tuple[Any, ...]


def embed(params: Any, tokens: Any, label: Any) -> Any:
    return params[tokens], label


def dense(params: Any, x: Any, label: Any) -> Any:
    return jnp.tanh(x @ params), label


def head(params: Any, x: Any, label: Any) -> Any:
    scores = jax.nn.log_softmax(x @ params)
    return -jnp.take_along_axis(scores, label[:, None], 1).mean()


def shape(*sizes: int, dtype: Any = np.float32) -> Any:
    return jax.ShapeDtypeStruct(sizes, dtype)


def classifier(widths: Sequence[int], words: int = 32) -> SmallModel:
    """Layers of these widths between an embedding and a loss."""
    pairs = itertools.pairwise(widths)
    return SmallModel(
        layers=[embed, *[dense] * (len(widths) - 1), head],
        params=[shape(words, widths[0]), *(shape(*pair) for pair in pairs), shape(widths[-1], 8)],
        microbatch=(shape(1, dtype=np.int32), shape(1, dtype=np.int32)),
    )


def wide(params: Any, x: Any) -> Any:
    """Cheap by itself, and dear if what it makes is passed on."""
    return x + jnp.sin(x @ params["up"]) @ params["down"]


def square(params: Any, x: Any) -> Any:
    return jnp.mean((x @ params) ** 2)


def residual(count: int, width: int, inner: int, *, dtype: Any = np.float16) -> SmallModel:
    """Residual layers, and a loss, of halves."""
    own = {"up": shape(width, inner, dtype=dtype), "down": shape(inner, width, dtype=dtype)}
    return SmallModel(
        layers=[*[wide] * count, square],
        params=[*[own] * count, shape(width, 4, dtype=dtype)],
        microbatch=(shape(1, width, dtype=dtype),),
    )
