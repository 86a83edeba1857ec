"""How fast is a training loop that stays on the device, against loops on the host and against PyTorch, on CPU?

    benchmarks/loops.py                          a table of medians, each loop against `repeat`
    benchmarks/loops.py --only 16-16-4 --json benchmarks/results/loops.json

Two perceptrons with stochastic gradient descent and momentum: 16-16-4 with batches of 8, in which dispatching is what takes
time, and 784-128-10 with batches of 128, in which computing is. All loops take the same steps on the same data, 50 a turn:

    repeat              `tilestep.train.repeat` with an InfeedQueue of NumPy batches
    python, donated     a Python loop over a jitted step whose state is donated, with NumPy batches
    python, resident    the same with batches that are on the device already
    scan, resident      one jitted `lax.scan` over batches that are on the device already
    torch, eager        PyTorch's tensors, step by step, if it is installed
    torch, compiled     the same step after `torch.compile`

JAX's loops take turns in one process, so that whatever else the machine does falls on all; then PyTorch's do with `repeat`, by itself, as
a turn of theirs takes so long that the next one's finds nothing of its own in the processor's caches. Wall time is reported, never judged.
"""

from __future__ import annotations

import argparse
import functools
import importlib.util
import itertools
import json
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # else PyTorch's threads spin between steps, and on a busy machine starve everybody
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # run as a script, this file is in no package

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.commit import commit
from benchmarks.dispatch import summary
from tilestep.train import InfeedQueue, repeat

STEPS = 50  # of a turn
DISTINCT = 100  # batches, which come again and again
RATE, MOMENTUM = 0.01, 0.9

Turn = Callable[[], object]
Batch = tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True, kw_only=True)
class Model:
    """A perceptron with one hidden layer, and its data."""

    name: str
    sizes: tuple[int, int, int]
    batch: int
    turns: int

    def state(self) -> Any:
        """New weights and their momenta, NumPy's."""
        rng = np.random.default_rng(0)
        weights = [
            {"w": (rng.normal(size=(a, b)) / a**0.5).astype(np.float32), "b": np.zeros(b, np.float32)}
            for a, b in itertools.pairwise(self.sizes)
        ]
        return weights, jax.tree.map(np.zeros_like, weights)

    def batches(self) -> list[Batch]:
        rng = np.random.default_rng(1)
        shape = (self.batch, self.sizes[0])
        return [
            (rng.normal(size=shape).astype(np.float32), rng.integers(0, self.sizes[-1], self.batch).astype(np.int32))
            for _ in range(DISTINCT)
        ]


MODELS = (
    Model(name="16-16-4, batch 8", sizes=(16, 16, 4), batch=8, turns=100),
    Model(name="784-128-10, batch 128", sizes=(784, 128, 10), batch=128, turns=15),
)


def loss(weights: Any, x: Any, y: Any) -> Any:
    hidden = jax.nn.relu(x @ weights[0]["w"] + weights[0]["b"])
    scores = jax.nn.log_softmax(hidden @ weights[1]["w"] + weights[1]["b"])
    return -jnp.take_along_axis(scores, y[:, None], axis=1).mean()


def step(state: Any, x: Any, y: Any) -> Any:
    weights, momenta = state
    gradients = jax.grad(loss)(weights, x, y)
    momenta = jax.tree.map(lambda m, g: MOMENTUM * m + g, momenta, gradients)
    return jax.tree.map(lambda w, m: w - RATE * m, weights, momenta), momenta


def repeated(model: Model) -> Turn:
    state = jax.device_put(model.state())
    infeed = InfeedQueue(itertools.cycle(model.batches()))

    def turn() -> object:
        nonlocal state
        state = repeat(STEPS, step, state, infeed)
        return jax.block_until_ready(state)

    return turn


def python(model: Model, *, resident: bool) -> Turn:
    state = jax.device_put(model.state())
    jitted = jax.jit(step, donate_argnums=0)
    batches: Iterator[Any] = itertools.cycle(jax.device_put(model.batches()) if resident else model.batches())

    def turn() -> object:
        nonlocal state
        for x, y in itertools.islice(batches, STEPS):
            state = jitted(state, x, y)
        return jax.block_until_ready(state)

    return turn


def scanned(model: Model) -> Turn:
    state = jax.device_put(model.state())
    jitted = jax.jit(lambda state, data: jax.lax.scan(lambda state, batch: (step(state, *batch), None), state, data)[0], donate_argnums=0)
    data = jax.device_put(jax.tree.map(lambda *leaves: np.stack(leaves), *model.batches()[:STEPS]))

    def turn() -> object:
        nonlocal state
        state = jitted(state, data)
        return jax.block_until_ready(state)

    return turn


