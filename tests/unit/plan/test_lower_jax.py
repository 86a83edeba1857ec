"""Whatever JAX makes, the planner prices: real functions through XLA:CPU, each op family, with the fallbacks named."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.scipy import linalg as jsl
from jax.scipy import signal as jss
from jax.scipy import special as jsp

from tests.golden.clean_hlo import clean_hlo
from tilestep.machine import load_machine
from tilestep.plan import Program, lower
from tilestep.plan.steps import Branch, Loop, Node, Series, Superstep
from tilestep.program import parse_hlo

MACHINE = load_machine("bow-2000")
Function = Callable[..., Any]


def f32(*dims: int) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(dims, jnp.float32)


def i32(*dims: int) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(dims, jnp.int32)


def of(dtype: Any, *dims: int) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(dims, dtype)


UNARY = (
    "abs", "acos", "acosh", "asin", "asinh", "atan", "atanh", "cbrt", "ceil", "conj", "cos", "cosh", "deg2rad", "exp", "exp2",
    "expm1", "floor", "i0", "log", "log10", "log1p", "log2", "negative", "nan_to_num", "positive", "rad2deg", "reciprocal", "rint",
    "sign", "sin", "sinc", "sinh", "sqrt", "square", "tan", "tanh", "trunc", "isfinite", "isnan", "signbit", "frexp", "modf",
)  # fmt: skip
BINARY = (
    "add", "arctan2", "copysign", "divide", "equal", "floor_divide", "fmod", "heaviside", "hypot", "logaddexp", "logaddexp2",
    "maximum", "minimum", "mod", "multiply", "nextafter", "power", "remainder", "subtract", "true_divide",
)  # fmt: skip
REDUCTIONS = (
    "all", "any", "argmax", "argmin", "cumsum", "cumprod", "max", "mean", "median", "min", "nanmax", "nanmean", "nansum", "prod",
    "ptp", "std", "sum", "var", "count_nonzero",
)  # fmt: skip
SPECIAL = (
    "digamma", "entr", "erf", "erfc", "erfinv", "expit", "gammaln", "i0e", "i1e", "log_ndtr", "logit", "ndtr", "ndtri",
)  # fmt: skip

CASES: dict[str, tuple[Function, tuple[Any, ...]]] = {
    **{f"jnp.{name}": (getattr(jnp, name), (f32(8, 16),)) for name in UNARY},
    **{f"jnp.{name}": (getattr(jnp, name), (f32(8, 16), f32(8, 16))) for name in BINARY},
    **{f"jnp.{name}": (getattr(jnp, name), (f32(8, 16),)) for name in REDUCTIONS},
    **{f"jnp.{name} axis": ((lambda f: lambda x: f(x, axis=0))(getattr(jnp, name)), (f32(8, 16),)) for name in REDUCTIONS},
    **{f"scipy.special.{name}": (getattr(jsp, name), (f32(8, 16),)) for name in SPECIAL},
    "bitwise": (lambda a, b: (a & b, a | b, a ^ b, ~a, a << b, a >> b, lax.shift_right_logical(a, b)), (i32(8), i32(8))),
    "population": (lambda a: (lax.population_count(a), lax.clz(a)), (i32(8),)),
    "integer division": (lambda a, b: (a // b, a % b), (i32(8), i32(8))),
    "complex": (lambda a: (jnp.exp(a) * a, jnp.abs(a), a.real, a.imag, jnp.conj(a)), (of(jnp.complex64, 8),)),
    "int8": (lambda a, b: a * b + 1, (of(jnp.int8, 8), of(jnp.int8, 8))),
    "int8 dot": (lambda a, b: lax.dot(a, b, preferred_element_type=jnp.int32), (of(jnp.int8, 8, 8), of(jnp.int8, 8, 8))),
    "float8": (lambda a: (a.astype(jnp.float32) * 2).astype(jnp.float8_e4m3fn), (of(jnp.float8_e4m3fn, 8),)),
    "bfloat16": (lambda a, b: jnp.tanh(a @ b).sum(), (of(jnp.bfloat16, 8, 8), of(jnp.bfloat16, 8, 8))),
    "float16": (lambda a, b: jax.nn.softmax(a @ b), (of(jnp.float16, 8, 8), of(jnp.float16, 8, 8))),
    "bitcast_convert_type": (lambda a: lax.bitcast_convert_type(a, jnp.int8), (f32(8),)),
    "dot_general batch": (lambda a, b: jnp.einsum("bij,bkj->bik", a, b), (f32(2, 8, 4), f32(2, 6, 4))),
    "einsum": (lambda a, b: jnp.einsum("abc,cd->bda", a, b), (f32(2, 3, 4), f32(4, 5))),
    "vector dot": (jnp.vdot, (f32(64), f32(64))),
    "outer": (jnp.outer, (f32(8), f32(8))),
    "kron": (jnp.kron, (f32(2, 3), f32(4, 5))),
    "conv": (lambda x, w: lax.conv(x, w, (1, 1), "SAME"), (f32(2, 3, 8, 8), f32(4, 3, 3, 3))),
    "conv 1d": (lambda x, w: lax.conv(x, w, (2,), "VALID"), (f32(2, 3, 8), f32(4, 3, 3))),
    "conv depthwise": (
        lambda x, w: lax.conv_general_dilated(x, w, (1, 1), "SAME", feature_group_count=4),
        (f32(2, 4, 8, 8), f32(8, 1, 3, 3)),
    ),
    "conv transpose": (lambda x, w: lax.conv_transpose(x, w, (2, 2), "SAME"), (f32(2, 8, 8, 3), f32(3, 3, 3, 4))),
    "conv grad": (
        jax.grad(lambda w, x: lax.conv(x, w, (1, 1), "SAME").sum()),
        (f32(4, 3, 3, 3), f32(2, 3, 8, 8)),
    ),
    "convolve": (jnp.convolve, (f32(16), f32(5))),
    "convolve2d": (jss.convolve2d, (f32(8, 8), f32(3, 3))),
    "max pool and its gradient": (
        jax.value_and_grad(lambda x: lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID").sum()),
        (f32(2, 8, 8, 3),),
    ),
    "average pool": (lambda x: lax.reduce_window(x, 0.0, lax.add, (1, 2, 2, 1), (1, 2, 2, 1), "SAME"), (f32(2, 8, 8, 3),)),
    "cumulative": (lambda x: (lax.cumlogsumexp(x), lax.cummax(x), lax.cummin(x), lax.cumprod(x)), (f32(32),)),
    "reduce pair": (lambda x, y: lax.reduce((x, y), (0.0, 0), lambda a, b: (a[0] + b[0], a[1] * b[1]), (0,)), (f32(16), i32(16))),
    "reduce_precision": (lambda x: lax.reduce_precision(x, 5, 10), (f32(8),)),
    "layout": (lambda x: (x.T, x.reshape(16, 8), x[::-1], jnp.pad(x, 1), jnp.tile(x, (2, 1)), jnp.roll(x, 1)), (f32(8, 16),)),
    "concatenate, stack, split": (lambda x: (jnp.concatenate([x, x]), jnp.stack([x, x]), jnp.split(x, 2)), (f32(8, 16),)),
    "diag, tril, eye": (lambda x: (jnp.diag(x), jnp.tril(x), jnp.eye(8) @ x), (f32(8, 8),)),
    "where, clip": (lambda x: (jnp.where(x > 0, x, 0), jnp.clip(x, -1, 1)), (f32(8, 16),)),
    "iota, arange, linspace": (lambda x: (x + jnp.arange(16), jnp.linspace(0, 1, 16) * x), (f32(8, 16),)),
    "gather": (lambda x, i: (x[i], jnp.take(x, i, axis=1), x[:, 3], jnp.take_along_axis(x, i[:, None], 0)), (f32(8, 16), i32(4))),
    "dynamic slices": (
        lambda x, i: lax.dynamic_update_slice(x, lax.dynamic_slice(x, (i, 0), (2, 4)) * 2, (i, 1)),
        (f32(8, 16), i32()),
    ),
    "scatter": (
        lambda x, i, v: (x.at[i].set(v), x.at[i].add(v), x.at[i].max(v), x.at[i].multiply(v)),
        (f32(16), i32(4), f32(4)),
    ),
    "gather grad": (jax.grad(lambda x, i: x[i].sum()), (f32(16, 4), i32(4))),
    "sort": (lambda x: (jnp.sort(x), jnp.argsort(x), jnp.sort(x, axis=0)), (f32(8, 16),)),
    "top_k": (lambda x: lax.top_k(x, 3), (f32(8, 16),)),
    "approx_max_k": (lambda x: lax.approx_max_k(x, 3), (f32(8, 64),)),
    "quantile": (lambda x: jnp.quantile(x, 0.3), (f32(16),)),
    "searchsorted, digitize, histogram": (
        lambda x, v: (jnp.searchsorted(x, v), jnp.digitize(v, x), jnp.histogram(v, bins=8)),
        (f32(16), f32(8)),
    ),
    "unique, nonzero": (lambda x: (jnp.unique(x, size=4), jnp.nonzero(x, size=4)), (i32(16),)),
    "bincount, segment_sum": (lambda i, x: (jnp.bincount(i, length=8), jax.ops.segment_sum(x, i, 8)), (i32(16), f32(16))),
    "one_hot": (lambda i: jax.nn.one_hot(i, 10), (i32(16),)),
    "interp, polyval": (lambda x, p: (jnp.interp(x, p, p), jnp.polyval(p, x)), (f32(8), f32(5))),
    "random": (
        lambda s: [
            draw(jax.random.key(s), shape=(8, 4))
            for draw in (jax.random.normal, jax.random.uniform, jax.random.exponential, jax.random.laplace)
        ],
        (i32(),),
    ),
    "random integers": (
        lambda s: (
            jax.random.randint(jax.random.key(s), (8,), 0, 10),
            jax.random.permutation(jax.random.key(s), 16),
            jax.random.bernoulli(jax.random.key(s), 0.3, (8,)),
            jax.random.categorical(jax.random.key(s), jnp.ones((4, 8))),
        ),
        (i32(),),
    ),
    "random gamma": (lambda s: jax.random.gamma(jax.random.key(s), 2.0, (4,)), (i32(),)),
    "random bits by the device": (lambda s: jax.random.bits(jax.random.key(s, impl="rbg"), (8,)), (i32(),)),
    "fft": (lambda x: (jnp.fft.fft(x), jnp.fft.rfft(x), jnp.fft.ifft(x), jnp.fft.fft2(x)), (f32(8, 16),)),
    "irfft": (lambda x: jnp.fft.irfft(x), (of(jnp.complex64, 9),)),
    "cholesky": (jnp.linalg.cholesky, (f32(8, 8),)),
    "qr": (jnp.linalg.qr, (f32(8, 8),)),
    "svd": (jnp.linalg.svd, (f32(8, 4),)),
    "eigh": (jnp.linalg.eigh, (f32(8, 8),)),
    "eig": (jnp.linalg.eig, (f32(8, 8),)),
    "lu, det, solve, inv": (lambda a, b: (jsl.lu(a), jnp.linalg.det(a), jnp.linalg.solve(a, b), jnp.linalg.inv(a)), (f32(8, 8), f32(8))),
    "triangular_solve": (lambda a, b: jsl.solve_triangular(a, b, lower=True), (f32(8, 8), f32(8, 2))),
    "schur, hessenberg": (lambda a: (jsl.schur(a), jsl.hessenberg(a)), (f32(8, 8),)),
    "expm, pinv, norm": (lambda a: (jsl.expm(a), jnp.linalg.pinv(a), jnp.linalg.norm(a)), (f32(4, 4),)),
    "tridiagonal": (lax.linalg.tridiagonal_solve, (f32(8), f32(8), f32(8), f32(8, 2))),
    "scan": (lambda h, xs: lax.scan(lambda c, x: (c * x, c + x), h, xs), (f32(4), f32(10, 4))),
    "scan backwards": (jax.grad(lambda h, xs: lax.scan(lambda c, x: (jnp.sin(c * x), c), h, xs)[0].sum()), (f32(4), f32(10, 4))),
    "fori_loop": (lambda n, x: lax.fori_loop(0, n, lambda i, c: c * i, x), (i32(), f32(4))),
    "while_loop": (lambda x: lax.while_loop(lambda c: c.sum() < 10, lambda c: c + 1, x), (f32(4),)),
    "nested loops": (lambda x: lax.fori_loop(0, 3, lambda _, c: lax.fori_loop(0, 4, lambda i, d: d + i, c), x), (f32(4),)),
    "map": (lambda x: lax.map(lambda v: v @ v.T, x), (f32(3, 4, 4),)),
    "cond": (lambda p, x: lax.cond(p > 0, jnp.sin, jnp.cos, x), (i32(), f32(4))),
    "switch": (lambda p, x: lax.switch(p, [jnp.sin, jnp.cos, jnp.tan], x), (i32(), f32(4))),
    "associative_scan": (lambda x: lax.associative_scan(jnp.add, x), (f32(16),)),
    "vmap of cond": (jax.vmap(lambda p, x: lax.cond(p > 0, jnp.sin, jnp.cos, x)), (i32(8), f32(8))),
    "checkpoint": (jax.grad(jax.checkpoint(lambda x: jnp.sin(jnp.sin(x)).sum())), (f32(8),)),
    "custom_vjp": (jax.grad(lambda x: jax.nn.relu(x).sum()), (f32(8),)),
    "hessian": (jax.hessian(lambda x: (x**3).sum()), (f32(4),)),
    "optimization_barrier": (lambda x: lax.optimization_barrier((x * 2, x + 1)), (f32(8),)),
    "pure_callback": (lambda x: jax.pure_callback(np.sin, f32(8), x), (f32(8),)),
    "debug.print": (lambda x: jax.debug.print("{}", x), (f32(8),)),
    "io_callback": (lambda x: jax.experimental.io_callback(np.sin, f32(8), x, ordered=True), (f32(8),)),
    "layer norm, gelu, attention": (
        lambda q, k, v: jax.nn.gelu(jax.nn.dot_product_attention(q, k, v)) - jnp.mean(q, -1, keepdims=True),
        (f32(2, 8, 2, 4), f32(2, 8, 2, 4), f32(2, 8, 2, 4)),
    ),
    "empty": (lambda x: (x * 2, x.sum()), (f32(0, 4),)),
    "nothing": (lambda x: x, (f32(4),)),
    "constants": (lambda: jnp.arange(8.0) * 2, ()),
}

FALLBACKS: dict[str, tuple[str, ...]] = {}


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


@pytest.mark.few(98)
@pytest.mark.parametrize("name", CASES)
def test_every_function_is_priced(name: str) -> None:
    function, arguments = CASES[name]
    text = clean_hlo(jax.jit(function).lower(*arguments))
    program = lower(parse_hlo(text), MACHINE, name=name, num_ipus=1)
    steps = supersteps(program.body)
    assert program.fallback_ops == FALLBACKS.get(name, ())
    assert {step.fallback for step in steps} <= {False, bool(program.fallback_ops)}
    for step in steps:
        assert step.compute_cycles >= 0
        assert step.compute_cycles + step.exchange_cycles + step.sync_cycles > 0, step
    assert program.memory.peak_bytes >= program.memory.code_bytes + MACHINE.ipu.tile.stack_bytes


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
