"""What does a tracepoint cost the real machine, in a process that is not traced and in one that is?

    benchmarks/tracepoints.py                       a table of medians
    benchmarks/tracepoints.py --json benchmarks/results/tracepoints.json

Each answer is of a process of its own, because a process is traced from its start or never. A repetition is a batch of calls. Wall time is
reported, never judged.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # run as a script, this file is in no package

from benchmarks.commit import commit

CALLS = 20_000  # of a batch
BATCHES = 25
VARIANTS = {"off": None, "on, without JAX's profiler": '["User"]', "on": "[]"}  # channels of PVTI_OPTIONS


def measured() -> dict[str, list[float]]:
    """Nanoseconds per call, of each batch, in this process."""
    import jax

    import tilestep

    loss = tilestep.series("Loss")
    function: Callable[[], None] = tilestep.tracepoint("function")(lambda: None)

    def with_block() -> None:
        with tilestep.tracepoint("block"):
            pass

    def annotation() -> None:
        with jax.profiler.TraceAnnotation("block"):
            pass

    calls: dict[str, Callable[[], object]] = {
        "nothing": lambda: None,
        "with tracepoint(...)": with_block,
        "decorated function": function,
        "event": lambda: tilestep.event("event"),
        "series.add": lambda: loss.add(0.5),
        "with jax.profiler.TraceAnnotation(...)": annotation,
    }
    return {name: [batch(call) for _ in range(BATCHES)] for name, call in calls.items()}


def batch(call: Callable[[], object]) -> float:
    start = time.perf_counter_ns()
    for _ in range(CALLS):
        call()
    return (time.perf_counter_ns() - start) / CALLS


def answer(name: str, channels: str | None) -> dict[str, object]:
    """One row: a fresh process, traced or not."""
    with tempfile.TemporaryDirectory() as directory:
        settings = {key: value for key, value in os.environ.items() if key != "PVTI_OPTIONS"}
        if channels is not None:
            settings["PVTI_OPTIONS"] = f'{{"directory": "{directory}", "channels": {channels}}}'
        ended = subprocess.run([sys.executable, __file__, "--here"], env=settings, check=True, capture_output=True, text=True)
    found = json.loads(ended.stdout)
    return {"name": name, "wall_ns": {call: summary(values) for call, values in found.items()}}


def summary(values: Sequence[float]) -> dict[str, float]:
    low, middle, high = statistics.quantiles(values, n=4)
    return {"median": round(middle, 1), "iqr": round(high - low, 1), "n": len(values)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="write the record to this file")
    parser.add_argument("--here", action="store_true", help="measure this process, and print nanoseconds as JSON")
    options = parser.parse_args()
    if options.here:
        print(json.dumps(measured()))
        return
    answers = [answer(name, channels) for name, channels in VARIANTS.items()]
    for row in answers:
        print(row["name"])
        for call, wall in row["wall_ns"].items():  # a dictionary
            print(f"    {call:42}{wall['median']:8.0f} ns")
    if options.json:
        record = {
            "question": (__doc__ or "").splitlines()[0],
            "commit": commit(),
            "host": {"cpus": os.cpu_count(), "load": round(os.getloadavg()[0], 1)},
            "versions": {name: version(name) for name in ("jax", "jaxlib")} | {"python": sys.version.split()[0]},
            "answers": answers,
        }
        options.json.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
