"""Several IPUs: sharded arrays under `jit`.

A sharding says which part of an array lies on which device. `jit` then divides the computation: one program for all devices, with
collective operations where they are needed.

    python examples/sharding_quickstart.py
"""

# %%
from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

import tilestep
from flags import parse_backend

NUM_DEVICES = 4
backend = parse_backend("Sharded arrays on several devices.", num_devices=NUM_DEVICES)

# %% [markdown]
# ## A mesh
# Devices in a grid whose axes have names.

# %%
mesh = Mesh(np.array(jax.devices(backend)[:NUM_DEVICES]).reshape(2, 2), ("x", "y"))
print(dict(mesh.shape))

# %% [markdown]
# ## Results in parts
# `out_shardings` divides the result: along both axes, along one of them (and then a copy for each device along the other), or one
# dimension along both.


# %%
def show_parts(title: str, array: jax.Array) -> None:
    print(title)
    for shard in sorted(array.addressable_shards, key=lambda shard: shard.device.id):
        print(f"  device {shard.device.id}: {np.asarray(shard.data).tolist()}")


def square(x: jax.Array) -> jax.Array:
    return x**2


data = np.arange(16, dtype=np.float32).reshape(8, 2)
everywhere = NamedSharding(mesh, P())
for spec in (P("x", "y"), P("x", None), P("y", None), P(("x", "y"), None)):
    squares = jax.jit(square, in_shardings=everywhere, out_shardings=NamedSharding(mesh, spec))(data)
    show_parts(f"{spec}:", squares)

# %% [markdown]
# ## Arguments in parts
# An array that lies in parts says by itself how the computation is divided. Rows of the first matrix and columns of the second make
# blocks of the product: each device computes one, and nothing is sent.

# %%
rng = np.random.default_rng(0)
left, right = rng.normal(size=(256, 512)).astype(np.float32), rng.normal(size=(512, 128)).astype(np.float32)
product = jax.jit(jnp.matmul)
blocks = product(
    jax.device_put(left, NamedSharding(mesh, P("x", None))),
    jax.device_put(right, NamedSharding(mesh, P(None, "y"))),
)
print(blocks.sharding.spec, blocks.addressable_shards[0].data.shape)
print("as NumPy has it:", np.allclose(blocks, left @ right, atol=1e-3))

# %% [markdown]
# ## Where devices have to talk
# Divided along the dimension that is summed over, each device has a part of the sum: an all-reduce adds them up. The profile shows
# what that takes.

# %%
by_sum = NamedSharding(mesh, P(None, ("x", "y"))), NamedSharding(mesh, P(("x", "y"), None))
sums = jax.jit(jnp.matmul, out_shardings=everywhere)
with tilestep.profile() as profile:
    total = sums(jax.device_put(left, by_sum[0]), jax.device_put(right, by_sum[1]))
    total.block_until_ready()
print("as NumPy has it:", np.allclose(total, left @ right, atol=1e-3))
for step in profile.supersteps:
    print(
        f"{step.name}: {step.compute:,} cycles of compute, {step.exchange:,} of exchange, {step.sync:,} of sync"
    )

# %% [markdown]
# ## Data parallel training
# The batch is divided, the weights are everywhere. The gradient is a sum over the batch, so `jit` adds an all-reduce: no line of the
# step says so.


# %%
def update(weights: jax.Array, x: jax.Array, y: jax.Array) -> jax.Array:
    gradient = jax.grad(lambda weights: jnp.mean((x @ weights - y) ** 2))(weights)
    return weights - 0.1 * gradient


@jax.jit
def train(weights: jax.Array, x: jax.Array, y: jax.Array) -> jax.Array:
    return jax.lax.fori_loop(0, 100, lambda _, weights: update(weights, x, y), weights)


x = rng.normal(size=(64, 3)).astype(np.float32)
y = x @ np.array([1, -2, 3], np.float32)
batch = jax.device_put((x, y), NamedSharding(mesh, P(("x", "y"))))
weights = jax.device_put(np.zeros(3, np.float32), everywhere)
print(np.asarray(train(weights, *batch)).round(3))
print("adds up gradients:", "all-reduce" in train.lower(weights, *batch).compile().as_text())
