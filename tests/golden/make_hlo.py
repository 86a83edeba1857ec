"""Writes the tests' HLO from JAX functions: `python -m tests.golden.make_hlo [NAME...]`, made with jax 0.10.2.

The tests read the files, not this script, so that they hold XLA's text still while JAX moves on.
"""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, SingleDeviceSharding
from jax.sharding import PartitionSpec as P

from tests.golden.clean_hlo import clean_hlo

FOLDER = Path(__file__).parent
DEVICES = 4


def f32(*dims: int) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(dims, jnp.float32)


def mlp_loss(params: dict[str, jax.Array], x: jax.Array, y: jax.Array) -> jax.Array:
    hidden = jax.nn.relu(x @ params["w1"] + params["b1"])
    return jnp.mean((hidden @ params["w2"] - y) ** 2)


def mlp_step(params: dict[str, jax.Array], x: jax.Array, y: jax.Array) -> tuple[dict[str, jax.Array], jax.Array]:
    loss, gradient = jax.value_and_grad(mlp_loss)(params, x, y)
    return jax.tree.map(lambda p, g: p - 0.1 * g, params, gradient), loss


MLP = {"w1": f32(64, 32), "b1": f32(32), "w2": f32(32, 8)}


def mlp_train_step() -> Any:
    return jax.jit(mlp_step, donate_argnums=0).lower(MLP, f32(16, 64), f32(16, 8))


def small_step(params: dict[str, jax.Array], x: jax.Array, y: jax.Array) -> tuple[dict[str, jax.Array], jax.Array]:
    def loss(params: dict[str, jax.Array]) -> jax.Array:
        return jnp.sum((jax.nn.relu(x @ params["w"] + params["b"]) - y) ** 2)

    value, gradient = jax.value_and_grad(loss)(params)
    return jax.tree.map(lambda p, g: p - 0.5 * g, params, gradient), value


def golden_mlp_step() -> Any:
    """The program whose cycles mlp_step/DERIVATION.md derives."""
    return jax.jit(small_step, donate_argnums=0).lower({"w": f32(16, 8), "b": f32(8)}, f32(24, 16), f32(24, 8))


def golden_matmul() -> Any:
    """The program whose cycles matmul/DERIVATION.md derives."""
    half = jnp.float16
    return jax.jit(jnp.matmul).lower(jax.ShapeDtypeStruct((1536, 64), half), jax.ShapeDtypeStruct((64, 64), half))


def golden_float8() -> Any:
    """The program whose cycles float8/DERIVATION.md derives."""
    eight = jnp.float8_e4m3fnuz

    def product(x: jax.Array, w: jax.Array) -> jax.Array:
        return jax.lax.dot(x.astype(eight), w, preferred_element_type=jnp.float16)

    return jax.jit(product).lower(jax.ShapeDtypeStruct((1536, 64), jnp.float16), jax.ShapeDtypeStruct((64, 64), eight))


def gelu_half() -> Any:
    def gelu(x: jax.Array, w: jax.Array) -> tuple[jax.Array, jax.Array]:
        h = jax.nn.gelu(x @ w, approximate=False)
        return h, jnp.mean(h, -1)

    half = jnp.float16
    return jax.jit(gelu).lower(jax.ShapeDtypeStruct((8, 16), half), jax.ShapeDtypeStruct((16, 32), half))


def bfloat16() -> Any:
    def layer(x: jax.Array, w: jax.Array, b: jax.Array) -> jax.Array:
        return jnp.tanh(x @ w + b)

    return jax.jit(layer).lower(*(jax.ShapeDtypeStruct(dims, jnp.bfloat16) for dims in ((8, 16), (16, 32), (32,))))


def scan() -> Any:
    def cell(h: jax.Array, x: jax.Array) -> tuple[jax.Array, jax.Array]:
        h = jnp.tanh(h @ jnp.ones((8, 8)) + x)
        return h, h

    return jax.jit(lambda h, xs: jax.lax.scan(cell, h, xs)).lower(f32(4, 8), f32(10, 4, 8))


