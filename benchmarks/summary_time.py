"""How long after the end of a run is its summary there?

    benchmarks/summary_time.py                                                a table
    benchmarks/summary_time.py --before PYTHON                                beside another checkout
    benchmarks/summary_time.py --json benchmarks/results/summary_time.json    the record

A process profiles a program twice, so that all is imported, and counts the second time: seconds of its CPU from the last result to the
text, with the findings. With --before, processes of the two checkouts take turns.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # run as a script, this file is in no package
os.environ.setdefault("TILESTEP_MACHINE", "bow-2000")

import jax
import jax.numpy as jnp
import numpy as np
import optax

import tilestep
from benchmarks.commit import commit
from benchmarks.dispatch import summary
from tilestep.train import Pipeline

STEPS = 40


def training() -> None:
    """Steps of a network of three layers, with Adam, from the host's batches."""
    weights = [jnp.ones((256, 256)) / 256] * 3
    optimizer = optax.adam(1e-3)

    @jax.jit
    def step(weights: Any, state: Any, x: Any) -> Any:
        def loss(weights: Any) -> Any:
            h = x
            for w in weights:
                h = jnp.tanh(h @ w)
            return (h**2).mean()

        value, gradients = jax.value_and_grad(loss)(weights)
        updates, state = optimizer.update(gradients, state)
        return optax.apply_updates(weights, updates), state, value

    state = optimizer.init(weights)
    for number in range(STEPS):
        weights, state, value = step(weights, state, np.full((64, 256), number, np.float32))
    float(value)


def pipeline() -> None:
    """Updates of a pipeline of four stages."""

    def stage(weights: Any, x: Any) -> Any:
        return jnp.tanh(x @ weights)

    def last(weights: Any, x: Any) -> Any:
        return (stage(weights, x) ** 2).mean()

    pipe = Pipeline([stage, stage, stage, last], optax.adam(1e-3), 8, devices=jax.devices("ipu")[:4])
    state = pipe.init([np.ones((256, 256), np.float32) / 256] * 4)
    for number in range(STEPS // 4):
        state, loss = pipe.step(state, np.full((8, 32, 256), number, np.float32))
        np.asarray(loss)


PROGRAMS: dict[str, Callable[[], None]] = {"training": training, "pipeline": pipeline}


def once(program: Callable[[], None]) -> float:
    """Seconds of the CPU from the end of the program's second run to its summary."""
    for _ in range(2):
        with jax.default_device(jax.devices("ipu")[0]), tilestep.profile() as recording:
            program()
            begin = time.process_time()
        recording.profile.summary()
    return time.process_time() - begin


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=5, metavar="N", help="processes of each checkout (at least 2; default 5)")
    parser.add_argument("--before", metavar="PYTHON", help="the interpreter of another checkout's environment")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the record to FILE")
    parser.add_argument("--once", choices=PROGRAMS, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.once:
        print(once(PROGRAMS[options.once]))
        return
    if options.pairs < 2:
        parser.error(f"--pairs is {options.pairs}: a spread needs 2 or more")
    pythons = {"now": sys.executable, **({"before": options.before} if options.before else {})}
    answers: list[dict[str, Any]] = []
    for name in PROGRAMS:
        cpu_s: dict[str, list[float]] = {of: [] for of in pythons}
        for number in range(options.pairs):
            for of in list(pythons)[:: 1 if number % 2 else -1]:
                command = [pythons[of], __file__, "--once", name]
                cpu_s[of].append(float(subprocess.run(command, check=True, capture_output=True, text=True).stdout))
        row: dict[str, Any] = {"program": name, "cpu_s": {of: summary(values) for of, values in cpu_s.items()}}
        if options.before:
            row["times_before"] = round(statistics.median(now / then for now, then in zip(cpu_s["now"], cpu_s["before"], strict=True)), 3)
        answers.append(row)
        print(
            name, ", ".join(f"{of} {1000 * statistics.median(values):.0f} ms" for of, values in cpu_s.items()), row.get("times_before", "")
        )
    if options.json:
        record = {
            "question": (__doc__ or "").splitlines()[0],
            "machine": os.environ["TILESTEP_MACHINE"],
            "commit": commit(),
            "host": {"cpus": os.cpu_count(), "load": round(os.getloadavg()[0], 2)},
            "answers": answers,
        }
        options.json.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
