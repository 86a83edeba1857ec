"""Train a small network to read handwritten digits, in plain JAX; `backend="ipu"` is all that makes it an IPU program.

    tilestep run examples/mnist_classifier.py                  scikit-learn's 8x8 scans, nothing to download
    tilestep run examples/mnist_classifier.py --data DIR       MNIST's four idx files
    python examples/mnist_classifier.py --backend cpu          the same numbers, from JAX's CPU platform

Parameters are made on the CPU, each step is one call of `update` on the IPU, and accuracy is worked out on the CPU.
The training state is donated, so that it stays in the IPU's memory from step to step: only the batch streams in.
Results go to stdout, the progress bar (which counts real seconds, not emulated ones) to stderr.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from datasets import NUM_CLASSES, DataError, Dataset, Pictures, load_digits, load_mnist

# JAX deprecates `backend=` without naming a date; it stays the shortest way to say where a function runs.
warnings.filterwarnings("ignore", "backend and device argument on jit", DeprecationWarning)

HIDDEN_UNITS = (512, 512)
optimizer = optax.sgd(learning_rate=0.05, momentum=0.9)

Params = list[tuple[jax.Array, jax.Array]]  # (weights, biases) of each layer


class TrainState(NamedTuple):
    """All that a step changes."""

    params: Params
    optimizer_state: optax.OptState
    loss_sum: jax.Array  # of this epoch's batches so far


def init_params(key: jax.Array, sizes: Sequence[int]) -> Params:
    """Weights with the variance that keeps a ReLU network's signal alive (He et al. 2015), biases zero."""
    keys = jax.random.split(key, len(sizes) - 1)
    initializer = jax.nn.initializers.he_normal()
    return [(initializer(layer_key, shape), jnp.zeros(shape[1])) for layer_key, shape in zip(keys, pairwise(sizes), strict=True)]


def predict(params: Params, images: jax.Array) -> jax.Array:
    """Logits, one row for each picture."""
    *hidden, (last_weights, last_biases) = params
    activations = images
    for weights, biases in hidden:
        activations = jax.nn.relu(activations @ weights + biases)
    return activations @ last_weights + last_biases


def loss(params: Params, images: jax.Array, labels: jax.Array) -> jax.Array:
    """Mean cross-entropy of one batch."""
    return optax.softmax_cross_entropy_with_integer_labels(predict(params, images), labels).mean()


def update(state: TrainState, images: jax.Array, labels: jax.Array) -> TrainState:
    """One step of gradient descent with momentum."""
    batch_loss, gradients = jax.value_and_grad(loss)(state.params, images, labels)
    updates, optimizer_state = optimizer.update(gradients, state.optimizer_state, state.params)
    return TrainState(optax.apply_updates(state.params, updates), optimizer_state, state.loss_sum + batch_loss)


@jax.jit
def count_correct(params: Params, images: jax.Array, labels: jax.Array) -> jax.Array:
    """How many pictures are recognised."""
    return jnp.sum(predict(params, images).argmax(axis=1) == labels)


def accuracy(params: Params, pictures: Pictures) -> float:
    """The part of the pictures that is recognised, 0 to 1. Short and rarely asked for, so the CPU does it: the IPU keeps its program."""
    with jax.default_device(jax.devices("cpu")[0]):
        return int(count_correct(params, pictures.images, pictures.labels)) / len(pictures)


def batches(pictures: Pictures, *, batch_size: int, rng: np.random.Generator) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """The pictures in random order. What is left over is dropped: an IPU program has fixed shapes."""
    order = rng.permutation(len(pictures))
    for start in range(0, len(order) - batch_size + 1, batch_size):
        chosen = order[start : start + batch_size]
        yield pictures.images[chosen], pictures.labels[chosen]


def train(dataset: Dataset, *, backend: str, epochs: int, batch_size: int, seed: int) -> None:
    """Trains and prints a line for each epoch."""
    jitted_update = jax.jit(update, backend=backend, donate_argnums=(0,))
    rng = np.random.default_rng(seed)
    with jax.default_device(jax.devices("cpu")[0]):
        params = init_params(jax.random.key(seed), (dataset.train.images.shape[1], *HIDDEN_UNITS, NUM_CLASSES))
        state = TrainState(params, optimizer.init(params), jnp.zeros(()))

    steps = len(dataset.train) // batch_size
    print(f"{dataset.name}: {len(dataset.train):,} pictures to train on, {len(dataset.test):,} to test on, {steps} steps an epoch")
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("steps"),
        TimeElapsedColumn(),
        TextColumn("wall"),
    )
    console = Console(stderr=True, markup=False, highlight=False)
    console.print(f"training on {jax.devices(backend)[0]}")
    with Progress(*columns, console=console, redirect_stdout=sys.stdout.isatty()) as progress:
        bar = progress.add_task("training", total=epochs * steps)
        for epoch in range(1, epochs + 1):
            progress.update(bar, description=f"epoch {epoch}/{epochs}")
            for images, labels in batches(dataset.train, batch_size=batch_size, rng=rng):
                state = jitted_update(state, images, labels)
                progress.advance(bar)
            params = jax.device_get(state.params)
            print(
                f"epoch {epoch}: loss {float(state.loss_sum) / steps:.4f}, "
                f"train accuracy {accuracy(params, dataset.train):.4f}, test accuracy {accuracy(params, dataset.test):.4f}"
            )
            state = state._replace(loss_sum=np.zeros((), np.float32))


def whole_number(text: str, *, low: int, high: int) -> int:
    """A flag's value. Raises: argparse.ArgumentTypeError if it is no whole number from `low` to `high`."""
    try:
        value = int(text)
    except ValueError:
        value = low - 1
    if not low <= value <= high:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from {low:,} to {high:,}")
    return value


def main(argv: Sequence[str] | None = None) -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description="Train a digits classifier with JAX on an emulated IPU.")
    parser.add_argument("--backend", choices=("ipu", "cpu"), default="ipu", help="the platform that trains (default: %(default)s)")
    parser.add_argument("--data", type=Path, metavar="DIR", help="MNIST's idx files, .gz too (default: scikit-learn's 8x8 digits)")
    parser.add_argument("--epochs", type=partial(whole_number, low=1, high=10_000), default=10, help="(default: %(default)s)")
    parser.add_argument("--batch-size", type=partial(whole_number, low=1, high=1_000_000), default=128, help="(default: %(default)s)")
    parser.add_argument("--seed", type=partial(whole_number, low=0, high=2**32 - 1), default=0, help="(default: %(default)s)")
    flags = parser.parse_args(argv)
    try:
        dataset = load_mnist(flags.data) if flags.data else load_digits()
    except DataError as error:
        parser.error(str(error))
    if flags.batch_size > len(dataset.train):
        parser.error(f"--batch-size is {flags.batch_size:,}: it must be at most {len(dataset.train):,}, the pictures to train on")
    train(dataset, backend=flags.backend, epochs=flags.epochs, batch_size=flags.batch_size, seed=flags.seed)


if __name__ == "__main__":
    main()
