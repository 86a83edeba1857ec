"""Plans for machines that the process does not emulate."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tilestep.errors import TileMemoryError
from tilestep.machine import load_machine
from tilestep.pjrt.plugin import initialize
from tilestep.pjrt.programs.planning import Residence, plan_for
from tilestep.plan import Program

X = jax.ShapeDtypeStruct((16, 16), np.float32)
MACHINE = load_machine("bow-2000", num_ipus=1, num_tiles=16)


def planned(function: Any, *arguments: Any, residence: Residence | None = None) -> Any:
    initialize()
    lowered = jax.jit(function).trace(*arguments).lower(lowering_platforms=("ipu",))
    return plan_for(MACHINE, lowered, residence=residence)


def shapes(program: Program) -> tuple[list[str], list[str]]:
    return [argument.shape for argument in program.arguments], [result.shape for result in program.results]


def test_arguments_that_are_not_used_are_left_out() -> None:
    plan = planned(lambda a, b, c: a + c, X, X, X)
    assert plan.arguments == (0, 2)
    assert plan.program.name == "jit__lambda"


def test_a_kept_argument_is_one_more_result_or_is_replaced() -> None:
    plan = planned(lambda a, b: (b.sum(), b + 1), X, X, residence=Residence(kept={0: None, 1: 1}))
    assert plan.arguments == (1,)  # what is neither used nor replaced is not in the program
    assert [result.argument for result in plan.program.results] == [None, 0]
    plan = planned(lambda a, b: (b.sum(), a @ b), X, X, residence=Residence(kept={0: None, 1: 1}))
    assert [result.argument for result in plan.program.results] == [None, 1, 0]
    plan = planned(lambda a, b: (b.sum(), b + 1), X, X, residence=Residence(kept={0: 1}))
    assert (plan.arguments, [result.argument for result in plan.program.results]) == ((1, 0), [None, 1])
    assert shapes(plan.program) == (["f32[16,16]"] * 2, ["f32[]", "f32[16,16]"])


def test_a_result_that_does_not_exist_replaces_nothing() -> None:
    with pytest.raises(ValueError, match=r"keeps an argument as result 2: it has results 0 to 0"):
        planned(lambda a: a + 1, X, residence=Residence(kept={0: 2}))


def test_all_that_is_not_kept_may_be_in_the_hosts_memory() -> None:
    plan = planned(lambda a, b: (a + b, b.sum()), X, X, residence=Residence(kept={0: 0}, in_host_memory=True))
    assert [argument.on_host for argument in plan.program.arguments] == [False, True]
    assert [result.on_host for result in plan.program.results] == [False, True]


def test_a_plan_can_be_made_again_from_its_source() -> None:
    plan = planned(lambda a, b: (a @ b, b.sum()), X, X, residence=Residence(kept={0: 0}))
    again, _ = plan.source.detail()
    assert again == plan.program
    same = planned(lambda a, b: (a @ b, b.sum()), X, X, residence=Residence(kept={0: 0}))
    other = planned(lambda a, b: (a @ b, b.sum()), X, X)
    assert same.source.fingerprint == plan.source.fingerprint != other.source.fingerprint


def test_a_loop_that_depends_on_data_counts_once_and_says_so() -> None:
    plan = planned(lambda a: jax.lax.while_loop(lambda v: v.sum() > 1, lambda v: v / 2, a), X)
    assert plan.program.sites == ()
    assert any("runs as often as its data says: one trip assumed" in text for text in plan.program.assumptions)


def test_programs_that_call_python_are_planned_and_nothing_is_called() -> None:
    def never(_: Any) -> Any:
        raise AssertionError

    plan = planned(lambda a: jax.pure_callback(never, X, a) + 1, X)
    assert plan.program.fallback_ops == ()


def test_a_program_that_needs_lapack_is_planned() -> None:
    assert planned(jnp.linalg.cholesky, X).program.results[0].shape == "f32[16,16]"


def test_a_program_that_does_not_fit_says_so_when_asked() -> None:
    plan = planned(lambda a: a @ a, jax.ShapeDtypeStruct((4096, 4096), np.float32))
    with pytest.raises(TileMemoryError):
        plan.require_fits()


def test_a_program_with_an_array_that_xla_cannot_count_is_out_of_memory() -> None:
    with pytest.raises(TileMemoryError) as raised:
        planned(lambda x: x + 1, jax.ShapeDtypeStruct((1 << 31, 1 << 31), np.float32))
    assert raised.value.needed_bytes == 2**64 // 16  # the array on 16 tiles
    assert planned(lambda x: x + 1, jax.ShapeDtypeStruct((1 << 30, 1 << 30), np.float32)).program.memory.peak_bytes > 2**62 // 16
