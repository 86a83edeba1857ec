"""What does a call of a TensorFlow loop of one step cost beside the same `tilestep.train.repeat` in JAX, and what does the import cost?

    benchmarks/tensorflow_call.py --json benchmarks/results/tensorflow_call.json

Both loops run in one process on platform `ipu` and take turns. Each call waits for its result, which an outfeed gives. Wall time has all
that the machine does besides; CPU time is that of this process in all its threads.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # run as a script, this file is in no package

import jax
import jax.numpy as jnp
import numpy as np

import tilestep.tensorflow  # noqa: F401  serves tensorflow.python.ipu
from benchmarks.commit import commit
from tilestep import train
from tilestep.tensorflow.ipu import programs
from tilestep.tensorflow.ipu.config import System, systems
from tilestep.tensorflow.ipu.queues import IPUInfeedQueue, IPUOutfeedQueue
from tilestep.tensorflow.untyped import tf, v1

RANDOM = np.random.default_rng(0)
X, Y = RANDOM.random((16, 8), np.float32), RANDOM.random((16, 4), np.float32)
W1, W2 = RANDOM.random((8, 16), np.float32), RANDOM.random((16, 4), np.float32)
IMPORT = "import time; begin = time.process_time(); import {}; print(time.process_time() - begin)"
Call = Callable[[], Any]


def of_tensorflow(device: jax.Device) -> Call:
    """A call of a loop of TensorFlow 1 that gives its loss."""
    systems[:] = [System(devices=(device,))]
    graph = v1.Graph()
    with graph.as_default():
        infeed, outfeed = IPUInfeedQueue(tf.data.Dataset.from_tensors((X, Y)).repeat()), IPUOutfeedQueue()

        def body(x: Any, y: Any) -> Any:
            w1, w2 = v1.get_variable("w1", initializer=tf.constant(W1)), v1.get_variable("w2", initializer=tf.constant(W2))
            loss = tf.reduce_mean((tf.nn.relu(x @ w1) @ w2 - y) ** 2)
            return outfeed.enqueue(loss), v1.train.GradientDescentOptimizer(0.01).minimize(loss)

        run = programs.compile(lambda: programs.repeat(1, body, [], infeed))
        losses = outfeed.dequeue()
        session = v1.Session(graph=graph)
        session.run([v1.global_variables_initializer(), infeed.initializer])

    def call() -> Any:
        session.run(run)
        return session.run(losses)

    return call


def of_jax(device: jax.Device) -> Call:
    """A call of the same loop in JAX."""
    queue, outfeed = train.InfeedQueue(lambda: iter(lambda: (X, Y), None)), train.OutfeedQueue()
    weights = [jax.device_put((W1, W2), device)]

    def step(weights: Any, x: Any, y: Any) -> Any:
        loss, gradients = jax.value_and_grad(lambda w: jnp.mean((jax.nn.relu(x @ w[0]) @ w[1] - y) ** 2))(weights)
        outfeed.enqueue(loss)
        return jax.tree.map(lambda weight, gradient: weight - 0.01 * gradient, weights, gradients)

    def call() -> Any:
        with jax.default_device(device):
            weights[0] = jax.block_until_ready(train.repeat(1, step, weights[0], queue, outfeed))
        return outfeed.dequeue()

    return call


def summary(seconds: Sequence[float]) -> dict[str, float]:
    """Median and quartiles, in milliseconds."""
    low, _, high = statistics.quantiles(seconds, n=4)
    return {"median": round(1e3 * statistics.median(seconds), 3), "iqr": round(1e3 * (high - low), 3), "n": len(seconds)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, default=200, metavar="N", help="of each loop (default 200)")
    parser.add_argument("--imports", type=int, default=3, metavar="N", help="processes for each import (default 3)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the record to FILE")
    options = parser.parse_args()
    device = jax.devices("ipu")[0]
    calls = {"tensorflow": of_tensorflow(device), "jax": of_jax(device)}
    first = {name: np.asarray(call()) for name, call in calls.items()}
    np.testing.assert_allclose(first["tensorflow"], first["jax"], rtol=1e-5)  # the same work
    wall: dict[str, list[float]] = {name: [] for name in calls}
    cpu: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(options.calls):
        for name, call in calls.items():
            begin, used = time.perf_counter(), time.process_time()
            call()
            wall[name].append(time.perf_counter() - begin)
            cpu[name].append(time.process_time() - used)
    imports = {
        name: [float(subprocess.check_output([sys.executable, "-c", IMPORT.format(name)], text=True)) for _ in range(options.imports)]
        for name in ("tilestep.tensorflow", "tensorflow", "tilestep.train")
    }
    record = {
        "question": (__doc__ or "").splitlines()[0],
        "commit": commit(),
        "load": {"processes": round(os.getloadavg()[0], 1), "cores": os.cpu_count()},  # what else the machine did
        "versions": {name: version(name) for name in ("tensorflow", "jax", "jaxlib", "numpy", "tilestep")},
        "call_wall_ms": {name: summary(values) for name, values in wall.items()},
        "call_cpu_ms": {name: summary(values) for name, values in cpu.items()},
        "import_cpu_s": {name: [round(each, 2) for each in values] for name, values in imports.items()},
    }
    print(json.dumps(record, indent=1))
    if options.json:
        options.json.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
