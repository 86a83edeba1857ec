"""BERT-Large on sixteen IPUs, without any.

Would pretraining of BERT-Large fit into 16 Bow IPUs, and how fast would it be? A dry run computes no values, so a laptop answers within
a minute or two. The run is one that Graphcore published in 2022: 5,179 sequences of 128 tokens a second.

    python examples/bert_pod.py
    python examples/bert_pod.py --layers 0 4 4 4 --width 768 --heads 12 --tokens 512 --microbatch 2
    python examples/bert_pod.py --replicas 16 --machine bow-pod64

`--help` has all of it: the model's sizes, the microbatch, the replicas and the machine are yours to change.
"""

# %%
from __future__ import annotations

import os
import sys
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

import tilestep
from flags import make_parser, read, whole_number
from tilestep.train import Pipeline
from tilestep.train.schedules import Kind, Task, traced

PUBLISHED = 5179  # sequences a second of the run that the flags' defaults describe: graphcore/examples v2.4.0, applications/popart/bert
WORDS, DROPPED = 30_400, 0.1
IPUS = 4  # of a replica
MOST = 14  # microbatches that are emulated
STEADY = 9  # from the one of this index on each must take as long as the one before


def number(low: int, high: int) -> Callable[[str], int]:
    """The type of a flag."""
    return partial(whole_number, low=low, high=high)


parser = make_parser(
    "Ask whether BERT fits into so many IPUs, and how fast it would train. The defaults are the published run."
)
help_of = {
    "--layers": (number(0, 1000), [3, 7, 7, 7], "on each IPU of a replica"),
    "--width": (number(1, 1_000_000), 1024, "values of a word"),
    "--heads": (number(1, 1_000_000), 16, "of attention; they divide the width"),
    "--tokens": (number(1, 1_000_000), 128, "of a sequence"),
    "--microbatch": (number(1, 1_000_000), 8, "sequences of a microbatch"),
    "--microbatches": (number(1, 1_000_000), 2048, "of an update and a replica"),
    "--replicas": (number(1, 64), 4, "of four IPUs each"),
}
for name, (kind, default, meaning) in help_of.items():
    parser.add_argument(
        name,
        type=kind,
        default=default,
        metavar="COUNT",
        nargs=IPUS if name == "--layers" else None,
        help=f"{meaning} (default: %(default)s)",
    )
parser.add_argument(
    "--machine",
    default="bow-pod16",
    help="a name of `tilestep machines`, or a TOML file (default: %(default)s)",
)
flags = read(parser)
if flags.backend != "ipu":
    parser.error(
        f"--backend {flags.backend}: this example is a dry run of the emulated machine, so it needs ipu"
    )
if not any(flags.layers):
    parser.error("--layers 0 0 0 0: the model has no layer, and needs one or more")
if flags.width % flags.heads:
    parser.error(f"--heads {flags.heads}: it must divide the width, which is {flags.width:,}")
os.environ["TILESTEP_MACHINE"] = flags.machine  # read when JAX starts its devices
try:
    devices = jax.devices("ipu")
except RuntimeError as error:
    said = str(error).rpartition("TILESTEP_MACHINE: ")[2].partition(". Available backends")[0]
    parser.error(f"--machine {flags.machine}: {said}")
if len(devices) < IPUS * flags.replicas:
    parser.error(
        f"--replicas {flags.replicas}: they have {IPUS * flags.replicas} IPUs together, and {flags.machine} has {len(devices)}"
    )
devices = devices[: IPUS * flags.replicas]
is_published = all(getattr(flags, name) == parser.get_default(name) for name in vars(flags))
WIDTH, HEADS, TOKENS, ROWS = flags.width, flags.heads, flags.tokens, flags.microbatch
MASKED = -(-15 * TOKENS // 100)  # words of a sequence that are predicted: 15 %

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
# Replicas of four IPUs. The optimiser is LAMB with its state in float32, which is divided among the replicas and kept in streaming
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
        replicas=flags.replicas,
        reduction="mean",
        tied=[[(0, "words"), (4, "words")]],
        shard_optimizer_state=flags.replicas > 1,
        offload_optimizer_state=True,
        outfeed_loss=True,
        plan_options=[
            {"partials_type": "half", "available_memory_proportion": proportion}
            for proportion in (0.15, 0.25, 0.25, 0.25)
        ],
        strict=False,
    )


