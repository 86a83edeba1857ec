"""A function's work in two."""

from collections import Counter
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tilestep.train.backward import is_real, with_backward
from tilestep.train.jaxprs import flat_jaxpr, halves, loop_operands, needed


def layer(w: Any, x: Any) -> Any:
    return jnp.tanh(jax.nn.gelu(x @ w[0]) @ w[1])


def work(*functions: Any) -> Counter[str]:
    """What functions (with their arguments) compute that takes long."""
    found: Counter[str] = Counter()
    for function, args in functions:
        jaxpr = flat_jaxpr(function, *args).jaxpr
        names = [equation.primitive.name for equation in needed(jaxpr.eqns, jaxpr.outvars)]
        found += Counter(name for name in names if name in ("dot_general", "tanh"))
    return found


@pytest.mark.parametrize("again", [False, True])
def test_the_two_halves_of_a_backward_compute_each_thing_once(again: bool) -> None:
    rng = np.random.default_rng(0)
    w, x = [rng.normal(size=(4, 4)).astype(np.float32) for _ in range(2)], rng.normal(size=(3, 4)).astype(np.float32)
    function = jax.checkpoint(layer) if again else layer

    def backward(w: Any, x: Any, gradient: Any) -> Any:
        of_w, of_x = jax.vjp(function, w, x)[1](gradient)
        return [of_x, *of_w]

    args = w, x, np.ones((3, 4), np.float32)
    now, later = halves(flat_jaxpr(backward, *args), 1)
    leaves = jax.tree.leaves(args)
    first, crossed = now(leaves)
    expected = backward(*args)
    np.testing.assert_array_equal(first[0], expected[0])
    jax.tree.map(np.testing.assert_array_equal, later(leaves, crossed), expected[1:])
    assert work((now, [leaves]), (later, [leaves, crossed])) == work((backward, args))
    assert work((later, [leaves, crossed])) == {"dot_general": 2}  # the products for the weights, and nothing else


@pytest.mark.parametrize("rows", [0, 1, 2])
@pytest.mark.parametrize("carried", [1, 2])
def test_shapes_say_which_operands_of_a_scan_are_constants_carried_or_rows(carried: int, rows: int) -> None:
    def looped(weight: Any, carry: Any, rows: Any) -> Any:
        def step(carry: Any, row: Any) -> Any:
            return [value * weight + sum(row) for value in carry], [value + carry[0] for value in row]

        return jax.lax.scan(step, carry, rows, length=4)

    # Rows have as many elements as a step: an axis more tells them, not a size.
    operands = np.float32(2), [np.ones((), np.float32)] * carried, [np.ones(4, np.float32)] * rows
    (loop,) = (each for each in jax.make_jaxpr(looped)(*operands).eqns if each.primitive.name == "scan")
    assert loop_operands(loop) == (1, carried)


def test_real_outputs_come_with_the_gradients_of_real_arguments() -> None:
    def function(params: Any, x: Any, places: Any) -> Any:
        return {"y": x * params["w"], "places": places + 1}, 3 * x[places].sum()

    w, x, places = np.float32([2, 3]), np.float32([5, 7]), np.int32([1])
    outputs, gradients = jax.jit(with_backward(function))({"w": w}, x, places)
    np.testing.assert_allclose(outputs[0], w * x)
    np.testing.assert_allclose(outputs[1], 21)
    assert len(outputs) == 2
    np.testing.assert_allclose(gradients[0], x)
    np.testing.assert_allclose(gradients[1], w + np.float32([0, 3]))
    assert len(gradients) == 2


def test_what_has_a_gradient() -> None:
    assert is_real(2.0)
    assert is_real(jax.ShapeDtypeStruct((2,), jnp.complex64))
    assert not is_real(3)
    assert not is_real(jax.random.key(0))
