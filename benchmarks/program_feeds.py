"""How fast does a program take its data from an infeed, and how fast does the host feed it?

    benchmarks/program_feeds.py                                                  a table
    benchmarks/program_feeds.py --json benchmarks/results/program_feeds.json     the record

A loop on the device takes one batch of 128 x 784 floats each turn and adds up one number of it, so that nothing but the feed takes time.
`fed before`: the queue holds all batches when the program is called. `fed meanwhile`: another thread feeds while it runs. `feeding`:
`transfer_to_infeed` alone. Beside them, what they are bound by and what they replace: a copy of the same batches in NumPy, and
`io_callback`. All take turns in each repetition. Wall time is reported, never judged.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # run as a script, this file is in no package

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental import io_callback

from benchmarks.commit import commit
from tilestep import train

SHAPE = (128, 784)
BATCHES = 100  # 40 MB, more than caches hold
PLATFORMS = ("ipu", "cpu")
WAYS = ("fed before", "fed meanwhile", "feeding", "io_callback", "numpy copy")


def timed(call: Callable[[], object]) -> float:
    begin = time.perf_counter()
    call()
    return time.perf_counter() - begin


class Feed:
    """A device, a loop on it that takes batches, and the batches."""

    def __init__(self, device: jax.Device, batches: Sequence[np.ndarray[Any, Any]]) -> None:
        self._device, self._batches = device, batches
        shape = jax.ShapeDtypeStruct(SHAPE, jnp.float32)
        numbers = iter(())

        def answer() -> np.ndarray[Any, Any]:
            nonlocal numbers
            batch = next(numbers, None)
            if batch is None:
                numbers = iter(batches)
                batch = next(numbers)
            return batch

        def loop(take: Callable[[], jax.Array]) -> Callable[[jax.Array], jax.Array]:
            return jax.jit(lambda total: lax.fori_loop(0, len(batches), lambda _, value: value + take()[0, 0], total))

        self._loop = loop(lambda: train.infeed(None, shape)[0])
        self._calling = loop(lambda: io_callback(answer, shape, ordered=True))
        self._start = jax.device_put(np.float32(0), device)
        self._copies = [np.empty_like(batch) for batch in batches]

    def _run(self, program: Callable[[jax.Array], jax.Array]) -> None:
        program(self._start).block_until_ready()

    def _feed(self) -> None:
        for batch in self._batches:
            train.transfer_to_infeed(self._device, batch)

    def _copy(self) -> None:
        for source, target in zip(self._batches, self._copies, strict=True):
            np.copyto(target, source)

    def _meanwhile(self) -> None:
        feeder = threading.Thread(target=self._feed)
        feeder.start()
        self._run(self._loop)
        feeder.join()

    def repetition(self) -> Mapping[str, float]:
        """Seconds that each way takes for all batches."""
        feeding = timed(self._feed)
        return {
            "feeding": feeding,
            "fed before": timed(lambda: self._run(self._loop)),
            "fed meanwhile": timed(self._meanwhile),
            "io_callback": timed(lambda: self._run(self._calling)),
            "numpy copy": timed(self._copy),
        }


def measure(platform: str, repetitions: int) -> dict[str, list[float]]:
    """GB/s of each way, repetition by repetition; the first, which compiles, is left out."""
    batches = [np.random.default_rng(k).random(SHAPE, np.float32) for k in range(BATCHES)]
    feed = Feed(jax.devices(platform)[0], batches)
    moved = sum(batch.nbytes for batch in batches)
    feed.repetition()
    runs = [feed.repetition() for _ in range(repetitions)]
    return {way: [moved / run[way] / 1e9 for run in runs] for way in WAYS}


def summary(values: Sequence[float]) -> dict[str, float]:
    """Median, interquartile range, best and number of the values."""
    low, _, high = statistics.quantiles(values, n=4)
    return {"median": round(statistics.median(values), 2), "iqr": round(high - low, 2), "best": round(max(values), 2), "n": len(values)}


def record(found: Mapping[str, Mapping[str, Sequence[float]]], load: float) -> dict[str, Any]:
    """What the JSON file holds."""
    return {
        "question": "How fast does a program take its data from an infeed, and how fast does the host feed it?",
        "commit": commit(),
        "host": {"cpus": os.cpu_count(), "load": round(load, 2)},
        "versions": {name: version(name) for name in ("jax", "jaxlib", "numpy", "tilestep")},
        "batch": {"shape": list(SHAPE), "dtype": "float32", "batches": BATCHES},
        "gigabytes_per_second": {platform: {way: summary(values) for way, values in ways.items()} for platform, ways in found.items()},
    }


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--repetitions", type=int, default=20, help="of each measurement (default 20)")
    parser.add_argument("--json", type=Path, help="where to write the record")
    options = parser.parse_args(arguments)
    if options.repetitions < 2:
        parser.error(f"--repetitions is {options.repetitions}: a spread needs 2 or more")
    load = os.getloadavg()[0]
    found = {platform: measure(platform, options.repetitions) for platform in PLATFORMS}
    print(f"GB/s, medians (best) of {options.repetitions}; load {load:.1f} on {os.cpu_count()} CPUs")
    for way in WAYS:
        figures = [summary(found[platform][way]) for platform in PLATFORMS]
        columns = "  ".join(
            f"{name} {figure['median']:6.2f} ({figure['best']:.2f})" for name, figure in zip(PLATFORMS, figures, strict=True)
        )
        print(f"{way:14} {columns}")
    if options.json:
        options.json.write_text(json.dumps(record(found, load), indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
