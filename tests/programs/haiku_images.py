"""Images that dm-pix changes at random, and a residual network with batch normalisation in Haiku that learns from them."""

import json
from typing import NamedTuple

import dm_pix as pix
import haiku as hk
import jax
import jax.numpy as jnp
import numpy as np
import optax

CLASSES, SIZE, BATCH, STEPS = 4, 16, 16, 12


class State(NamedTuple):
    params: hk.Params
    averages: hk.State
    optimizer: optax.OptState


def augment(key: jax.Array, image: jax.Array) -> jax.Array:
    one, two, three, four = jax.random.split(key, 4)
    image = pix.random_flip_left_right(one, image)
    image = pix.random_brightness(two, image, 0.2)
    image = pix.random_crop(three, jnp.pad(image, ((2, 2), (2, 2), (0, 0))), (SIZE, SIZE, 3))
    return pix.gaussian_blur(pix.random_contrast(four, image, 0.8, 1.2), sigma=0.5, kernel_size=3)


def network(images: jax.Array, is_training: bool) -> jax.Array:
    x = hk.Conv2D(16, 3)(images)
    for channels, stride in ((16, 1), (32, 2)):
        shortcut = hk.Conv2D(channels, 1, stride)(x)
        x = jax.nn.relu(hk.BatchNorm(True, True, 0.9)(hk.Conv2D(channels, 3, stride)(x), is_training))
        x = jax.nn.relu(shortcut + hk.BatchNorm(True, True, 0.9)(hk.Conv2D(channels, 3)(x), is_training))
    return hk.Linear(CLASSES)(x.mean((1, 2)))


model = hk.transform_with_state(network)
optimizer = optax.sgd(0.05, momentum=0.9, nesterov=True)


def init(key: jax.Array, images: jax.Array) -> State:
    params, averages = model.init(key, images, is_training=True)
    return State(params, averages, optimizer.init(params))


@jax.jit
def train_step(state: State, key: jax.Array, images: jax.Array, labels: jax.Array) -> tuple[State, jax.Array]:
    images = jax.vmap(augment)(jax.random.split(key, BATCH), images)

    def loss_of(params: hk.Params) -> tuple[jax.Array, hk.State]:
        scores, averages = model.apply(params, state.averages, None, images, is_training=True)
        return optax.softmax_cross_entropy_with_integer_labels(scores, labels).mean(), averages

    (loss, averages), gradients = jax.value_and_grad(loss_of, has_aux=True)(state.params)
    updates, momentum = optimizer.update(gradients, state.optimizer)
    return State(optax.apply_updates(state.params, updates), averages, momentum), loss


@jax.jit
def scores_of(state: State, images: jax.Array) -> jax.Array:
    return model.apply(state.params, state.averages, None, images, is_training=False)[0]


def batch(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    labels = rng.integers(0, CLASSES, BATCH)
    colours = np.eye(4, 3)[labels] * 0.6 + 0.2
    return (colours[:, None, None] + rng.uniform(-0.2, 0.2, (BATCH, SIZE, SIZE, 3))).clip(0, 1).astype(np.float32), labels


def main() -> None:
    rng, keys = np.random.default_rng(0), jax.random.split(jax.random.key(0), STEPS + 1)
    state = jax.jit(init)(keys[0], batch(rng)[0])
    losses = []
    for key in keys[1:]:
        state, loss = train_step(state, key, *batch(rng))
        losses.append(loss)
    values = {"losses": [float(loss) for loss in losses], "scores": np.asarray(scores_of(state, batch(rng)[0])[:2], np.float64).tolist()}
    print(json.dumps(values))


if __name__ == "__main__":
    main()
