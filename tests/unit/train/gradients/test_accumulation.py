"""`gradient_accumulation` and `accumulate_gradients`: what they add up, and what the optimiser sees."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from tilestep.train import (
    Replicas,
    accumulate_gradients,
    effective_batch_size,
    gradient_accumulation,
)

OPTIMISERS: dict[str, optax.GradientTransformation] = {
    "sgd": optax.sgd(0.1),
    "momentum": optax.sgd(0.1, momentum=0.9),
    "nesterov, weight decay": optax.chain(optax.add_decayed_weights(0.01), optax.sgd(0.1, momentum=0.9, nesterov=True)),
    "adam": optax.adam(0.01),
    "adamw, clipped": optax.chain(optax.clip_by_global_norm(0.5), optax.adamw(0.01, weight_decay=0.1)),
    "lamb, clipped": optax.chain(optax.clip_by_global_norm(0.5), optax.lamb(0.01, weight_decay=0.1)),
}
COUNT, MICROBATCH = 4, 6


def parameters() -> Any:
    rng = np.random.default_rng(0)
    return {"w": jnp.asarray(rng.normal(size=(5, 3)), jnp.float32), "b": jnp.asarray(rng.normal(size=3), jnp.float32)}


def batches(updates: int) -> tuple[jax.Array, jax.Array]:
    """[updates, COUNT, MICROBATCH, ...]."""
    rng = np.random.default_rng(1)
    shape = (updates, COUNT, MICROBATCH)
    return jnp.asarray(rng.normal(size=(*shape, 5)), jnp.float32), jnp.asarray(rng.normal(size=(*shape, 3)), jnp.float32)


def loss(params: Any, x: Any, y: Any) -> Any:
    return jnp.mean((jnp.tanh(x @ params["w"] + params["b"]) - y) ** 2)


def stepped(optimiser: optax.GradientTransformation) -> Any:
    @jax.jit
    def step(params: Any, state: Any, x: Any, y: Any) -> Any:
        updates, state = optimiser.update(jax.grad(loss)(params, x, y), state, params)
        return optax.apply_updates(params, updates), state

    return step


def big_batch_steps(optimiser: optax.GradientTransformation, params: Any, x: jax.Array, y: jax.Array) -> Any:
    step, state = stepped(optimiser), optimiser.init(params)
    for big_x, big_y in zip(x.reshape(len(x), -1, 5), y.reshape(len(y), -1, 3), strict=True):
        params, state = step(params, state, big_x, big_y)
    return params


def assert_close(found: Any, expected: Any, rtol: float = 2e-5) -> None:
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=rtol, atol=1e-6), found, expected)


@pytest.mark.few(4)
@pytest.mark.parametrize(
    ("name", "reduction"),
    [
        *((name, "running_mean") for name in OPTIMISERS),
        *((name, "mean") for name in ("sgd", "adamw, clipped")),
        *(pytest.param(name, "mean", marks=pytest.mark.slow) for name in OPTIMISERS if name not in ("sgd", "adamw, clipped")),
    ],
)
def test_microbatches_add_up_to_one_big_batch(name: str, reduction: Any) -> None:
    x, y = batches(3)
    expected = big_batch_steps(OPTIMISERS[name], parameters(), x, y)
    optimiser = gradient_accumulation(OPTIMISERS[name], COUNT, reduction=reduction)
    step, params, state = stepped(optimiser), parameters(), optimiser.init(parameters())
    for microbatch in range(3 * COUNT):
        before = params
        params, state = step(params, state, x.reshape(-1, MICROBATCH, 5)[microbatch], y.reshape(-1, MICROBATCH, 3)[microbatch])
        changed = not np.array_equal(before["w"], params["w"])
        assert changed is (microbatch % COUNT == COUNT - 1)
        assert int(state.microbatch) == (microbatch + 1) % COUNT
    assert_close(params, expected)
    assert_close(state.accumulators, jax.tree.map(jnp.zeros_like, params))


@pytest.mark.parametrize("reduction", ["sum", "mean", "running_mean"])
def test_the_single_step_form_gives_the_gradient_of_the_sum_or_the_mean(reduction: Any) -> None:
    x, y = (batch[0] for batch in batches(1))
    losses, gradients = jax.jit(lambda params: accumulate_gradients(loss, params, (x, y), reduction=reduction))(parameters())
    times = COUNT if reduction == "sum" else 1
    expected = jax.grad(loss)(parameters(), x.reshape(-1, 5), y.reshape(-1, 3))
    assert_close(gradients, jax.tree.map(lambda gradient: times * gradient, expected))
    assert_close(losses, jnp.stack([loss(parameters(), *microbatch) for microbatch in zip(x, y, strict=True)]))


def test_the_effective_batch_is_the_product() -> None:
    assert effective_batch_size(8) == 8
    assert effective_batch_size(8, 4, 2) == effective_batch_size(8, 4, Replicas(2, devices=jax.devices("ipu")[:2])) == 64
    with pytest.raises(ValueError, match="replicas is 0: it must be 1 or more"):
        effective_batch_size(8, 4, 0)
