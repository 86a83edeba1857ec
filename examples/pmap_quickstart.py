"""Several IPUs: `pmap`.

`jax.pmap` runs a function on several devices at once, one slice of its arguments on each. Inside, devices talk by collective
operations, which on IPUs go over IPU-Links.

    python examples/pmap_quickstart.py
"""

# %%
from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

import tilestep
from flags import parse_backend

NUM_DEVICES = 4
backend = parse_backend("Several devices under pmap.", num_devices=NUM_DEVICES)
devices = jax.devices(backend)[:NUM_DEVICES]
pmap = partial(jax.pmap, devices=devices)
print(*devices, sep="\n")

# %% [markdown]
# ## A map
# The first axis is that of devices.

# %%
square = pmap(lambda x: x**2)
data = np.arange(3 * NUM_DEVICES, dtype=np.float32).reshape(NUM_DEVICES, -1)
squares = square(data)
print(squares)
for shard in squares.addressable_shards:
    print(np.asarray(shard.data), "on", shard.device)

# %% [markdown]
# Each part stays on its device, so the next function begins there at once.

# %%
print(square(squares))

# %% [markdown]
# ## A sum over devices
# Two devices make each column add up to 1.


# %%
@partial(jax.pmap, axis_name="i", devices=devices[:2])
def normalize(x: jax.Array) -> jax.Array:
    return x / lax.psum(x, axis_name="i")


normalized = normalize(data[:2])
print(normalized)
print("columns add up to", np.asarray(normalized).sum(axis=0))

# %% [markdown]
# ## Two axes
# Four devices in a square: data parallel along one axis, model parallel along the other, say. Where axes have names of their own,
# JAX has `shard_map` over a mesh in place of `pmap`.

# %%
square_mesh = Mesh(np.array(devices).reshape(2, 2), ("rows", "columns"))


@jax.jit
@partial(jax.shard_map, mesh=square_mesh, in_specs=P("rows", "columns"), out_specs=P("rows", "columns"))
def normalize_three_ways(x: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
    return x / lax.psum(x, "rows"), x / lax.psum(x, "columns"), x / lax.psum(x, ("rows", "columns"))


by_column, by_row, by_both = normalize_three_ways(np.arange(4, dtype=np.float32).reshape(2, 2))
print(f"columns add up to 1:\n{by_column}\nrows do:\n{by_row}\nall do:\n{by_both}")

# %% [markdown]
# ## Data that lie where they are wanted
# Two pairs of devices do different things with their own halves, at the same time.

# %%
pairs = devices[:2], devices[2:]
halves = [
    jax.device_put(half, NamedSharding(Mesh(np.array(pair), ("i",)), P("i")))
    for half, pair in zip(np.split(data, 2), pairs, strict=True)
]
divide_by_sum = jax.pmap(lambda x: x / lax.psum(x, "i"), axis_name="i", devices=pairs[0])
divide_by_mean = jax.pmap(lambda x: x / lax.pmean(x, "i"), axis_name="i", devices=pairs[1])
print(divide_by_sum(halves[0]))
print(divide_by_mean(halves[1]))

# %% [markdown]
# ## Neighbours: the automaton of rule 30
# A row of cells, a part of it on each device. A cell's next state is `left ^ (cell | right)`, so each device needs one cell of both
# neighbours: `ppermute` sends them around the ring. The loop runs on the devices; the host gets all generations at once.

# %%
CELLS, GENERATIONS = 64, 24
clockwise = [(i, (i + 1) % NUM_DEVICES) for i in range(NUM_DEVICES)]
anticlockwise = [(i, (i - 1) % NUM_DEVICES) for i in range(NUM_DEVICES)]


@partial(pmap, axis_name="ring", out_axes=1)
def rule_30(cells: jax.Array) -> jax.Array:
    """All generations of this device's cells, bool[GENERATIONS, CELLS / NUM_DEVICES]."""

    def step(cells: jax.Array, _: None) -> tuple[jax.Array, jax.Array]:
        from_left = lax.ppermute(cells[-1:], "ring", clockwise)
        from_right = lax.ppermute(cells[:1], "ring", anticlockwise)
        wide = jnp.concatenate([from_left, cells, from_right])
        return wide[:-2] ^ (wide[1:-1] | wide[2:]), cells

    return lax.scan(step, cells, length=GENERATIONS)[1]


first = np.zeros(CELLS, bool)
first[CELLS // 2] = True
with tilestep.profile() as profile:
    generations = np.asarray(rule_30(first.reshape(NUM_DEVICES, -1))).reshape(GENERATIONS, CELLS)
for generation in generations:
    print("".join(" #"[int(cell)] for cell in generation).rstrip())

# %% [markdown]
# ## What the neighbours cost
# Before each exchange the IPUs wait for each other, and for a few cells that takes longer than all else.

# %%
for program in profile.programs:
    cycles = program.cycles
    print(
        f"{GENERATIONS} generations: {cycles.compute:,} cycles of compute, {cycles.exchange:,} of exchange, {cycles.sync:,} of sync"
    )
