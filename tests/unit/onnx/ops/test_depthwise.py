"""Convolutions of each channel by itself: a sum on the CPU, one operation elsewhere and in the backward pass."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tests.together import each
from tests.unit.onnx.ops.agree import agrees_with_onnxruntime, values
from tests.unit.onnx.ops.functions import function_of
from tilestep.onnx.ops.depthwise import MOST_TAPS, depthwise, plain
from tilestep.onnx.ops.windows import Windows, windows

X, W = values(2, 3, 5, 4), values(6, 1, 3, 2, seed=1)
AT = windows((5, 4), (3, 2), strides=[2, 1], dilations=[1, 2], pads=[1, 0, 2, 1])
CASES: list[tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = [
    ((2, 3, 7, 6), (3, 1, 3, 2), {"strides": [2, 1], "dilations": [1, 2], "pads": [1, 0, 2, 1]}),
    ((1, 2, 9), (6, 1, 4), {"auto_pad": "SAME_UPPER", "strides": [2]}),  # each channel makes three
    ((1, 2, 4, 5, 3), (2, 1, 2, 3, 1), {"strides": [2, 1, 1]}),
]


def _convolutions(function: Any, x: Any, platform: str) -> int:
    """How many convolutions the program of a platform has."""
    return jax.jit(function).trace(x).lower(lowering_platforms=(platform,)).as_text().count("stablehlo.convolution")


def _of_each_channel(x: Any, w: Any) -> Any:
    return depthwise(x, w, AT)


def _in_one(x: Any, w: Any) -> Any:
    return plain(x, w, AT, X.shape[1])


@each("case", CASES)
def test_the_sum_is_onnxruntimes(case: tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]) -> None:
    x, w, attributes = case
    agrees_with_onnxruntime("Conv", [values(*x), values(*w, seed=1), values(w[0], seed=2)], version=11, group=x[1], **attributes)


@each("platform, count", [("cpu", 0), ("ipu", 1), ("tpu", 1)])
def test_only_the_cpu_has_a_sum(platform: str, count: int) -> None:
    assert _convolutions(lambda x: depthwise(x, W, AT), X, platform) == count


@each("shape, group, count", [((4, 1, 3, 3), 4, 0), ((4, 2, 3, 3), 2, 1), ((4, 1, 1, MOST_TAPS + 1), 4, 1)])
def test_other_groups_and_large_windows_stay_one_operation(shape: tuple[int, ...], group: int, count: int) -> None:
    x = values(1, 4, 3, MOST_TAPS + 1)
    assert _convolutions(function_of("Conv", [x, values(*shape, seed=1)], version=11, group=group), x, "cpu") == count


def test_derivatives_are_those_of_one_operation() -> None:
    def slopes(function: Any) -> Any:
        def total(x: Any, w: Any) -> Any:
            return jnp.sum(jnp.sin(function(x, w)))

        along = jax.jvp(lambda x: total(x, W), (X,), (X,))[1]
        return *jax.grad(total, (0, 1))(X, W), jax.jit(jax.hessian(total, 1))(X, W), along

    for found, wanted in zip(slopes(_of_each_channel), slopes(_in_one), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)


def test_the_backward_pass_keeps_both_operands_and_has_one_operation_for_each() -> None:
    y, backward = jax.vjp(_of_each_channel, X, W)
    assert sorted(kept.shape for kept in jax.tree.leaves(backward)) == sorted([X.shape, W.shape])
    assert _convolutions(backward, y, "cpu") == 2
    assert _convolutions(jax.vjp(lambda x: depthwise(x, W, AT), X)[1], y, "cpu") == 1  # the kernel is a constant


def test_halves_are_added_as_floats_and_integers_exactly() -> None:
    at = Windows(sizes=(3,), kernel=(3,), strides=(1,), dilations=(1,), pads=((0, 0),), outputs=(1,))
    half = depthwise(np.array([[[2048, 1, 1]]], np.float16), np.ones((1, 1, 3), np.float16), at)
    assert (half.dtype, half.item()) == (np.float16, 2050)  # halves have no 2049, so their sum stays 2048
    whole = depthwise(np.array([[[1 << 24, 1, 0]]], np.int32), np.ones((1, 1, 3), np.int32), at)
    assert (whole.dtype, whole.item()) == (np.int32, (1 << 24) + 1)  # no float32


def test_a_batch_of_kernels_is_mapped() -> None:
    found = jax.vmap(_of_each_channel, (None, 0))(X, np.stack([W, 2 * W]))
    np.testing.assert_allclose(found, np.stack([_in_one(X, W), 2 * _in_one(X, W)]), rtol=1e-5, atol=1e-5)
