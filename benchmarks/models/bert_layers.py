"""BERT's pretraining as layers for `tilestep.plan_training`: an embedding, encoder layers, the heads.

Layers get no random keys, so a microbatch brings the seeds of its dropout, and each layer passes on another one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import optax

from benchmarks.models import pretraining, transformer
from benchmarks.models.gpt_layers import in_float

BERT_LARGE = pretraining.Pretraining(encoder=transformer.BERT_LARGE, vocabulary=30_400, tokens=128, masked=20)
_WORDS = 4  # of the state of the tiles' own generator


def layers(model: pretraining.Pretraining) -> dict[str, Any]:
    """`layers`, `params`, `tied`, `optimizer` and `microbatch` of `plan_training`."""
    count = model.encoder.layers
    parts: list[list[pretraining.Part]] = [["embedding"], *[["attention", "feed forward"]] * count, ["heads"]]
    embedding, block, _, heads = pretraining.stages(model, [parts[0], parts[1], parts[1], parts[-1]])  # a block passes on what blocks need
    return {
        "layers": [_first(embedding), *[_seeded(block)] * count, _last(heads)],
        "params": [[pretraining.parameters(model, part) for part in own] for own in parts],
        "tied": [[(0, 0, "words"), (count + 1, 0, "words")]],
        "optimizer": in_float(optax.lamb(1e-3)),
        "microbatch": (jax.ShapeDtypeStruct((1, _WORDS), jnp.uint32), pretraining.element(model, 1)),
    }


def _key(seeds: jax.Array) -> jax.Array:
    return jax.random.wrap_key_data(seeds[0], impl="unsafe_rbg")


def _first(stage: Callable[..., Any]) -> Callable[..., Any]:
    def embedding(params: Any, seeds: jax.Array, data: Any) -> Any:
        return seeds + 1, *stage(params, key=_key(seeds), **data)

    return embedding


def _seeded(stage: Callable[..., Any]) -> Callable[..., Any]:
    def block(params: Any, seeds: jax.Array, x: jax.Array, data: Any) -> Any:
        return seeds + 1, *stage(params, x, data, key=_key(seeds))

    return block


def _last(stage: Callable[..., Any]) -> Callable[..., Any]:
    def heads(params: Any, seeds: jax.Array, x: jax.Array, data: Any) -> Any:
        return stage(params, x, data, key=_key(seeds))

    return heads
