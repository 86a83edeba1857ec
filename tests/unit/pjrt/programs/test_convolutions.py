"""Convolutions in loops: on XLA:CPU with channels last, and with the values of the program as it was."""

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest
from jax import lax
from jax._src.compiler import get_compile_options

from tilestep.pjrt.jax_private import compat
from tilestep.pjrt.programs.convolutions import quicken_convolutions

_jax: Any = jax
_lax: Any = lax

OPTIONS: dict[str, dict[str, Any]] = {
    "plain": {"padding": "VALID"},
    "strides": {"window_strides": (2, 1), "padding": [(1, 0), (2, 1)]},
    "dilations": {"lhs_dilation": (1, 2), "rhs_dilation": (2, 1), "padding": [(0, 1), (2, 0)]},
}


def numbers(*shape: int) -> Any:
    return np.random.default_rng(sum(shape)).uniform(-1, 1, shape).astype(np.float32)


def quickened(function: Callable[..., Any], *arguments: Any) -> tuple[int, str, list[Any]]:
    """(how many convolutions were written anew, the program, what it gives)."""
    text = _jax.jit(function).lower(*arguments).as_text()
    devices = _jax.devices("cpu")[:1]
    with compat.make_context() as context:
        module = compat.parse_program(text.encode(), context)
        count = quicken_convolutions(module)
        module.operation.verify()
        options = get_compile_options(1, 1, device_assignment=np.array([[0]]))
        executable = compat.compile_module(devices[0].client, module, devices, options, [])
        written = str(module)
    inputs = [compat.put(np.asarray(a), devices[0], "device") for a in _jax.tree.leaves(arguments)]
    return count, written, [np.asarray(column[0]) for column in executable.execute_sharded(inputs).disassemble_into_single_device_arrays()]


@pytest.mark.parametrize("layout", [("NCHW", "OIHW", "NCHW"), ("NHWC", "HWIO", "NHWC"), ("CHWN", "IHWO", "NHWC")])
@pytest.mark.parametrize("name", OPTIONS)
def test_a_loop_has_the_same_values_and_all_channels_last(layout: tuple[str, str, str], name: str) -> None:
    options = {"window_strides": (1, 1), **OPTIONS[name]}
    sizes = dict(zip("NCHW", (3, 4, 9, 8), strict=True)), dict(zip("OIHW", (6, 4, 3, 2), strict=True))
    data, kernel = (numbers(*(size[d] for d in order)) for size, order in zip(sizes, layout[:2], strict=True))

    def loop(kernel: Any, data: Any) -> Any:
        def loss(kernel: Any) -> Any:
            return (_lax.conv_general_dilated(data, kernel, dimension_numbers=layout, **options) ** 2).sum()

        def step(kernel: Any, _: Any) -> Any:
            value, gradient = _jax.value_and_grad(loss)(kernel)
            return kernel - 1e-3 * gradient, value

        return _lax.scan(step, kernel, length=3)

    count, written, found = quickened(loop, kernel, data)
    assert count == (1 if layout[0] == "NHWC" else 2)  # the gradient by a kernel is never in the quick order
    assert written.count("dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]") == 2
    for ours, theirs in zip(found, _jax.tree.leaves(_jax.jit(loop)(kernel, data)), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)


def test_what_xla_sees_by_itself_and_other_dtypes_stay() -> None:
    data, kernel = numbers(2, 3, 6, 5), numbers(3, 3, 2, 2)
    assert quickened(lambda x, w: _lax.conv(x, w, (1, 1), "SAME"), data, kernel)[0] == 0

    def loop(x: Any, w: Any) -> Any:
        return _lax.fori_loop(0, 2, lambda _, x: _lax.conv(x, w, (1, 1), "SAME"), x)

    assert quickened(loop, data, kernel)[0] == 1
    assert quickened(loop, data.astype(np.int32), kernel.astype(np.int32))[0] == 0

    def without_window(x: Any, w: Any) -> Any:
        return _lax.fori_loop(0, 2, lambda _, x: _lax.conv_general_dilated(x, w, (), (), dimension_numbers=("CN", "OI", "CN")), x)

    assert quickened(without_window, numbers(3, 2), numbers(3, 3))[0] == 0
