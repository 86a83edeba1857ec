"""`gradient_accumulation` and `accumulate_gradients`: what they add up, and what the optimiser sees."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from tilestep.train import (
    InfeedQueue,
    Replicas,
    accumulate_gradients,
    effective_batch_size,
    gradient_accumulation,
    microbatches_of,
    repeat,
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


def test_rows_stay_in_order_and_what_is_filled_up_is_told() -> None:
    found, mask = microbatches_of({"x": np.arange(7), "y": np.arange(14).reshape(7, 2)}, 3)
    assert found["x"].tolist() == [[0, 1, 2], [3, 4, 5], [6, 0, 0]]
    assert mask.tolist() == [[True] * 3, [True] * 3, [True, False, False]]
    assert found["y"].shape == (3, 3, 2)
    found, mask = microbatches_of(np.arange(4), 2, replicas=2)
    assert (found.tolist(), mask.all()) == ([[[0], [1]], [[2], [3]]], True)


@pytest.mark.parametrize("batch", [(), np.float32(1), np.zeros((0, 2)), (np.zeros(3), np.zeros(4))])
def test_what_has_no_rows_is_refused(batch: Any) -> None:
    with pytest.raises(ValueError, match="batch has arrays of shapes"):
        microbatches_of(batch, 2)


ROWS = np.random.default_rng(0).normal(size=(30, 4)).astype(np.float32)
W = np.ones(4, np.float32)


def counts(updates: Any) -> Any:
    """1, 2, 3, 3, ... microbatches."""
    return jnp.minimum(updates + 1, 3)


def trained(optimizer: Any, rows: np.ndarray) -> Any:
    def body(carry: Any, x: Any) -> Any:
        w, state = carry
        updates, state = optimizer.update(jax.grad(lambda w: ((x * w).sum() - 1) ** 2)(w), state, w)
        return optax.apply_updates(w, updates), state

    return repeat(len(rows), body, (W, optimizer.init(W)), InfeedQueue(list(rows)))


def by_optax(rows: np.ndarray, **options: Any) -> Any:
    steps = optax.MultiSteps(optax.adam(0.1), **options)

    @jax.jit
    def step(w: Any, state: Any, x: Any) -> Any:
        updates, state = steps.update(jax.grad(lambda w: ((x * w).sum() - 1) ** 2)(w), state, w)
        return optax.apply_updates(w, updates), state

    w, state = jnp.asarray(W), steps.init(jnp.asarray(W))
    for x in rows:
        w, state = step(w, state, x)
    return w, state


def test_a_schedule_of_counts_is_that_of_optax() -> None:
    """29 steps end amid an update, which is nobody's fault here."""
    w, state = trained(gradient_accumulation(optax.adam(0.1), counts, reduction="mean"), ROWS[:29])
    expected, there = by_optax(ROWS[:29], every_k_schedule=counts)
    np.testing.assert_allclose(w, expected, rtol=2e-5)
    assert (int(state.updates), int(state.microbatch)) == (int(there.gradient_step), int(there.mini_step)) == (10, 2)


@pytest.mark.parametrize("count", [2, counts])
def test_microbatches_that_are_not_finite_are_left_out(count: Any) -> None:
    """As if they were not there; optax skips them likewise."""
    spoiled = np.insert(ROWS[:20], [0, 5, 5, 11], [[np.nan] * 4, [np.inf] * 4, [np.nan, 0, 0, 0], [np.nan] * 4], axis=0)
    w, state = trained(gradient_accumulation(optax.adam(0.1), count, reduction="mean", skip_nonfinite=True), spoiled.astype(np.float32))
    expected, there = by_optax(ROWS[:20], every_k_schedule=count)
    np.testing.assert_allclose(w, expected, rtol=2e-5)
    assert (int(state.updates), int(state.microbatch)) == (int(there.gradient_step), int(there.mini_step))


def test_what_a_schedule_returns_is_checked() -> None:
    with pytest.raises(TypeError, match=r"count returned float32\[\]: .* returns one whole number"):
        trained(gradient_accumulation(optax.sgd(0.1), lambda updates: updates * 0.5), ROWS[:2])
    with pytest.raises(ValueError, match="replicas that leave out different microbatches would not update together"):
        gradient_accumulation(optax.sgd(0.1), 2, skip_nonfinite=True, replica_reduction="mean")
    one, other = gradient_accumulation(optax.sgd(0.1), 2), gradient_accumulation(optax.sgd(0.1), counts)
    with pytest.raises(ValueError, match="the state accumulates 2 microbatches for each update, but the optimiser a scheduled number"):
        other.update(W, one.init(W), W)
