"""Programs that call the host: callbacks of every kind."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental import io_callback
from jax.sharding import Mesh
from jax.sharding import PartitionSpec as P

from .case import OpCase, cplx, flags, real, whole


def like(x: jax.Array) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(x.shape, x.dtype)


def on_host(x: jax.Array, **options: Any) -> jax.Array:
    return jax.pure_callback(lambda v: np.asarray(v) * 3, like(x), x, **options)


def differentiable(x: jax.Array) -> jax.Array:
    @jax.custom_vjp
    def sine(v: jax.Array) -> jax.Array:
        return jax.pure_callback(np.sin, like(v), v)

    sine.defvjp(lambda v: (sine(v), v), lambda v, g: (g * jax.pure_callback(np.cos, like(v), v),))
    return sine(x) * 2


def in_order(x: jax.Array) -> Any:
    """Each call sees how many came before it, so the results tell the order."""
    seen = iter(range(100))

    def stamp(v: np.ndarray) -> np.ndarray:
        return np.asarray(v + next(seen), np.float32)

    first = io_callback(stamp, like(x), x, ordered=True)
    second = io_callback(stamp, like(x), x, ordered=True)
    return first, lax.scan(lambda c, v: (c, io_callback(stamp, like(v), v, ordered=True)), 0, x)[1], second


def across(devices: list[jax.Device], x: jax.Array) -> jax.Array:
    mesh = Mesh(np.array(devices), ("i",))
    return jax.shard_map(on_host, mesh=mesh, in_specs=P("i"), out_specs=P("i"))(x)


def printed(x: jax.Array) -> jax.Array:
    jax.debug.print("sum {s}", s=x.sum(), ordered=False)
    jax.debug.callback(lambda v: None, x, ordered=True)
    return x + 1


def foreign(x: jax.Array) -> Any:
    """LAPACK's Cholesky, called by the name under which jaxlib registers it for the host."""
    shapes = (like(x), jax.ShapeDtypeStruct((), np.int32))
    call = jax.ffi.ffi_call("lapack_spotrf_ffi", shapes, input_layouts=[(1, 0)], output_layouts=[(1, 0), ()])
    return jnp.linalg.cholesky(x), call(x, uplo=np.uint8(ord("L")))


CASES = (
    OpCase("pure_callback", on_host, real(3, 4)),
    OpCase(
        "pure_callback, many types",
        lambda *xs: [on_host(x) for x in xs],
        whole(4),
        real(2, dtype=np.float16),
        real(3, dtype=jnp.bfloat16),
        cplx(3),
        whole(3, dtype=np.uint8),
    ),
    OpCase(
        "pure_callback, booleans and scalars",
        lambda b, n: (jax.pure_callback(np.logical_not, like(b), b), on_host(n)),
        flags(5),
        np.float32(2.5),
    ),
    OpCase(
        "pure_callback, nothing in, tuples out",
        lambda: jax.pure_callback(
            lambda: (np.float32(1), np.ones((0, 2), np.int32)),
            (jax.ShapeDtypeStruct((), np.float32), jax.ShapeDtypeStruct((0, 2), np.int32)),
        ),
    ),
    OpCase("pure_callback with a derivative", differentiable, real(4), grad=(0,)),
    OpCase(
        "pure_callback in loops and branches",
        lambda x: (lax.scan(lambda c, v: (on_host(c + v), c), jnp.float32(0), x), lax.cond(x[0] > 9, on_host, lambda v: v, x)),
        real(4),
    ),
    OpCase("pure_callback in a while loop", lambda n: lax.while_loop(lambda s: s < 100, lambda s: on_host(s), n), np.int32(2)),
    *(
        OpCase(f"pure_callback under vmap, {how}", jax.vmap(lambda x, how=how: on_host(x, vmap_method=how)), real(3, 4))
        for how in ("sequential", "expand_dims", "broadcast_all")
    ),
    OpCase("pure_callback under shard_map", across, real(8), ipus=4),
    OpCase(
        "io_callback",
        lambda x: io_callback(lambda v: np.float32(v.sum()), jax.ShapeDtypeStruct((), np.float32), x),
        np.arange(4, dtype=np.float32),
    ),
    OpCase("io_callback, ordered", in_order, np.zeros(3, np.float32)),
    OpCase("debug.print and debug.callback", printed, real(3)),
    OpCase("a foreign function", foreign, np.eye(3, dtype=np.float32) * 4),
    OpCase(
        "jax.debug.inspect_array_sharding",
        lambda x: (jax.debug.inspect_array_sharding(x, callback=lambda _: None), x + 1)[1],
        real(3),
        only="jit",
    ),
)
