"""What do the habits of docs/how-to/performance.md bring, in emulated time and in real time?

    benchmarks/tips.py                                           a table for each tip
    benchmarks/tips.py --json benchmarks/results/tips.json       the record, and the tables of docs/how-to/performance.md anew
    benchmarks/tips.py --emulated                                emulated time only, in seconds: nothing is computed

Emulated time is that of a step in the long run: what 2n steps take more than n steps, over n, when the program is loaded, so that
bringing the state and fetching the last result cancel out. Wall time is a run of n steps over n, when everything is compiled: the median of
repetitions in which the ways take turns. It is that of this computer's CPU, which does an IPU's work; it is reported, never judged.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import os
import statistics
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # run as a script, this file is in no package

import jax
import jax.numpy as jnp
import numpy as np
import optax

import tilestep
from benchmarks.commit import commit
from tilestep.machine import load_machine
from tilestep.train import InfeedQueue, repeat

MACHINE = "bow-2000"
ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "how-to" / "performance.md"
CLASSIFIER = (784, 1024, 1024, 10), 128  # layers, and pictures of a batch: the network of JAX's own example of training on MNIST
SMALL = (16, 16, 4), 8  # one whose steps are shorter than a call
CHUNK = 8  # steps of one program on the device
SHORT_STEPS = 128
PRODUCTS = 16

Run = Callable[[int], object]  # does so many steps, from the beginning, and returns what to wait for


@dataclass(frozen=True, kw_only=True)
class Way:
    """One of the ways to do a thing."""

    name: str
    prepare: Callable[[], Run]


@dataclass(frozen=True, kw_only=True)
class Tip:
    """Ways to do the same, best last. Figures are of one step."""

    name: str  # of the table in the page
    step: str  # what one is
    steps: int  # n
    ways: tuple[Way, ...]
    share: bool = False  # the page says which part of the gain, from first to last, a way between brings


def ipu() -> jax.Device:
    return jax.devices("ipu")[0]


# ------------------------------------------------------------------------------------------------- a network in training

optimizer = optax.sgd(0.05, momentum=0.9)
State = tuple[list[Any], optax.OptState]


@dataclass(frozen=True)
class Network:
    """A multi-layer perceptron, and data for it."""

    layers: tuple[int, ...]
    batch_size: int

    def init(self, key: jax.Array) -> list[jax.Array]:
        keys = jax.random.split(key, len(self.layers) - 1)
        return [jax.random.normal(k, shape) / np.sqrt(shape[0]) for k, shape in zip(keys, itertools.pairwise(self.layers), strict=True)]

    def loss(self, params: list[jax.Array], images: jax.Array, labels: jax.Array) -> jax.Array:
        *hidden, last = params
        for weights in hidden:
            images = jax.nn.relu(images @ weights)
        return optax.softmax_cross_entropy_with_integer_labels(images @ last, labels).mean()

    def update(self, state: State, images: jax.Array, labels: jax.Array) -> State:
        params, optimizer_state = state
        updates, optimizer_state = optimizer.update(jax.grad(self.loss)(params, images, labels), optimizer_state)
        return optax.apply_updates(params, updates), optimizer_state

    def first_state(self) -> State:
        with jax.default_device(jax.devices("cpu")[0]):
            params = self.init(jax.random.key(0))
            return jax.tree.map(np.asarray, (params, optimizer.init(params)))

    def batches(self, number: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        rng = np.random.default_rng(1)
        pictures, classes = (self.batch_size, self.layers[0]), self.layers[-1]
        made = [
            (rng.normal(size=pictures).astype(np.float32), rng.integers(0, classes, self.batch_size, dtype=np.int32)) for _ in range(CHUNK)
        ]
        return itertools.islice(itertools.cycle(made), number)


def call_for_each_batch(network: Network, *, donate: bool) -> Run:
    step = jax.jit(network.update, backend="ipu", donate_argnums=(0,) if donate else ())

    def run(steps: int) -> object:
        state = network.first_state()
        for images, labels in network.batches(steps):
            state = step(state, images, labels)
        return state

    return run


def loop_with_infeed(network: Network) -> Run:
    body = network.update  # kept: another function object would be another program

    def run(steps: int) -> object:
        state = network.first_state()
        with InfeedQueue(network.batches(steps)) as queue, jax.default_device(ipu()):
            return repeat(steps, body, state, queue, chunk=CHUNK)

    return run


def with_smaller_last_batch(network: Network, *, padded: bool) -> Run:
    """Epochs of `CHUNK` batches, of which the last one is smaller, or filled up. (Padding would have to be left out of the loss.)"""
    step = jax.jit(network.update, backend="ipu", donate_argnums=(0,))
    smaller = network.batch_size if padded else network.batch_size * 3 // 4

    def run(steps: int) -> object:
        state = network.first_state()
        for number, (images, labels) in enumerate(network.batches(steps), 1):
            size = smaller if number % CHUNK == 0 else network.batch_size
            state = step(state, images[:size], labels[:size])
        return state

    return run


def evaluating(network: Network, backend: str) -> Run:
    """Training steps, each followed by an evaluation."""
    step = jax.jit(network.update, backend="ipu", donate_argnums=(0,))
    evaluate = jax.jit(network.loss, backend=backend)

    def run(steps: int) -> object:
        state, losses = network.first_state(), []
        for images, labels in network.batches(steps):
            state = step(state, images, labels)
            losses.append(evaluate(state[0] if backend == "ipu" else jax.device_get(state[0]), images, labels))
        return state, losses

    return run


def initialising(network: Network, backend: str) -> Run:
    """The same initial parameters, by operations outside of `jit`."""

    def run(steps: int) -> object:
        with jax.default_device(jax.devices(backend)[0]):
            return [network.init(jax.random.key(number)) for number in range(steps)]

    return run


# ------------------------------------------------------------------------------------------------------- a short function


def short_step(x: jax.Array) -> jax.Array:
    return jnp.cos(x) + 0.1


def loop_on_host() -> Run:
    step = jax.jit(short_step, backend="ipu", donate_argnums=(0,))

    def run(steps: int) -> object:
        x: Any = np.zeros(1000, np.float32)
        for _ in range(steps):
            x = step(x)
        return x

    return run


def loop_on_device() -> Run:
    def body(x: jax.Array) -> jax.Array:
        return short_step(x)

    def run(steps: int) -> object:
        with jax.default_device(ipu()):
            return repeat(steps, body, np.zeros(1000, np.float32), chunk=64)

    return run


def multiplying(dtype: Any, options: dict[str, str] | None = None) -> Run:
    """`PRODUCTS` in one program, so many that a call's overhead doesn't show."""

    def products(x: jax.Array) -> jax.Array:
        return jax.lax.fori_loop(0, PRODUCTS, lambda _, x: x @ x / x.shape[0], x)

    step = jax.jit(products, backend="ipu", donate_argnums=(0,), compiler_options=options)

    def run(steps: int) -> object:
        x: Any = np.ones((1024, 1024), dtype)
        for _ in range(steps):
            x = step(x)
        return x

    return run


def training(name: str, network: Network, *, steps: int) -> Tip:
    layers = "-".join(map(str, network.layers))
    return Tip(
        name=name,
        step=f"training step of {layers}, batch {network.batch_size}",
        steps=steps,
        ways=(
            Way(name="no donation", prepare=lambda: call_for_each_batch(network, donate=False)),
            Way(name="donation", prepare=lambda: call_for_each_batch(network, donate=True)),
            Way(name="loop on the device, with an infeed", prepare=lambda: loop_with_infeed(network)),
        ),
        share=True,
    )


classifier, small = Network(*CLASSIFIER), Network(*SMALL)
TIPS = (
    Tip(
        name="initialising",
        step="initialisation of the network, operation by operation",
        steps=2,
        ways=(
            Way(name="on `ipu`", prepare=lambda: initialising(classifier, "ipu")),
            Way(name="on `cpu`", prepare=lambda: initialising(classifier, "cpu")),
        ),
    ),
    Tip(
        name="evaluating",
        step="training step with an evaluation after it",
        steps=8,
        ways=(
            Way(name="both on `ipu`", prepare=lambda: evaluating(classifier, "ipu")),
            Way(name="evaluation on `cpu`", prepare=lambda: evaluating(classifier, "cpu")),
        ),
    ),
    training("training", classifier, steps=4 * CHUNK),
    training("training a small network", small, steps=SHORT_STEPS),
    Tip(
        name="looping",
        step="step of a short function, donated",
        steps=SHORT_STEPS,
        ways=(Way(name="loop on the host", prepare=loop_on_host), Way(name="loop on the device", prepare=loop_on_device)),
    ),
    Tip(
        name="shapes",
        step=f"training step, in epochs of {CHUNK} batches",
        steps=2 * CHUNK,
        ways=(
            Way(name="the last one smaller", prepare=lambda: with_smaller_last_batch(classifier, padded=False)),
            Way(name="the last one filled up", prepare=lambda: with_smaller_last_batch(classifier, padded=True)),
        ),
    ),
    Tip(
        name="types",
        step=f"call with {PRODUCTS} products of 1024 x 1024 matrices",
        steps=2,
        ways=(
            Way(name="`float32`", prepare=lambda: multiplying(np.float32)),
            Way(name="`float16`, sums in 32 bits", prepare=lambda: multiplying(np.float16)),
            Way(name="`float16`, sums in 16 bits", prepare=lambda: multiplying(np.float16, {"ipu_partials_type": "half"})),
        ),
    ),
)


# ---------------------------------------------------------------------------------------------------------------- measuring


def emulated_cycles(tip: Tip, way: Way) -> int:
    """Cycles of `tip.steps` steps in the long run."""
    run = way.prepare()
    jax.block_until_ready(run(tip.steps))  # loads the program: while that takes its time, the host would run ahead
    short, long = (cycles_of(run, steps) for steps in (tip.steps, 2 * tip.steps))
    return long - short


def cycles_of(run: Run, steps: int) -> int:
    with tilestep.profile() as profile:
        jax.block_until_ready(run(steps))
    return profile.emulated_cycles


def emulated(*, dry: bool, names: Sequence[str] = ()) -> dict[str, dict[str, int]]:
    """Tip to way to cycles. Args: names: of tips; none: all."""
    mode = tilestep.dry_run("zeros") if dry else contextlib.nullcontext()
    with mode:
        return {tip.name: {way.name: emulated_cycles(tip, way) for way in tip.ways} for tip in TIPS if tip.name in (names or tip.name)}


def wall(tip: Tip, repetitions: int) -> dict[str, list[float]]:
    """Way to seconds of a step."""
    runs = {way.name: way.prepare() for way in tip.ways}
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    for repetition in range(repetitions + 1):
        for name in runs if repetition % 2 else reversed(runs):
            begin = time.perf_counter()
            jax.block_until_ready(runs[name](tip.steps))
            if repetition:  # the first one compiles
                seconds[name].append((time.perf_counter() - begin) / tip.steps)
    return seconds


def summary(values: Sequence[float]) -> dict[str, float]:
    """Median, interquartile range and number of the values."""
    low, _, high = statistics.quantiles(values, n=4)
    return {"median": float(f"{statistics.median(values):.4g}"), "iqr": float(f"{high - low:.3g}"), "n": len(values)}


def make_record(repetitions: int) -> dict[str, Any]:
    """Everything. Raises: RuntimeError if computing the values changes emulated time."""
    cycles = emulated(dry=True)
    if (computed := emulated(dry=False)) != cycles:
        raise RuntimeError(f"a dry run takes other emulated cycles than a real one: {cycles} and {computed}")
    return {
        "question": (__doc__ or "").splitlines()[0],
        "machine": MACHINE,
        "commit": commit(),
        "host": {"cpus": os.cpu_count(), "load": round(os.getloadavg()[0], 2)},
        "versions": {name: version(name) for name in ("jax", "jaxlib", "numpy", "tilestep")},
        "tips": {
            tip.name: {
                "steps": tip.steps,
                "ways": {
                    name: {"emulated_cycles": cycles[tip.name][name], "wall_s": summary(seconds)}
                    for name, seconds in wall(tip, repetitions).items()
                },
            }
            for tip in TIPS
        },
    }


# ------------------------------------------------------------------------------------------------------------------ showing


def table(tip: Tip, record: Mapping[str, Any]) -> list[str]:
    """Lines of Markdown."""
    clock_hz = load_machine(record["machine"]).ipu.clock_hz
    measured = record["tips"][tip.name]
    ways = measured["ways"]
    emulated_s = {name: way["emulated_cycles"] / clock_hz / measured["steps"] for name, way in ways.items()}
    first, *_, last = emulated_s.values()
    lines = [f"| one {tip.step} | emulated | wall |" + " of the gain |" * tip.share, "|---|---:|---:|" + "---:|" * tip.share]
    for name, way in ways.items():
        share = f" {(first - emulated_s[name]) / (first - last):.1%} |" if tip.share else ""
        lines.append(f"| {name} | {shown(emulated_s[name])} | {shown(way['wall_s']['median'])} |{share}")
    return lines


def shown(seconds: float) -> str:
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= scale:
            return f"{seconds / scale:.3g} {unit}"
    return f"{seconds / 1e-9:.3g} ns" if seconds else "0"


def with_tables(page: str, record: Mapping[str, Any]) -> str:
    """The page with the record's tables, each between its marker, like `<!-- training -->`, and the next `<!-- end -->`.

    Raises: ValueError if a marker is missing.
    """
    for tip in TIPS:
        start, end = f"<!-- {tip.name} -->\n", "<!-- end -->"
        before, found, rest = page.partition(start)
        _, closed, after = rest.partition(end)
        if not (found and closed):
            raise ValueError(f"the page has no {start.strip()} or no {end} after it")
        page = before + start + "\n" + "\n".join(table(tip, record)) + "\n\n" + end + after
    return page


def text_of(record: Mapping[str, Any]) -> str:
    """The record's file."""
    return json.dumps(record, indent=1) + "\n"


