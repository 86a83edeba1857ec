"""What a counted loop gets for nothing: a counter that nobody reads, and no other scalar."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax import lax

from tests.golden.clean_hlo import clean_hlo
from tests.golden.texts import clean, hlo_text, module_text
from tilestep.machine import load_machine
from tilestep.plan import lower
from tilestep.plan.passes.counters import without_counters
from tilestep.plan.steps import Loop, Node, Series, Superstep
from tilestep.program import Computation, parse_hlo

MACHINE = load_machine("bow-2000")
Function = Callable[[Any], Any]


def body_of(lines: str) -> Computation:
    """A body that carries an integer %i and another value."""
    text = "  %t = (s32[], s32[]) parameter(0)\n  %i = s32[] get-tuple-element(%t), index=0\n  %s = s32[] get-tuple-element(%t), index=1\n"
    return parse_hlo(module_text(text + "  %one = s32[] constant(1)\n" + lines)).entry


@pytest.mark.parametrize(
    "lines",
    [
        "  %next = s32[] add(%i, %one)\n  ROOT %r = (s32[], s32[]) tuple(%next, %s)",
        "  %next = s32[] add(%one, %i)\n  ROOT %r = (s32[], s32[]) tuple(%next, %s)",
        "  %next = s32[] subtract(%i, %one)\n  ROOT %r = (s32[], s32[]) tuple(%next, %s)",
        "  %two = s32[] add(%i, %one)\n  %next = s32[] add(%two, %one)\n  ROOT %r = (s32[], s32[]) tuple(%next, %s)",
    ],
    ids=["plus", "constant first", "minus", "unrolled"],
)
def test_a_counter_that_only_counts_goes(lines: str) -> None:
    body = without_counters(body_of(lines))
    assert body.root.operands == ("i", "s")
    assert "next" not in body.by_name


@pytest.mark.parametrize(
    "lines",
    [
        "  %next = s32[] multiply(%i, %one)\n  ROOT %r = (s32[], s32[]) tuple(%next, %s)",
        "  %next = s32[] subtract(%one, %i)\n  ROOT %r = (s32[], s32[]) tuple(%next, %s)",
        "  %next = s32[] add(%i, %i)\n  ROOT %r = (s32[], s32[]) tuple(%next, %s)",
        "  %next = s32[] add(%i, %s)\n  ROOT %r = (s32[], s32[]) tuple(%next, %s)",
        "  %next = s32[] add(%i, %one)\n  %sum = s32[] add(%s, %i)\n  ROOT %r = (s32[], s32[]) tuple(%next, %sum)",
        "  %next = s32[] add(%i, %one)\n  ROOT %r = (s32[], s32[]) tuple(%next, %next)",
        "  ROOT %r = (s32[], s32[]) tuple(%s, %i)",
    ],
    ids=["product", "alternating", "doubling", "plus what is carried", "read", "carried twice", "swapped"],
)
def test_any_other_scalar_stays(lines: str) -> None:
    assert without_counters(body_of(lines)) == body_of(lines)


@pytest.mark.parametrize(("name", "goes"), [("train_loop", True), ("scan", False)])
def test_a_counter_that_the_body_reads_stays(name: str, goes: bool) -> None:
    module = clean(parse_hlo(hlo_text(name)))
    (loop,) = [i for i in module.entry.instructions if i.opcode == "while"]
    body = module.computations[loop.called("body")[0]]
    assert (without_counters(body) != body) is goes


def logistic(trips: int) -> Function:
    return lambda x: lax.fori_loop(0, trips, lambda _, c: 3.7 * c * (1 - c), x)


def floats(trips: int) -> Function:
    return lambda x: lax.fori_loop(0, trips, lambda _, c: c + 0.1, x)


def integers(trips: int) -> Function:
    return lambda x: lax.fori_loop(0, trips, lambda _, c: c * 1_664_525 + 1_013_904_223, x.astype(jnp.uint32))


def nested(trips: int) -> Function:
    return lambda x: lax.fori_loop(0, 3, lambda _, c: lax.fori_loop(0, trips, lambda _, d: jnp.sin(d) + 1, c), x)


def cycles(node: Node) -> int:
    """Of a program without data-dependent control flow."""
    match node:
        case Superstep():
            return node.compute_cycles + node.exchange_cycles + node.sync_cycles + node.overhead_cycles
        case Series(nodes=nodes):
            return sum(map(cycles, nodes))
        case Loop(body=body, trips=int(trips)):
            return trips * cycles(body)
        case _:
            raise AssertionError(node)


@pytest.mark.parametrize("function", [logistic, floats, integers, nested])
def test_a_scalar_costs_in_each_trip_what_an_array_of_one_element_does(function: Callable[[int], Function]) -> None:
    def of(trips: int, *dims: int) -> int:
        lowered = jax.jit(function(trips)).lower(jax.ShapeDtypeStruct(dims, jnp.float32))
        return cycles(lower(parse_hlo(clean_hlo(lowered)), MACHINE, name="loop", num_ipus=1).body)

    assert of(1000) == of(1000, 1)
    assert of(2000) - of(1000) == of(2000, 1) - of(1000, 1) > 1000 * 100
