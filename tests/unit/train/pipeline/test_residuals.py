"""What backward is given of forward: enough, and the least."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from jax.ad_checkpoint import checkpoint_name
from jax.sharding import SingleDeviceSharding
from jax.tree_util import Partial

from tilestep.train.jaxprs import flat_jaxpr, is_variable
from tilestep.train.pipeline.compile.packing import SMALL_BYTES
from tilestep.train.pipeline.compile.placement import StagePlacement
from tilestep.train.pipeline.compile.residuals import Residuals, residuals

PLACEMENT = StagePlacement(devices=(jax.devices()[0],), whole=SingleDeviceSharding(jax.devices()[0]))
W, X = np.linspace(-1, 1, 64, dtype=np.float32).reshape(8, 8), np.linspace(0, 1, 32, dtype=np.float32).reshape(4, 8)


def specs_of(*arrays: Any) -> list[Any]:
    return [jax.ShapeDtypeStruct(array.shape, array.dtype) for array in arrays]


def backward_of(function: Callable[[Any, Any], Any]) -> Callable[[Sequence[Any], Sequence[Any]], Any]:
    """As a stage's programs linearise it: gradients of parameters and arguments."""

    def linearise(params: Sequence[Any], args: Sequence[Any]) -> Any:
        output, pullback = jax.vjp(lambda params, args: [function(*params, *args)], list(params), list(args))
        return output, [], pullback

    return linearise


def parts_of(function: Any, *, least: bool = True, w: Any = W, x: Any = X) -> Residuals:
    wanted = [jax.eval_shape(function, w, x)]
    return residuals(PLACEMENT, backward_of(function), specs_of(w), specs_of(x), wanted, least=least)


def gradients_of(parts: Residuals, w: Any, x: Any, gradient: Any) -> Any:
    outputs, _, kept = jax.jit(parts.forward)([w], [x])
    back = jax.jit(lambda params, args, kept, wanted: parts.pullback(params, args, kept)(wanted))
    return outputs[0], back([w] if parts.kept_params else [], [x] if parts.kept_args else [], kept, [gradient])


def gelu(w: Any, x: Any) -> Any:
    return jax.nn.gelu(jnp.dot(x, w))


def softmax(w: Any, x: Any) -> Any:
    return jax.nn.softmax(x @ w)


def dropped(w: Any, x: Any) -> Any:
    key = jax.random.fold_in(jax.random.key(3), x[0, 0].astype(jnp.int32))
    return jnp.where(jax.random.bernoulli(key, 0.5, (4, 8)), x @ w, 0.0) * 2


@pytest.mark.slow
@pytest.mark.parametrize("least", [False, True])
@pytest.mark.parametrize("function", [gelu, softmax, dropped])
def test_gradients_are_the_same(function: Any, least: bool) -> None:
    gradient = np.cos(X)
    output, (of_w, of_x) = gradients_of(parts_of(function, least=least), W, X, gradient)
    expected, pullback = jax.vjp(function, W, X)
    for found, own in zip((output, *of_w, *of_x), (expected, *pullback(gradient)), strict=True):
        np.testing.assert_allclose(found, own, rtol=1e-6, atol=1e-6)


def test_one_array_is_kept_of_gelu() -> None:
    parts = parts_of(gelu)
    assert [spec.shape for spec in parts.specs] == [(4, 8)]  # the product
    assert parts.kept_args == parts.kept_params == (0,)
    assert len(parts_of(gelu, least=False).specs) >= 4


def test_nothing_but_the_mask_is_kept_of_random_numbers() -> None:
    assert [(spec.dtype, spec.shape) for spec in parts_of(dropped).specs] == [(jnp.dtype(bool), (4, 8))]


def test_which_is_the_greatest_is_not_asked_again() -> None:
    def greatest(w: Any, x: Any) -> Any:
        return jax.nn.gelu(x @ w).max(0)

    kept = parts_of(greatest).specs
    assert (jnp.dtype(bool), (4, 8)) in [(spec.dtype, spec.shape) for spec in kept]


