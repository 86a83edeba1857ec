"""What does `session.run` of tilestep.popart cost above the compiled program alone, and what does `prepareDevice`?

    benchmarks/popart_session.py                                                   a table
    benchmarks/popart_session.py --json benchmarks/results/popart_session.json     the record
    benchmarks/popart_session.py --before PYTHON                                   `prepareDevice` beside that of another checkout

A small network is trained with four anchors, on one device, with 1 to 64 batches in a step; on a Cpu device, and on one with an emulated
machine. The program alone is the session's own compiled step, called with the same NumPy arrays and waited for. Both take turns in each
repetition. Wall time is reported, never judged.

`prepareDevice` of the emulated session is timed in processes of their own, in seconds of the CPU because these depend less on what else
runs: a process prepares one session so that all is imported, then another one, which counts. With --before the processes of the two
checkouts take turns.
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
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # run as a script, this file is in no package

import jax
import numpy as np

from benchmarks.commit import commit
from benchmarks.dispatch import summary
from tilestep import popart

BATCHES: Final = (1, 4, 16, 64)
DEVICES: Final = ("Cpu", "IpuModel")
MICROBATCH: Final = 16
SIZE: Final = 32
BOUND_MS: Final = 0.5
BOUND_TIMES: Final = 1.25  # of prepareDevice, as long as it took before


def session_of(batches: int, device: str, *, prepare: bool = True) -> tuple[popart.TrainingSession, popart.PyStepIO]:
    """A session with four anchors, prepared or not, and the arrays of a step."""
    builder = popart.Builder()
    x = builder.addInputTensor("FLOAT", [MICROBATCH, SIZE])
    labels = builder.addInputTensor("INT32", [MICROBATCH])
    random = np.random.default_rng(0)
    w1, w2 = (builder.addInitializedInputTensor(random.normal(size=(SIZE, SIZE)).astype(np.float32) / 8) for _ in range(2))
    hidden = builder.aiOnnx.relu([builder.aiOnnx.matmul([x, w1])])
    probabilities = builder.aiOnnx.softmax([builder.aiOnnx.matmul([hidden, w2])])
    loss = builder.aiGraphcore.nllloss([probabilities, labels])
    anchors = {
        loss: popart.AnchorReturnType("All"),
        probabilities: popart.AnchorReturnType("All"),
        w1: popart.AnchorReturnType("Final"),
        f"Gradient___{w2}": popart.AnchorReturnType("Sum"),
    }
    manager = popart.DeviceManager()
    session = popart.TrainingSession(
        fnModel=builder.getModelProto(),
        dataFlow=popart.DataFlow(batches, anchors),
        loss=loss,
        optimizer=popart.SGD({"defaultLearningRate": (0.01, False), "defaultMomentum": (0.9, True)}),
        deviceInfo=manager.createCpuDevice() if device == "Cpu" else manager.createIpuModelDevice({"numIPUs": 1, "tilesPerIPU": 64}),
    )
    if prepare:
        session.prepareDevice()
        session.weightsFromHost()
    inputs = {
        x: random.normal(size=(batches, MICROBATCH, SIZE)).astype(np.float32),
        labels: random.integers(0, SIZE, (batches, MICROBATCH)).astype(np.int32),
    }
    return session, popart.PyStepIO(inputs, session.initAnchorArrays())


def both(session: popart.TrainingSession, io: popart.PyStepIO) -> dict[str, Callable[[], object]]:
    """The session's step, and its compiled program alone."""
    engine, state, inputs = session._engine, [session._carry], session._feeds.step_inputs(io)

    def alone() -> None:
        state[0], values = engine.step(state[0], inputs)
        jax.block_until_ready((state[0], values))

    def run() -> None:
        session.run(io)
        jax.block_until_ready(session._carry)

    return {"session.run": run, "program alone": alone}


