"""The plainest digits classifier.

Train a small network to read handwritten digits, with nothing but JAX: gradient descent by hand, a Python loop.

    tilestep run examples/mnist_plain.py                scikit-learn's 8x8 scans, nothing to download
    tilestep run examples/mnist_plain.py --data DIR     MNIST's four idx files

What it costs, and how to make it cheaper, stands at its end.
"""

# %%
from __future__ import annotations

from itertools import pairwise

import jax
import jax.numpy as jnp
import numpy as np

import tilestep
from datasets import NUM_CLASSES
from flags import make_parser, parse_training

HIDDEN_UNITS = (512, 512)
STEP_SIZE = 0.1

flags, dataset = parse_training(make_parser("Train a digits classifier with plain JAX on an emulated IPU."))
num_pixels = dataset.train.images.shape[1]
print(
    f"{dataset.name}: {len(dataset.train):,} pictures of {num_pixels} pixels to train on, {len(dataset.test):,} to test on"
)

# %% [markdown]
# ## The network
# A list of weights and biases, made on the CPU with NumPy, and a function of them.

# %%
Params = list[tuple[jax.Array, jax.Array]]  # (weights, biases) of each layer


def init_params(rng: np.random.Generator, sizes: tuple[int, ...]) -> Params:
    return [
        (
            rng.normal(scale=np.sqrt(2 / inputs), size=(inputs, outputs)).astype(np.float32),
            np.zeros(outputs, np.float32),
        )
        for inputs, outputs in pairwise(sizes)
    ]


def predict(params: Params, images: jax.Array) -> jax.Array:
    *hidden, (last_weights, last_biases) = params
    for weights, biases in hidden:
        images = jax.nn.relu(images @ weights + biases)
    return jax.nn.log_softmax(images @ last_weights + last_biases)


def loss(params: Params, images: jax.Array, labels: jax.Array) -> jax.Array:
    return -jnp.mean(predict(params, images) * jax.nn.one_hot(labels, NUM_CLASSES)) * NUM_CLASSES


# %% [markdown]
# ## One step
# The gradient, and a step against it: one program, which runs on the IPU.


# %%
def update(params: Params, images: jax.Array, labels: jax.Array) -> Params:
    gradients = jax.grad(loss)(params, images, labels)
    return jax.tree.map(lambda value, slope: value - STEP_SIZE * slope, params, gradients)


jitted_update = jax.jit(update, backend=flags.backend)

# %% [markdown]
# ## Training
# An IPU program has fixed shapes, so what is left over after the last whole batch is dropped. Accuracy is worked out on the CPU.


# %%
@jax.jit
def accuracy(params: Params, images: jax.Array, labels: jax.Array) -> jax.Array:
    return jnp.mean(predict(params, images).argmax(axis=1) == labels)


rng = np.random.default_rng(flags.seed)
params = init_params(rng, (num_pixels, *HIDDEN_UNITS, NUM_CLASSES))
cpu = jax.devices("cpu")[0]

with tilestep.profile() as profile:
    for epoch in range(1, flags.epochs + 1):
        order = rng.permutation(len(dataset.train))
        for start in range(0, len(order) - flags.batch_size + 1, flags.batch_size):
            chosen = order[start : start + flags.batch_size]
            params = jitted_update(params, dataset.train.images[chosen], dataset.train.labels[chosen])
        with jax.default_device(cpu):
            params_now = jax.device_get(params)
            train_accuracy = accuracy(params_now, dataset.train.images, dataset.train.labels)
            test_accuracy = accuracy(params_now, dataset.test.images, dataset.test.labels)
        print(f"epoch {epoch}: train accuracy {train_accuracy:.4f}, test accuracy {test_accuracy:.4f}")

# %% [markdown]
# ## What it would have cost
# Parameters go to the IPU and back at each step, although nobody looks at them. The [next example](mnist_classifier.py) keeps them
# there by donation, and the [one after that](mnist_with_infeeds.py) runs whole epochs in one call.

# %%
for program in profile.programs:
    print(f"{program.name} ran {program.runs} times in {1e3 * profile.emulated_s:.1f} ms, all emulated")
    print(f"each time {program.host_bytes_in:,} bytes came in and {program.host_bytes_out:,} went out")
    print(f"parameters are {sum(leaf.nbytes for leaf in jax.tree.leaves(params)):,} of them")
