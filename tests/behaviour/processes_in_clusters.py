"""A program that finds its place in a cluster by itself, which `test_clusters` runs: `TIMEOUT_S DIRECTORY STEPS EVERY HOW`.

It trains, with a checkpoint in the directory after every EVERY steps.
HOW: "train"; "tell", where each process says by a pipe there, `told`, which elements it has; "term K", where process K gets SIGTERM; or
"block K", where the dataset of process K blocks until somebody writes to a pipe there.
"""

import faulthandler
import hashlib
import itertools
import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tilestep.train import Checkpoints, InfeedQueue, Replicas, cross_replica_mean, repeat, start_processes

LIMIT_WALL_S = 900
AT = 50  # the element at which it happens


def body(carry: Any, x: Any) -> Any:
    w, key = carry
    key, own = jax.random.split(key)
    return jnp.tanh(w @ cross_replica_mean(x)) + 0.1 * jax.random.normal(own, w.shape), key


def elements(directory: Path, how: str, me: int) -> Iterator[np.ndarray]:
    for number in itertools.count():
        if how == "tell" and number % 5 == 0:
            with open(directory / "told", "wb", buffering=0) as told:
                told.write(b"element %d %d %d\n" % (me, number, os.getpid()))  # a pipe takes a short line as a whole
        if (number, how) == (AT, f"term {me}"):
            os.kill(os.getpid(), signal.SIGTERM)
        if number > AT and how == f"term {me}":
            time.sleep(0.01)  # until JAX has agreed on a step there is nothing to do, and a core may rest
        if (number, how) == (AT, f"block {me}"):
            (directory / "pipe").read_bytes()
        yield np.random.default_rng((me, number)).normal(size=(8, 8)).astype(np.float32)


def main() -> None:
    faulthandler.dump_traceback_later(LIMIT_WALL_S, exit=True)  # none may hang
    directory, steps, every, how = Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]), sys.argv[5]
    start_processes(timeout_s=float(sys.argv[1]))
    me, replicas = jax.process_index(), Replicas()
    print("joined", me, jax.process_count(), flush=True)
    checkpoints = Checkpoints(directory / "kept", every=every)
    with InfeedQueue(lambda: elements(directory, how, me), replicas=replicas, prefetch_depth=1) as infeed:
        w, key = repeat(steps, body, (jnp.eye(8), jax.random.key(0)), infeed, replicas=replicas, chunk=10, checkpoints=checkpoints)
    parts = [np.asarray(part.addressable_data(0)).tobytes() for part in (w, jax.random.key_data(key))]
    print("ended", me, hashlib.sha256(b"".join(parts)).hexdigest(), flush=True)


main()
