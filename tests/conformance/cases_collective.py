"""Programs over four devices: every collective under shard_map and pmap, shardings, what explicit meshes add."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax._src.lax import parallel
from jax.experimental import multihost_utils
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

from .case import Draw, OpCase, real, since

Devices = list[jax.Device]
SPLIT = P("i")
RING = [(i, (i + 1) % 4) for i in range(4)]


def mesh(
    devices: Devices, shape: tuple[int, ...] = (4,), names: tuple[str, ...] = ("i",), kind: AxisType = AxisType.Auto
) -> jax.sharding.Mesh:
    return jax.sharding.Mesh(np.array(devices).reshape(shape), names, axis_types=(kind,) * len(names))


def mapped(body: Callable[..., Any], out: Any = SPLIT, *, arguments: int = 1, check: bool = True) -> Callable[..., Any]:
    """`body` under shard_map, its arguments split in four along their first axis."""

    def run(devices: Devices, *args: Any) -> Any:
        over = mesh(devices)
        split = NamedSharding(over, P("i"))
        args = tuple(arg if isinstance(arg, jax.core.Tracer) else jax.device_put(arg, split) for arg in args)
        return jax.shard_map(body, mesh=over, in_specs=(P("i"),) * arguments, out_specs=out, check_vma=check)(*args)

    return run


def collective(
    name: str, body: Callable[..., Any], *draws: Draw | np.ndarray, out: Any = SPLIT, grad: bool = True, check: bool = True
) -> OpCase:
    draws = draws or (real(8, 4),)
    positions = tuple(range(len(draws))) if grad else ()
    return OpCase(name, mapped(body, out, arguments=len(draws), check=check), *draws, grad=positions, ipus=4)


def pmapped(body: Callable[..., Any]) -> Callable[..., Any]:
    return lambda devices, *args: jax.pmap(body, axis_name="i", devices=devices)(*args)


def explicit(devices: Devices, x: jax.Array, y: jax.Array) -> Any:
    over = mesh(devices, kind=AxisType.Explicit)
    split = jax.sharding.reshard(x, NamedSharding(over, P("i", None)))
    product = split @ jax.sharding.reshard(y, NamedSharding(over, P(None, None)))
    return product, jax.sharding.reshard(product, NamedSharding(over, P(None, "i")))


def auto_matmul(devices: Devices, x: jax.Array, w: jax.Array) -> Any:
    over = mesh(devices, (2, 2), ("data", "model"))
    x = lax.with_sharding_constraint(x, NamedSharding(over, P("data", None)))
    w = lax.with_sharding_constraint(w, NamedSharding(over, P(None, "model")))
    return lax.with_sharding_constraint(jnp.tanh(x @ w), NamedSharding(over, P("data", "model"))), (x @ w).sum(0)


def two_axes(devices: Devices, x: jax.Array) -> Any:
    def body(block: jax.Array) -> Any:
        return lax.psum(block, "a"), lax.psum(block, ("a", "b")), lax.all_gather(block, "b", axis=1, tiled=True)

    over = mesh(devices, (2, 2), ("a", "b"))
    return jax.shard_map(body, mesh=over, in_specs=P("a", "b"), out_specs=(P(None, "b"), P(), P("a", None)), check_vma=False)(x)


def local_and_global(devices: Devices, x: jax.Array) -> Any:
    over = mesh(devices)
    whole = multihost_utils.host_local_array_to_global_array(x, over, P("i"))
    return whole * 2, multihost_utils.global_array_to_host_local_array(whole + 1, over, P("i"))


def unreduced(x: jax.Array) -> Any:
    """What is summed later: a psum, a psum_scatter and an all_gather in the two steps that explicit meshes allow."""
    parts = lax.pcast(x, "i", to="unreduced")
    gathered = parallel.all_gather_reduced(x, "i", tiled=True)
    return (
        parallel.unreduced_psum(parts, "i"),
        parallel.unreduced_psum_scatter(parts, "i", scatter_dimension=1, tiled=True),
        lax.pcast(gathered, "i", to="varying"),
    )


def done(found: Any) -> jax.Array:
    """What was started; newer JAX computes it at once where it is unreduced, or shard_map does not check what varies."""
    return found.done() if hasattr(found, "done") else found


def unreduced_extremes(devices: Devices, x: jax.Array) -> Any:
    """Each device's greatest and least rows, and what remains to be done of a maximum and a minimum over all."""
    over = mesh(devices, kind=AxisType.Explicit)
    x = jax.sharding.reshard(x, NamedSharding(over, P("i")))

    def extreme(reduce: Callable[..., Any], combine: Callable[..., Any], kind: Any) -> Any:
        spec = P(unreduced={"i"}, unreduced_kind=kind)
        parts = reduce(x, (0,), out_sharding=NamedSharding(over, spec))
        return jax.shard_map(lambda part: combine(part, "i"), mesh=over, in_specs=spec, out_specs=P())(parts)

    kinds = jax.sharding.UnreducedKind
    return extreme(lax.reduce_max, lax.pmax, kinds.max), extreme(lax.reduce_min, lax.pmin, kinds.min)


def unreduced_started(x: jax.Array) -> Any:
    parts = lax.pcast(x, "i", to="unreduced")
    gathered = parallel.all_gather_start(x, "i", tiled=True, to="reduced").done()
    scattered = done(parallel.psum_scatter_start(parts, "i", scatter_dimension=1, tiled=True))
    return done(parallel.psum_start(parts, "i")), scattered, lax.pcast(gathered, "i", to="varying")


def reduced(x: jax.Array) -> jax.Array:
    ones = lax.pcast(jnp.ones(4), "i", to="reduced")
    return x * lax.pcast(ones, "i", to="varying")


