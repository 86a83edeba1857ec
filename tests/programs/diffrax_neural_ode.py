"""A neural ODE in Diffrax: learns the field of a spiral, with adaptive steps."""

import json

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax

POINTS, PATHS, STEPS = 12, 8, 8


class Field(eqx.Module):
    mlp: eqx.nn.MLP

    def __init__(self, key: jax.Array) -> None:
        self.mlp = eqx.nn.MLP(2, 2, width_size=32, depth=2, activation=jax.nn.softplus, key=key)

    def __call__(self, t: jax.Array, y: jax.Array, args: None) -> jax.Array:
        return self.mlp(y)


class NeuralODE(eqx.Module):
    field: Field

    def __call__(self, times: jax.Array, start: jax.Array) -> tuple[jax.Array, jax.Array]:
        solution = diffrax.diffeqsolve(
            diffrax.ODETerm(self.field),
            diffrax.Tsit5(),
            t0=times[0],
            t1=times[-1],
            dt0=times[1] - times[0],
            y0=start,
            stepsize_controller=diffrax.PIDController(rtol=1e-3, atol=1e-6),
            saveat=diffrax.SaveAt(ts=times),
        )
        return solution.ys, solution.stats["num_steps"]


def spirals(rng: np.random.Generator, times: np.ndarray) -> np.ndarray:
    radius, angle = rng.uniform(0.5, 1.5, PATHS), rng.uniform(0, 2 * np.pi, PATHS)
    turned = angle[:, None] + 2 * times
    return (radius[:, None] * np.exp(-0.3 * times))[..., None] * np.stack([np.cos(turned), np.sin(turned)], axis=-1)


optimizer = optax.adabelief(3e-3)


@eqx.filter_value_and_grad(has_aux=True)
def loss_of(model: NeuralODE, times: jax.Array, paths: jax.Array) -> tuple[jax.Array, jax.Array]:
    found, steps = jax.vmap(model, in_axes=(None, 0))(times, paths[:, 0])
    return jnp.mean((found - paths) ** 2), steps


@eqx.filter_jit
def train_step(model: NeuralODE, state: optax.OptState, times: jax.Array, paths: jax.Array):
    (loss, steps), gradients = loss_of(model, times, paths)
    updates, state = optimizer.update(gradients, state)
    return eqx.apply_updates(model, updates), state, loss, steps.max()


def main() -> None:
    times = np.linspace(0, 2, POINTS).astype(np.float32)
    paths = spirals(np.random.default_rng(0), times).astype(np.float32)
    model = NeuralODE(Field(jax.random.key(0)))
    state = optimizer.init(eqx.filter(model, eqx.is_inexact_array))
    losses, steps = [], []
    for _ in range(STEPS):
        model, state, loss, most = train_step(model, state, times, paths)
        losses.append(float(loss))
        steps.append(int(most))
    print(json.dumps({"losses": losses, "steps": steps}))


if __name__ == "__main__":
    main()
