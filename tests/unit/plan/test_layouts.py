"""A value that stays lies as its first product's plan wants it: programs and products that share it agree on that, or pay."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import pytest

from tests.golden.clean_hlo import clean_hlo
from tests.unit.cost.machines import BOW, work
from tests.unit.sim.toy import MACHINE as SMALL
from tests.unit.sim.toy import NUM_TILES, Host, program, superstep
from tilestep.cost import relaid
from tilestep.machine import load_machine
from tilestep.plan import Program, lower
from tilestep.plan.products.conv import plan_convolution
from tilestep.plan.products.matmul import plan_dot
from tilestep.plan.steps import Superstep
from tilestep.program import parse_hlo

MACHINE = load_machine("bow-2000")
DOT = {"lhs_contracting_dims": "{1}", "rhs_contracting_dims": "{0}"}


def planned(function: Callable[..., Any], *arguments: Any) -> Program:
    """A function as the planner has it."""
    return lower(parse_hlo(clean_hlo(jax.jit(function).lower(*arguments))), MACHINE, name="f", num_ipus=1)


def f32(*dims: int) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(dims, jnp.float32)


def products(found: Program) -> list[Superstep]:
    return [node for node in found.body.nodes if isinstance(node, Superstep) and node.family == "matmul"]


def test_a_layout_says_into_how_many_parts_each_dimension_is_cut() -> None:
    cost = plan_dot(work("dot", "f32[64,512] f32[512,2048]", "f32[64,2048]", resident=(False, True), **DOT), BOW)
    left, right = cost.layouts
    assert left.split(" on ")[1] == right.split(" on ")[1]  # tiles
    assert left.startswith("0 in ")
    assert right.startswith("0 in ")
    # What is added over is the same on both sides.
    assert left.split(", ")[1].split(" on ")[0].removeprefix("1") == right.split(", ")[0].removeprefix("0")


def test_a_transposed_reader_wants_another_layout_unless_both_are_cut_alike() -> None:
    forward = plan_dot(work("dot", "f32[64,512] f32[512,2048]", "f32[64,2048]", resident=(False, True), **DOT), BOW)
    back = plan_dot(
        work("dot", "f32[64,2048] f32[512,2048]", "f32[64,512]", resident=(False, True), lhs_contracting_dims="{1}",
             rhs_contracting_dims="{1}"), BOW
    )  # fmt: skip
    assert forward.layouts[1] != back.layouts[1]


def test_equal_products_agree_and_move_nothing_more() -> None:
    def twice(w: jax.Array, x: jax.Array, y: jax.Array) -> tuple[jax.Array, jax.Array]:
        return x @ w, y @ w

    first, second = products(planned(twice, f32(512, 2048), f32(64, 512), f32(64, 512)))
    assert first.exchange_bytes == second.exchange_bytes
    assert first.compute_cycles == second.compute_cycles


def test_a_product_that_wants_another_layout_gets_the_value_sent() -> None:
    def there_and_back(w: jax.Array, x: jax.Array) -> jax.Array:
        return jnp.sin(x @ w) @ w.T

    def two_values(w: jax.Array, v: jax.Array, x: jax.Array) -> jax.Array:
        return jnp.sin(x @ w) @ v.T

    shared = products(planned(there_and_back, f32(512, 2048), f32(64, 512)))
    apart = products(planned(two_values, f32(512, 2048), f32(512, 2048), f32(64, 512)))
    assert shared[0] == replace(apart[0], name=shared[0].name, scope=shared[0].scope)
    assert shared[1].exchange_bytes > apart[1].exchange_bytes
    total = [sum(step.compute_cycles + step.exchange_cycles + step.sync_cycles for step in steps) for steps in (shared, apart)]
    assert total[0] > total[1]


def test_a_kernel_and_its_gradient_s_reader_differ_by_their_labels() -> None:
    forward = plan_convolution(
        work("convolution", "f16[16,28,28,64] f16[3,3,64,64]", "f16[16,28,28,64]", resident=(False, True),
             window="{size=3x3 pad=1_1x1_1}", dim_labels="b01f_01io->b01f"), BOW
    )  # fmt: skip
    back = plan_convolution(
        work("convolution", "f16[16,28,28,64] f16[3,3,64,64]", "f16[16,28,28,64]", resident=(False, True),
             window="{size=3x3 pad=1_1x1_1 rhs_reversal=1x1}", dim_labels="b01f_01oi->b01f"), BOW
    )  # fmt: skip
    assert forward.layouts[0] == ""  # images move
    assert forward.layouts[1].endswith(" of b01f_01io->b01f")
    assert forward.layouts[1] != back.layouts[1]


def laid_out(found: Program, layout: str) -> Program:
    first, *rest = found.arguments
    return replace(found, arguments=(replace(first, layout=layout), *rest))


STEP = program(superstep(50, 20, 10), name="step", takes=(200, 30), gives=(200, 4), donates={0: 0})
EVALUATE = program(superstep(7, 3, 1), name="evaluate", takes=(200, 30), gives=(4,))


@pytest.mark.parametrize(("layout", "pays"), [("rows", False), ("columns", True), ("", False)])
def test_what_one_program_of_a_group_leaves_another_lays_out_as_it_wants(layout: str, pays: bool) -> None:
    def cycles(evaluate: Program) -> int:
        host = Host()
        state, _ = host.run(laid_out(STEP, "rows"), host.put(200), host.put(30), group=("g", 1))
        host.run(evaluate, state, host.put(30), group=("g", 2))
        state, _ = host.run(laid_out(STEP, "rows"), state, host.put(30), group=("g", 3))
        host.run(evaluate, state, host.put(30), group=("g", 4))
        return host.system.end_cycle

    price = relaid(200, SMALL.ipu)
    assert price.exchange_bytes == 200 // NUM_TILES
    assert cycles(laid_out(EVALUATE, layout)) - cycles(EVALUATE) == (2 * price.cycles if pays else 0)


def test_a_program_that_takes_a_value_over_keeps_it_in_its_own_layout() -> None:
    def cycles(second: str) -> int:
        host = Host()
        state, _ = host.run(laid_out(STEP, "rows"), host.put(200), host.put(30), group=("g", 1))
        other = laid_out(replace(STEP, name="other"), second)
        for entry in (2, 3, 4):
            state, _ = host.run(other, state, host.put(30), group=("g", entry))
        return host.system.end_cycle

    assert cycles("columns") - cycles("rows") == relaid(200, SMALL.ipu).cycles


def test_what_streams_in_comes_in_any_layout() -> None:
    def cycles(layout: str) -> int:
        host = Host()
        value = host.put(200)
        for _ in range(2):
            host.run(laid_out(EVALUATE, layout), value, host.put(30))
        return host.system.end_cycle

    assert cycles("rows") == cycles("columns")
