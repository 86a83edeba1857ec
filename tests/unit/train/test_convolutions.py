"""Convolutions in loops: with channels last, and the values of the function as it was."""

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest

from tilestep.train.convolutions import ConvolvingProgram, has_slow_convolutions, with_quick_convolutions

_jax: Any = jax
lax: Any = jax.lax

LAYOUTS = [("NCHW", "OIHW", "NCHW"), ("NHWC", "HWIO", "NHWC"), ("CHWN", "IHWO", "CHWN"), ("NCHW", "HWIO", "NHWC")]
OPTIONS: dict[str, dict[str, Any]] = {
    "plain": {},
    "strides": {"window_strides": (2, 1), "padding": [(1, 0), (2, 1)]},
    "dilations": {"padding": [(0, 1), (2, 0)], "lhs_dilation": (1, 2), "rhs_dilation": (2, 1)},
    "groups": {"feature_group_count": 2},
}


def numbers(*shape: int) -> Any:
    return np.random.default_rng(sum(shape)).uniform(-1, 1, shape).astype(np.float32)


def arrays(layout: tuple[str, str, str], groups: int) -> tuple[Any, Any]:
    data, kernel = dict(zip("NCHW", (3, 4, 9, 8), strict=True)), dict(zip("OIHW", (6, 4 // groups, 3, 2), strict=True))
    return numbers(*(data[d] for d in layout[0])), numbers(*(kernel[d] for d in layout[1]))


def convolutions(function: Callable[..., Any], *args: Any) -> list[Any]:
    """The dimension numbers of a function's convolutions."""
    found: list[Any] = []

    def search(jaxpr: Any) -> None:
        for equation in jaxpr.eqns:
            if equation.primitive.name == "conv_general_dilated":
                found.append(equation.params["dimension_numbers"])
            for value in equation.params.values():
                inner = getattr(value, "jaxpr", value)
                if hasattr(inner, "eqns"):
                    search(inner)

    search(_jax.make_jaxpr(function)(*args).jaxpr)
    return found


@pytest.mark.parametrize(
    ("layout", "name"),
    [
        pytest.param(layout, name, marks=[] if number == LAYOUTS.index(layout) else pytest.mark.slow)
        for layout in LAYOUTS
        for number, name in enumerate(OPTIONS)
    ],
)
def test_a_loop_has_the_same_values_and_its_gradients_have_their_channels_last(layout: tuple[str, str, str], name: str) -> None:
    options = {"window_strides": (1, 1), "padding": "VALID", **OPTIONS[name]}
    data, kernel = arrays(layout, options.get("feature_group_count", 1))

    def step(kernel: Any, scale: Any) -> tuple[Any, Any]:
        def loss(kernel: Any, data: Any) -> Any:
            return (lax.conv_general_dilated(data, kernel, dimension_numbers=layout, **options) ** 2).sum()

        value, (by_kernel, by_data) = _jax.value_and_grad(loss, (0, 1))(kernel, data * scale)
        return kernel - 1e-3 * by_kernel, (value, by_data)

    def loop(kernel: Any, scales: Any) -> Any:
        return lax.scan(step, kernel, scales)

    scales = np.asarray([1, 2, 0.5], np.float32)
    expected, found = _jax.jit(loop)(kernel, scales), _jax.jit(with_quick_convolutions(loop))(kernel, scales)
    _jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5), found, expected)
    assert has_slow_convolutions(_jax.make_jaxpr(loop)(kernel, scales))
    of_loop = convolutions(with_quick_convolutions(loop), kernel, scales)
    if name != "groups":  # the gradient by a kernel in groups has groups of batches, and stays as it is
        assert {tuple(map(tuple, each)) for each in of_loop} == {((0, 3, 1, 2), (3, 2, 0, 1), (0, 3, 1, 2))}


@pytest.mark.parametrize("kind", ["while", "cond", "jit in scan"])
def test_other_loops_and_branches_count_too(kind: str) -> None:
    data, kernel = arrays(LAYOUTS[0], 1)

    def convolved(data: Any) -> Any:
        return lax.conv(data, kernel[:4], (1, 1), "SAME")

    def function(data: Any, count: Any) -> Any:
        if kind == "while":
            return lax.while_loop(lambda state: state[0] < count, lambda state: (state[0] + 1, convolved(state[1])), (0, data))
        if kind == "cond":
            return lax.cond(count > 1, convolved, lambda data: data, data)
        return lax.scan(lambda data, _: (_jax.jit(convolved)(data), None), data, length=2)

    assert has_slow_convolutions(_jax.make_jaxpr(function)(data, 2))
    found, expected = with_quick_convolutions(function)(data, 2), function(data, 2)
    _jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5), found, expected)


def test_nothing_is_written_outside_of_loops_nor_with_channels_last_nor_of_other_dtypes() -> None:
    data, kernel = arrays(LAYOUTS[0], 1)
    assert not has_slow_convolutions(_jax.make_jaxpr(_jax.jit(lambda x: lax.conv(x, kernel, (1, 1), "SAME")))(data))
    last, right = arrays(LAYOUTS[1], 1)

    def loop(data: Any, kernel: Any, layout: Any) -> Any:
        return lax.scan(lambda c, _: (c, lax.conv_general_dilated(data, kernel, (1, 1), "SAME", dimension_numbers=layout)), 0, length=2)

    assert not has_slow_convolutions(_jax.make_jaxpr(lambda: loop(last, right, LAYOUTS[1]))())
    whole = data.astype(np.int32), kernel.astype(np.int32)
    assert not has_slow_convolutions(_jax.make_jaxpr(lambda: loop(*whole, LAYOUTS[0]))())


def test_a_choice_by_platform_is_no_branch() -> None:
    """In the program one side is left, in its place, where XLA's pass sees it."""
    data, kernel = arrays(LAYOUTS[0], 1)

    def chosen(data: Any) -> Any:
        return lax.platform_dependent(data, tpu=lambda data: data + 1, default=lambda data: lax.conv(data, kernel[:4], (1, 1), "SAME"))

    assert not has_slow_convolutions(_jax.make_jaxpr(chosen)(data))


def test_a_program_is_written_anew_where_its_convolutions_are_slow() -> None:
    def step(kernel: Any, x: Any) -> tuple[Any, Any]:
        value, gradient = _jax.value_and_grad(lambda kernel: (lax.conv(x, kernel, (1, 1), "SAME") ** 2).sum())(kernel)
        return kernel - 1e-5 * gradient, value

    def run(kernel: Any, elements: Any) -> Any:
        return lax.scan(step, kernel, elements)

    kernel, elements = numbers(4, 3, 3, 3), numbers(5, 2, 3, 8, 8)
    expected, program = _jax.jit(run)(kernel, elements), ConvolvingProgram(run, shardings=None)
    for _ in range(2):  # chosen, and called again
        found = program(_jax.numpy.array(kernel), elements)
        _jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6), found, expected)
        assert program.has_quick_convolutions
    plain = ConvolvingProgram(lambda x: x * 2, shardings=None)
    assert plain(_jax.numpy.float32(3)) == 6
    assert not plain.has_quick_convolutions
