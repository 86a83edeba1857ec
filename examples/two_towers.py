"""Two towers at once.

Tell handwritten digits with two towers that look at the same picture: one at its upper half, one at its lower. They are concurrent
stages of a pipeline, each on an IPU of its own, between a stage before and one after them.

    tilestep run examples/two_towers.py
"""

# %%
from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

import tilestep
from datasets import NUM_CLASSES, load_digits
from flags import parse_backend
from tilestep.train import Pipeline
from tilestep.train.schedules import traced

MICROBATCHES, ROWS, EPOCHS, WIDTH = 6, 32, 10, 96

backend = parse_backend("Train two towers at once on emulated IPUs.", num_devices=4)
devices = jax.devices(backend)

# %% [markdown]
# ## The stages
# A list among the stages is concurrent: its members all get what the stage before returned, and their results are put one after the other.


# %%
def look(params: Any, pictures: jax.Array, labels: jax.Array) -> Any:
    """Pictures of 8x8 points with mean 0 and variance 1; the labels pass along."""
    return jax.nn.standardize(pictures) * params["scale"], labels


def upper(params: Any, pictures: jax.Array, labels: jax.Array) -> jax.Array:
    """What the upper half says."""
    return tower(params, pictures[:, :32])


def lower(params: Any, pictures: jax.Array, labels: jax.Array) -> tuple[jax.Array, jax.Array]:
    """What the lower half says; it hands the labels on, too."""
    return tower(params, pictures[:, 32:]), labels


def tower(params: Any, half: jax.Array) -> jax.Array:
    """Two layers."""
    return jax.nn.relu(jax.nn.relu(half @ params["first"]) @ params["second"])


def scores(params: Any, above: jax.Array, below: jax.Array, labels: jax.Array) -> jax.Array:
    """A number for each digit."""
    return jnp.concatenate([above, below], axis=1) @ params["out"]


def loss(params: Any, above: jax.Array, below: jax.Array, labels: jax.Array) -> jax.Array:
    """How surprising the labels are."""
    return optax.softmax_cross_entropy_with_integer_labels(
        scores(params, above, below, labels), labels
    ).mean()


rng = np.random.default_rng(0)


def weights(rows: int, columns: int) -> np.ndarray:
    """Random numbers for a product with them."""
    return (rng.normal(size=(rows, columns)) * np.sqrt(2 / rows)).astype(np.float32)


def tower_weights() -> Any:
    """The parameters of a tower."""
    return {"first": weights(32, WIDTH), "second": weights(WIDTH, WIDTH)}


params = [
    {"scale": np.ones(64, np.float32)},
    [tower_weights(), tower_weights()],
    {"out": weights(2 * WIDTH, NUM_CLASSES)},
]

# %% [markdown]
# ## The pipeline
# The mapping has a list where the stages have one.

# %%
mapping = [0, [1, 2], 3]
pipeline = Pipeline(
    [look, [upper, lower], loss],
    optax.adam(2e-3),
    MICROBATCHES,
    reduction="mean",
    devices=devices,
    device_mapping=mapping,
)
print(pipeline.schedule.show())

# %% [markdown]
# ## Training

# %%
digits = load_digits()
state = pipeline.init(params)
step_rows = MICROBATCHES * ROWS
for epoch in range(EPOCHS):
    order = rng.permutation(len(digits.train))
    for first in range(0, len(order) - step_rows + 1, step_rows):
        chosen = order[first : first + step_rows].reshape(MICROBATCHES, ROWS)
        state, losses = pipeline.step(state, (digits.train.images[chosen], digits.train.labels[chosen]))
    print(f"epoch {epoch + 1:2}: loss {np.asarray(losses).mean():.3f}")

# %% [markdown]
# ## Testing
# Without an optimiser a pipeline is for inference: nothing is kept for backward, and the last stage may return anything. 351 of the 359
# pictures for testing are 27 microbatches of 13.

# %%
inference = Pipeline([look, [upper, lower], scores], None, 27, devices=devices, device_mapping=mapping)
images, labels = (
    values[:351].reshape(27, 13, *values.shape[1:]) for values in (digits.test.images, digits.test.labels)
)
_, found = inference.step(inference.init(state.params), (images, labels))
print(f"right: {(np.asarray(found).argmax(axis=-1) == labels).mean():.1%} of 351 unseen digits")

# %% [markdown]
# ## What the IPUs did
# One more update from the emulator's trace: IPUs 1 and 2 do the same things at the same time.

# %%
with tilestep.profile() as profile:
    state, losses = pipeline.step(state, (digits.train.images[chosen], digits.train.labels[chosen]))
    jax.block_until_ready((state, losses))
if backend == "ipu":
    timeline = traced(pipeline.schedule, profile.timeline)
    print(pipeline.schedule.show(timeline=timeline, width=100))
    print(f"bubble: {timeline.bubble:.1%} of the IPUs' time")
