"""A run that is killed, and goes on.

Trains the digits classifier in a process that is killed three times, each time at another batch, and starts it again. Its checkpoints
have all that the run depends on: parameters, the count of steps, the queue's position in the data, and the losses that nobody had read.
So it ends with the same bits as a run that nobody killed.

    python examples/resume.py
"""

# %%
from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import jax
import numpy as np

from datasets import load_digits
from mnist_classifier import TrainState, accuracy, batches, init_state, update
from tilestep.train import Checkpoints, InfeedQueue, OutfeedQueue, repeat

EPOCHS = 4
BATCH_SIZE = 32
EVERY = 16  # steps from one checkpoint to the next
DIES_AT = (25, 70, 110)  # batches
HERE = Path(globals().get("__file__", "resume.py"))

# %% [markdown]
# ## The run
# One `repeat` over all steps, with `checkpoints`. If the directory has one, the loop restores the latest and does what remains. Nothing
# else in the program knows whether it begins or goes on: it makes the first state and the data from the beginning in any case.


# %%
def run(directory: Path, dies_at: int | None) -> None:
    """Trains, and writes the losses and the accuracy to a file. Kills itself when the queue asks for batch `dies_at`."""
    dataset = load_digits()
    steps = EPOCHS * (len(dataset.train) // BATCH_SIZE)
    outfeed = OutfeedQueue()

    def data() -> Iterator[tuple[np.ndarray, np.ndarray]]:
        rng, number = np.random.default_rng(0), 0
        for _ in range(EPOCHS):
            for batch in batches(dataset.train, batch_size=BATCH_SIZE, rng=rng):
                if number == dies_at:
                    os.kill(os.getpid(), signal.SIGKILL)
                yield batch
                number += 1

    def step(state: TrainState, images: jax.Array, labels: jax.Array) -> TrainState:
        state = update(state, images, labels)
        outfeed.enqueue(state.loss_sum)
        return state

    with InfeedQueue(data) as infeed, Checkpoints(directory, every=EVERY) as checkpoints:
        state = repeat(steps, step, init_state(dataset, seed=0), infeed, outfeed, checkpoints=checkpoints)
    np.savez(directory / "end.npz", losses=outfeed.dequeue(), accuracy=accuracy(state.params, dataset.test))


# %% [markdown]
# ## What kills it
# The example starts itself as other processes: once whole, and once in four pieces.


# %%
def started(directory: Path, dies_at: int | None) -> int:
    """The exit status of the run in a process of its own."""
    given = [] if dies_at is None else ["--dies-at", str(dies_at)]
    return subprocess.run([sys.executable, HERE, "--directory", directory, *given], check=False).returncode


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description="Kill a training run three times, and let it go on.")
    parser.add_argument(
        "--directory", type=Path, help="train here, in this process; without it, the example starts itself"
    )
    parser.add_argument("--dies-at", type=int, help="the batch at which the process kills itself")
    flags = parser.parse_args([] if "ipykernel" in sys.modules else None)
    if flags.directory is not None:
        run(flags.directory, flags.dies_at)
        return
    with tempfile.TemporaryDirectory() as folder:
        whole, killed = Path(folder, "whole"), Path(folder, "killed")
        whole.mkdir()
        killed.mkdir()
        print("whole: exit status", started(whole, None))
        for batch in (*DIES_AT, None):
            status = started(killed, batch)
            print("killed by signal" if status < 0 else "exit status", abs(status))
        a, b = np.load(whole / "end.npz"), np.load(killed / "end.npz")
        print(
            f"accuracy {a['accuracy']:.4f}, and {b['accuracy']:.4f} of the run that was killed {len(DIES_AT)} times"
        )
        same = a["losses"].tobytes() == b["losses"].tobytes()
        print(f"{len(b['losses'])} losses, {'each with the same bits' if same else 'NOT the same'}")


if __name__ == "__main__":
    main()