def train_loop() -> Any:
    """Weights that a loop of known length carries and updates."""

    def loop(params: dict[str, jax.Array], x: jax.Array, y: jax.Array) -> dict[str, jax.Array]:
        return jax.lax.fori_loop(0, 100, lambda _, p: mlp_step(p, x, y)[0], params)

    return jax.jit(loop, donate_argnums=0).lower(MLP, f32(16, 64), f32(16, 8))


def while_data() -> Any:
    def collatz(x: jax.Array) -> jax.Array:
        def body(carry: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
            count, value = carry
            return count + 1, jax.lax.cond(value % 2 == 0, lambda v: v // 2, lambda v: 3 * v + 1, value)

        return jax.lax.while_loop(lambda c: c[1] != 1, body, (0, x))[0]

    return jax.jit(collatz).lower(jax.ShapeDtypeStruct((), jnp.int32))


def cond() -> Any:
    def choose(index: jax.Array, x: jax.Array) -> jax.Array:
        return jax.lax.switch(index, [jnp.sin, lambda v: v @ v, lambda v: v], x)

    return jax.jit(choose).lower(jax.ShapeDtypeStruct((), jnp.int32), f32(16, 16))


def psum() -> Any:
    mesh = Mesh(np.array(jax.devices()[:DEVICES]), ("i",))

    def exchange(x: jax.Array, w: jax.Array) -> tuple[jax.Array, ...]:
        y = jax.lax.psum(x @ w, "i")
        return (
            y,
            jax.lax.all_gather(x, "i"),
            jax.lax.psum_scatter(jnp.tile(y, (2, 1)), "i", tiled=True),
            jax.lax.ppermute(x, "i", [(0, 1), (1, 2)]),
            jax.lax.psum(x.astype(jnp.bfloat16), "i", axis_index_groups=[[0, 1], [2, 3]]),
        )

    mapped = jax.shard_map(
        exchange, mesh=mesh, in_specs=(P("i"), P()), out_specs=(P(), P("i"), P("i"), P("i"), P("i")), check_vma=False
    )  # fmt: skip
    return jax.jit(mapped).lower(f32(8, 16), f32(16, 16))


def conv() -> Any:
    def net(x: jax.Array, w: jax.Array) -> jax.Array:
        y = jax.lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
        return jax.lax.reduce_window(jax.nn.relu(y), -jnp.inf, jax.lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")

    return jax.jit(net).lower(f32(2, 8, 8, 3), f32(3, 3, 3, 4))


def callback() -> Any:
    def call(x: jax.Array) -> jax.Array:
        y = jax.pure_callback(np.sin, f32(8), x)
        jax.debug.print("{}", y.sum())
        return y + 1

    return jax.jit(call).lower(f32(8))


def cholesky() -> Any:
    return jax.jit(jnp.linalg.cholesky).lower(f32(8, 8))


def offload() -> Any:
    """Layers that stay in the host's memory and are read one at a time."""
    device = jax.devices()[0]
    host = SingleDeviceSharding(device, memory_kind="pinned_host")
    near = SingleDeviceSharding(device, memory_kind="device")

    def layers(ws: jax.Array, x: jax.Array) -> jax.Array:
        return jax.lax.scan(lambda h, w: (jnp.tanh(h @ jax.device_put(w, near)), None), x, ws)[0]

    return jax.jit(layers, in_shardings=(host, near)).lower(f32(4, 16, 16), f32(8, 16))


CASES: dict[str, Callable[[], Any]] = {
    case.__name__: case
    for case in (
        golden_mlp_step, golden_matmul, golden_float8, mlp_train_step, gelu_half, bfloat16, scan, train_loop, while_data, cond, psum, conv,
        callback, cholesky, offload,
    )
}  # fmt: skip


def main(names: list[str]) -> None:
    jax.config.update("jax_platforms", "cpu")
    jax.config.update("jax_num_cpu_devices", DEVICES)
    for name in names or list(CASES):
        text = clean_hlo(CASES[name](), num_devices=DEVICES if name == "psum" else 1)
        derived = name.removeprefix("golden_")
        path = FOLDER / "hlo" / f"{name}.hlo" if derived == name else FOLDER / derived / "program.hlo"
        path.write_text(text, encoding="utf-8")
        print(name, len(text.splitlines()), "lines")


if __name__ == "__main__":
    main(sys.argv[1:])
