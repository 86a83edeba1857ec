"""A regression with what optax offers around an optimizer: warm-up, cosine decay, clipping, decay of weights, accumulation, averages."""

import functools
import json

import jax
import jax.numpy as jnp
import numpy as np
import optax

WIDTHS, BATCH, STEPS = (4, 64, 64, 1), 64, 60

schedule = optax.warmup_cosine_decay_schedule(init_value=0.0, peak_value=1e-2, warmup_steps=10, decay_steps=STEPS, end_value=1e-4)
optimizer = optax.MultiSteps(
    optax.chain(
        optax.clip_by_global_norm(1.0),
        optax.scale_by_adam(),
        optax.add_decayed_weights(1e-3, mask=functools.partial(jax.tree.map, lambda leaf: leaf.ndim > 1)),
        optax.scale_by_learning_rate(schedule),
    ),
    every_k_schedule=2,
)


def init(key: jax.Array) -> list[dict[str, jax.Array]]:
    keys = jax.random.split(key, len(WIDTHS) - 1)
    sizes = zip(keys, WIDTHS[:-1], WIDTHS[1:], strict=True)
    return [{"w": jax.random.normal(k, (n, m)) / jnp.sqrt(n), "b": jnp.zeros(m)} for k, n, m in sizes]


def predict(params: list[dict[str, jax.Array]], x: jax.Array) -> jax.Array:
    for layer in params[:-1]:
        x = jnp.tanh(x @ layer["w"] + layer["b"])
    return (x @ params[-1]["w"] + params[-1]["b"])[:, 0]


@functools.partial(jax.jit, donate_argnums=(0, 1, 2))
def step(params, state, average, x, y):
    def loss_of(params):
        return optax.huber_loss(predict(params, x), y).mean()

    loss, gradients = jax.value_and_grad(loss_of)(params)
    updates, state = optimizer.update(gradients, state, params)
    params = optax.apply_updates(params, updates)
    return params, state, optax.incremental_update(params, average, 0.1), loss, optax.global_norm(gradients)


def main() -> None:
    rng = np.random.default_rng(0)
    params = init(jax.random.key(0))
    state, average = optimizer.init(params), jax.tree.map(jnp.copy, params)
    losses, norms = [], []
    for _ in range(STEPS):
        x = rng.normal(size=(BATCH, WIDTHS[0])).astype(np.float32)
        params, state, average, loss, norm = step(params, state, average, x, np.sin(x[:, 0]) + x[:, 1] * x[:, 2])
        losses.append(loss)
        norms.append(norm)
    x = rng.normal(size=(BATCH, WIDTHS[0])).astype(np.float32)
    rates = [schedule(k) for k in range(0, STEPS, 10)]
    values = {
        "losses": losses,
        "norms": norms,
        "rates": rates,
        "averaged": jax.jit(predict)(average, x)[:4],
    }
    print(json.dumps({name: [float(one) for one in value] for name, value in values.items()}))


if __name__ == "__main__":
    main()
