"""Products of a stretch of code have options of their own, where an IPU is emulated."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import jaxlib
import numpy as np
import pytest

from tilestep.errors import SettingsError
from tilestep.machine import load_machine
from tilestep.options import PlanOptions
from tilestep.pjrt.jax_private.versions import parse
from tilestep.pjrt.programs.planning import plan_for
from tilestep.plan import Program, Superstep
from tilestep.plan.steps import leaves
from tilestep.profiling.plugin import initialize
from tilestep.train import tuned

MACHINE = load_machine("m2000", num_ipus=1, num_tiles=64)
HALVES = jax.ShapeDtypeStruct((256, 256), np.float16)
IMAGES = jax.ShapeDtypeStruct((4, 16, 16, 32), np.float16)
KERNELS = jax.ShapeDtypeStruct((3, 3, 32, 32), np.float16)

LOSES_OPTIONS_OF_CONVOLUTIONS = pytest.mark.xfail(
    parse(jaxlib.__version__) >= (0, 12, 0),
    reason="where XLA:CPU of jaxlib 0.12 reorders a convolution's dimensions, as in most gradients, it drops frontend attributes",
)


def planned(function: Callable[..., Any], *arguments: Any, options: PlanOptions | None = None) -> Program:
    initialize()
    lowered = jax.jit(function).trace(*arguments).lower(lowering_platforms=("ipu",))
    return plan_for(MACHINE, lowered, options=options)


def supersteps(program: Program) -> list[Superstep]:
    return [leaf for leaf in leaves(program.body) if isinstance(leaf, Superstep)]


def cycles(program: Program, family: str = "matmul") -> list[int]:
    return [leaf.compute_cycles for leaf in supersteps(program) if leaf.family == family]


def multiply(x: Any, y: Any) -> Any:
    return x @ y


def convolve(x: Any, y: Any) -> Any:
    return jax.lax.conv_general_dilated(x, y, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))


def loss(product: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    def function(x: Any, y: Any) -> Any:
        with tuned(**options):
            z = product(x, y)
        return jnp.sum(jnp.tanh(product(z, y)).astype(jnp.float32) ** 2)

    return function


@pytest.mark.slow
@pytest.mark.parametrize(
    ("product", "family", "shapes"),
    [
        (multiply, "matmul", (HALVES, HALVES)),
        pytest.param(convolve, "convolution", (IMAGES, KERNELS), marks=LOSES_OPTIONS_OF_CONVOLUTIONS),
    ],
)
def test_products_of_the_gradient_have_the_options_of_the_product(
    product: Callable[..., Any], family: str, shapes: tuple[Any, ...]
) -> None:
    def all_cycles(**options: Any) -> list[int]:
        return sorted(cycles(planned(jax.grad(loss(product, **options), argnums=(0, 1)), *shapes), family))

    plain, tuned_ = all_cycles(partials_type="float"), all_cycles(partials_type="half")
    everywhere = sorted(
        cycles(
            planned(
                jax.grad(loss(product, available_memory_proportion=0.6), argnums=(0, 1)), *shapes, options=PlanOptions(partials_type="half")
            ),
            family,
        )
    )
    assert len(plain) == len(tuned_) == 6
    assert plain != everywhere
    changed = [count for count in tuned_ if tuned_.count(count) != plain.count(count)]
    assert len([count for count in changed if count in everywhere]) >= 3  # forward, and both of the gradient
    assert sum(everywhere) < sum(tuned_) < sum(plain)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, r"^tuned\(\) has neither available_memory_proportion nor partials_type: give one$"),
        ({"available_memory_proportion": 0}, "ipu_available_memory_proportion is 0.0: it must be more than 0 and at most 1"),
        ({"available_memory_proportion": 1.1}, "it must be more than 0 and at most 1"),
        ({"available_memory_proportion": "all"}, "ipu_available_memory_proportion is 'all': it must be a number"),
        ({"partials_type": "double"}, "ipu_partials_type is 'double': it must be 'float' or 'half'"),
    ],
)
def test_wrong_options_are_refused_at_once(options: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingsError, match=message), tuned(**options):
        pass
