"""Multiply-adds that a function cannot avoid, counted by hand."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from tilestep.machine import load_machine
from tilestep.planner.products import least_macs, macs_per_cycle


def macs(function: Any, *shapes: tuple[int, ...]) -> int:
    return least_macs(traced(function, *shapes))


def traced(function: Any, *shapes: tuple[int, ...], dtype: Any = np.float32) -> Any:
    return jax.make_jaxpr(function)(*(jax.ShapeDtypeStruct(shape, dtype) for shape in shapes)).jaxpr


def test_products_are_counted_with_their_batch() -> None:
    assert macs(jnp.dot, (3, 4), (4, 5)) == 3 * 4 * 5
    assert macs(lambda a, b: jnp.einsum("bij,bjk->bik", a, b), (2, 3, 4), (2, 4, 5)) == 2 * 3 * 4 * 5
    assert macs(jnp.add, (3, 4), (3, 4)) == 0


def test_calls_and_loops_are_looked_into() -> None:
    assert macs(jax.jit(jnp.dot), (3, 4), (4, 5)) == 60
    assert macs(jax.checkpoint(jnp.dot), (3, 4), (4, 5)) == 60
    assert macs(lambda a, b: lax.scan(lambda carry, _: (carry @ b, None), a, None, length=7)[0], (3, 4), (4, 4)) == 7 * 3 * 4 * 4
    assert macs(lambda a, b: lax.while_loop(lambda x: x.sum() < 1, lambda x: x @ b, a), (3, 4), (4, 4)) == 0  # perhaps no trip
    assert macs(lambda a, b: lax.cond(a.sum() > 0, lambda: a @ b, lambda: a @ b @ b), (3, 4), (4, 4)) == 3 * 4 * 4


@pytest.mark.parametrize(
    ("padding", "stride", "dilation", "groups"),
    [("VALID", 1, 1, 1), ("SAME", 1, 1, 1), ("SAME", 2, 1, 1), ("VALID", 1, 2, 1), ("SAME", 1, 1, 2)],
)
def test_convolutions_are_counted_without_their_padding(padding: str, stride: int, dilation: int, groups: int) -> None:
    """By brute force: a sum over ones counts the products that are not with padding."""

    def convolution(image: Any, kernel: Any) -> Any:
        dims = ("NCHW", "OIHW", "NCHW")
        return lax.conv_general_dilated(
            image, kernel, (stride,) * 2, padding, rhs_dilation=(dilation,) * 2, dimension_numbers=dims, feature_group_count=groups
        )

    shapes = (2, 4, 7, 6), (6, 4 // groups, 3, 2)
    assert macs(convolution, *shapes) == convolution(*(np.ones(shape, np.float32) for shape in shapes)).sum()


def test_the_peak_is_that_of_the_narrowest_floats() -> None:
    ipu = load_machine("bow-pod16").ipu
    assert macs_per_cycle(ipu, traced(jnp.dot, (3, 4), (4, 5))) == ipu.macs_per_cycle_float
    assert macs_per_cycle(ipu, traced(jnp.dot, (3, 4), (4, 5), dtype=np.float16)) == ipu.macs_per_cycle_half
    inside = jax.jit(lambda a, b: (a.astype(jnp.float16) @ b.astype(jnp.float16)).astype(jnp.float32))
    assert macs_per_cycle(ipu, traced(inside, (3, 4), (4, 5))) == ipu.macs_per_cycle_half
