"""What does platform `ipu` cost the real machine, in dispatch, transfers, compilation and start, against JAX's CPU platform?

    benchmarks/dispatch.py                       a table of medians and their ratio
    benchmarks/dispatch.py --only x+1 --json benchmarks/results/dispatch.json

Both platforms run in one process and take turns, so that whatever else the machine does falls on both. Medians over
repetitions; a repetition of a short operation is a batch of calls of about 5 ms. Wall time is reported, never judged.
"""

from __future__ import annotations

import argparse
import functools
import itertools
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # run as a script, this file is in no package

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import Mesh, NamedSharding, SingleDeviceSharding
from jax.sharding import PartitionSpec as P

import tilestep
from benchmarks.commit import commit

PLATFORMS = ("ipu", "cpu")
NUM_DEVICES = 4
BATCH_WALL_S = 5e-3
STEP_WALL_S = 5e-3
PROFILED_CALLS = 64
MOST_COLLECTIVE_CALLS = 16  # XLA:CPU deadlocks with more than 32 programs over several devices in flight, and ends the process
LAYERS, WIDTH, HEADS, TOKENS, VOCABULARY = 6, 128, 4, 64, 256

Call = Callable[[], object]


@dataclass(frozen=True, kw_only=True)
class Question:
    """One row: `prepare` makes, for a platform's devices, the call to be timed."""

    name: str
    prepare: Callable[[Sequence[jax.Device]], Call]
    repetitions: int
    batch: bool = True  # many calls a repetition; else one
    most_calls: int = 10**6  # of a batch


@dataclass(frozen=True, kw_only=True)
class Answer:
    """Seconds per call on each platform."""

    name: str
    wall_s: Mapping[str, tuple[float, ...]]

    def median(self, platform: str) -> float:
        return statistics.median(self.wall_s[platform])

    @property
    def ratio(self) -> float:
        return self.median("ipu") / self.median("cpu")

    def record(self) -> dict[str, object]:
        return {
            "name": self.name,
            "wall_s": {platform: summary(values) for platform, values in self.wall_s.items()},
            "ratio": round(self.ratio, 3),
        }


def summary(values: Sequence[float]) -> dict[str, float]:
    """Median, interquartile range and number of the values."""
    low, _, high = statistics.quantiles(values, n=4)
    return {"median": float(f"{statistics.median(values):.4g}"), "iqr": float(f"{high - low:.3g}"), "n": len(values)}


def floats(*shape: int) -> np.ndarray:
    return np.linspace(-1, 1, int(np.prod(shape)), dtype=np.float32).reshape(shape)


def jitted(arguments: int, *, then: Callable[[jax.Array], object] = lambda result: result) -> Callable[[Sequence[jax.Device]], Call]:
    """A jitted function of `arguments` arrays of 8 floats."""

    def prepare(devices: Sequence[jax.Device]) -> Call:
        function = jax.jit(lambda first, *rest: sum(rest, first + 1))
        values = [jax.device_put(floats(8), devices[0]) for _ in range(arguments)]
        return lambda: then(function(*values))

    return prepare


def profiled(devices: Sequence[jax.Device]) -> Call:
    """Dispatches, and what working them off into emulated time takes, which otherwise happens every few thousand dispatches."""
    function, values = jax.jit(lambda x: x + 1), jax.device_put(floats(8), devices[0])

    def call() -> object:
        with tilestep.profile() as profile:
            for _ in range(PROFILED_CALLS):
                result = function(values)
        del profile
        return result

    return call


def put(devices: Sequence[jax.Device]) -> Call:
    values = floats(8)
    return lambda: jax.device_put(values, devices[0])


def spread(body: Callable[[jax.Array], jax.Array], out: P) -> Callable[[Sequence[jax.Device]], Call]:
    """`body` on each of four devices, under shard_map."""

    def prepare(devices: Sequence[jax.Device]) -> Call:
        mesh = Mesh(np.array(devices[:NUM_DEVICES]), ("i",))
        function = jax.jit(jax.shard_map(body, mesh=mesh, in_specs=P("i"), out_specs=out))
        values = jax.device_put(floats(NUM_DEVICES * 8), NamedSharding(mesh, P("i")))
        return lambda: function(values)

    return prepare


