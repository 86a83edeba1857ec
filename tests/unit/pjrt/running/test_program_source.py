"""The fingerprint of a program: equal for equal code, options and machine, wherever it stands, and for nothing else."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tilestep.machine import load_machine
from tilestep.options import PlanOptions
from tilestep.pjrt.running.program_source import ProgramSource
from tilestep.plan import Program

MACHINE = load_machine("bow-2000")


def lowered(function: Callable[..., Any], *arguments: Any) -> ProgramSource:
    compiled = jax.jit(function).trace(*arguments).lower(lowering_platforms=("cpu",))
    code = str(compiled.compiler_ir("stablehlo").operation.get_asm(enable_debug_info=True)).encode()
    hlo = compiled.compile().runtime_executable().hlo_modules()[0].as_serialized_hlo_module_proto()
    return ProgramSource(name="jit_f", code=code, num_replicas=1, num_partitions=4, hlo=hlo, options=PlanOptions(), machine=MACHINE)


def f(x: Any) -> Any:
    return jnp.sin(x) @ x


FIRST = f


def f(x: Any) -> Any:  # type: ignore[no-redef]  # the same a few lines below
    return jnp.sin(x) @ x


X = np.ones((8, 8), np.float32)
SOURCE = lowered(FIRST, X)


def test_programs_that_stand_elsewhere_have_equal_fingerprints_and_other_lines() -> None:
    other = lowered(f, X)
    assert other.code != SOURCE.code
    assert other.fingerprint == SOURCE.fingerprint
    assert other.lines != SOURCE.lines
    assert len(SOURCE.fingerprint) == 64
    assert replace(SOURCE, machine=load_machine("bow-2000"), options=PlanOptions()).fingerprint == SOURCE.fingerprint


@pytest.mark.parametrize(
    "other",
    [
        lowered(FIRST, np.ones((9, 9), np.float32)),
        lowered(lambda x: jnp.sin(x) @ x, X),
        replace(SOURCE, num_replicas=4, num_partitions=1),
        replace(SOURCE, options=PlanOptions(partials_type="half")),
        replace(SOURCE, machine=load_machine("bow-2000", num_tiles=4)),
        replace(SOURCE, machine=replace(MACHINE, sync_pattern="singlePipeline")),
    ],
)
def test_all_that_a_plan_depends_on_is_in_the_fingerprint(other: ProgramSource) -> None:
    assert other.fingerprint != SOURCE.fingerprint


def test_functions_of_the_process_are_not_in_the_fingerprint() -> None:
    def calls(function: Callable[..., Any]) -> ProgramSource:
        def g(x: Any) -> Any:
            return jax.pure_callback(function, jax.ShapeDtypeStruct(x.shape, x.dtype), x)

        return lowered(g, X)

    assert calls(lambda x: x + 1).fingerprint == calls(lambda x: x - 1).fingerprint


def test_a_source_gives_its_program_and_where_its_values_live() -> None:
    program, detail = SOURCE.detail()
    assert isinstance(program, Program)
    assert (program.name, program.num_ipus) == ("jit_f", 4)
    assert SOURCE.detail(SOURCE.text) == (program, detail)
    assert {life.name for life in detail.lives} >= {"x"}
    assert detail.steps[0] == "program start"
