"""What does `repeat` on replicas cost over a program written by hand with `jax.shard_map`, on 1, 2, 4 and 8 CPU devices and in 2 processes?

    benchmarks/replicas.py                          a table of medians, ours against by hand
    benchmarks/replicas.py --only 8 --rounds 10     some rows, fewer rounds
    benchmarks/replicas.py --json benchmarks/results/replicas.json

Data-parallel training of a 256-128-10 perceptron with momentum, 32 rows for each replica, 50 steps a turn in one program whose state is
donated:

    resident    the data are in the carry, so that a turn is a program's start and its computing, and nothing else
    fed         NumPy batches: ours takes them from an InfeedQueue; by hand they are stacked and put on the devices before the program

Both sides do the same arithmetic, and their weights are compared. They take turns in one process: a round is ours, by hand, by hand,
ours, and the next one the other way round, so that whatever else the machine does falls on both. The overhead is the median over rounds
of ours divided by the other's in the same round, minus 1; beside it stands the interval in which this median is with 95 % confidence. The
same in processor time (of all threads of the process) suffers less from what else runs. With 2 processes of one device each both measure,
and process 0 tells. Time is reported, never judged.
"""

from __future__ import annotations

import argparse
import functools
import itertools
import json
import math
import os
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # run as a script, this file is in no package
os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

from benchmarks.commit import commit
from benchmarks.dispatch import summary
from tilestep.train import InfeedQueue, Replicas, cross_replica, repeat, start_processes

STEPS = 50  # of a turn
SIZES = (256, 128, 10)
ROWS = 32  # of a replica's batch
DISTINCT = 100  # batches, which come again and again
DEVICES = (1, 2, 4, 8)
ROUNDS = 150
KINDS = ("resident", "fed")
TIMEOUT_S = 900  # s, of two processes

CLOCKS: Mapping[str, Callable[[], float]] = {"wall_s": time.perf_counter, "cpu_s": time.process_time}

Turn = Callable[[], object]
Answer = dict[str, dict[str, list[float]]]  # seconds of a step, by clock, side and round


def batches() -> list[tuple[np.ndarray, np.ndarray]]:
    rng = np.random.default_rng(1)
    return [
        (rng.normal(size=(ROWS, SIZES[0])).astype(np.float32), rng.integers(0, SIZES[-1], ROWS).astype(np.int32)) for _ in range(DISTINCT)
    ]


def weights() -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    return [(rng.normal(size=shape) / shape[0] ** 0.5).astype(np.float32) for shape in itertools.pairwise(SIZES)]


def loss(weights: Any, x: Any, y: Any) -> Any:
    scores = jax.nn.log_softmax(jax.nn.relu(x @ weights[0]) @ weights[1])
    return -jnp.take_along_axis(scores, y[:, None], axis=1).mean()


def update(optimizer: Any, state: Any, gradients: Any) -> Any:
    params, moments = state
    updates, moments = optimizer.update(gradients, moments, params)
    return optax.apply_updates(params, updates), moments


def ours(replicas: Replicas, kind: str) -> Turn:
    """`repeat` on replicas."""
    optimizer = cross_replica(optax.sgd(0.01, momentum=0.9))
    state = (weights(), optimizer.init(weights()))
    if kind == "fed":
        infeed = InfeedQueue(replicas.share(itertools.cycle(batches())), replicas=replicas)
        carry = replicas.place(state)

        def fed(state: Any, x: Any, y: Any) -> Any:
            return update(optimizer, state, jax.grad(loss)(state[0], x, y))

        body = fed
    else:
        infeed = None
        carry = replicas.place((*state, batches()[0]))

        def resident(carry: Any) -> Any:
            params, moments, batch = carry
            return *update(optimizer, (params, moments), jax.grad(loss)(params, *batch)), batch

        body = resident

    def turn() -> object:
        nonlocal carry
        carry = repeat(STEPS, body, carry, infeed, replicas=replicas)
        return jax.block_until_ready(carry)[0]

    return turn


def by_hand(replicas: Replicas, kind: str) -> Turn:
    """The same with JAX alone. Of `replicas` only the devices and the numbers of this process's are used."""
    mesh = jax.sharding.Mesh(replicas.mesh.devices, ("r",))
    optimizer = optax.sgd(0.01, momentum=0.9)
    state = (weights(), optimizer.init(weights()))
    whole, divided = NamedSharding(mesh, P()), NamedSharding(mesh, P(None, "r"))

    def step(state: Any, x: Any, y: Any) -> Any:
        return update(optimizer, state, jax.lax.pmean(jax.grad(loss)(state[0], x, y), "r"))

    def fed(state: Any, data: Any) -> Any:
        return jax.lax.scan(lambda state, batch: (step(state, batch[0][0], batch[1][0]), None), state, data)[0]

    def resident(carry: Any, data: Any) -> Any:
        del data

        def once(carry: Any, _: Any) -> Any:
            params, moments, batch = carry
            return (*step((params, moments), *batch), batch), None

        return jax.lax.scan(once, carry, None, length=STEPS)[0]

    run = fed if kind == "fed" else resident
    mapped = jax.shard_map(run, mesh=mesh, in_specs=(P(), P(None, "r")), out_specs=P(), check_vma=False)
    program = jax.jit(mapped, donate_argnums=0, out_shardings=whole)
    carry = replicas.place(state if kind == "fed" else (*state, batches()[0]))
    carry = jax.tree.map(lambda leaf: jax.make_array_from_callback(leaf.shape, whole, lambda index: np.asarray(leaf)[index]), carry)
    source = replicas.share(itertools.cycle(batches()))
    put = functools.partial(jax.device_put, device=divided)
    if not divided.is_fully_addressable:
        put = functools.partial(jax.make_array_from_process_local_data, divided)

    def turn() -> object:
        nonlocal carry
        data = None
        if kind == "fed":
            mine = list(itertools.islice(source, STEPS * len(replicas.local)))
            data = tuple(put(np.stack(part).reshape(STEPS, len(replicas.local), *part[0].shape)) for part in zip(*mine, strict=True))
        carry = program(carry, data)
        return jax.block_until_ready(carry)[0]

    return turn


