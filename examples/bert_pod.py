"""BERT-Large on sixteen IPUs, without any.

Would pretraining of BERT-Large fit into 16 Bow IPUs, and how fast would it be? A dry run computes no values, so a laptop answers within
a minute or two. The run is one that Graphcore published in 2022: 5,179 sequences of 128 tokens a second.

    python examples/bert_pod.py
"""

# %%
from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from typing import Any

os.environ["TILESTEP_MACHINE"] = "bow-pod16"  # read when JAX starts its devices

import jax
import jax.numpy as jnp
import numpy as np
import optax

import tilestep
from flags import make_parser, parse, whole_number
from tilestep.train import Pipeline
from tilestep.train.schedules import Kind, Task, traced

WORDS, TOKENS, WIDTH, HEADS = 30_400, 128, 1024, 16
ROWS, MASKED = 8, 20  # sequences of a microbatch, words of each that are predicted
DROPPED = 0.1
MICROBATCHES = 2048  # of an update and a replica
PUBLISHED = 5179  # sequences a second: graphcore/examples v2.4.0, applications/popart/bert

parser = make_parser("Ask whether BERT-Large fits into 16 IPUs, and how fast it would train.")
parser.add_argument(
    "--layers",
    type=partial(whole_number, low=0, high=24),
    nargs=4,
    metavar="COUNT",
    default=[3, 7, 7, 7],
    help="on each IPU of a replica (default: %(default)s)",
)
flags = parse(parser, num_devices=16)
if flags.backend != "ipu":
    parser.error(
        f"--backend {flags.backend}: this example is a dry run of the emulated machine, so it needs ipu"
    )

# %% [markdown]
# ## The model
# Five stages on the four IPUs of a replica: the embedding with the first layers, three stages of layers, and the head. The head shares its
# table of words with the embedding, so both are on IPU 0. `jax.checkpoint` keeps only the input of each layer for the backward pass.


# %%
def dense(p: Any, x: jax.Array) -> jax.Array:
    """A product with a bias."""
    return x @ p["kernel"] + p["bias"]


def norm(p: Any, x: jax.Array) -> jax.Array:
    """Layer norm."""
    centred = x - x.mean(-1, keepdims=True)
    return (
        centred * jax.lax.rsqrt(jnp.square(centred).mean(-1, keepdims=True) + 1e-5) * p["scale"] + p["bias"]
    )


def dropout(x: jax.Array, key: jax.Array) -> jax.Array:
    """A tenth of the values becomes 0. Sixteen random bits decide for each."""
    kept = jax.random.bits(key, x.shape, jnp.uint16) >= jnp.uint16(DROPPED * 2**16)
    return jnp.where(kept, x / (1 - DROPPED), jnp.zeros_like(x))


