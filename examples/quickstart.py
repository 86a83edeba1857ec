"""Quickstart: JAX on an IPU.

An IPU is one more platform of JAX, named `ipu`. What runs there is plain JAX; tilestep computes its values and says how long an
IPU would have taken.

    python examples/quickstart.py
"""

# %%
from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

import tilestep
from flags import parse_backend

backend = parse_backend("A first IPU program.")

# %% [markdown]
# ## Devices
# CPU stays JAX's default. The emulated machine is a Bow-2000 with four IPUs, unless you ask for
# [another](../docs/reference/machines.md).

# %%
print(f"Platform = {backend}, the default is {jax.default_backend()}")
print(f"Number of devices = {jax.device_count(backend)}")
for device in jax.devices(backend):
    print(device)

# %% [markdown]
# ## A jitted function
# `backend=` is all that makes it an IPU program.


# %%
@partial(jax.jit, backend=backend)
def ipu_function(data: jax.Array) -> jax.Array:
    return data**2 + 1


output = ipu_function(np.array([1, -2, 3], np.float32))
print(output, output.device)

# %% [markdown]
# ## Which device
# A function runs where its arguments are. The first IPU, the last one and the CPU agree.


# %%
@jax.jit
def layer(x: jax.Array, weights: jax.Array, bias: jax.Array) -> jax.Array:
    return jnp.tanh(x @ weights + bias)


rng = np.random.default_rng(0)
arguments = [rng.normal(size=shape).astype(np.float32) for shape in ((2, 3), (3, 2), (2,))]
for device in (jax.devices(backend)[0], jax.devices(backend)[-1], jax.devices("cpu")[0]):
    result = layer(*jax.device_put(arguments, device))
    print(f"{np.asarray(result, np.float64).round(4).tolist()} on {result.device}")

# %% [markdown]
# ## Random numbers
# JAX's generator gives the same bits on every platform.


# %%
def draw(seed: int) -> jax.Array:
    first, _ = jax.random.split(jax.random.key(seed))
    return jax.random.uniform(first, (4,))


print("cpu", jax.jit(draw, backend="cpu")(42))
print(backend, jax.jit(draw, backend=backend)(42))

# %% [markdown]
# ## What it would have cost
# `tilestep.profile()` measures a block in emulated time. This product of two matrices ran four times, but its program was loaded
# once.


# %%
@partial(jax.jit, backend=backend)
def product(x: jax.Array) -> jax.Array:
    return x @ x


with tilestep.profile() as profile:
    for _ in range(4):
        product(np.ones((1024, 1024), np.float32)).block_until_ready()
print(profile.summary())