def torch_step(model: Model, *, compiled: bool) -> Turn:
    import torch

    weights, momenta = ([torch.from_numpy(layer[k]).requires_grad_() for layer in tree for k in ("w", "b")] for tree in model.state())
    batches = itertools.cycle([(torch.from_numpy(x), torch.from_numpy(y).long()) for x, y in model.batches()])

    @torch.no_grad()
    def update(found: Any) -> None:
        for weight, momentum, gradient in zip(weights, momenta, found, strict=True):
            momentum.mul_(MOMENTUM).add_(gradient)
            weight.sub_(momentum, alpha=RATE)

    def forward(x: Any, y: Any) -> Any:
        w0, b0, w1, b1 = weights
        return torch.nn.functional.cross_entropy(torch.relu(x @ w0 + b0) @ w1 + b1, y)

    if compiled:
        forward, update = torch.compile(forward), torch.compile(update)

    def turn() -> object:
        for x, y in itertools.islice(batches, STEPS):
            update(torch.autograd.grad(forward(x, y), weights))
        return weights

    return turn


LOOPS: Mapping[str, Callable[[Model], Turn]] = {
    "repeat": repeated,
    "python, donated": functools.partial(python, resident=False),
    "python, resident": functools.partial(python, resident=True),
    "scan, resident": scanned,
}
TORCH_LOOPS: Mapping[str, Callable[[Model], Turn]] = {
    "torch, eager": functools.partial(torch_step, compiled=False),
    "torch, compiled": functools.partial(torch_step, compiled=True),
}


def answer(model: Model, loops: Mapping[str, Callable[[Model], Turn]], turns: int) -> dict[str, tuple[float, ...]]:
    """Seconds per step of each loop, turn by turn."""
    ready = {name: make(model) for name, make in loops.items()}
    for turn in ready.values():
        turn(), turn()
    wall_s: dict[str, list[float]] = {name: [] for name in ready}
    for number in range(turns):
        for name in list(ready) if number % 2 else reversed(list(ready)):
            begin = time.perf_counter()
            ready[name]()
            wall_s[name].append((time.perf_counter() - begin) / STEPS)
    return {name: tuple(values) for name, values in wall_s.items()}


def ratios(wall_s: Mapping[str, Sequence[float]]) -> dict[str, float]:
    """Of medians, against `repeat` in the same turns."""
    return {name: statistics.median(values) / statistics.median(wall_s["repeat"]) for name, values in wall_s.items()}


def table(model: Model, wall_s: Mapping[str, Sequence[float]], found: Mapping[str, float]) -> str:
    lines = [f"{model.name:24} {'a step':>12} {'against repeat':>15}"]
    lines += [f"  {name:22} {statistics.median(values) * 1e6:9.1f} µs {found[name]:14.2f}" for name, values in wall_s.items()]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", metavar="WORDS", help="models whose name contains one of these")
    parser.add_argument("--turns", type=int, metavar="N", help="of each loop, in place of the model's own number (at least 2)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the record to FILE")
    options = parser.parse_args()
    groups = [LOOPS]
    names = ["jax", "jaxlib", "numpy", "tilestep"]
    if importlib.util.find_spec("torch") is None:
        print("PyTorch is not installed: its rows are left out (pip install torch)", file=sys.stderr)
    else:
        groups.append({"repeat": repeated, **TORCH_LOOPS})
        names.append("torch")
    record: dict[str, Any] = {
        "question": (__doc__ or "").splitlines()[0],
        "commit": commit(),
        "host": {"cpus": os.cpu_count(), "load": round(os.getloadavg()[0], 2)},
        "versions": {name: version(name) for name in names},
        "answers": [],
    }
    for model in MODELS:
        if options.only and not any(words in model.name for words in options.only):
            continue
        wall_s: dict[str, tuple[float, ...]] = {}
        found: dict[str, float] = {}
        for loops in groups:
            measured = answer(model, loops, max(2, options.turns or model.turns))
            wall_s |= {name: values for name, values in measured.items() if name not in wall_s}
            found |= {name: ratio for name, ratio in ratios(measured).items() if name not in found}
        print(table(model, wall_s, found), flush=True)
        record["answers"].append(
            {
                "name": model.name,
                "wall_s": {name: summary(values) for name, values in wall_s.items()},
                "ratio": {name: round(value, 3) for name, value in found.items()},
            }
        )
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
