"""Does a process that does everything at once for long keep what it is done with?

    benchmarks/endurance.py                                   thirty minutes on platform ipu: a line a minute, and what has grown
    benchmarks/endurance.py --platform cpu --minutes 15 --json benchmarks/results/endurance.json

A round trains with feeds and checkpoints while another thread evaluates, and a third opens and closes profiles. It makes and drops queues
that are half used, compiles programs that no round had before, runs a pipeline that is made anew, and leaves a loop by an error.
Behind each round, with everything else at rest, a program is profiled: its emulated time has to be that of the first round, exactly.
The record has resident memory, descriptors, threads and objects of Python, of both platforms: on `ipu` memory may grow by 1 MB a minute
more than on JAX's CPU platform, and no descriptor and no thread may stay. The first third of the time does not count, because caches fill.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import itertools
import json
import os
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # run as a script, this file is in no package

import jax
import jax.numpy as jnp
import numpy as np
import optax

import tilestep
from benchmarks.commit import commit
from tilestep.train import Checkpoints, InfeedQueue, OutfeedQueue, Pipeline, loop_state, repeat

STEPS: Final = 48
CHUNK: Final = 8
MORE_A_MINUTE: Final = 1e6  # bytes that platform ipu may grow by above CPU
WIDTH: Final = 64


@dataclass(frozen=True, kw_only=True)
class Sample:
    """What a process has at the end of a round. Attributes: objects: of Python's collector. emulated_s: of the profiled program."""

    wall_s: float
    resident_bytes: int
    descriptors: int
    threads: int
    objects: int
    emulated_s: float


def batches(count: int | None = None) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Batches of a regression. Args: count: of them; None: without end."""
    x = np.linspace(-1, 1, 32 * WIDTH, dtype=np.float32).reshape(32, WIDTH)
    for k in itertools.count() if count is None else range(count):
        yield x + np.float32(k % 7), x[:, :1]


def loss_of(w: Any, x: Any, y: Any) -> Any:
    return jnp.mean((jnp.tanh(x @ w["in"]) @ w["out"] - y) ** 2)


def weights() -> dict[str, np.ndarray]:
    return {"in": np.full((WIDTH, WIDTH), 0.01, np.float32), "out": np.full((WIDTH, 1), 0.01, np.float32)}


OUTFEED: Final = OutfeedQueue()


def step(w: Any, x: Any, y: Any) -> Any:
    """A step that every round runs, so that it is compiled once."""
    loss, gradient = jax.value_and_grad(loss_of)(w, x, y)
    OUTFEED.enqueue(loss)
    return jax.tree.map(lambda a, b: a - 0.01 * b, w, gradient)


EVALUATED: Final = jax.jit(loss_of)


def train(device: jax.Device, folder: Path) -> None:
    """A loop with feeds and checkpoints, and the same loop again from the middle."""
    with tempfile.TemporaryDirectory(dir=folder) as saved, InfeedQueue(batches) as infeed:
        for steps in (STEPS // 2, STEPS):
            with Checkpoints(saved, every=CHUNK) as checkpoints:
                repeat(steps, step, jax.device_put(weights(), device), infeed, OUTFEED, checkpoints=checkpoints, chunk=CHUNK)
            OUTFEED.dequeue()


def evaluate(device: jax.Device, stop: threading.Event) -> None:
    """Another thread's programs on the same device."""
    w = jax.device_put(weights(), device)
    for batch in batches():
        float(EVALUATED(w, *jax.device_put(batch, device)))
        if stop.is_set():
            return


def profiles(stop: threading.Event) -> None:
    """Profiles that are opened, read and closed while other threads compute."""
    while not stop.wait(0.05):
        with tilestep.profile() as profile:
            stop.wait(0.05)
        assert profile.emulated_s >= 0


def drop_queues(device: jax.Device) -> None:
    """Queues and loops that end early: dropped half used, over by an error, never used."""
    InfeedQueue(batches)
    repeat(CHUNK, step, jax.device_put(weights(), device), InfeedQueue(batches), OUTFEED, chunk=CHUNK)
    OUTFEED.dequeue()
    try:
        repeat(3 * CHUNK, step, jax.device_put(weights(), device), InfeedQueue(lambda: batches(CHUNK + 3)), OUTFEED, chunk=CHUNK)
    except tilestep.TilestepError as error:
        if loop_state(error) is None:
            raise
    OUTFEED.dequeue()


def recompile(device: jax.Device, number: int) -> None:
    """Programs that no round had before."""
    x = jax.device_put(np.ones((WIDTH, WIDTH), np.float32), device)
    for k in range(3):
        jax.jit(lambda x, k=k: jnp.tanh(x @ x + (3 * number + k)).sum())(x).block_until_ready()


def pipe(devices: list[jax.Device]) -> None:
    """A pipeline that is made, trained for two updates and dropped."""

    def first(w: Any, x: Any, y: Any) -> Any:
        return jnp.tanh(x @ w), y

    def second(w: Any, x: Any, y: Any) -> Any:
        return jnp.mean((x @ w - y) ** 2)

    pipeline = Pipeline([first, second], optax.sgd(0.1), 4, devices=devices[:2])
    state = pipeline.init([weights()["in"], weights()["out"]])
    data = tuple(np.stack(each) for each in zip(*batches(4), strict=True))
    for _ in range(2):
        state, losses = pipeline.step(state, data)
    np.asarray(losses)


