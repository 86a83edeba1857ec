"""A linear model in Optax whose checkpoints Orbax writes while it trains, in threads of pools that nobody closes."""

import json
import tempfile
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import optax
import orbax.checkpoint as ocp

BATCH, FEATURES, STEPS, SAVE_EVERY = 64, 16, 12, 4
optimizer = optax.sgd(0.1, momentum=0.9)
checkpointer = ocp.StandardCheckpointer()  # saves in threads of its own, as most programs have it: never closed
State = tuple[jax.Array, optax.OptState]


@jax.jit
def train_step(state: State, x: jax.Array, y: jax.Array) -> tuple[State, jax.Array]:
    weights, moments = state
    loss, gradient = jax.value_and_grad(lambda weights: jnp.mean((x @ weights - y) ** 2))(weights)
    updates, moments = optimizer.update(gradient, moments)
    return (optax.apply_updates(weights, updates), moments), loss


def main() -> None:
    rng = np.random.default_rng(0)
    truth = rng.normal(size=FEATURES).astype(np.float32)
    weights = jnp.zeros(FEATURES)
    state: State = (weights, optimizer.init(weights))
    folder = tempfile.TemporaryDirectory()
    path = Path(folder.name)
    losses = []
    for step in range(STEPS):
        x = rng.normal(size=(BATCH, FEATURES)).astype(np.float32)
        state, loss = train_step(state, x, x @ truth)
        losses.append(loss)
        if step % SAVE_EVERY == 0:
            checkpointer.save(path / str(step), {"weights": state[0]})
    checkpointer.wait_until_finished()
    restored = checkpointer.restore(path / str(SAVE_EVERY), {"weights": weights})
    saved = " ".join(sorted(step.name for step in path.iterdir()))
    print(json.dumps({"losses": [float(loss) for loss in losses], "restored": np.asarray(restored["weights"]).tolist(), "saved": saved}))


if __name__ == "__main__":
    main()
