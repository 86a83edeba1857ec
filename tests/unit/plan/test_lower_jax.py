"""What the planner makes of programs that JAX lowers: parts that add up, what is there once, and what stays whole."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax import lax

from tests.golden.clean_hlo import clean_hlo
from tilestep.machine import load_machine
from tilestep.plan import Program, lower
from tilestep.plan.steps import Branch, Loop, Node, Series, Superstep
from tilestep.program import parse_hlo

MACHINE = load_machine("bow-2000")
Function = Callable[..., Any]


def f32(*dims: int) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(dims, jnp.float32)


def of(dtype: Any, *dims: int) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(dims, dtype)


# What XLA:CPU has no code for, and expands: the family of the step that takes longest says that it has been left whole.
WHOLE: dict[str, tuple[Function, tuple[Any, ...], str]] = {
    "gradient of a max-pool": (
        lambda x, g: jax.vjp(lambda x: lax.reduce_window(x, -jnp.inf, lax.max, (1, 3, 3, 1), (1, 2, 2, 1), "SAME"), x)[1](g),
        (of(jnp.float16, 2, 56, 56, 64), of(jnp.float16, 2, 28, 28, 64)),
        "window",
    ),
    "random bits": (lambda k: lax.rng_bit_generator(k, (1024, 1024)), (of(jnp.uint32, 4),), "random"),
    "random numbers": (lambda: lax.rng_uniform(0.0, 1.0, (1024, 1024)), (), "random"),
    "top-k of halves": (lambda x: lax.top_k(x, 5), (of(jnp.float16, 64, 3000),), "sort"),
}


@pytest.mark.parametrize("name", WHOLE)
def test_what_an_ipu_has_a_library_for_stays_whole(name: str) -> None:
    function, arguments, family = WHOLE[name]
    program = lower(parse_hlo(clean_hlo(jax.jit(function).lower(*arguments))), MACHINE, name=name, num_ipus=1)
    steps = supersteps(program.body)
    longest = max(steps, key=lambda step: step.compute_cycles)
    assert longest.family == family
    assert longest.compute_cycles < 100_000
    assert {step.family for step in steps}.isdisjoint({"scatter", "rearrange"})


E4, E5, UNIT_E4 = jnp.float8_e4m3fn, jnp.float8_e5m2, jnp.float8_e4m3fnuz
FLOAT8: dict[str, tuple[Function, tuple[Any, ...], set[str]]] = {  # what is not a product: families of the other steps
    "to halves": (lambda a, b: lax.dot(a, b, preferred_element_type=jnp.float16), (of(UNIT_E4, 512, 768), of(UNIT_E4, 768, 512)), set()),
    "to floats, two formats": (
        lambda a, b: lax.dot(a, b, preferred_element_type=jnp.float32),
        (of(E4, 512, 768), of(E5, 768, 512)),
        set(),
    ),
    "to its own type": (lambda a, b: a @ b, (of(E4, 512, 768), of(E4, 768, 512)), {"elementwise"}),
    "heads": (
        lambda q, k: jnp.einsum("bqhd,bkhd->bhqk", q, k, preferred_element_type=jnp.float32),
        (of(E4, 2, 512, 4, 64), of(E4, 2, 512, 4, 64)),
        {"rearrange"},
    ),
    "convolution of what was cast": (
        lambda x, w: lax.conv_general_dilated(
            x.astype(UNIT_E4), w, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"), preferred_element_type=jnp.float16
        ),
        (of(jnp.float16, 2, 14, 14, 64), of(UNIT_E4, 3, 3, 64, 64)),
        {"elementwise"},
    ),
    "layers of a loop": (
        lambda x, ws: lax.scan(lambda h, w: (lax.dot(h.astype(E4), w, preferred_element_type=jnp.float16), None), x, ws)[0],
        (of(jnp.float16, 512, 512), of(E4, 5, 512, 512)),
        {"elementwise", "dynamic-slice"},
    ),
    "one weight in a loop": (
        lambda x, w: lax.fori_loop(0, 5, lambda _, h: lax.dot(h.astype(E5), w, preferred_element_type=jnp.float32), x),
        (of(jnp.float32, 512, 512), of(E4, 512, 512)),
        {"elementwise"},
    ),
}


@pytest.mark.parametrize("name", FLOAT8)
def test_products_of_8_bit_floats_are_what_the_author_wrote(name: str) -> None:
    """On an IPU that has them nothing but the author's own casts converts; on another each product converts its operands itself."""
    function, arguments, others = FLOAT8[name]
    module = parse_hlo(clean_hlo(jax.jit(function).lower(*arguments)))
    found = {machine: lower(module, load_machine(machine), name=name, num_ipus=1) for machine in ("c600", "bow-2000")}
    for program in found.values():
        steps = supersteps(program.body)
        assert {step.family for step in steps} - {"matmul", "convolution"} == others
        (product,) = [step for step in steps if step.family in ("matmul", "convolution")]
        assert product.codelet.split()[2].startswith("f8")
    assert any("added up in halves" in sentence for sentence in found["c600"].assumptions)
    assert not any("converted to f16" in sentence for sentence in found["c600"].assumptions)
    assert any("converted to f16" in sentence for sentence in found["bow-2000"].assumptions)