def one_round(devices: list[jax.Device], folder: Path, number: int) -> None:
    """Everything at once. Args: number: of the round."""
    stop = threading.Event()
    failed: list[BaseException] = []

    def noted(fn: Callable[..., None], *args: Any) -> threading.Thread:
        def run() -> None:
            try:
                fn(*args)
            except BaseException as error:
                failed.append(error)

        thread = threading.Thread(target=run)
        thread.start()
        return thread

    beside = [noted(evaluate, devices[0], stop)]
    if devices[0].platform == "ipu":
        beside.append(noted(profiles, stop))
    try:
        train(devices[0], folder)
        drop_queues(devices[0])
        recompile(devices[0], number)
        pipe(devices)
    finally:
        stop.set()
        for thread in beside:
            thread.join()
    if failed:
        raise failed[0]


def emulated_s(device: jax.Device) -> float:
    """Emulated seconds of a program that is loaded; 0 on other platforms."""
    if device.platform != "ipu":
        return 0.0
    w, batch = jax.device_put(weights(), device), jax.device_put(next(batches()), device)
    EVALUATED(w, *batch).block_until_ready()
    with tilestep.profile() as profile:
        for _ in range(3):
            EVALUATED(w, *batch).block_until_ready()
    return float(profile.emulated_s)


def endure(devices: list[jax.Device], wall_s: float, folder: Path, report: Callable[[Sample], None]) -> list[Sample]:
    """Rounds until the time is over, three at least. Args: report: gets each sample."""
    samples: list[Sample] = []
    begin = time.monotonic()
    while len(samples) < 3 or samples[-1].wall_s < wall_s:
        one_round(devices, folder, len(samples))
        took = emulated_s(devices[0])
        gc.collect()
        with contextlib.closing(os.scandir("/proc/self/fd")) as found:
            descriptors = sum(1 for _ in found) - 1  # less that of the question
        resident = int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        tasks = sum(1 for _ in Path("/proc/self/task").iterdir())
        samples.append(
            Sample(
                wall_s=time.monotonic() - begin,
                resident_bytes=resident,
                descriptors=descriptors,
                threads=tasks,
                objects=len(gc.get_objects()),
                emulated_s=took,
            )
        )
        report(samples[-1])
    return samples


def verdict(samples: list[Sample]) -> dict[str, Any]:
    """What has grown since a third of the time was over; memory by the line of least squares through it."""
    late = [sample for sample in samples if 3 * sample.wall_s >= samples[-1].wall_s]
    late = late if len(late) > 2 else samples
    minutes, rounds = [sample.wall_s / 60 for sample in late], list(range(len(late)))
    resident = [sample.resident_bytes for sample in late]

    def slope(x: Sequence[float], values: Sequence[float]) -> float:
        return float(np.polyfit(x, values, 1)[0])

    return {
        "rounds": len(samples),
        "minutes": round(samples[-1].wall_s / 60, 1),
        "resident_bytes": samples[-1].resident_bytes,
        "bytes_a_minute": round(slope(minutes, resident)),
        "bytes_a_round": round(slope(rounds, resident)),
        "objects_a_round": round(slope(rounds, [sample.objects for sample in late]), 1),
        "descriptors_more": late[-1].descriptors - late[0].descriptors,
        "threads_more": late[-1].threads - late[0].threads,
        "emulated_s": sorted({sample.emulated_s for sample in samples[1:]}),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--platform", choices=("ipu", "cpu"), default="ipu", help="of JAX (default: %(default)s)")
    parser.add_argument("--minutes", type=float, default=30, help="of wall time (default: %(default)s)")
    parser.add_argument("--json", type=Path, help="where the record is, to which this platform's answer is added")
    flags = parser.parse_args()
    jax.config.update("jax_num_cpu_devices", 4)
    devices = jax.devices(flags.platform)
    jax.config.update("jax_default_device", devices[0])
    told = [0.0]

    def report(sample: Sample) -> None:
        if sample.wall_s >= told[0]:
            told[0] = sample.wall_s + 60
            print(json.dumps(asdict(sample)), flush=True)

    with tempfile.TemporaryDirectory() as folder:
        samples = endure(devices, 60 * flags.minutes, Path(folder), report)
    found = verdict(samples)
    print(json.dumps(found, indent=1))
    if flags.json is not None:
        record = json.loads(flags.json.read_text(encoding="utf-8")) if flags.json.exists() else {"answers": {}}
        record |= {
            "question": __doc__.splitlines()[0],
            "commit": commit(),
            "host": {"cpus": os.cpu_count(), "load": os.getloadavg()[0]},
            "versions": {name: version(name) for name in ("tilestep", "jax", "orbax-checkpoint")},
            "bound": f"on ipu {MORE_A_MINUTE:,.0f} B a minute more than on cpu, no descriptor, no thread, one emulated time",
        }
        record["answers"][flags.platform] = found | {"samples": [asdict(sample) for sample in samples[:: max(1, len(samples) // 60)]]}
        flags.json.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
