"""Results of a loop while it runs.

A hundred steps of training run on the device. Another thread prints the loss of each step as it comes, in order, before the loop has
returned.

    python examples/results_while_running.py
"""

# %%
from __future__ import annotations

import itertools
import threading

import jax
import jax.numpy as jnp
import numpy as np

from flags import parse_backend
from tilestep.train import InfeedQueue, OutfeedQueue, repeat

NUM_STEPS = 100
CHUNK = 10  # steps of one program: so late a loss may come
STEP_SIZE = 0.1

device = jax.devices(parse_backend("Losses of a loop on the device, printed while it runs."))[0]

# %% [markdown]
# ## The training
# Noisy points of a plane, the same in each run, and gradient descent.


# %%
def points():
    for number in itertools.count():
        rng = np.random.default_rng(number)
        x = rng.normal(size=(32, 2)).astype(np.float32)
        yield x, (x @ [1, -2] + 0.1 * rng.normal(size=32)).astype(np.float32)


def loss(weights: jax.Array, x: jax.Array, y: jax.Array) -> jax.Array:
    return jnp.mean((x @ weights - y) ** 2)


losses = OutfeedQueue(buffer_depth=CHUNK)


def update(weights: jax.Array, x: jax.Array, y: jax.Array) -> jax.Array:
    value, gradient = jax.value_and_grad(loss)(weights, x, y)
    losses.enqueue(value)
    return weights - STEP_SIZE * gradient


# %% [markdown]
# ## The reader
# Iterating over an outfeed in another thread waits for the next value, and ends when the loop is over. The queue holds the losses of
# one chunk only, so the loop cannot get further ahead of its reader than that.

# %%
num_printed = 0


def read() -> None:
    global num_printed
    for value in losses:
        print(f"step {num_printed:2}: loss {value:.4f}")
        num_printed += 1


# %% [markdown]
# ## The loop
# `repeat` returns when it has started its last chunk. By then the reader has taken the losses of all chunks before, and is waited for
# until it has printed the others, too.


# %%
def train() -> jax.Array:
    reader = threading.Thread(target=read)
    reader.start()
    with InfeedQueue(points) as infeed, jax.default_device(device):
        weights = repeat(NUM_STEPS, update, np.zeros(2, np.float32), infeed, losses, chunk=CHUNK)
    assert num_printed >= NUM_STEPS - CHUNK - 1, "the last one that was taken may not be printed yet"
    reader.join()
    return weights


weights = train()
print(
    f"train() has returned: {num_printed} losses are printed, weights are {np.asarray(weights, np.float64).round(3).tolist()}"
)