def main(arguments: Sequence[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--emulated", action="store_true", help="print emulated cycles as JSON, and nothing else; nothing is computed")
    parser.add_argument(
        "--tips", nargs="+", default=[], choices=[tip.name for tip in TIPS], metavar="NAME", help="with --emulated: these alone"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the record to FILE, and the tables of the page from it")
    parser.add_argument("--docs", type=Path, default=PAGE, metavar="FILE", help="the page (default: %(default)s)")
    parser.add_argument("--repetitions", type=int, default=7, metavar="N", help="of each wall time, at least 2 (default: %(default)s)")
    options = parser.parse_args(arguments)
    if options.tips and not options.emulated:
        parser.error(f"--tips {' '.join(options.tips)} needs --emulated: a record has all of them")
    if options.repetitions < 2:
        parser.error(f"--repetitions is {options.repetitions}: it must be 2 or more")
    os.environ["TILESTEP_MACHINE"] = MACHINE
    warnings.filterwarnings("ignore", "backend and device argument on jit", DeprecationWarning)
    if options.emulated:
        print(json.dumps(emulated(dry=True, names=options.tips), indent=1))
        return 0
    record = make_record(options.repetitions)
    for tip in TIPS:
        print("\n".join(table(tip, record)), end="\n\n")
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(text_of(record), encoding="utf-8")
        options.docs.write_text(with_tables(options.docs.read_text(encoding="utf-8"), record), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