@jax.checkpoint
def layer(p: Any, x: jax.Array, mask: jax.Array, key: jax.Array) -> jax.Array:
    """Attention, then a feed-forward net; both with dropout and a norm."""
    first, second = jax.random.split(key)
    qkv = dense(p["qkv"], x).reshape(ROWS, TOKENS, 3, HEADS, WIDTH // HEADS)
    q, k, v = qkv.transpose(2, 0, 3, 1, 4)
    scores = (q * (WIDTH // HEADS) ** -0.5) @ k.swapaxes(-1, -2) + mask
    mixed = (jax.nn.softmax(scores) @ v).transpose(0, 2, 1, 3).reshape(x.shape)
    x = norm(p["norm1"], x + dropout(dense(p["out"], mixed), first))
    return norm(p["norm2"], x + dropout(dense(p["down"], jax.nn.gelu(dense(p["up"], x))), second))


def layers(p: Any, x: jax.Array, mask: jax.Array, rest: Any, *, key: jax.Array) -> Any:
    """A stage in the middle."""
    for number, own in enumerate(p):
        x = layer(own, x, mask, jax.random.fold_in(key, number))
    return x, mask, rest


def first(
    p: Any, *, words: jax.Array, mask: jax.Array, places: jax.Array, labels: jax.Array, key: jax.Array
) -> Any:
    """The embedding and the first layers."""
    x = norm(p["norm"], p["words"][words] + p["positions"])
    hidden = jnp.where(mask[:, None, None, :], 0, -10_000).astype(x.dtype)
    return layers(p["layers"], dropout(x, key), hidden, (places, labels), key=jax.random.fold_in(key, 100))


def head(p: Any, x: jax.Array, mask: jax.Array, rest: Any) -> jax.Array:
    """The loss of the masked words."""
    places, labels = rest
    chosen = jnp.take_along_axis(x, places[..., None], 1)
    scores = norm(p["norm"], jax.nn.gelu(dense(p["transform"], chosen))) @ p["words"].T
    log_probabilities = jax.nn.log_softmax(scores)
    return -jnp.take_along_axis(log_probabilities, labels[..., None], -1).astype(jnp.float32).mean()


# %% [markdown]
# ## Shapes instead of weights
# A dry run needs no numbers. These are shapes of halves, and zeros of them take no memory here.


# %%
def shapes(*dims: int) -> jax.ShapeDtypeStruct:
    """Of an array of halves."""
    return jax.ShapeDtypeStruct(dims, jnp.float16)


def dense_shapes(inputs: int, outputs: int) -> Any:
    """Of a product with a bias."""
    return {"kernel": shapes(inputs, outputs), "bias": shapes(outputs)}


scale = {"scale": shapes(WIDTH), "bias": shapes(WIDTH)}
block = {
    "qkv": dense_shapes(WIDTH, 3 * WIDTH),
    "out": dense_shapes(WIDTH, WIDTH),
    "norm1": scale,
    "up": dense_shapes(WIDTH, 4 * WIDTH),
    "down": dense_shapes(4 * WIDTH, WIDTH),
    "norm2": scale,
}
table = shapes(WORDS, WIDTH)
counts = flags.layers
params = [
    {"words": table, "positions": shapes(TOKENS, WIDTH), "norm": scale, "layers": [block] * counts[0]},
    *([block] * count for count in counts[1:]),
    {"transform": dense_shapes(WIDTH, WIDTH), "norm": scale, "words": table},
]
print(f"{sum(leaf.size for leaf in jax.tree.leaves(params)) - table.size:,} parameters")

# %% [markdown]
# ## The run
# Four replicas of four IPUs. The optimiser is LAMB with its state in float32, which is divided among the replicas and kept in streaming
# memory. Each IPU has its own share of memory for the temporaries of products, as the published run had.


# %%
def in_float32(optimizer: optax.GradientTransformation) -> optax.GradientTransformation:
    """State and arithmetic in float32 for weights in halves."""

    def wide(tree: Any) -> Any:
        return jax.tree.map(lambda leaf: leaf.astype(jnp.float32), tree)

    def update(gradients: Any, state: Any, weights: Any) -> Any:
        changes, state = optimizer.update(wide(gradients), state, wide(weights))
        return jax.tree.map(lambda change, weight: change.astype(weight.dtype), changes, weights), state

    return optax.GradientTransformation(lambda weights: optimizer.init(wide(weights)), update)


def pipeline_of(stages: list[Callable[..., Any]], microbatches: int, devices: list[jax.Device]) -> Pipeline:
    """The published set-up, with as many microbatches an update."""
    return Pipeline(
        stages,
        in_float32(optax.lamb(1e-3)),
        microbatches,
        devices=devices,
        device_mapping=[0, 1, 2, 3, 0],
        replicas=4,
        reduction="mean",
        tied=[[(0, "words"), (4, "words")]],
        shard_optimizer_state=True,
        offload_optimizer_state=True,
        outfeed_loss=True,
        plan_options=[
            {"partials_type": "half", "available_memory_proportion": proportion}
            for proportion in (0.15, 0.25, 0.25, 0.25)
        ],
        strict=False,
    )


COUNT = 14  # microbatches are enough: from the tenth on each takes as long as the one before
pipeline = pipeline_of([first, layers, layers, layers, head], COUNT, jax.devices("ipu"))
element = {
    "words": np.zeros((COUNT, 4, ROWS, TOKENS), np.int32),
    "mask": np.zeros((COUNT, 4, ROWS, TOKENS), bool),
    "places": np.zeros((COUNT, 4, ROWS, MASKED), np.int32),
    "labels": np.zeros((COUNT, 4, ROWS, MASKED), np.int32),
}
with tilestep.dry_run(), jax.default_device(jax.devices("ipu")[0]):
    zeros = jax.jit(lambda: jax.tree.map(lambda shape: jnp.zeros(shape.shape, shape.dtype), params))()
    state = pipeline.init(zeros)
    key = jax.random.key(0, impl="unsafe_rbg")  # the tiles' own generator
    state, _ = pipeline.step(state, element, key=key)
    jax.block_until_ready(state)
    with tilestep.profile() as profile:
        jax.block_until_ready(pipeline.step(state, element, key=key))

# %% [markdown]
# ## Does it fit?
# The fullest tile of each program, of all that the tile has.

# %%
figures = profile.profile
fullest = {}
for program in figures.programs:
    fullest[program.name] = max(
        fullest.get(program.name, 0), program.peak_tile_bytes / figures.machine.tile_sram_bytes
    )
for name, share in sorted(fullest.items(), key=lambda pair: -pair[1])[:8]:
    print(f"{name:36}{share:5.0%} {'#' * round(40 * share)}")

# %% [markdown]
# ## How fast is it?
# The emulator has timed the first fourteen microbatches. The others of an update are like the last of them.

# %%
events = [event for event in profile.timeline if event.ipu < 4]  # of the first replica
timeline = traced(pipeline.schedule, events)
begins = [timeline.begin[Task(0, Kind.FORWARD, number)] for number in range(COUNT)]
microbatch_s = (begins[-1] - begins[-2]) / figures.machine.clock_hz
update_s = figures.emulated_s + (MICROBATCHES - COUNT) * microbatch_s
rate = 4 * ROWS * MICROBATCHES / update_s
print(f"a microbatch: {1e3 * microbatch_s:.2f} ms")
print(f"an update of {4 * ROWS * MICROBATCHES:,} sequences: {update_s:.2f} s")
print(f"sequences a second: {rate:,.0f}, published {PUBLISHED:,}: {rate / PUBLISHED - 1:+.1%}")

# %% [markdown]
# ## What limits it?
# How long each IPU of a replica works in one round, of the longest.

# %%
work = dict.fromkeys(range(5), 0.0)
for kind in (Kind.FORWARD, Kind.BACKWARD):
    for stage in work:
        task = Task(stage, kind, 3)
        work[stage] += (timeline.end[task] - timeline.begin[task]) / figures.machine.clock_hz
ipus = [work[0] + work[4], work[1], work[2], work[3]]
for ipu, seconds in enumerate(ipus):
    print(f"IPU {ipu}: {1e3 * seconds:5.2f} ms {'#' * round(40 * seconds / max(ipus))}")
