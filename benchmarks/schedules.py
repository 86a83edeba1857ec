"""How long does it take to make and to check a schedule of 200,000 tasks, and to read its table?

    benchmarks/schedules.py                                                       a table
    benchmarks/schedules.py --against DIR                                         beside another checkout, with its extension built
    benchmarks/schedules.py --json benchmarks/results/schedules.json              the record

Each repetition is a process of its own for each checkout, and they take turns, so that what else the computer does is alike for both. A
schedule is made by its function in `tilestep.train.schedules`; `check` is a `Schedule` of tasks that are there already, and `from_table`
reads the tasks as text and checks them. Time is the processor's; none of it is judged.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # run as a script, this file is in no package

from benchmarks.commit import commit

ROOT = Path(__file__).resolve().parents[1]
QUESTION = "How long does it take to make and to check a schedule of 200,000 tasks, and to read its table?"
DEVICES = 8
MICROBATCHES = {  # of about 200,000 tasks; a backward in two, or an update after each microbatch, is a third of them
    "sequential": 12_496,
    "grouped": 12_496,
    "interleaved": 12_496,
    "looped": 6_248,
    "zero_bubble": 8_328,
    "stale": 8_328,
    "stashed": 8_328,
}


def times() -> dict[str, float]:
    """Seconds of the processor's time that each thing takes once. What is imported is that checkout of the package which Python finds."""
    from tilestep.train import schedules
    from tilestep.train.schedules import Schedule, from_table

    found: dict[str, float] = {}

    def timed(name: str, call: Callable[[], Any]) -> Any:
        begin = time.process_time()
        result = call()
        found[name] = time.process_time() - begin
        return result

    for name, microbatches in MICROBATCHES.items():
        timed(name, lambda name=name, microbatches=microbatches: schedules.SCHEDULES[name](DEVICES, microbatches))
    schedule = schedules.interleaved(DEVICES, MICROBATCHES["interleaved"])
    fields = {name: getattr(schedule, name) for name in ("name", "levels", "device_mapping", "microbatches", "tasks")}
    timed("check", lambda: Schedule(**fields))
    rows = schedule.table()
    timed("from_table", lambda: from_table(rows))
    timed("simulate", schedule.simulate)
    return found


def measured(checkout: Path) -> dict[str, float]:
    """`times` of a checkout, in a process of its own."""
    path = os.pathsep.join([str(checkout / "src"), *filter(None, [os.environ.get("PYTHONPATH")])])
    command = [sys.executable, str(Path(__file__).resolve()), "--times"]
    done = subprocess.run(command, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{checkout} could not be measured:\n{done.stderr}")
    return json.loads(done.stdout)


def summary(seconds: Sequence[float]) -> dict[str, float]:
    """Median, interquartile range and number of the values."""
    low, _, high = statistics.quantiles(seconds, n=4)
    return {"median": round(statistics.median(seconds), 3), "iqr": round(high - low, 3), "n": len(seconds)}


def record(own: Mapping[str, Sequence[float]], other: Mapping[str, Sequence[float]] | None, load: float, against: Path) -> dict[str, Any]:
    """What the JSON file holds."""
    entries: dict[str, Any] = {name: {"cpu_s": summary(seconds)} for name, seconds in own.items()}
    if other is not None:
        for name, seconds in own.items():
            ratios = [before / now for before, now in zip(other[name], seconds, strict=True)]
            entries[name] |= {"against_cpu_s": summary(other[name]), "against_by_this": round(statistics.median(ratios), 2)}
    return {
        "question": QUESTION,
        "commit": commit(),
        **({"against": commit(against / "benchmarks")} if other is not None else {}),
        "host": {"cpus": os.cpu_count(), "load": round(load, 2)},
        "versions": {"python": ".".join(map(str, sys.version_info[:3])), "tilestep": version("tilestep")},
        "schedule": {"devices": DEVICES, "microbatches": MICROBATCHES},
        "times": entries,
    }


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=QUESTION)
    parser.add_argument("--repetitions", type=int, default=5, help="of each measurement (default 5)")
    parser.add_argument("--against", type=Path, help="another checkout, which takes turns with this one")
    parser.add_argument("--json", type=Path, help="where to write the record")
    parser.add_argument("--times", action="store_true", help="measure once in this process, and print JSON")
    options = parser.parse_args(arguments)
    if options.times:
        print(json.dumps(times()))
        return
    if options.repetitions < 2:
        parser.error(f"--repetitions is {options.repetitions}: a spread needs 2 or more")
    load = os.getloadavg()[0]
    sides = [ROOT, *([options.against] if options.against else [])]
    runs = [[measured(side) for side in sides] for _ in range(options.repetitions)]
    columns = [{name: [run[index][name] for run in runs] for name in runs[0][index]} for index in range(len(sides))]
    own, other = columns[0], columns[1] if options.against else None
    found = record(own, other, load, options.against)
    print(f"CPU seconds, medians of {options.repetitions}; load {load:.1f} on {os.cpu_count()} CPUs")
    for name, entry in found["times"].items():
        ratio = f"{entry['against_cpu_s']['median']:8.2f} there, {entry['against_by_this']:.2f} times as long" if other else ""
        print(f"{name:12}{entry['cpu_s']['median']:8.2f}{ratio}")
    if options.json:
        options.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