def measure(batches: int, device: str, repetitions: int) -> dict[str, Any]:
    """One row: wall time of both, in turns."""
    calls = both(*session_of(batches, device))
    wall_s: dict[str, list[float]] = {name: [] for name in calls}
    for number in range(repetitions + 3):
        for name in list(calls)[:: 1 if number % 2 else -1]:
            begin = time.perf_counter()
            calls[name]()
            if number > 2:
                wall_s[name].append(time.perf_counter() - begin)
    above = [ours - alone for ours, alone in zip(wall_s["session.run"], wall_s["program alone"], strict=True)]
    return {
        "device": device,
        "batches": batches,
        "wall_s": {name: summary(values) for name, values in wall_s.items()},
        "above_ms": round(1000 * statistics.median(above), 4),
    }


def prepared(pythons: Mapping[str, str], repetitions: int) -> dict[str, Any]:
    """The row of `prepareDevice`: seconds of the CPU with each interpreter, in turns. Args: pythons: by name."""
    cpu_s: dict[str, list[float]] = {name: [] for name in pythons}
    for number in range(repetitions):
        for name in list(pythons)[:: 1 if number % 2 else -1]:
            command = [pythons[name], __file__, "--prepare-once"]
            cpu_s[name].append(float(subprocess.run(command, check=True, capture_output=True, text=True).stdout))
    row: dict[str, Any] = {"commit": commit(), "cpu_s": {name: summary(values) for name, values in cpu_s.items()}}
    if "before" in cpu_s:
        row["bound_times"] = BOUND_TIMES
        row["times_before"] = round(statistics.median(now / then for now, then in zip(cpu_s["now"], cpu_s["before"], strict=True)), 3)
    return row


def prepare_once() -> float:
    """Seconds of the CPU that `prepareDevice` takes of the second session of a process."""
    session_of(1, "IpuModel")
    session, _ = session_of(1, "IpuModel", prepare=False)
    begin = time.process_time()
    session.prepareDevice()
    return time.process_time() - begin


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repetitions", type=int, default=300, metavar="N", help="calls of each side (at least 2; default 300)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the record to FILE")
    pairs = "processes of each checkout for prepareDevice (0: none; else at least 2; default 5)"
    parser.add_argument("--pairs", type=int, default=5, metavar="N", help=pairs)
    parser.add_argument("--before", metavar="PYTHON", help="the interpreter of another checkout's environment")
    parser.add_argument("--prepare-once", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.prepare_once:
        print(prepare_once())
        return
    if options.repetitions < 2:
        parser.error(f"--repetitions is {options.repetitions}: a spread needs 2 or more")
    if options.pairs < 0 or options.pairs == 1:
        parser.error(f"--pairs is {options.pairs}: a spread needs 2 or more, and 0 leaves prepareDevice out")
    load = os.getloadavg()[0]
    print(f"session.run above its program, medians of {options.repetitions}; load {load:.1f} on {os.cpu_count()} CPUs")
    answers: list[dict[str, Any]] = []
    for device in DEVICES:
        for batches in BATCHES:
            row = measure(batches, device, options.repetitions)
            answers.append(row)
            ours, alone = (1000 * row["wall_s"][name]["median"] for name in ("session.run", "program alone"))
            print(f"{device:9} {batches:3} batches   run {ours:7.3f} ms   program {alone:7.3f} ms   above {row['above_ms']:7.3f} ms")
    preparing = None
    if options.pairs:
        preparing = prepared({"now": sys.executable, **({"before": options.before} if options.before else {})}, options.pairs)
        told = ", ".join(f"{name} {1000 * times['median']:.0f} ms" for name, times in preparing["cpu_s"].items())
        print(f"prepareDevice, of the CPU: {told}", *([f"{preparing['times_before']} times"] if options.before else []))
    if options.json:
        record = {
            "question": (__doc__ or "").splitlines()[0],
            "commit": commit(),
            "host": {"cpus": os.cpu_count(), "load": round(load, 2)},
            "versions": {name: version(name) for name in ("jax", "jaxlib", "numpy", "tilestep")},
            "bound_ms": BOUND_MS,
            "answers": answers,
            "prepareDevice": preparing,
        }
        options.json.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
