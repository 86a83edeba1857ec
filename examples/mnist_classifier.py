"""A digits classifier.

Train a small network to read handwritten digits, in plain JAX; `backend="ipu"` is all that makes it an IPU program.

    tilestep run examples/mnist_classifier.py                  scikit-learn's 8x8 scans, nothing to download
    tilestep run examples/mnist_classifier.py --data DIR       MNIST's four idx files
    tilestep run examples/mnist_classifier.py --no-donation    the same numbers, with the state going to and fro
    python examples/mnist_classifier.py --backend cpu          the same numbers, from JAX's CPU platform

Parameters are made on the CPU, each step is one call of `update` on the IPU, and accuracy is worked out on the CPU.
The training state is donated, so that it stays in the IPU's memory from step to step: only the batch streams in.
"""

# %%
from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import pairwise
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from rich.console import Console
from rich.progress import track

from datasets import NUM_CLASSES, Dataset, Pictures
from flags import make_parser, parse_training

HIDDEN_UNITS = (512, 512)
optimizer = optax.sgd(learning_rate=0.05, momentum=0.9)

# %% [markdown]
# ## The network
# Three layers; weights get the variance that keeps a ReLU network's signal alive (He et al. 2015).

# %%
Params = list[tuple[jax.Array, jax.Array]]  # (weights, biases) of each layer


def init_params(key: jax.Array, sizes: Sequence[int]) -> Params:
    """Weights by He et al., biases zero."""
    keys = jax.random.split(key, len(sizes) - 1)
    initializer = jax.nn.initializers.he_normal()
    return [
        (initializer(layer_key, shape), jnp.zeros(shape[1]))
        for layer_key, shape in zip(keys, pairwise(sizes), strict=True)
    ]


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


# %% [markdown]
# ## One step
# All that a step changes is one tuple: it goes in as an argument and comes back as the result.


# %%
class TrainState(NamedTuple):
    """All that a step changes."""

    params: Params
    optimizer_state: optax.OptState
    loss_sum: jax.Array  # of this epoch's batches so far


def init_state(dataset: Dataset, *, seed: int) -> TrainState:
    """The state before the first step. Initialising is many small operations, so it runs on the CPU."""
    with jax.default_device(jax.devices("cpu")[0]):
        params = init_params(
            jax.random.key(seed), (dataset.train.images.shape[1], *HIDDEN_UNITS, NUM_CLASSES)
        )
        return TrainState(params, optimizer.init(params), jnp.zeros(()))


def update(state: TrainState, images: jax.Array, labels: jax.Array) -> TrainState:
    """One step of gradient descent with momentum."""
    batch_loss, gradients = jax.value_and_grad(loss)(state.params, images, labels)
    updates, optimizer_state = optimizer.update(gradients, state.optimizer_state, state.params)
    return TrainState(
        optax.apply_updates(state.params, updates), optimizer_state, state.loss_sum + batch_loss
    )


# %% [markdown]
# ## Batches and accuracy
# An IPU program has fixed shapes, so pictures left over after the last whole batch of an epoch are dropped. Accuracy is short and
# rarely asked for, so the CPU works it out, and the IPU keeps its program.


# %%
def batches(
    pictures: Pictures, *, batch_size: int, rng: np.random.Generator
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """The pictures in random order."""
    order = rng.permutation(len(pictures))
    for start in range(0, len(order) - batch_size + 1, batch_size):
        chosen = order[start : start + batch_size]
        yield pictures.images[chosen], pictures.labels[chosen]


@jax.jit
def count_correct(params: Params, images: jax.Array, labels: jax.Array) -> jax.Array:
    """How many pictures are recognised."""
    return jnp.sum(predict(params, images).argmax(axis=1) == labels)


def accuracy(params: Params, pictures: Pictures) -> float:
    """The part of the pictures that is recognised, 0 to 1."""
    with jax.default_device(jax.devices("cpu")[0]):
        return int(count_correct(params, pictures.images, pictures.labels)) / len(pictures)


# %% [markdown]
# ## Training
# Without `donate_argnums`, the whole state would come from the host and go back there at each step.


# %%
def train(dataset: Dataset, *, backend: str, epochs: int, batch_size: int, seed: int, donation: bool) -> None:
    """Trains and prints a line for each epoch. A progress bar, of real seconds, goes to stderr if that is a terminal."""
    jitted_update = jax.jit(update, backend=backend, donate_argnums=(0,) if donation else ())
    rng = np.random.default_rng(seed)
    state = init_state(dataset, seed=seed)
    steps = len(dataset.train) // batch_size
    bar = partial(
        track, total=steps, console=Console(stderr=True), disable=not sys.stderr.isatty(), transient=True
    )
    print_sizes(dataset, steps)
    for epoch in range(1, epochs + 1):
        for images, labels in bar(
            batches(dataset.train, batch_size=batch_size, rng=rng), f"epoch {epoch}/{epochs}"
        ):
            state = jitted_update(state, images, labels)
        print_epoch(epoch, state, dataset, steps)
        state = state._replace(loss_sum=np.zeros((), np.float32))


def print_sizes(dataset: Dataset, steps: int) -> None:
    """What is trained on."""
    print(
        f"{dataset.name}: {len(dataset.train):,} pictures to train on, {len(dataset.test):,} to test on, {steps} steps an epoch"
    )


def print_epoch(epoch: int, state: TrainState, dataset: Dataset, steps: int) -> None:
    """How far training is. Reading the state brings it to the host."""
    params = jax.device_get(state.params)
    print(
        f"epoch {epoch}: loss {float(state.loss_sum) / steps:.4f}, "
        f"train accuracy {accuracy(params, dataset.train):.4f}, test accuracy {accuracy(params, dataset.test):.4f}"
    )


# %%
def main() -> None:
    """The command line."""
    parser = make_parser("Train a digits classifier with JAX on an emulated IPU.")
    parser.add_argument(
        "--no-donation", action="store_true", help="let the training state go to and fro at each step"
    )
    flags, dataset = parse_training(parser)
    train(
        dataset,
        backend=flags.backend,
        epochs=flags.epochs,
        batch_size=flags.batch_size,
        seed=flags.seed,
        donation=not flags.no_donation,
    )


if __name__ == "__main__":
    main()
