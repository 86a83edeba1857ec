"""Plans for machines that the process does not emulate."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tilestep.errors import TileMemoryError
from tilestep.machine import load_machine
from tilestep.pjrt.programs.planning import plan_for
from tilestep.pjrt.programs.sizes import refuse_too_large
from tilestep.plan import Program
from tilestep.plan.memory.liveness import check_fits
from tilestep.profiling.plugin import initialize

X = jax.ShapeDtypeStruct((16, 16), np.float32)
MACHINE = load_machine("bow-2000", num_ipus=1, num_tiles=16)


def planned(function: Any, *arguments: Any, resident: bool = False) -> Program:
    initialize()
    lowered = jax.jit(function).trace(*arguments).lower(lowering_platforms=("ipu",))
    return plan_for(MACHINE, lowered, resident=resident)


def test_arguments_that_are_not_used_are_left_out() -> None:
    plan = planned(lambda a, b, c: a + c, X, X, X)
    assert [argument.name for argument in plan.arguments] == ["a", "c"]
    assert plan.name == "jit__lambda"


def test_an_argument_that_stays_is_one_more_result() -> None:
    plan = planned(lambda a, b: (b.sum(), a @ b), X, X, resident=True)
    assert [result.argument for result in plan.results] == [None, None, 0, 1]
    assert [result.argument for result in planned(lambda a, b: (b.sum(), a @ b), X, X).results] == [None, None]


def test_an_argument_that_is_donated_stays_as_it_is() -> None:
    initialize()
    lowered = jax.jit(lambda a: a + 1, donate_argnums=0).trace(X).lower(lowering_platforms=("ipu",))
    assert [result.argument for result in plan_for(MACHINE, lowered, resident=True).results] == [None, 0]


def test_a_loop_that_depends_on_data_counts_once_and_says_so() -> None:
    plan = planned(lambda a: jax.lax.while_loop(lambda v: v.sum() > 1, lambda v: v / 2, a), X)
    assert plan.sites == ()
    assert any("runs as often as its data says: one trip assumed" in text for text in plan.assumptions)


def test_programs_that_call_python_are_planned_and_nothing_is_called() -> None:
    def never(_: Any) -> Any:
        raise AssertionError

    plan = planned(lambda a: jax.pure_callback(never, X, a) + 1, X)
    assert plan.fallback_ops == ()


def test_a_program_that_needs_lapack_is_planned() -> None:
    assert planned(jnp.linalg.cholesky, X).results[0].shape == "f32[16,16]"


def test_a_program_that_does_not_fit_says_so_when_asked() -> None:
    plan = planned(lambda a: a @ a, jax.ShapeDtypeStruct((4096, 4096), np.float32))
    with pytest.raises(TileMemoryError):
        check_fits(plan, MACHINE)


def test_a_program_with_an_array_that_xla_cannot_count_is_out_of_memory() -> None:
    with pytest.raises(TileMemoryError) as raised:
        planned(lambda x: x + 1, jax.ShapeDtypeStruct((1 << 31, 1 << 31), np.float32))
    assert raised.value.needed_bytes == 2**64 // 16  # the array on 16 tiles
    assert planned(lambda x: x + 1, jax.ShapeDtypeStruct((1 << 30, 1 << 30), np.float32)).memory.peak_bytes > 2**62 // 16


IPU = load_machine("bow-2000").ipu


def module(dtype: Any, *dims: int) -> Any:
    return jax.jit(lambda x: x + x).lower(jax.ShapeDtypeStruct(dims, dtype)).compiler_ir()


@pytest.mark.parametrize(
    ("dtype", "dims", "ipus", "needed"),
    [
        (jnp.float32, (1 << 31, 1 << 31), 1, "12,531,755,484,857,033"),  # 2^64 / 1,472, rounded up
        (jnp.float32, (1 << 31, 1 << 31), 4, "3,132,938,871,214,259"),
        (jnp.complex64, (1 << 60,), 1, "6,265,877,742,428,517"),  # 2^63 / 1,472
        (jnp.float32, (1 << 40, 1 << 40), 1, "3,285,124,509,822,361,887,789"),  # 2^82 / 1,472
    ],
)
def test_an_array_of_2_to_the_63_bytes_is_out_of_memory(dtype: Any, dims: tuple[int, ...], ipus: int, needed: str) -> None:
    with pytest.raises(jax.errors.JaxRuntimeError, match=f"^RESOURCE_EXHAUSTED: TileMemoryError: tile 0 needs {needed} B in superstep"):
        refuse_too_large(module(dtype, *dims), ipus, IPU)


def test_a_smaller_array_is_left_to_the_planner() -> None:
    refuse_too_large(module(jnp.float32, (1 << 61) - 1), 1, IPU)
    refuse_too_large(module(jnp.int8, 1 << 62), 1, IPU)
