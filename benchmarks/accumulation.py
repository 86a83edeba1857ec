"""What does gradient accumulation cost, in time and memory, against optax.MultiSteps and a hand-written lax.scan, on CPU?

    benchmarks/accumulation.py                   tables: milliseconds for each update, MiB at the peak, and their ratios
    benchmarks/accumulation.py --only transformer --json benchmarks/results/accumulation.json

A perceptron of 12 MiB and a transformer of 4 layers, both with Adam and an update for 8 microbatches:

    repeat                 `tilestep.train.gradient_accumulation` in `tilestep.train.repeat`, fed by an InfeedQueue
    ours in a scan         the same optimiser in a jitted `lax.scan` over the microbatches: its update is a branch of the step
    single step            `tilestep.train.accumulate_gradients` in a jitted step that gets all microbatches at once
    MultiSteps, repeat     `optax.MultiSteps` in `tilestep.train.repeat`, fed by an InfeedQueue
    MultiSteps, scan       `optax.MultiSteps` in a jitted `lax.scan` over the microbatches
    MultiSteps, calls      `optax.MultiSteps` in a jitted step, called for each microbatch
    scan by hand           a jitted `lax.scan` that adds up gradients, and Adam after it

All take the mean over the microbatches, start from the same state, and see the same data; all give up their state (donation). Memory is
that of the compiled program: arguments, results that share no memory with them, and temporaries (`compiled.memory_analysis()`). Nothing
else is on the device, but for data. Tracing and compiling is in seconds of all cores. The sides take turns in one process. Time is
reported, never judged by tests.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import statistics
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

from benchmarks.commit import commit
from benchmarks.dispatch import summary
from tilestep.train import InfeedQueue, accumulate_gradients, effective_batch_size, gradient_accumulation, repeat
from tilestep.train.loop.program_cache import ChunkSpan, LoopSettings, repeat_loop

COUNT = 8  # microbatches for each update
MICROBATCH = 8
WIDTH, LAYERS, HEADS, TOKENS, VOCABULARY = 256, 4, 4, 64, 1024  # of the transformer
SIDE = 1024  # of the perceptron's three square matrices: 12 MiB
ADAM = optax.adam(1e-3)
OURS = gradient_accumulation(ADAM, COUNT, reduction="mean")

Turn = Callable[[], object]


@dataclass(frozen=True, kw_only=True)
class Model:
    """A model to be trained, and its data."""

    name: str
    parameters: Callable[[], Any]
    loss: Callable[..., Any]
    microbatches: Callable[[], tuple[np.ndarray, ...]]  # COUNT of them along the leading axis
    updates: int  # of a turn


@dataclass(frozen=True, kw_only=True)
class Side:
    """One way to do it.

    Attributes: turn: updates the parameters so many times. peak_bytes: of its program. compile_cpu_s: that tracing and compiling it took.
    """

    turn: Turn
    peak_bytes: int
    compile_cpu_s: float


def normal(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return (rng.normal(size=shape) / shape[0] ** 0.5).astype(np.float32)


def perceptron_parameters() -> Any:
    rng = np.random.default_rng(0)
    return [normal(rng, SIDE, SIDE) for _ in range(3)]


def perceptron_loss(weights: Any, x: Any, y: Any) -> Any:
    for weight in weights[:-1]:
        x = jax.nn.relu(x @ weight)
    return jnp.mean((x @ weights[-1] - y) ** 2)


def perceptron_data() -> tuple[np.ndarray, ...]:
    rng = np.random.default_rng(1)
    shape = (COUNT, MICROBATCH, SIDE)
    return rng.normal(size=shape).astype(np.float32), rng.normal(size=shape).astype(np.float32)


def transformer_parameters() -> Any:
    rng = np.random.default_rng(0)
    layers = [
        {"qkv": normal(rng, WIDTH, 3 * WIDTH), "out": normal(rng, WIDTH, WIDTH), "up": normal(rng, WIDTH, 4 * WIDTH)}
        | {"down": normal(rng, 4 * WIDTH, WIDTH)}
        | {f"scale {n}": np.ones(WIDTH, np.float32) for n in (1, 2)}
        for _ in range(LAYERS)
    ]
    return {"words": normal(rng, VOCABULARY, WIDTH), "places": normal(rng, TOKENS, WIDTH), "layers": layers}


def normalised(x: Any, scale: Any) -> Any:
    return x * jax.lax.rsqrt(jnp.mean(x * x, axis=-1, keepdims=True) + 1e-6) * scale


def transformer_loss(weights: Any, tokens: Any) -> Any:
    """Mean cross entropy of each next token. Args: tokens: int32[MICROBATCH, TOKENS + 1]."""
    x = weights["words"][tokens[:, :-1]] + weights["places"]
    for layer in weights["layers"]:
        q, k, v = jnp.split(normalised(x, layer["scale 1"]) @ layer["qkv"], 3, axis=-1)
        q, k, v = (part.reshape(*part.shape[:2], HEADS, WIDTH // HEADS) for part in (q, k, v))
        seen = jax.nn.dot_product_attention(q, k, v, is_causal=True)
        x = x + seen.reshape(x.shape) @ layer["out"]
        x = x + jax.nn.gelu(normalised(x, layer["scale 2"]) @ layer["up"]) @ layer["down"]
    scores = jax.nn.log_softmax(x @ weights["words"].T)
    return -jnp.take_along_axis(scores, tokens[:, 1:, None], axis=-1).mean()


def transformer_data() -> tuple[np.ndarray, ...]:
    return (np.random.default_rng(1).integers(0, VOCABULARY, (COUNT, MICROBATCH, TOKENS + 1)).astype(np.int32),)


MODELS = (
    Model(name="perceptron, 12 MiB", parameters=perceptron_parameters, loss=perceptron_loss, microbatches=perceptron_data, updates=2),
    Model(
        name="transformer, 4 layers",
        parameters=transformer_parameters,
        loss=transformer_loss,
        microbatches=transformer_data,
        updates=1,
    ),
)


def compiled(turn: Turn, jitted: Any, *arguments: Any) -> Side:
    """The side of a program.

    Its peak is arguments, results in memory of their own, and temporaries, without the data (its arguments after the first).
    """
    begin = time.process_time()
    program = jitted.trace(*arguments).lower().compile()
    spent, found = time.process_time() - begin, program.memory_analysis()
    data = sum(leaf.nbytes for leaf in jax.tree.leaves(arguments[1:]))
    peak = found.argument_size_in_bytes - data + found.output_size_in_bytes - found.alias_size_in_bytes + found.temp_size_in_bytes
    return Side(turn=turn, peak_bytes=peak, compile_cpu_s=spent)


def applied(optimiser: optax.GradientTransformation, state: Any, gradients: Any) -> Any:
    params, inner = state
    updates, inner = optimiser.update(gradients, inner, params)
    return optax.apply_updates(params, updates), inner


def started(model: Model, optimiser: Any) -> Any:
    params = jax.device_put(model.parameters())
    return params, optimiser.init(params)


def looped(model: Model, optimiser: Any, *, paced: bool) -> Side:
    def body(state: Any, *microbatch: Any) -> Any:
        return applied(optimiser, state, jax.grad(model.loss)(state[0], *microbatch))

    state, data = started(model, optimiser), model.microbatches()
    infeed = InfeedQueue(itertools.cycle([tuple(part[k] for part in data) for k in range(COUNT)]))

    def turn() -> object:
        nonlocal state
        state = repeat(model.updates * COUNT, body, state, infeed, chunk=COUNT)
        return jax.block_until_ready(state)

    span = ChunkSpan(steps=COUNT, every=COUNT, first=COUNT) if paced else ChunkSpan(steps=COUNT)
    program = repeat_loop(body, LoopSettings(has_infeed=True)).program(span)
    return compiled(turn, program, state, data)


def called(model: Model, optimiser: Any, step: Callable[..., Any], *, calls: int = 1) -> Side:
    """A jitted function of (state, data). Args: calls: for each update; then each gets one microbatch."""
    jitted: Any = jax.jit(step, donate_argnums=0)
    state, data = started(model, optimiser), jax.device_put(model.microbatches())
    parts = [data] if calls == 1 else [tuple(part[k] for part in data) for k in range(calls)]

    def turn() -> object:
        nonlocal state
        for part in parts * model.updates:
            state = jitted(state, part)
        return jax.block_until_ready(state)

    return compiled(turn, jitted, state, parts[0])


def single_step(model: Model) -> Side:
    def step(state: Any, data: Any) -> Any:
        return applied(ADAM, state, accumulate_gradients(model.loss, state[0], data, reduction="mean")[1])

    return called(model, ADAM, step)


def scan_by_hand(model: Model) -> Side:
    def step(state: Any, data: Any) -> Any:
        def add(total: Any, microbatch: Any) -> Any:
            return jax.tree.map(jnp.add, total, jax.grad(model.loss)(state[0], *microbatch)), None

        total, _ = jax.lax.scan(add, jax.tree.map(jnp.zeros_like, state[0]), data)
        return applied(ADAM, state, jax.tree.map(lambda leaf: leaf / COUNT, total))

    return called(model, ADAM, step)


def stepped(model: Model, optimiser: Any, *, scanned: bool) -> Side:
    """A step is a microbatch. Args: scanned: all of an update's are one program."""

    def step(state: Any, microbatch: Any) -> Any:
        return applied(optimiser, state, jax.grad(model.loss)(state[0], *microbatch))

    def scan(state: Any, data: Any) -> Any:
        return jax.lax.scan(lambda state, microbatch: (step(state, microbatch), None), state, data)[0]

    return called(model, optimiser, scan) if scanned else called(model, optimiser, step, calls=COUNT)