def classifier_step(devices: Sequence[jax.Device], batch: int) -> Call:
    """A step of training a 784-256-256-10 classifier, its state donated."""
    optimiser = optax.adam(1e-3)
    sizes = (784, 256, 256, 10)
    weights = [floats(*shape) / 16 for shape in itertools.pairwise(sizes)]
    images, labels = floats(batch, sizes[0]), np.arange(batch) % sizes[-1]

    def loss(weights: list[jax.Array], images: jax.Array, labels: jax.Array) -> jax.Array:
        hidden = functools.reduce(lambda x, w: jax.nn.relu(x @ w), weights[:-1], images)
        return optax.softmax_cross_entropy_with_integer_labels(hidden @ weights[-1], labels).mean()

    @functools.partial(jax.jit, donate_argnums=0)
    def step(state: Any, images: jax.Array, labels: jax.Array) -> Any:
        weights, moments = state
        updates, moments = optimiser.update(jax.grad(loss)(weights, images, labels), moments, weights)
        return optax.apply_updates(weights, updates), moments

    state = jax.device_put((weights, optimiser.init(weights)), devices[0])
    images, labels = jax.device_put((images, labels), devices[0])

    def call() -> object:
        nonlocal state
        state = step(state, images, labels)
        return state

    return call


@functools.cache
def classifier_batch() -> int:
    """The batch with which a step takes about STEP_WALL_S on this machine's CPU."""
    batch = 16
    while True:
        call = classifier_step(jax.devices("cpu"), batch)
        if min(seconds(call, calls=5) for _ in range(5)) >= STEP_WALL_S:  # the least is what other work on the machine disturbs least
            return batch
        batch += max(8, batch // 4)


def compile_transformer(devices: Sequence[jax.Device]) -> Call:
    """Traces, lowers and compiles a transformer's train step that JAX has not seen before."""
    place = SingleDeviceSharding(devices[0])

    def shaped(*shape: int, dtype: Any = np.float32) -> jax.ShapeDtypeStruct:
        return jax.ShapeDtypeStruct(shape, dtype, sharding=place)

    layer = {"qkv": shaped(WIDTH, 3 * WIDTH), "out": shaped(WIDTH, WIDTH), "up": shaped(WIDTH, 4 * WIDTH), "down": shaped(4 * WIDTH, WIDTH)}
    weights = {"embed": shaped(VOCABULARY, WIDTH), "layers": [layer] * LAYERS}
    tokens = shaped(8, TOKENS, dtype=np.int32)

    def fresh() -> Callable[..., Any]:
        def norm(x: jax.Array) -> jax.Array:
            return (x - x.mean(-1, keepdims=True)) * jax.lax.rsqrt(x.var(-1, keepdims=True) + 1e-5)

        def block(x: jax.Array, w: Mapping[str, jax.Array]) -> jax.Array:
            q, k, v = jnp.split((norm(x) @ w["qkv"]).reshape(*x.shape[:2], HEADS, -1), 3, axis=-1)
            x = x + jax.nn.dot_product_attention(q, k, v, is_causal=True).reshape(x.shape) @ w["out"]
            return x + jax.nn.gelu(norm(x) @ w["up"]) @ w["down"]

        def loss(weights: Any, tokens: jax.Array) -> jax.Array:
            x = functools.reduce(block, weights["layers"], weights["embed"][tokens])
            logits = norm(x) @ weights["embed"].T
            return optax.softmax_cross_entropy_with_integer_labels(logits[:, :-1], tokens[:, 1:]).mean()

        def step(weights: Any, tokens: jax.Array) -> Any:
            return jax.tree.map(lambda w, g: w - 1e-3 * g, weights, jax.grad(loss)(weights, tokens))

        return step

    return lambda: jax.jit(fresh(), donate_argnums=0).lower(weights, tokens).compile()


def start(devices: Sequence[jax.Device]) -> Call:
    """A process that imports JAX, starts the platform and ends."""
    platform = devices[0].platform
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("JAX_", "XLA_", "TILESTEP_", "POPLAR_"))}
    environ = kept | {"JAX_PLATFORMS": platform if platform == "cpu" else f"{platform},cpu"}
    command = [sys.executable, "-c", f"import jax; jax.devices('{platform}')"]
    return lambda: subprocess.run(command, env=environ, check=True, capture_output=True)


