"""A loop on the device, with data going in and results coming out.

Ten steps without the host: an infeed gives each step two arrays, an outfeed takes their sum and difference.

    python examples/training_loop.py
"""

# %%
from __future__ import annotations

import itertools

import jax
import numpy as np

from flags import parse_backend
from tilestep.train import InfeedQueue, OutfeedQueue, repeat

NUM_STEPS = 10
NUM_VALUES = 800

device = jax.devices(parse_backend("Ten steps on the device, with an infeed and an outfeed."))[0]

# %% [markdown]
# ## The data
# Any iterable of arrays, or of tuples, lists and dictionaries of arrays, whose shapes stay the same. This one never ends.

# %%
x = np.ones(NUM_VALUES, np.float32)
infeed = InfeedQueue(itertools.repeat((x, x)))
outfeed = OutfeedQueue()

# %% [markdown]
# ## The step
# It gets what goes round, here a count of steps, and the next element of the infeed. A real step would work out a gradient and
# return new parameters.


# %%
def step(count: jax.Array, x1: jax.Array, x2: jax.Array) -> jax.Array:
    outfeed.enqueue({"sum": x1 + x2, "difference": x1 - x2})
    return count + 1


# %% [markdown]
# ## The loop
# One call of the host for all ten steps. Afterwards the outfeed has a row for each of them.

# %%
with infeed, jax.default_device(device):
    count = repeat(NUM_STEPS, step, 0, infeed, outfeed)
results = outfeed.dequeue()
print(f"{int(count)} steps on {count.device}; elements taken: {infeed.consumed}")
for name, values in results.items():
    print(f"{name}: {values.dtype}{list(values.shape)}, all {np.unique(values).tolist()}")
