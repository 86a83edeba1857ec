"""A small pipeline: three stages, six microbatches, two updates."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

import tilestep
from tilestep.train import Pipeline


def stage(w: Any, x: jax.Array) -> jax.Array:
    """A layer."""
    return jnp.tanh(x @ w)


def loss(w: Any, x: jax.Array) -> jax.Array:
    """The last one, and how far it is from 0."""
    return ((x @ w) ** 2).mean()


rng = np.random.default_rng(0)
weights = [rng.normal(size=(32, 32)).astype(np.float32) / 6 for _ in range(3)]
pipeline = Pipeline([stage, stage, loss], optax.sgd(0.1), 6, reduction="mean", device_mapping=[0, 1, 3])
state = pipeline.init(weights)
for update in range(2):
    with tilestep.tracepoint(f"update {update}"):
        state, losses = pipeline.step(state, rng.normal(size=(6, 16, 32)).astype(np.float32))
print(np.asarray(losses).mean() >= 0)
