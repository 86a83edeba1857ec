"""A program of two processes with checkpoints, which `test_checkpoints` runs: `PROCESS COUNT PORT DIRECTORY DIES_AT` (-1: never)."""

import hashlib
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

from tilestep.train import Checkpoints, InfeedQueue, OutfeedQueue, Pipeline, Replicas, cross_replica, repeat, start_processes

COUNT = 4


def numbered(dies_at: int) -> Iterator[np.ndarray]:
    for number in range(200):
        if number == dies_at:
            os.kill(os.getpid(), signal.SIGKILL)
        yield np.random.default_rng(number).normal(size=(4, 3)).astype(np.float32)


def digest(tree: Any) -> str:
    """Of what this process has of a tree."""
    parts = [np.asarray(shard.data).tobytes() for leaf in jax.tree.leaves(tree) for shard in leaf.addressable_shards]
    return hashlib.sha256(b"".join(parts)).hexdigest()[:12]


def looped(directory: Path, dies_at: int) -> Any:
    replicas = Replicas()
    optimizer = cross_replica(optax.adam(0.1))

    def body(carry: Any, x: Any) -> Any:
        w, state = carry
        updates, state = optimizer.update(jax.grad(lambda w: jnp.mean((x @ w - 1) ** 2))(w), state, w)
        return optax.apply_updates(w, updates), state

    w = jnp.ones((3, 2))
    with InfeedQueue(lambda: numbered(dies_at), replicas=replicas) as infeed:
        return repeat(20, body, (w, optimizer.init(w)), infeed, replicas=replicas, checkpoints=Checkpoints(directory, every=4))


def piped(directory: Path, dies_at: int) -> Any:
    """A stage in each process; that of the first one reads the data."""
    pipeline = Pipeline([lambda w, x: jnp.tanh(x @ w), lambda w, x: ((x @ w - 1) ** 2).mean()], optax.adam(0.1), COUNT, outfeed_loss=True,
                        devices=[next(d for d in jax.devices() if d.process_index == p) for p in range(2)])  # fmt: skip
    state = pipeline.init([np.eye(3, dtype=np.float32), np.ones((3, 2), np.float32)])
    outfeed = OutfeedQueue()
    with InfeedQueue(lambda: numbered(dies_at)) as infeed:
        state = pipeline.run(state, infeed, outfeed, repeat_count=6, checkpoints=Checkpoints(directory, every=2))
    losses = outfeed.dequeue()
    return state, None if losses is None else np.asarray(losses).tobytes()


def main() -> None:
    process, count, port, folder, dies_at = sys.argv[1:]
    jax.config.update("jax_num_cpu_devices", 2)
    start_processes(coordinator_address=f"localhost:{port}", num_processes=int(count), process_id=int(process))
    dying = int(dies_at) if process == "0" else -1
    carry = looped(Path(folder) / "loop", dying if dying < 60 else -1)
    state, losses = piped(Path(folder) / "pipeline", dying - 60 if dying >= 60 else -1)
    print("ended", digest(carry), digest(state), hashlib.sha256(losses or b"").hexdigest()[:12])


if __name__ == "__main__":
    main()