SIDES: Mapping[str, Callable[[Model], Side]] = {
    "repeat": lambda model: looped(model, OURS, paced=True),
    "ours in a scan": lambda model: stepped(model, OURS, scanned=True),
    "single step": single_step,
    "MultiSteps, repeat": lambda model: looped(model, optax.MultiSteps(ADAM, COUNT), paced=False),
    "MultiSteps, scan": lambda model: stepped(model, optax.MultiSteps(ADAM, COUNT), scanned=True),
    "MultiSteps, calls": lambda model: stepped(model, optax.MultiSteps(ADAM, COUNT), scanned=False),
    "scan by hand": scan_by_hand,
}


OTHERS = tuple(SIDES)[3:]


def measured(sides: Mapping[str, Side], updates: int, turns: int) -> dict[str, tuple[float, ...]]:
    """Seconds per update of each side, turn by turn."""
    for side in sides.values():
        side.turn(), side.turn()
    wall_s: dict[str, list[float]] = {name: [] for name in sides}
    for number in range(turns):
        for name in list(sides) if number % 2 else reversed(list(sides)):
            begin = time.perf_counter()
            sides[name].turn()
            wall_s[name].append((time.perf_counter() - begin) / updates)
    return {name: tuple(values) for name, values in wall_s.items()}


