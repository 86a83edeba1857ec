"""The digits classifier with an infeed.

The [digits classifier](mnist_classifier.py) calls the IPU once for each batch. This one calls it once for each epoch: the loop over
batches runs on the IPU, and a queue feeds it. It prints the same numbers.

    tilestep run examples/mnist_with_infeeds.py                scikit-learn's 8x8 scans, nothing to download
    tilestep run examples/mnist_with_infeeds.py --data DIR     MNIST's four idx files
    python examples/mnist_with_infeeds.py --backend cpu        the same numbers, from JAX's CPU platform
"""

# %%
from __future__ import annotations

from collections.abc import Iterator

import jax
import numpy as np

from datasets import Dataset
from flags import make_parser, parse_training
from mnist_classifier import batches, init_state, print_epoch, print_sizes, update
from tilestep.train import InfeedQueue, repeat

# %% [markdown]
# ## The data
# All batches of all epochs, one after the other. The queue takes them in a thread of its own and brings them to the IPU before they
# are needed.


# %%
def all_batches(
    dataset: Dataset, *, epochs: int, batch_size: int, seed: int
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """What the classifier without a queue gets, in the same order."""
    rng = np.random.default_rng(seed)
    for _ in range(epochs):
        yield from batches(dataset.train, batch_size=batch_size, rng=rng)


# %% [markdown]
# ## Training
# `repeat` runs `update` so many times on the device: the state goes round, and each step gets the next element of the queue as its
# further arguments. `update` is the classifier's own, unchanged. The state is donated by itself. Between epochs the CPU
# evaluates, so that the loop stays loaded in the tiles.


# %%
def train(dataset: Dataset, *, backend: str, epochs: int, batch_size: int, seed: int) -> None:
    """Trains and prints a line for each epoch."""
    state = init_state(dataset, seed=seed)
    steps = len(dataset.train) // batch_size
    print_sizes(dataset, steps)
    data = all_batches(dataset, epochs=epochs, batch_size=batch_size, seed=seed)
    with InfeedQueue(data) as queue, jax.default_device(jax.devices(backend)[0]):
        for epoch in range(1, epochs + 1):
            state = repeat(steps, update, state, queue)
            print_epoch(epoch, state, dataset, steps)
            state = state._replace(loss_sum=np.zeros((), np.float32))


# %%
def main() -> None:
    """The command line."""
    flags, dataset = parse_training(
        make_parser("Train a digits classifier on an emulated IPU, one call for each epoch.")
    )
    train(dataset, backend=flags.backend, epochs=flags.epochs, batch_size=flags.batch_size, seed=flags.seed)


if __name__ == "__main__":
    main()