def test_an_argmax_counts_by_itself() -> None:
    text = clean_hlo(jax.jit(lambda x: x.argmax(-1)).lower(f32(1472, 1000)))
    program = lower(parse_hlo(text), MACHINE, name="argmax", num_ipus=1)
    assert "iota" in text
    assert [step.family for step in supersteps(program.body)] == ["reduce"]


def supersteps(node: Node) -> list[Superstep]:
    match node:
        case Superstep():
            return [node]
        case Series(nodes=nodes) | Branch(arms=nodes):
            return [step for inner in nodes for step in supersteps(inner)]
        case Loop(body=body):
            return supersteps(body)
        case _:
            return []


ROWS = MACHINE.ipu.num_tiles  # a matrix of so many rows of 256 floats has 1,024 bytes on each tile
MATRIX = jax.ShapeDtypeStruct((ROWS, 256), jnp.float32)
TILE = 1024


def lowered(function: Any, *arguments: Any, donate: tuple[int, ...] = ()) -> Program:
    text = clean_hlo(jax.jit(function, donate_argnums=donate).lower(*arguments))
    return lower(parse_hlo(text), MACHINE, name="program", num_ipus=1)


def test_a_donated_argument_and_its_result_are_one() -> None:
    def update(state: jax.Array, change: jax.Array) -> jax.Array:
        return state - 0.1 * change

    kept, apart = lowered(update, MATRIX, MATRIX, donate=(0,)).memory, lowered(update, MATRIX, MATRIX).memory
    assert (kept.resident_bytes, kept.transient_bytes) == (TILE, TILE)
    assert (apart.resident_bytes, apart.transient_bytes) == (0, 2 * TILE)


@pytest.mark.parametrize("trips", [2, 50])
def test_what_a_loop_carries_is_there_once(trips: int) -> None:
    def loop(x: jax.Array) -> jax.Array:
        return jax.lax.fori_loop(0, trips, lambda _, carried: jnp.sin(carried) * 2 + 1, x)

    memory = lowered(loop, MATRIX).memory
    assert TILE <= memory.transient_bytes <= TILE + 64  # the counter beside it


def test_parts_add_up_and_what_is_alive_is_named() -> None:
    def loss(weights: jax.Array, x: jax.Array) -> jax.Array:
        return jnp.sum(jnp.tanh(x @ weights) ** 2)

    weights = jax.ShapeDtypeStruct((256, 512), jnp.float32)
    memory = lowered(jax.grad(loss), weights, MATRIX).memory
    assert sum(size for _, size in memory.by_kind) == memory.peak_bytes
    assert sum(size for _, size in memory.alive) == memory.resident_bytes + memory.transient_bytes
    assert memory.peak_step
    assert {"weights", "x"} & {name for name, _ in memory.alive}