def ratio(wall_s: Mapping[str, Sequence[float]], name: str, other: str) -> float:
    """Median over the turns of one side's time by another's in the same turn."""
    return statistics.median(mine / its for mine, its in zip(wall_s[name], wall_s[other], strict=True))


def table(model: Model, sides: Mapping[str, Side], wall_s: Mapping[str, Sequence[float]]) -> str:
    lines = [f"{model.name:24} {'an update':>10} {'by hand = 1':>12} {'peak':>11} {'by hand = 1':>12} {'compile':>9}"]
    for name, side in sides.items():
        time_ratio, peak_ratio = ratio(wall_s, name, "scan by hand"), side.peak_bytes / sides["scan by hand"].peak_bytes
        wall_ms, peak_mib = statistics.median(wall_s[name]) * 1e3, side.peak_bytes / 2**20
        line = f"  {name:22} {wall_ms:7.1f} ms {time_ratio:12.2f} {peak_mib:7.1f} MiB {peak_ratio:12.2f} {side.compile_cpu_s:7.1f} s"
        lines.append(line)
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", metavar="WORDS", help="models whose name contains one of these")
    parser.add_argument("--turns", type=int, default=15, metavar="N", help="of each side (at least 2)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the record to FILE")
    options = parser.parse_args()
    record: dict[str, Any] = {
        "question": (__doc__ or "").splitlines()[0],
        "commit": commit(),
        "host": {"cpus": os.cpu_count(), "load": round(os.getloadavg()[0], 2)},
        "versions": {name: version(name) for name in ("jax", "jaxlib", "numpy", "optax", "tilestep")},
        "effective_batch_size": effective_batch_size(MICROBATCH, COUNT),
        "answers": [],
    }
    for model in MODELS:
        if options.only and not any(words in model.name for words in options.only):
            continue
        sides = {name: make(model) for name, make in SIDES.items()}
        wall_s = measured(sides, model.updates, max(2, options.turns))
        print(table(model, sides, wall_s), flush=True)
        record["answers"].append(
            {
                "name": model.name,
                "wall_s": {name: summary(values) for name, values in wall_s.items()},
                "peak_bytes": {name: side.peak_bytes for name, side in sides.items()},
                "compile_cpu_s": {name: float(f"{side.compile_cpu_s:.3g}") for name, side in sides.items()},
                "time_ratio": {other: {name: round(ratio(wall_s, name, other), 3) for name in sides} for other in OTHERS},
            }
        )
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