count = min(MOST, flags.microbatches)
pipeline = pipeline_of([first, layers, layers, layers, head], count, devices)
leading = (count, flags.replicas, ROWS) if flags.replicas > 1 else (count, ROWS)
element = {
    "words": np.zeros((*leading, TOKENS), np.int32),
    "mask": np.zeros((*leading, TOKENS), bool),
    "places": np.zeros((*leading, MASKED), np.int32),
    "labels": np.zeros((*leading, MASKED), np.int32),
}
with tilestep.dry_run(), jax.default_device(devices[0]):
    zeros = jax.jit(lambda: jax.tree.map(lambda shape: jnp.zeros(shape.shape, shape.dtype), params))()
    state = pipeline.init(zeros)
    key = jax.random.key(0, impl="unsafe_rbg")  # the tiles' own generator
    state, _ = pipeline.step(state, element, key=key)
    jax.block_until_ready(state)
    with tilestep.profile() as profile:
        jax.block_until_ready(pipeline.step(state, element, key=key))

# %% [markdown]
# ## Does it fit?
# The fullest tile of each program, of all that the tile has. The programs of an IPU's stages are loaded together. Then a tile holds the
# code of all of them, each codelet once, and what one needs while it runs, beside weights, gradients and inputs of layers that others
# need later. The published run fitted: by this count it leaves next to nothing.

# %%
figures = profile.profile
fullest = {}
for program in figures.programs:
    fullest[program.name] = max(
        fullest.get(program.name, 0), program.peak_tile_bytes / figures.machine.tile_sram_bytes
    )
for name, share in sorted(fullest.items(), key=lambda pair: -pair[1])[:8]:
    print(f"{name:36}{share:5.0%} {'#' * min(80, round(40 * share))}")
parts = [("each program by itself", max(fullest.values()))]
parts += [
    (f"all of IPU {group.ipu} together", group.peak_tile_bytes / figures.machine.tile_sram_bytes)
    for group in figures.groups
]
for what, share in parts:
    print(f"{what} fits: {'yes' if share <= 1 else 'no'}, the fullest tile needs {share:.0%} of its memory")

# %% [markdown]
# ## How fast is it?
# The emulator has timed the first fourteen microbatches. Once all stages are busy, each takes as long as the one before. This is checked,
# and the others of an update are added. The time between two calls from the host, a tenth of a second in published runs, is not in it.

# %%
events = [event for event in profile.timeline if event.ipu < 4]  # of the first replica
timeline = traced(pipeline.schedule, events)
update_s = figures.emulated_s
if flags.microbatches > count:
    begins = [timeline.begin[Task(0, Kind.FORWARD, number)] for number in range(count)]
    pitches = {later - earlier for earlier, later in pairwise(begins[STEADY:])}
    if len(pitches) > 1:
        sys.exit(
            f"microbatches from the tenth on take {min(pitches):,} to {max(pitches):,} cycles: they must be alike for those that are not "
            f"emulated to be added; --microbatches {MOST} or fewer are emulated all"
        )
    microbatch_s = pitches.pop() / figures.machine.clock_hz
    update_s += (flags.microbatches - count) * microbatch_s
    print(f"a microbatch: {1e3 * microbatch_s:.2f} ms")
sequences = flags.replicas * ROWS * flags.microbatches
rate = sequences / update_s
print(f"an update of {sequences:,} sequences: {update_s:.4g} s")
compared = f", published {PUBLISHED:,}: {rate / PUBLISHED - 1:+.1%}" if is_published else ""
print(f"sequences a second: {rate:,.0f}{compared}")

# %% [markdown]
# ## What limits it?
# How long each IPU of a replica works in one round, of the longest.

# %%
work = dict.fromkeys(range(5), 0.0)
for kind in (Kind.FORWARD, Kind.BACKWARD):
    for stage in work:
        task = Task(stage, kind, count // 2)
        work[stage] += (timeline.end[task] - timeline.begin[task]) / figures.machine.clock_hz
ipus = [work[0] + work[4], work[1], work[2], work[3]]
for ipu, seconds in enumerate(ipus):
    print(f"IPU {ipu}: {1e3 * seconds:5.2f} ms {'#' * round(40 * seconds / max(ipus))}")
