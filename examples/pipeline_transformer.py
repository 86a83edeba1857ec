"""A transformer in four stages.

Learn to continue Shakespeare, character by character, with a small transformer whose four stages work on four IPUs at once, each on
another microbatch. The text, `coriolanus.txt`, is the begin of The Tragedy of Coriolanus (William Shakespeare, about 1608, in the public
domain), from https://github.com/karpathy/char-rnn, `data/tinyshakespeare`.

    tilestep run examples/pipeline_transformer.py
"""

# %%
from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

import tilestep
from flags import parse_backend
from tilestep.train import Pipeline
from tilestep.train.schedules import traced

WIDTH, HEADS, LENGTH, ROWS = 64, 4, 32, 16  # of a microbatch: 16 pieces of 32 characters
MICROBATCHES, UPDATES = 8, 60
BOUND = 2.6  # nats a character: what the loss must have come below

backend = parse_backend("Train a transformer in four stages on emulated IPUs.", num_devices=4)

# %% [markdown]
# ## The text

# %%
try:
    folder = Path(__file__).parent
except NameError:  # a notebook has no file
    folder = Path()
text = (folder / "coriolanus.txt").read_text(encoding="ascii")
characters = sorted(set(text))
codes = np.array([characters.index(character) for character in text], np.int32)
print(
    f"{len(text):,} characters, {len(characters)} different ones: a guess costs {np.log(len(characters)):.2f} nats"
)


def microbatches(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Pieces of the text, and what follows each of their characters: (MICROBATCHES, ROWS, LENGTH) of codes."""
    starts = rng.integers(0, len(codes) - LENGTH, (MICROBATCHES, ROWS, 1)) + np.arange(LENGTH)
    return codes[starts], codes[starts + 1]


# %% [markdown]
# ## Four stages
# Plain functions of parameters and of what the stage before returns. The wanted characters pass along to the last stage, which needs them.


# %%
def embed(params: Any, characters: jax.Array, wanted: jax.Array) -> Any:
    """Characters and their places as vectors."""
    return params["table"][characters] + params["places"], wanted


def block(params: Any, x: jax.Array, wanted: jax.Array) -> Any:
    """Attention to what came before, then a layer for each place by itself."""
    q, k, v = jnp.split(normal(x) @ params["attention"], 3, axis=-1)
    q, k, v = (part.reshape(ROWS, LENGTH, HEADS, WIDTH // HEADS) for part in (q, k, v))
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / np.sqrt(WIDTH // HEADS)
    scores = jnp.where(jnp.tri(LENGTH, dtype=bool), scores, -jnp.inf)
    heads = jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores), v)
    x = x + heads.reshape(ROWS, LENGTH, WIDTH) @ params["join"]
    return x + jax.nn.gelu(normal(x) @ params["up"]) @ params["down"], wanted


def loss(params: Any, x: jax.Array, wanted: jax.Array) -> jax.Array:
    """How surprising the next characters are, in nats each."""
    return optax.softmax_cross_entropy_with_integer_labels(normal(x) @ params["out"], wanted).mean()


def normal(x: jax.Array) -> jax.Array:
    """With mean 0 and variance 1."""
    return jax.nn.standardize(x, epsilon=1e-5)


rng = np.random.default_rng(0)


def weights(*shape: int) -> np.ndarray:
    """Random numbers for a product with them."""
    return (rng.normal(size=shape) / np.sqrt(shape[0])).astype(np.float32)


def block_weights() -> Any:
    """The parameters of a block."""
    shapes = {
        "attention": (WIDTH, 3 * WIDTH),
        "join": (WIDTH, WIDTH),
        "up": (WIDTH, 4 * WIDTH),
        "down": (4 * WIDTH, WIDTH),
    }
    return {name: weights(*shape) for name, shape in shapes.items()}


params = [
    {"table": weights(len(characters), WIDTH), "places": weights(LENGTH, WIDTH)},
    block_weights(),
    block_weights(),
    {"out": weights(WIDTH, len(characters))},
]

# %% [markdown]
# ## The pipeline
# An update adds up the gradients of eight microbatches. The grouped schedule is the default: on each IPU forward of one microbatch and
# backward of another take turns. Neighbours on the ladder of IPUs are 0, 1, 3, 2.

# %%
pipeline = Pipeline(
    [embed, block, block, loss],
    optax.adam(1e-2),
    MICROBATCHES,
    reduction="mean",
    devices=jax.devices(backend),
    device_mapping=[0, 1, 3, 2],
)
print(pipeline.schedule.show())

# %% [markdown]
# ## Training
# `np.asarray` reads the losses. `losses.mean()` would be a program on the last stage's IPU, loaded in place of the pipeline's.

# %%
state = pipeline.init(params)
for update in range(UPDATES):
    state, losses = pipeline.step(state, microbatches(rng))
    if update % 10 == 9:
        print(f"update {update + 1}: {np.asarray(losses).mean():.2f} nats a character")
final = float(np.asarray(losses).mean())
print(f"below {BOUND}: {final < BOUND}")

# %% [markdown]
# ## What the IPUs did
# One more update, as the emulator's trace has it: a row for each IPU, time to the right.

# %%
with tilestep.profile() as profile:
    state, losses = pipeline.step(state, microbatches(rng))
    jax.block_until_ready((state, losses))
if backend == "ipu":
    timeline, alike = traced(pipeline.schedule, profile.timeline), pipeline.schedule.simulate()
    print(pipeline.schedule.show(timeline=timeline, width=100))
    print(f"bubble: {timeline.bubble:.1%} of the IPUs' time")
    print(f"{alike.bubble:.1%} if stages were alike and nothing but them took time")
