"""Accumulators' dtypes and what optax lets stand in place of an array."""

import itertools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from tests.together import each
from tilestep.train import InfeedQueue, accumulate_gradients, gradient_accumulation, repeat

half = jnp.float16


def after(optimiser: Any, params: Any, gradients: list[Any]) -> tuple[Any, Any]:
    """(parameters, state) after updates with these gradients."""
    state = optimiser.init(params)
    for gradient in gradients:
        updates, state = optimiser.update(gradient, state, params)
        params = optax.apply_updates(params, updates)
    return params, state


def seen(found: list[Any]) -> optax.GradientTransformation:
    """An optimiser that notes the dtypes of the gradients that it sees, and descends by them."""

    def update(updates: Any, state: Any, params: Any = None) -> tuple[Any, Any]:
        found.append(jax.tree.map(lambda leaf: leaf.dtype.name, updates))
        return jax.tree.map(jnp.negative, updates), state

    return optax.GradientTransformation(lambda params: (), update)


@pytest.mark.parametrize("dtype", [jnp.float32, "float32", lambda path, variable: np.float32 if path == "w" else None])
def test_2048_small_gradients_of_a_half_add_up_exactly_in_a_float(dtype: Any) -> None:
    """TensorFlow for the IPU's accumulation data type: a float16 variable whose accumulator is float32."""
    small = half(1e-3)
    exact = np.float32(2048 * float(small))  # 11 bits times 2 ** 11: exact in 24
    weights, kinds = descended_by_halves(small, dtype)
    assert kinds == {"w": "float32"}
    assert (weights == half(-exact)).all()


def descended_by_halves(small: Any, dtype: Any) -> tuple[np.ndarray, Any]:
    """(float16 variables after one descent of rate 1 by 2048 equal gradients, dtypes that the optimiser saw)."""
    found: list[Any] = []
    optimiser = gradient_accumulation(seen(found), 2048, dtype=dtype)

    def body(carry: Any, gradient: Any) -> Any:
        updates, state = optimiser.update(gradient, carry[1], carry[0])
        return optax.apply_updates(carry[0], updates), state

    params = {"w": np.zeros(3, half)}
    weights = repeat(2048, body, (params, optimiser.init(params)), InfeedQueue(itertools.repeat(({"w": np.full(3, small)},))))[0]["w"]
    assert weights.dtype == half
    return np.asarray(weights), found[-1]


@pytest.mark.slow
def test_a_running_mean_stays_where_a_sum_of_halves_overflows() -> None:
    gradients = [jnp.full(2, g, half) for g in (60_000, -60_000, 60_000, 60_000)]
    for reduction, expected in (("running_mean", 30_000), ("sum", np.inf), ("mean", np.inf)):
        one_sided = gradients if reduction == "running_mean" else [jnp.abs(g) for g in gradients]
        losses, found = accumulate_gradients(lambda p, g: (p * g).sum(), jnp.ones(2, half), jnp.stack(one_sided), reduction=reduction)
        assert (found.dtype, losses.shape) == (half, (4,))
        np.testing.assert_allclose(np.asarray(found, np.float32), expected, rtol=2e-3)
    same = jnp.full((100, 3), 0.1, half)
    _, found = accumulate_gradients(lambda p, g: (p * g).sum(), jnp.ones(3, half), same, reduction="running_mean")
    np.testing.assert_array_equal(found, same[0])  # the mean of equal gradients is theirs


def test_none_stands_for_what_has_no_gradient() -> None:
    params = {"w": jnp.ones(2), "frozen": jnp.ones(3), "nothing": None}
    gradients = {"w": jnp.ones(2), "frozen": None, "nothing": None}
    plain, _ = jax.eval_shape(lambda: optax.sgd(0.1).update(gradients, optax.sgd(0.1).init(params), params))
    optimiser = gradient_accumulation(optax.sgd(0.1), 2)
    state = optimiser.init(params)
    for _ in range(2):
        updates, state = jax.jit(optimiser.update)(gradients, state, params)
    assert jax.tree.structure(updates) == jax.tree.structure(plain)
    np.testing.assert_allclose(updates["w"], -0.2, rtol=1e-6)


def test_whole_numbers_have_no_accumulator() -> None:
    """They get their last gradient, as from optax alone: here zeros."""
    params = {"w": jnp.ones(2), "steps": jnp.int32(7), "key": jax.random.key(0)}
    optimiser = optax.masked(gradient_accumulation(optax.sgd(0.5), 2), {"w": True, "steps": True, "key": False})
    state = optimiser.init(params)
    assert state.inner_state.accumulators["steps"] is None
    found = {k: params[k] for k in ("w", "steps")}
    for _ in range(2):
        updates, state = optimiser.update({"w": jnp.ones(2), "steps": jnp.int32(0), "key": None}, state, params)
        found = optax.apply_updates(found, {k: updates[k] for k in found})
    assert (found["w"].tolist(), int(found["steps"])) == ([0, 0], 7)


