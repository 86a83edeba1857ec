"""What does a pipeline of four unlike stages take, against one jitted program on one device, SpectraX, and torch.distributed.pipelining?

    benchmarks/pipelines.py                              a table of medians, and of ratios within a round
    benchmarks/pipelines.py --only mid --rounds 5        one model, fewer rounds
    benchmarks/pipelines.py --json benchmarks/results/pipelines.json       a record; what is in it of other models stays
    benchmarks/pipelines.py --rounds 0 --peaks --json ...                  peak memory alone

A small transformer (embedding and perceptron, two blocks, a head with the loss), 16 microbatches an update, Adam, in the schedule 1F1B:

    mid     2,048 words, width 256, 64 tokens, 8 rows a microbatch
    tiny    64 words, width 16, 8 tokens, 2 rows: starting programs is what takes the time

    one device    one program of JAX: gradients of a scan over microbatches, and the update
    stages        `Pipeline(program="stages")` on four CPU devices: a program for each task; products of matrices are kept for backward,
                  and what is computed of them element by element is computed again
    kept          the same with all kept that backward needs, as one device does
    recomputed    the same with nothing kept but a stage's arguments: what SpectraX does
    chosen        `Pipeline(program="auto")`, otherwise as stages, after it has chosen
    spectrax      SpectraX's Std1F1B on the same devices, if spectrax-lib is installed: its gradients, then Adam on each stage's device
    torch N       torch.distributed.pipelining's Schedule1F1B over gloo in N processes, one thread each, if torch is installed

All sides take turns in each round, in changing order, each in a process of its own (torch in several), where it has the memory to itself.
After each third of the rounds these processes are others: where the memory lies that compiling has left can make a fifth of the host's
cost for as long as a process runs. A turn is several updates, as training is, and tells their median; its first is not counted, which finds
what the side before has left in the processor's caches. Their gradients in the very first update, which Adam's first moments are, are
compared with those of one device.

Told is also what an update takes the host until it is free, by task of the schedule: each forward, backward and update is one, whether or
not the engine has some in one program. Wall time, in which the processor may be doing the stages' work instead; and the starting thread's
own time on a processor. That has no waiting in it, but what XLA computes in that thread (programs of next to no operations, such as making
zeros), and what sharing caches and cores with the threads that compute adds. The least of all turns has least of the latter, and of
what other programs do.

`--peaks` tells the peak memory of JAX's sides, each in a process of its own: of all, with what compiling takes, and before anything is
trained, when packages are imported and devices there; then both again with each array of 128 KiB or more returned to the system as soon
as it is free (MALLOC_MMAP_THRESHOLD_), which says what is in use rather than what malloc keeps. Wall time is reported, never judged.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # run as a script, this file is in no package
os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax
import numpy as np

from benchmarks.commit import commit
from benchmarks.dispatch import summary
from benchmarks.memory import peak_bytes
from benchmarks.models.stages import MICROBATCHES, SIZES, STAGES
from benchmarks.pipeline_processes import Remote, Times, serve
from benchmarks.pipeline_sides import OneDevice, Side, SpectraX, Stages
from benchmarks.pipeline_torch import in_torch, torch_processes

TORCH_PROCESSES = (2, 4)
PEERS = {"spectrax": "spectrax-lib", "torch": "torch"}
BY_TASK = ("stages", "kept", "recomputed", "spectrax")  # the sides that start a program for each task
ROUNDS = 15
PROCESSES = 3  # of each side, one after the other
TURN_WALL_S = 1.5
MOST_UPDATES = 30  # of a turn, that count
WARM_UP = 9  # updates: after eight the pipeline has chosen
TIMEOUT_S = 900
MAPPED_BYTES = 128 * 2**10  # and more: arrays that are mapped by themselves


def in_jax(name: str) -> dict[str, Callable[[], Side]]:
    """The sides that are in one process."""
    size = SIZES[name]
    found: dict[str, Callable[[], Side]] = {
        "one device": lambda: OneDevice(size),
        "stages": lambda: Stages(size, "stages", jax.checkpoint_policies.dots_with_no_batch_dims_saveable),
        "kept": lambda: Stages(size, "stages", None),
        "recomputed": lambda: Stages(size, "stages", "full"),
        "chosen": lambda: Stages(size, "auto", jax.checkpoint_policies.dots_with_no_batch_dims_saveable),
    }
    if importlib.util.find_spec("spectrax") is not None:
        found["spectrax"] = lambda: SpectraX(size)
    return found


def sides(name: str, wanted: Sequence[str] | None) -> dict[str, Callable[[], Remote]]:
    """All that are wanted, and one device."""
    found: dict[str, Callable[[], Remote]] = {
        key: lambda key=key: Remote([[__file__, "--only", name, "--side", key]], {}) for key in in_jax(name)
    }
    if importlib.util.find_spec("torch") is not None:
        found |= {f"torch {count}": lambda count=count: torch_processes(__file__, name, count) for count in TORCH_PROCESSES}
    return {key: make for key, make in found.items() if wanted is None or key in wanted or key == "one device"}


def difference(found: Sequence[np.ndarray], expected: Sequence[np.ndarray]) -> float:
    """The greatest, relative to the greatest element of its array."""
    return max(float(np.abs(a - b).max() / (np.abs(b).max() + 1e-12)) for a, b in zip(found, expected, strict=True))


def take_turn(side: Remote) -> Times:
    """Medians of updates for a while, of at least two that count."""
    (first,) = side.steps(1)
    count = min(MOST_UPDATES, max(2, round(TURN_WALL_S / first.wall_s)))
    return Times(*map(median, zip(*side.steps(count), strict=True)))


def measure(name: str, rounds: int, wanted: Sequence[str] | None) -> dict[str, Any]:
    times: dict[str, list[Times]] = {}
    after_one: dict[str, float] = {}
    for turns in np.array_split(range(rounds), min(PROCESSES, rounds)):
        made = {key: make() for key, make in sides(name, wanted).items()}
        try:
            for side in made.values():
                side.steps(1)
            expected = made["one device"].moments()
            after_one |= {key: max(difference(side.moments(), expected), after_one.get(key, 0.0)) for key, side in made.items()}
            for side in made.values():
                side.steps(WARM_UP - 1)
            for turn in turns:
                order = list(made)
                for key in order[turn % len(order) :] + order[: turn % len(order)]:
                    times.setdefault(key, []).append(take_turn(made[key]))
        finally:
            for side in made.values():
                side.close()
    tasks = 2 * MICROBATCHES * STAGES + STAGES
    wall_s, host_wall_s, host_cpu_s = ({key: [row[column] for row in rows] for key, rows in times.items()} for column in range(3))
    ratios = {key: [own / base for own, base in zip(walls, wall_s["one device"], strict=True)] for key, walls in wall_s.items()}
    return {
        "name": name,
        "wall_s": {key: summary(times) for key, times in wall_s.items()},
        "ratio_to_one_device": {key: summary(values) for key, values in ratios.items() if key != "one device"},
        "host_wall_s_per_task": {key: told(host_wall_s[key], tasks) for key in BY_TASK if key in times},
        "host_cpu_s_per_task": {key: told(host_cpu_s[key], tasks) for key in BY_TASK if key in times},
        "greatest_relative_difference_of_gradients": {key: float(f"{value:.2g}") for key, value in after_one.items()},
    }


def told(times: Sequence[float], tasks: int) -> dict[str, float]:
    """Summary by task, and the least, which has the least of what else the processors do."""
    each = [value / tasks for value in times]
    return summary(each) | {"least": float(f"{min(each):.4g}")}


def alone(name: str, which: str) -> None:
    """Peak memory of this process with one side, JAX itself and all."""
    if which == "spectrax":
        importlib.import_module("spectrax.runtime.mpmd")
    jax.block_until_ready(jax.device_put(np.zeros(1), jax.devices()[-1]))
    begun = peak_bytes()
    side = in_jax(name)[which]()
    for _ in range(WARM_UP):
        side.step()
    print(json.dumps({"begun": begun, "peak": peak_bytes()}))


def peaks(name: str, which: Sequence[str]) -> dict[str, dict[str, dict[str, int]]]:
    """By how memory is given back, and by side: `begun` and `peak`, in bytes."""
    found: dict[str, dict[str, dict[str, int]]] = {}
    for how, settings in (("as it is", {}), ("mapped", {"MALLOC_MMAP_THRESHOLD_": str(MAPPED_BYTES)})):
        found[how] = {}
        for key in which:
            own = [sys.executable, __file__, "--only", name, "--alone", key]
            done = subprocess.run(own, capture_output=True, text=True, check=True, timeout=TIMEOUT_S, env=os.environ | settings)
            found[how][key] = json.loads(done.stdout.splitlines()[-1])
    return found


def show(found: dict[str, Any]) -> None:
    print(f"{found['name']}:")
    for key, own in found.get("wall_s", {}).items():
        ratio = found["ratio_to_one_device"].get(key, {"median": 1.0})["median"]
        apart = found["greatest_relative_difference_of_gradients"][key]
        print(f"  {key:12} {own['median'] * 1e3:9.2f} ms an update, {ratio:6.2f} x one device; gradients differ by {apart:.1e}")
    for key, own in found.get("host_wall_s_per_task", {}).items():
        cpu = found["host_cpu_s_per_task"][key]
        print(
            f"  {key:12} {own['median'] * 1e6:9.1f} µs of the host a task, at least {own['least'] * 1e6:.1f}; "
            f"{cpu['median'] * 1e6:.1f} µs on a processor, at least {cpu['least'] * 1e6:.1f}"
        )
    for how, of_sides in found.get("peak_bytes", {}).items():
        for key, own in of_sides.items():
            print(f"  {key:12} {own['peak'] / 2**20:9.1f} MiB at most, of which {own['begun'] / 2**20:.1f} before training ({how})")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=tuple(SIZES), default=list(SIZES))
    parser.add_argument("--sides", nargs="+", metavar="SIDE", help="beside 'one device'")
    parser.add_argument("--rounds", type=int, default=ROUNDS, metavar="N", help="at least 2, or 0: none")
    parser.add_argument("--peaks", action="store_true", help="peak memory too, of JAX's sides, each in a process of its own")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the record to FILE")
    parser.add_argument("--alone", metavar="SIDE", help=argparse.SUPPRESS)
    parser.add_argument("--side", metavar="SIDE", help=argparse.SUPPRESS)
    parser.add_argument("--torch", nargs=3, type=int, metavar=("COUNT", "PORT", "RANK"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.torch:
        in_torch(SIZES[options.only[0]], *options.torch)
        return
    jax.config.update("jax_num_cpu_devices", STAGES)
    if options.alone:
        alone(options.only[0], options.alone)
        return
    if options.side:
        side = in_jax(options.only[0])[options.side]()
        serve(side.timed_step, side.moments)
        return
    recorded: dict[str, Any] = json.loads(options.json.read_text()) if options.json and options.json.exists() else {"answers": []}
    answers: dict[str, dict[str, Any]] = {own["name"]: own for own in recorded["answers"]}
    for name in options.only:
        if options.rounds:
            load = round(os.getloadavg()[0], 2)
            found = measure(name, max(2, options.rounds), options.sides)
            found |= {"commit": commit(), "host": {"cpus": os.cpu_count(), "load": load, "load_after": round(os.getloadavg()[0], 2)}}
            answers[name] = {key: value for key, value in answers.get(name, {}).items() if key == "peak_bytes"} | found
        if options.peaks:
            answers.setdefault(name, {"name": name})
            answers[name]["peak_bytes"] = peaks(name, list(in_jax(name)))
        show(answers[name])
    if options.json:
        packages = ["jax", "jaxlib", "numpy", "optax", "tilestep"]
        packages += [package for module, package in PEERS.items() if importlib.util.find_spec(module) is not None]
        record = {
            "question": (__doc__ or "").splitlines()[0],
            "versions": {name: version(name) for name in packages},
            "answers": [answers[name] for name in SIZES if name in answers],
        }
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
