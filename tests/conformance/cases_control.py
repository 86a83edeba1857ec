"""Control flow, derivatives that users define, calls and the markers that programs carry for the compiler."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax._src.state.discharge import run_state
from jax.ad_checkpoint import checkpoint_name
from jax.experimental import checkify, scheduling_groups, xla_metadata
from jax.experimental.custom_partitioning import custom_partitioning
from jax.experimental.layout import Layout, with_layout_constraint

from .case import OpCase, flags, real, whole


def scanned(x: jax.Array, carry: jax.Array) -> Any:
    return lax.scan(lambda c, v: (jnp.tanh(c * v), (c, v + c)), carry, x)


def scan_options(x: jax.Array) -> Any:
    add = lambda c, v: (c + v, c * v)  # noqa: E731
    return lax.scan(add, 0.0, x, reverse=True), lax.scan(add, 0.0, x, unroll=3), lax.scan(lambda c, _: (c * 2, None), 1.0, None, length=4)


def collatz(n: jax.Array) -> Any:
    """A loop in a branch in a loop, all three decided by the data."""

    def halve(state: tuple[Any, Any]) -> tuple[Any, Any]:
        return lax.while_loop(lambda s: s[0] % 2 == 0, lambda s: (s[0] // 2, s[1] + 1), state)

    return lax.while_loop(
        lambda s: s[0] > 1,
        lambda s: lax.cond(s[0] % 2 == 0, halve, lambda t: (3 * t[0] + 1, t[1] + 1), s),
        (n, 0),
    )


@jax.custom_jvp
def doubled_slope(x: jax.Array) -> jax.Array:
    return jnp.sin(x)


doubled_slope.defjvp(lambda primals, tangents: (jnp.sin(primals[0]), 2 * jnp.cos(primals[0]) * tangents[0]))


@jax.custom_vjp
def clipped_gradient(x: jax.Array) -> jax.Array:
    return x**3


clipped_gradient.defvjp(lambda x: (x**3, x), lambda x, g: (jnp.clip(3 * x**2 * g, -1, 1),))


def optimised_remat(x: jax.Array) -> jax.Array:
    @jax.custom_vjp
    def cube(v: jax.Array) -> jax.Array:
        return v * v * v

    cube.defvjp(lambda v: (v * v * v, v), lambda v, g: (3 * v * v * g,), optimize_remat=True)
    return cube(x)


@jax.custom_batching.custom_vmap
def batched_apart(x: jax.Array) -> jax.Array:
    return jnp.cumsum(x)


@batched_apart.def_vmap
def _(_size: int, _batched: Any, x: jax.Array) -> Any:
    return jnp.cumsum(x, axis=1), True


def root(x: jax.Array) -> jax.Array:
    """The square root by Newton's method, its derivative by the implicit function theorem."""

    def solve(f: Any, start: jax.Array) -> jax.Array:
        return lax.fori_loop(0, 20, lambda _, y: y - f(y) / jax.jvp(f, (y,), (jnp.ones_like(y),))[1], start)

    return lax.custom_root(lambda y: y**2 - x, jnp.ones_like(x), solve, lambda g, y: y / g(jnp.ones_like(y)))


def linear_solve(a: jax.Array, b: jax.Array) -> jax.Array:
    matrix = a @ a.T + 3 * jnp.eye(3)
    return lax.custom_linear_solve(lambda v: matrix @ v, b, lambda _, v: jnp.linalg.inv(matrix) @ v, symmetric=True)


def linear_call(x: jax.Array, y: jax.Array) -> jax.Array:
    return jax.custom_derivatives.linear_call(lambda r, v: r * v, lambda r, t: r * t, x, y)


def checked(x: jax.Array) -> Any:
    def guarded(v: jax.Array) -> jax.Array:
        checkify.check(jnp.all(v > -9), "below -9: {low}", low=v.min())
        return jnp.log(v)

    error, value = checkify.checkify(guarded, errors=checkify.user_checks | checkify.float_checks)(x)
    raised = [leaf for leaf in jax.tree.leaves(error) if leaf.dtype == np.bool_]  # the rest numbers the errors of this process
    return raised, value


def mutable(x: jax.Array) -> Any:
    ref = jax.new_ref(x)

    @jax.jit
    def bump(by: jax.Array) -> jax.Array:
        ref[1] += by
        ref[...] = ref[...] * 2
        return ref[0]

    first = bump(x[2])
    return first, jax.freeze(ref)


def discharged(x: jax.Array) -> jax.Array:
    def body(i: jax.Array, ref: Any) -> None:
        ref[i] = ref[i] * 2 + 1

    return jax.lax.fori_loop(0, 4, lambda i, v: v.at[i].add(1), x) + run_state(lambda ref: body(1, ref))(x)


@custom_partitioning
def partitioned(x: jax.Array) -> jax.Array:
    return jnp.sin(x)


partitioned.def_partition(
    partition=lambda mesh, _arguments, result: (mesh, jnp.sin, result.sharding, (result.sharding,)),
    infer_sharding_from_operands=lambda _mesh, arguments, _result: arguments[0].sharding,
    sharding_rule="i -> i",
)


def exported(x: jax.Array) -> jax.Array:
    shape = jax.export.symbolic_shape("n")
    program = jax.export.export(jax.jit(lambda v: jnp.sin(v) * v.shape[0]), platforms=["cpu", "ipu"])(
        jax.ShapeDtypeStruct(shape, np.float32)
    )
    return jax.export.deserialize(program.serialize()).call(x)


