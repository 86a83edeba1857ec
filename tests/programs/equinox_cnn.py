"""A convolutional network in Equinox that learns to tell stripes from blobs."""

import json

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax

CLASSES, SIZE, BATCH, STEPS = 3, 28, 32, 20


class CNN(eqx.Module):
    layers: list

    def __init__(self, key: jax.Array) -> None:
        one, two, three, four = jax.random.split(key, 4)
        self.layers = [
            eqx.nn.Conv2d(1, 8, kernel_size=4, key=one),
            eqx.nn.MaxPool2d(kernel_size=2, stride=2),
            jax.nn.relu,
            eqx.nn.Conv2d(8, 16, kernel_size=3, key=two),
            jax.nn.relu,
            jnp.ravel,
            eqx.nn.Linear(16 * 10 * 10, 64, key=three),
            jax.nn.silu,
            eqx.nn.Linear(64, CLASSES, key=four),
            jax.nn.log_softmax,
        ]

    def __call__(self, x: jax.Array) -> jax.Array:
        for layer in self.layers:
            x = layer(x)
        return x


def images(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    labels = rng.integers(0, CLASSES, BATCH)
    rows, columns = np.mgrid[:SIZE, :SIZE]
    pictures = [
        (np.sin(rows * rng.uniform(0.5, 2)), np.sin(columns * rng.uniform(0.5, 2)), np.sin(rows * 0.3) * np.sin(columns * 0.3))[label]
        for label in labels
    ]
    return (np.stack(pictures) + rng.normal(0, 0.2, (BATCH, SIZE, SIZE)))[:, None].astype(np.float32), labels


def loss_of(model: CNN, x: jax.Array, y: jax.Array) -> jax.Array:
    return -jnp.mean(jnp.take_along_axis(jax.vmap(model)(x), y[:, None], axis=1))


optimizer = optax.adamw(1e-3)


@eqx.filter_jit
def train_step(model: CNN, state: optax.OptState, x: jax.Array, y: jax.Array) -> tuple[CNN, optax.OptState, jax.Array]:
    loss, gradients = eqx.filter_value_and_grad(loss_of)(model, x, y)
    updates, state = optimizer.update(gradients, state, eqx.filter(model, eqx.is_array))
    return eqx.apply_updates(model, updates), state, loss


@eqx.filter_jit
def accuracy(model: CNN, x: jax.Array, y: jax.Array) -> jax.Array:
    return jnp.mean(jnp.argmax(jax.vmap(model)(x), axis=1) == y)


def main() -> None:
    rng = np.random.default_rng(0)
    model = CNN(jax.random.key(0))
    state = optimizer.init(eqx.filter(model, eqx.is_array))
    losses = []
    for _ in range(STEPS):
        model, state, loss = train_step(model, state, *images(rng))
        losses.append(loss)
    print(json.dumps({"losses": [float(loss) for loss in losses], "accuracy": float(accuracy(model, *images(rng)))}))


if __name__ == "__main__":
    main()