QUESTIONS = (
    Question(name="jit x+1", prepare=jitted(1), repetitions=60),
    Question(name="jit, 3 arguments", prepare=jitted(3), repetitions=60),
    Question(name="jit, 40 arguments", prepare=jitted(40), repetitions=60),
    Question(name="jit x+1, block_until_ready", prepare=jitted(1, then=lambda result: result.block_until_ready()), repetitions=60),
    Question(name="jit x+1, np.asarray", prepare=jitted(1, then=np.asarray), repetitions=60),
    Question(name=f"{PROFILED_CALLS} times jit x+1, profiled", prepare=profiled, repetitions=60),
    Question(name="device_put", prepare=put, repetitions=60),
    Question(name="4 devices, x+1", prepare=spread(lambda x: x + 1, P("i")), repetitions=60, most_calls=MOST_COLLECTIVE_CALLS),
    Question(name="4 devices, psum", prepare=spread(lambda x: jax.lax.psum(x, "i"), P()), repetitions=60, most_calls=MOST_COLLECTIVE_CALLS),
    Question(name="train step of 5 ms", prepare=lambda devices: classifier_step(devices, classifier_batch()), repetitions=60),
    Question(name="compile, 6-layer transformer", prepare=compile_transformer, repetitions=7, batch=False),
    Question(name="import and start", prepare=start, repetitions=9, batch=False),
)


def seconds(call: Call, calls: int) -> float:
    """Seconds per call of a batch, the work of the last included."""
    result: object = None
    begin = time.perf_counter()
    for _ in range(calls):
        result = call()
    jax.block_until_ready(result)
    return (time.perf_counter() - begin) / calls


def answer(question: Question, repetitions: int) -> Answer:
    calls = {platform: question.prepare(jax.devices(platform)) for platform in PLATFORMS}
    sizes: dict[str, int] = {}
    for platform, call in calls.items():
        once = min(seconds(call, 1) for _ in range(3 if question.batch else 1))
        sizes[platform] = min(max(1, int(BATCH_WALL_S / once)), question.most_calls) if question.batch else 1
    wall_s: dict[str, list[float]] = {platform: [] for platform in PLATFORMS}
    for repetition in range(repetitions):
        for platform in PLATFORMS if repetition % 2 else PLATFORMS[::-1]:
            wall_s[platform].append(seconds(calls[platform], sizes[platform]))
    return Answer(name=question.name, wall_s={platform: tuple(values) for platform, values in wall_s.items()})


def table(answers: Sequence[Answer]) -> str:
    lines = [f"{'median':30} {'ipu':>12} {'cpu':>12} {'ratio':>7}"]
    lines += [f"{a.name:30} {a.median('ipu') * 1e6:9.1f} µs {a.median('cpu') * 1e6:9.1f} µs {a.ratio:7.2f}" for a in answers]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", metavar="WORDS", help="rows whose name contains one of these")
    parser.add_argument("--repetitions", type=int, metavar="N", help="of each row, in place of the row's own number (at least 2)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the record to FILE")
    options = parser.parse_args()
    jax.config.update("jax_num_cpu_devices", NUM_DEVICES)
    asked = [q for q in QUESTIONS if not options.only or any(words in q.name for words in options.only)]
    answers = [answer(question, max(2, options.repetitions or question.repetitions)) for question in asked]
    print(table(answers))
    if options.json:
        record = {
            "question": (__doc__ or "").splitlines()[0],
            "machine": os.environ.get("TILESTEP_MACHINE", "bow-2000"),
            "commit": commit(),
            "host": {"cpus": os.cpu_count(), "load": round(os.getloadavg()[0], 2)},
            "versions": {name: version(name) for name in ("jax", "jaxlib", "numpy", "tilestep")},
            "answers": [a.record() for a in answers],
        }
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