def test_what_a_policy_saves_is_kept_and_no_more() -> None:
    def named(w: Any, x: Any) -> Any:
        return jnp.sin(checkpoint_name(jnp.exp(x @ w), "here"))

    saved = jax.checkpoint(named, policy=jax.checkpoint_policies.save_only_these_names("here"))
    assert [spec.shape for spec in parts_of(saved).specs] == [(4, 8)]
    again = jax.checkpoint(named, policy=jax.checkpoint_policies.nothing_saveable)
    assert parts_of(again).specs == ()


ELEMENTWISE = (jnp.sin, jnp.tanh, lambda x: jnp.broadcast_to(x, (3, *x.shape)), lambda x: x.astype(jnp.float16), lambda x: -x)
OTHERS = (lambda x: jnp.cumsum(x, 0), lambda x: x.sum(0), lambda x: jnp.sort(x, 0))


@pytest.mark.slow
@settings(max_examples=60, phases=[Phase.generate], deadline=None, derandomize=True)
@given(data=st.data())
def test_no_other_choice_weighs_less(data: st.DataObject) -> None:
    """All choices of values from which backward can have what it reads are tried."""
    count = data.draw(st.integers(1, 4))
    steps = [
        (data.draw(st.sampled_from([*ELEMENTWISE, *OTHERS])), data.draw(st.integers(0, number)), data.draw(st.integers(0, number)))
        for number in range(count)
    ]
    read = data.draw(st.lists(st.integers(0, count), min_size=1, max_size=3, unique=True))

    def work(x: Any) -> list[Any]:
        values = [x]
        for step, first, second in steps:
            value = step(values[first])
            other = values[second]
            values.append(value + other if value.shape == other.shape and value.dtype == other.dtype else value)
        return values

    def linearise(params: Sequence[Any], args: Sequence[Any]) -> Any:
        values = work(args[0])
        return [values[-1]], [], Partial(lambda held, _: list(held), [values[index] for index in read])

    x = np.linspace(-1, 1, 2**14, dtype=np.float32).reshape(4, -1)
    parts = residuals(PLACEMENT, linearise, [], specs_of(x), specs_of(x), least=True)
    _, _, kept = parts.forward([], [x])
    found = parts.pullback([], [x] if parts.kept_args else [], kept)([x])
    for own, index in zip(found, read, strict=True):
        expected = work(x)[index]
        # Fused operations on halves round once where separate ones round each time.
        bound = 8 * float(np.finfo(expected.dtype).eps) * max(1.0, float(np.abs(np.float32(expected)).max()))
        np.testing.assert_allclose(np.float32(own), np.float32(expected), rtol=0, atol=bound)
    jaxpr = flat_jaxpr(lambda x: list(map(work(x).__getitem__, read)), x).jaxpr
    chosen = sum(weight(spec) for spec in parts.specs) + (weight(x) - 0.5 if parts.kept_args else 0)
    assert chosen == least_of(jaxpr, x)


def weight(spec: Any) -> float:
    size = int(np.prod(spec.shape)) * spec.dtype.itemsize
    return size if size <= SMALL_BYTES else size + SMALL_BYTES


def least_of(jaxpr: Any, x: Any) -> float:
    """By trying all."""
    elementwise = {"sin", "tanh", "broadcast_in_dim", "convert_element_type", "neg", "add"}
    equations = [(equation, [atom for atom in equation.invars if is_variable(atom)]) for equation in jaxpr.eqns]
    variables = [jaxpr.invars[0], *(variable for equation, _ in equations for variable in equation.outvars)]
    weights = {variable: weight(variable.aval) - (0.5 if variable is jaxpr.invars[0] else 0) for variable in variables}
    bits = {variable: 1 << place for place, variable in enumerate(variables)}
    rules = [
        (sum({bits[atom] for atom in operands}), bits[equation.outvars[0]])
        for equation, operands in equations
        if equation.primitive.name in elementwise
    ]
    wanted = sum({bits[atom] for atom in jaxpr.outvars})
    best = float("inf")
    for subset in range(1 << len(variables)):
        there = subset
        for operands, result in rules:
            there |= result if there & operands == operands else 0
        if there & wanted == wanted:
            best = min(best, sum(weights[variable] for variable in variables if subset & bits[variable]))
    return best