def started(name: str, start: Callable[..., Any], *args: Any, **options: Any) -> OpCase:
    """A collective in two halves; JAX can neither differentiate it nor run it outside of jit."""
    return OpCase(f"asynchronous {name}", mapped(lambda x: start(x, "i", *args, **options).done()), real(8, 4), ipus=4, only="jit")


CASES = (
    collective("psum", lambda x: lax.psum(x, "i"), out=P()),
    collective("psum of a constant, axis_size", lambda x: x * lax.psum(1, "i") + lax.axis_size("i")),
    collective("pmean", lambda x: lax.pmean(x, "i"), out=P()),
    collective("pmax and pmin", lambda x: (lax.pmax(x, "i"), lax.pmin(x, "i")), out=(P(), P()), grad=False),
    collective("psum in groups", lambda x: lax.psum(x, "i", axis_index_groups=[[0, 1], [2, 3]]), check=False),
    collective(
        "psum, many types",
        lambda x: [lax.psum(x.astype(t), "i") for t in (np.int32, jnp.bfloat16, np.float16, np.complex64)],
        out=P(),
        grad=False,
    ),
    collective("axis_index", lambda x: x * lax.axis_index("i")),
    collective("all_gather", lambda x: lax.all_gather(x, "i"), out=P(None, "i")),
    collective("all_gather, tiled", lambda x: lax.all_gather(x, "i", axis=1, tiled=True)),
    collective("all_gather, invariant", lambda x: lax.all_gather(x, "i", tiled=True, to="invarying"), out=P()),
    collective("psum_scatter", lambda x: lax.psum_scatter(x, "i", scatter_dimension=1), out=P("i")),
    collective("psum_scatter, tiled", lambda x: lax.psum_scatter(x, "i", scatter_dimension=1, tiled=True)),
    collective("ppermute", lambda x: lax.ppermute(x, "i", RING)),
    collective("ppermute, some", lambda x: lax.ppermute(x, "i", [(0, 2), (3, 1)])),
    collective("pshuffle", lambda x: lax.pshuffle(x, "i", [3, 1, 0, 2])),
    collective("all_to_all", lambda x: lax.all_to_all(x, "i", 1, 0), grad=False),
    collective("all_to_all, tiled", lambda x: lax.all_to_all(x, "i", 1, 0, tiled=True)),
    collective("pswapaxes", lambda x: lax.pswapaxes(x, "i", 1)),
    collective("pcast to varying", lambda x: lax.psum(x * lax.pcast(jnp.ones(4), "i", to="varying"), "i"), out=P()),
    # Outside of jit, JAX has these on explicit meshes only.
    OpCase("pcast to unreduced", mapped(unreduced, (P(), P(None, "i"), P("i"))), real(8, 4), grad=(0,), ipus=4, only="jit"),
    OpCase("pcast to reduced", mapped(reduced), real(8, 4), grad=(0,), ipus=4, only="jit"),
    *([OpCase("pmax and pmin, unreduced", unreduced_extremes, real(8, 4), ipus=4, only="jit")] if since(0, 12) else []),
    collective(
        "a ring of matmuls", lambda x: lax.fori_loop(0, 4, lambda _, v: jnp.tanh(lax.ppermute(v, "i", RING) @ jnp.ones((4, 4)) / 9), x)
    ),
    collective("psum in a scan", lambda x: lax.scan(lambda c, v: (c + lax.pmean(v, "i").sum(), v), 0.0, x)[1], grad=False),
    collective("psum under cond", lambda x: lax.cond(lax.psum(x, "i").sum() > 0, lambda v: v, lambda v: -v, x), grad=False),
    OpCase("two axes", two_axes, real(4, 6), ipus=4, grad=(0,)),
    OpCase("automatic partitioning", auto_matmul, real(8, 6), real(6, 4), ipus=4, grad=(0, 1), only="jit"),
    OpCase("local and global arrays", local_and_global, real(8, 6), ipus=4, only="jit"),
    OpCase("explicit sharding", explicit, real(8, 6), real(6, 4), ipus=4, only="eager"),
    OpCase(
        "pmap",
        pmapped(lambda x: (lax.psum(x, "i"), lax.pmax(x, "i"), lax.ppermute(x, "i", RING), lax.axis_index("i"))),
        real(4, 3),
        ipus=4,
        only="eager",
    ),
    OpCase("pmap, normalised", pmapped(lambda x: x / lax.psum(x, "i")), real(4, 3, low=1.0), ipus=4, grad=(0,), only="eager"),
    OpCase(
        "pmap, all_gather and all_to_all",
        pmapped(lambda x: (lax.all_gather(x, "i"), lax.all_to_all(x, "i", 0, 0))),
        real(4, 4),
        ipus=4,
        only="eager",
    ),
    OpCase(
        "vmap with a name",
        lambda devices, x: jax.vmap(lambda v: (lax.psum(v, "i"), lax.ppermute(v, "i", RING)), axis_name="i")(x),
        real(4, 3),
        ipus=1,
        grad=(0,),
    ),
    started("psum", parallel.psum_start),
    OpCase("asynchronous, unreduced", mapped(unreduced_started, (P(), P(None, "i"), P("i"))), real(8, 4), ipus=4, only="jit"),
    OpCase(
        "asynchronous psum, unchecked",
        mapped(lambda x: done(parallel.psum_start(x, "i")), P(), check=False),
        real(8, 4),
        ipus=4,
        only="jit",
    ),
    started("all_gather", parallel.all_gather_start, tiled=True),
    started("psum_scatter", parallel.psum_scatter_start, scatter_dimension=1, tiled=True),
    started("all_to_all", parallel.all_to_all_start, 1, 1, tiled=True),
    started("ppermute", parallel.ppermute_start, RING),
)
