"""A function with its backward pass."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tilestep.train.backward import is_real, with_backward


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