@each(
    "arguments, error, message",
    [
        ({"optimizer": "adam"}, TypeError, "the optimizer is 'adam': it must be an optax.GradientTransformation, such as optax.adam"),
        ({"count": 0}, ValueError, "count is 0: it must be 1 or more"),
        ({"dtype": "floaty"}, TypeError, "dtype is 'floaty': it must be None, a dtype such as 'float32', a function"),
        ({"shard_optimizer_state": "yes"}, TypeError, "shard_optimizer_state is 'yes': it must be True or False"),
        ({"shard_optimizer_state": 2.0}, TypeError, "shard_optimizer_state is 2.0: it must be True or False, or the number of replicas"),
        ({"shard_optimizer_state": 0}, ValueError, "shard_optimizer_state is 0: it must be True or False, or the number of replicas"),
        ({"offload_optimizer_state": {"parameters": 3}}, TypeError, "offload is 3 for parameters: it must be None, True, False or a"),
        ({"count": 2.0}, TypeError, "count is 2.0: it must be a whole number"),
        ({"reduction": "max"}, ValueError, "reduction is 'max': it must be one of 'sum', 'mean', 'running_mean'"),
        ({"dtype": jnp.int32}, TypeError, "an accumulator of dtype int32 cannot hold the gradients of w, which is float32"),
        (
            {"dtype": jnp.float8_e4m3fn},
            TypeError,
            "the accumulator of w cannot have dtype float8_e4m3fn, as the variable is float32: JAX has",
        ),
        ({"dtype": lambda path, variable: jnp.float32}, TypeError, "float32 cannot hold the gradients of z/0, which is complex64"),
    ],
)
def test_bad_arguments_are_refused(arguments: dict[str, Any], error: type[Exception], message: str) -> None:
    params = {"w": jnp.ones(2), "z": [jnp.ones(2, jnp.complex64)]}
    with pytest.raises(error, match=message):
        gradient_accumulation(**{"optimizer": optax.sgd(0.1), "count": 2} | arguments).init(params)


def test_another_optimiser_s_state_and_gradients_of_other_shapes_are_refused() -> None:
    params, gradients = {"w": jnp.ones(3)}, {"w": jnp.ones(3)}
    one, other = gradient_accumulation(optax.sgd(0.1), 2), gradient_accumulation(optax.sgd(0.1), 3)
    with pytest.raises(ValueError, match="the state accumulates 3 microbatches for each update, but the optimiser 2: make the state with"):
        one.update(gradients, other.init(params), params)
    with pytest.raises(TypeError, match="the state is a tuple: it must be the AccumulationState that this optimiser's init has returned"):
        one.update(gradients, optax.sgd(0.1).init(params), params)
    for shape in ((), (2, 3)):
        with pytest.raises(ValueError, match=rf"a gradient of shape \({', '.join(map(str, shape))}\) was given for .* of shape \(3,\)"):
            one.update({"w": jnp.ones(shape)}, one.init(params), params)


@pytest.mark.parametrize(
    ("microbatches", "error", "message"),
    [
        ((), ValueError, "microbatches has no array"),
        ({"x": jnp.ones((2, 3)), "y": jnp.ones((3, 3))}, ValueError, r"microbatches\['x'\] has 2, microbatches\['y'\] has 3"),
        (jnp.float32(1), TypeError, "microbatches is a scalar: each array needs the microbatches along its leading axis"),
        (jnp.ones((0, 3)), ValueError, "the number of microbatches is 0: it must be 1 or more"),
    ],
)
def test_microbatches_that_are_none_are_refused(microbatches: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        accumulate_gradients(lambda p, x, y: p, 1.0, microbatches)


def test_losses_come_with_what_is_beside_them() -> None:
    data = {"x": jnp.arange(6.0).reshape(3, 2)}
    (losses, aux), gradient = accumulate_gradients(lambda p, x: (p * x.sum(), {"x": x}), 2.0, data, has_aux=True)
    assert (losses.tolist(), float(gradient)) == ([2, 10, 18], 15)
    np.testing.assert_array_equal(aux["x"], data["x"])


def test_a_microbatch_may_be_made_in_the_loop() -> None:
    data = jnp.arange(6.0).reshape(3, 2)

    def loss(p: Any, x: Any) -> Any:
        return p * x.sum()

    given = accumulate_gradients(loss, 2.0, data)
    taken = accumulate_gradients(loss, 2.0, np.arange(3), take=lambda number: data[number])
    np.testing.assert_array_equal(taken[0], given[0])
    np.testing.assert_array_equal(taken[1], given[1])
    with pytest.raises(TypeError, match="take is 3"):
        accumulate_gradients(loss, 2.0, data, take=3)  # type: ignore[arg-type]