CASES = (
    OpCase("scan", scanned, real(5, 3), real(3), grad=(0, 1)),
    OpCase("scan, reversed, unrolled, without inputs", scan_options, real(6), grad=(0,), only="jit"),
    OpCase("scan over nothing", scanned, np.zeros((0, 3), np.float32), real(3)),
    OpCase(
        "scan of scans", lambda x: lax.scan(lambda c, row: lax.scan(lambda d, v: (d + v * c, d), c, row), 1.0, x), real(3, 4), grad=(0,)
    ),
    OpCase(
        "while_loop",
        lambda n, x: lax.while_loop(lambda s: s[0] < n, lambda s: (s[0] + 1, s[1] * 1.1 + s[0]), (0, x)),
        np.int32(7),
        np.float32(0.5),
    ),
    OpCase(
        "while_loop under vmap",
        jax.vmap(lambda n: lax.while_loop(lambda s: s[0] < n, lambda s: (s[0] + 1, s[1] + n), (0, 0))),
        whole(5, low=0, high=7),
    ),
    OpCase("loops in branches in loops", collatz, np.int32(27)),
    OpCase("fori_loop", lambda x: lax.fori_loop(2, 9, lambda i, v: jnp.sin(v) + i, x), real(3), grad=(0,)),
    OpCase("fori_loop, bounds from data", lambda n, x: lax.fori_loop(0, n, lambda i, v: v * 1.5 + i, x), np.int32(6), real(3)),
    OpCase(
        "cond", lambda p, x: [lax.cond(q, jnp.sin, jnp.cos, x) for q in (p[0], p[1], True)], np.array([True, False]), real(3), grad=(1,)
    ),
    OpCase("cond under vmap", jax.vmap(lambda p, x: lax.cond(p, jnp.sin, jnp.cos, x)), flags(6), real(6), grad=(1,)),
    OpCase(
        "switch",
        lambda i, x: [lax.switch(j, [jnp.sin, jnp.cos, jnp.tanh], x) for j in (i[0], i[1], i[2])],
        np.array([1, -4, 9], np.int32),
        real(3),
        grad=(1,),
    ),
    OpCase("lax.map", lambda x: (lax.map(jnp.sum, x), lax.map(jnp.sum, x, batch_size=2)), real(5, 3), grad=(0,)),
    OpCase(
        "associative_scan",
        lambda x: (lax.associative_scan(jnp.multiply, x), lax.associative_scan(jnp.maximum, x, reverse=True)),
        real(9),
        grad=(0,),
        only="jit",
    ),
    OpCase("jit in jit", lambda x: jax.jit(lambda v: jax.jit(jnp.sin)(v) + 1)(x), real(3), grad=(0,)),
    OpCase(
        "vmap, jvp, jacobian, hessian",
        lambda x: (jax.jacfwd(jnp.sin)(x), jax.jacrev(jnp.cumsum)(x), jax.hessian(lambda v: (v**3).sum())(x)),
        real(3),
        grad=(0,),
    ),
    OpCase("linearize and transpose", lambda x: jax.linear_transpose(lambda v: jnp.fft.rfft(v).real, x)(jnp.ones(3)), real(4)),
    OpCase("checkpoint", jax.checkpoint(lambda x: jnp.sin(jnp.sin(jnp.sin(x)))), real(3), grad=(0,)),
    OpCase(
        "checkpoint with names",
        jax.checkpoint(
            lambda x: jnp.sin(checkpoint_name(jnp.cos(x), "kept")),
            policy=jax.checkpoint_policies.save_only_these_names("kept"),
        ),
        real(3),
        grad=(0,),
    ),
    OpCase("custom_jvp", doubled_slope, real(3), grad=(0,)),
    OpCase("custom_vjp", clipped_gradient, real(3), grad=(0,)),
    OpCase("custom_vjp, optimize_remat", optimised_remat, real(3), grad=(0,)),
    OpCase("custom_vmap", lambda x: (jax.vmap(batched_apart)(x), batched_apart(x[0])), real(3, 4)),
    OpCase("custom_root", root, real(3, low=1.0, high=4.0), grad=(0,)),
    OpCase("custom_linear_solve", linear_solve, real(3, 3), real(3), grad=(0, 1)),
    OpCase("linear_call", linear_call, real(3), real(3), grad=(1,)),
    OpCase("custom_gradient", jax.custom_gradient(lambda x: (x**2, lambda g: g * 7 * x)), real(3), grad=(0,)),
    OpCase(
        "composite",
        lambda x: lax.composite(lambda v, *, scale: jnp.sin(v) * scale, name="tilestep.test")(x, scale=2.0),
        real(3),
        only="jit",
    ),
    OpCase("checkify", checked, np.array([-1.0, 2.0, -10.0], np.float32)),
    OpCase("platform_dependent", lambda x: lax.platform_dependent(x, default=jnp.sin), real(3), grad=(0,)),
    OpCase("references", mutable, real(4)),
    OpCase("run_state", discharged, real(4)),
    OpCase("custom_partitioning", partitioned, real(4), only="jit"),
    OpCase("exported with a symbolic shape", exported, real(5)),
    OpCase("layout_constraint", lambda x: with_layout_constraint(x * 2, Layout(major_to_minor=(1, 0))).sum(0), real(3, 4), only="jit"),
    OpCase("metadata for XLA", lambda x: xla_metadata.set_xla_metadata(jnp.sin(x), mark="here"), real(3), only="jit"),
    OpCase("scheduling_group", lambda x: scheduling_groups.scheduling_group(name="first")(jnp.sin)(x), real(3), only="jit"),
    OpCase("dce_sink", lambda x: (jax.lax.dce_sink(x * 2), x + 1)[1], real(3), only="jit"),
)
