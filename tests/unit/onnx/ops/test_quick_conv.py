"""Convolutions in a form that is quick on the CPU: one operation elsewhere, and in the backward pass."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tests.together import each
from tests.unit.onnx.ops.agree import agrees_with_onnxruntime, values
from tests.unit.onnx.ops.functions import function_of
from tilestep.onnx.ops.conv import MOST_ELEMENTS, MOST_TAPS, convolution, plain
from tilestep.onnx.ops.windows import windows

X = values(2, 3, 5, 4)
SUMMED, MULTIPLIED = values(6, 1, 3, 2, seed=1), values(19, 3, 3, 2, seed=1)  # each channel by itself; fewer windows (18) than kernels
AT = windows((5, 4), (3, 2), strides=[2, 1], dilations=[1, 2], pads=[1, 0, 2, 1])
ODD: dict[str, Any] = {"strides": [2, 1], "dilations": [1, 2], "pads": [1, 0, 2, 1]}
CASES: list[tuple[tuple[int, ...], tuple[int, ...], int, dict[str, Any]]] = [
    ((2, 3, 5, 4), (3, 1, 3, 2), 3, ODD),
    ((1, 2, 9), (6, 1, 4), 2, {"auto_pad": "SAME_UPPER", "strides": [2]}),  # each channel makes three
    ((1, 2, 4, 5, 3), (2, 1, 2, 3, 1), 2, {"strides": [2, 1, 1]}),
    ((2, 3, 5, 4), (19, 3, 3, 2), 1, ODD),
    ((1, 2, 9), (6, 2, 4), 1, {"auto_pad": "SAME_UPPER", "strides": [2]}),
    ((1, 3, 4, 4), (9, 3, 1, 1), 1, {"strides": [2, 2]}),
    ((0, 3, 4, 4), (9, 3, 2, 2), 1, {}),
]


def _convolutions(function: Any, x: Any, platform: str) -> int:
    """How many convolutions the program of a platform has."""
    return jax.jit(function).trace(x).lower(lowering_platforms=(platform,)).as_text().count("stablehlo.convolution")


@each("case", CASES)
def test_values_are_onnxruntimes(case: tuple[tuple[int, ...], tuple[int, ...], int, dict[str, Any]]) -> None:
    x, w, group, attributes = case
    agrees_with_onnxruntime("Conv", [values(*x), values(*w, seed=1), values(w[0], seed=2)], version=11, group=group, **attributes)


@each(
    "shape, group, dtype, count",
    [
        ((4, 1, 3, 3), 4, np.float16, 0),
        ((4, 2, 3, 3), 2, np.float32, 1),  # XLA:CPU is quick by itself
        ((4, 2, 3, 3), 2, np.int32, 0),
        ((500, 4, 3, 3), 1, np.float32, 0),  # more than the windows
        ((5, 4, 3, 3), 1, np.float32, 1),
        ((500, 4, 3, 3), 1, np.float16, 1),  # a product of halves would add halves
        ((4, 1, 1, MOST_TAPS + 1), 4, np.float32, 1),
    ],
)
def test_what_is_slow_as_one_operation(shape: tuple[int, ...], group: int, dtype: Any, count: int) -> None:
    x, w = values(1, 4, 4, MOST_TAPS + 1).astype(dtype), values(*shape, seed=1).astype(dtype)
    assert _convolutions(function_of("Conv", [x, jnp.asarray(w)], version=11, group=group), x, "cpu") == count


def test_windows_that_take_too_much_memory_stay_where_they_are() -> None:
    side, w = int((MOST_ELEMENTS / 9) ** 0.5), np.ones((1, 1, 3, 3), np.int32)
    for size, count in ((side, 0), (side + 1, 1)):
        at = windows((size, size), (3, 3), pads=[1, 1, 1, 1])
        text = jax.jit(convolution, static_argnums=(2, 3)).lower(jax.ShapeDtypeStruct((1, 1, size, size), np.int32), w, at, 1).as_text()
        assert text.count("stablehlo.convolution") == count


@each("w, group", [(SUMMED, 3), (MULTIPLIED, 1)])
def test_derivatives_are_those_of_one_operation(w: Any, group: int) -> None:
    def slopes(function: Any) -> Any:
        def total(x: Any, w: Any) -> Any:
            return jnp.sum(jnp.sin(function(x, w, AT, group)))

        along = jax.jvp(lambda x: total(x, w), (X,), (X,))[1]
        return *jax.grad(total, (0, 1))(X, w), jax.jit(jax.hessian(total))(X, w), along

    for found, wanted in zip(slopes(convolution), slopes(plain), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)


@each("w, group", [(SUMMED, 3), (MULTIPLIED, 1)])
def test_the_backward_pass_keeps_both_operands_and_has_one_operation_for_each(w: Any, group: int) -> None:
    y, backward = jax.vjp(lambda x, w: convolution(x, w, AT, group), X, w)
    assert sorted(kept.shape for kept in jax.tree.leaves(backward)) == sorted([X.shape, w.shape])
    assert _convolutions(backward, y, "cpu") == 2
    assert _convolutions(jax.vjp(lambda x: convolution(x, jnp.asarray(w), AT, group), X)[1], y, "cpu") == 1  # the kernels are constants