def answer(replicas: Replicas, kind: str, rounds: int) -> Answer:
    """What both sides take in each round, of two turns. Raises: AssertionError if they do not compute the same."""
    ready = {"ours": ours(replicas, kind), "by hand": by_hand(replicas, kind)}
    for _ in range(2):
        results = [turn() for turn in ready.values()]
        for first, second in zip(*map(jax.tree.leaves, results), strict=True):
            np.testing.assert_allclose(first, second, rtol=1e-3, atol=1e-3)
    spent: Answer = {clock: {name: [] for name in ready} for clock in CLOCKS}
    for number in range(rounds):
        once = list(ready) if number % 2 else list(reversed(ready))
        totals = {clock: dict.fromkeys(ready, 0.0) for clock in CLOCKS}
        for name in (*once, *reversed(once)):
            begin = {clock: now() for clock, now in CLOCKS.items()}
            ready[name]()
            for clock, now in CLOCKS.items():
                totals[clock][name] += now() - begin[clock]
        for clock, of_round in totals.items():
            for name, total in of_round.items():
                spent[clock][name].append(total / (2 * STEPS))
    return spent


def row(name: str, spent: Answer) -> dict[str, Any]:
    found: dict[str, Any] = {"name": name}
    for clock, sides in spent.items():
        ratios = [mine / other for mine, other in zip(sides["ours"], sides["by hand"], strict=True)]
        found[clock] = {side: summary(values) for side, values in sides.items()} | {
            "ratio": summary(ratios),
            "overhead_percent": percent(statistics.median(ratios)),
            "overhead_interval_percent": [percent(bound) for bound in interval(ratios)],
        }
    return found


def percent(ratio: float) -> float:
    return round(100 * (ratio - 1), 2)


def interval(values: Sequence[float]) -> tuple[float, float]:
    """Where the median is with 95 % confidence: the order statistics 0.98 sqrt(n) places below and above the middle."""
    ordered, middle, away = sorted(values), (len(values) - 1) / 2, 0.98 * math.sqrt(len(values))
    return ordered[max(0, math.floor(middle - away))], ordered[min(len(values) - 1, math.ceil(middle + away))]


def clock_text(clock: str, found: Mapping[str, Any]) -> str:
    low, high = found["overhead_interval_percent"]
    micros = found["ours"]["median"] * 1e6
    return (
        f"{clock.removesuffix('_s')} {micros:7.1f} µs a step, {found['overhead_percent']:+6.2f} % ({low:+.2f} to {high:+.2f}) over by hand"
    )


def measure(name: str, replicas: Replicas, rounds: int, kinds: Sequence[str]) -> list[dict[str, Any]]:
    return [row(f"{name}, {kind}", answer(replicas, kind, rounds)) for kind in kinds]


def in_processes(rounds: int, kinds: Sequence[str]) -> list[dict[str, Any]]:
    """The rows of two processes, which run this file."""
    with socket.create_server(("localhost", 0)) as server:
        port = server.getsockname()[1]
    environ = {name: value for name, value in os.environ.items() if name != "XLA_FLAGS"}
    own = [sys.executable, __file__, "--rounds", str(rounds), "--kinds", *kinds, "--process"]
    others = [subprocess.Popen([*own, str(process), str(port)], env=environ, stdout=subprocess.PIPE, text=True) for process in range(2)]
    try:
        outs = [process.communicate(timeout=TIMEOUT_S)[0] for process in others]
    finally:
        for process in others:
            process.kill()
    if any(process.returncode for process in others):
        raise SystemExit(f"a process ended with status {[process.returncode for process in others]}")
    return json.loads(outs[0].splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", metavar="N", help="numbers of devices, or 'processes'")
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    parser.add_argument("--rounds", type=int, default=ROUNDS, metavar="N", help="of both sides (at least 2)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the record to FILE")
    parser.add_argument("--process", nargs=2, metavar=("ID", "PORT"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    rounds = max(2, options.rounds)
    if options.process:
        start_processes(
            coordinator_address=f"localhost:{options.process[1]}", num_processes=2, process_id=int(options.process[0]), timeout_s=TIMEOUT_S
        )
        print(json.dumps(measure("2 processes", Replicas(), rounds, options.kinds)))
        return
    jax.config.update("jax_num_cpu_devices", max(DEVICES))
    load = round(os.getloadavg()[0], 2)
    answers: list[dict[str, Any]] = []
    for count in (*map(str, DEVICES), "processes"):
        if options.only and count not in options.only:
            continue
        if count == "processes":
            rows = in_processes(rounds, options.kinds)
        else:
            rows = measure(f"{count} devices", Replicas(int(count)), rounds, options.kinds)
        for found in rows:
            print(f"{found['name']:24} {'; '.join(clock_text(clock, found[clock]) for clock in CLOCKS)}", flush=True)
        answers += rows
    if options.json:
        record = {
            "question": (__doc__ or "").splitlines()[0],
            "commit": commit(),
            "host": {"cpus": os.cpu_count(), "load": load, "load_after": round(os.getloadavg()[0], 2)},
            "versions": {name: version(name) for name in ("jax", "jaxlib", "numpy", "optax", "tilestep")},
            "answers": answers,
        }
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
