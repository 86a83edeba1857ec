"""What do queues, and optimiser state in the host's memory, bring on a GPU?

    benchmarks/on_gpu.py                                            a table; on the CPU where TILESTEP_DEVICE_TESTS_ON_CPU is set
    benchmarks/on_gpu.py --json benchmarks/results/on_gpu.json      the record; benchmarks/on_gpu.sh makes it behind the tests

Rows: a step whose batch comes from an InfeedQueue, against one that is sliced and put by hand; a step of Adam whose state is on the device,
against one whose state is in pinned_host. Memory is what JAX says of the device, and unknown on CPU. Wall time is reported, never judged.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import sys
import time
from collections.abc import Callable
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
from tests.device.test_runtime import devices
from tilestep.train import InfeedQueue, apply_updates, offloaded, repeat

BATCH = 256


def weights(width: int, layers: int) -> list[Any]:
    return [jnp.full((width, width), 1 / width) for _ in range(layers)]


def loss_of(w: list[Any], x: Any) -> Any:
    return jnp.mean((functools.reduce(lambda x, layer: jnp.tanh(x @ layer), w, x) - 1) ** 2)


def descended(w: list[Any], x: Any) -> list[Any]:
    return jax.tree.map(lambda a, g: a - 0.01 * g, w, jax.grad(loss_of)(w, x))


def by_queue(data: np.ndarray, width: int, layers: int) -> None:
    batches = data.reshape(-1, BATCH, width)
    with InfeedQueue(list(batches)) as infeed:
        jax.block_until_ready(repeat(len(batches), descended, weights(width, layers), infeed, chunk=8))


def by_hand(data: np.ndarray, width: int, layers: int) -> None:
    step = jax.jit(descended, donate_argnums=0)
    w = weights(width, layers)
    for begin in range(0, len(data), BATCH):
        w = step(w, jax.device_put(data[begin : begin + BATCH]))
    jax.block_until_ready(w)


def training(device: jax.Device, width: int, layers: int, *, offload: bool) -> tuple[Callable[[], Any], int | None]:
    """(a step of Adam, bytes of the device once it has run)."""
    optimizer = offloaded(optax.adam(1e-3), offload)
    w = weights(width, layers)
    x = jnp.ones((BATCH, width))

    @functools.partial(jax.jit, donate_argnums=0)
    def step(carry: Any) -> Any:
        w, state = carry
        updates, state = optimizer.update(jax.grad(loss_of)(w, x), state, w)
        return apply_updates(w, updates), state

    carry = [step((w, optimizer.init(w)))]
    jax.block_until_ready(carry)

    def again() -> None:
        carry[0] = jax.block_until_ready(step(carry[0]))

    again()
    return again, (device.memory_stats() or {}).get("bytes_in_use")


def wall_s(call: Callable[[], Any], repetitions: int) -> list[float]:
    found: list[float] = []
    for _ in range(repetitions + 1):  # the first one compiles
        begin = time.perf_counter()
        call()
        found.append(time.perf_counter() - begin)
    return found[1:]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--width", type=int, help="of a layer (default: 4096 on a GPU, 128 on a CPU)")
    parser.add_argument("--repetitions", type=int, default=5, help="of each row (default: %(default)s)")
    parser.add_argument("--json", type=Path, help="where to write the record")
    flags = parser.parse_args()
    device = devices()[0]
    width = flags.width or (128 if device.platform == "cpu" else 4096)
    layers, steps = 4, 32
    answers: list[dict[str, Any]] = []
    with jax.default_device(device):
        data = np.random.default_rng(0).normal(size=(steps * BATCH, width)).astype(np.float32)
        for name, fed in (("InfeedQueue", by_queue), ("slice and put", by_hand)):
            took = [each / steps for each in wall_s(functools.partial(fed, data, width, layers), flags.repetitions)]
            answers.append({"name": f"a step fed by {name}", "wall_s": summary(took)})
        for offload in (False, True):
            step, held = training(device, width, layers, offload=offload)
            place = "pinned_host" if offload else "device"
            answers.append(
                {"name": f"Adam with state on {place}", "wall_s": summary(wall_s(step, flags.repetitions)), "device_bytes": held}
            )
            del step
    for answer in answers:
        held = answer.get("device_bytes")
        print(f"{answer['name']:<32}{1e3 * answer['wall_s']['median']:9.3f} ms{'' if held is None else f'{held / 1e6:10,.0f} MB'}")
    if flags.json is not None:
        record = {
            "question": __doc__.splitlines()[0],
            "device": device.device_kind,
            "commit": commit(),
            "host": {"cpus": os.cpu_count(), "load": os.getloadavg()[0]},
            "versions": {name: version(name) for name in ("tilestep", "jax")},
            "width": width,
            "answers": answers,
        }
        flags.json.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
