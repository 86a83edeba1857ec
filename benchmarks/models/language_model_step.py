"""Trains the language model of `language_model` as one program, whose parameters and AdamW's state are divided over all devices.

`tilestep sweep --machine bow-pod16 --ipus 4,8,16 --set batch=1,4 --items {batch} benchmarks/models/language_model_step.py {batch}`
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # run as a script, this file is in no package

import jax
import jax.numpy as jnp
import optax
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

from benchmarks.models import language_model

STEPS = 5  # the second is compiled anew, because JAX places the first one's results otherwise, and four runs of a program have a warm time
_COLUMNS, _ROWS = P(None, "ipus"), P("ipus")
_DIVIDED = {"qkv": _COLUMNS, "up": _COLUMNS, "words": _COLUMNS, "positions": _COLUMNS, "out": _ROWS, "down": _ROWS}


def main() -> None:
    mesh = jax.make_mesh((len(jax.devices()),), ("ipus",), axis_types=(AxisType.Auto,))
    given = language_model.layers()
    optimizer = given["optimizer"]

    def divided(path: Any, leaf: Any) -> NamedSharding:
        return NamedSharding(mesh, _DIVIDED[path[-1].key] if len(leaf.shape) == 2 else P())

    def loss(params: Any, tokens: jax.Array) -> jax.Array:
        values: Any = (tokens,)
        for layer, own in zip(given["layers"][:-1], params[:-1], strict=True):
            values = jax.checkpoint(layer)(own, *values)
        return given["layers"][-1](params[-1], *values)

    def step(params: Any, state: Any, tokens: jax.Array) -> tuple[Any, Any, jax.Array]:
        value, gradients = jax.value_and_grad(loss)(params, tokens)
        updates, state = optimizer.update(gradients, state, params)
        return optax.apply_updates(params, updates), state, value

    shapes = given["params"], jax.eval_shape(optimizer.init, given["params"])
    params, state = (
        jax.tree_util.tree_map_with_path(lambda path, leaf: jax.device_put(jnp.zeros(leaf.shape, leaf.dtype), divided(path, leaf)), tree)
        for tree in shapes
    )
    program = jax.jit(step, donate_argnums=(0, 1))
    tokens = jax.device_put(jnp.zeros((int(sys.argv[1]), language_model.CONTEXT + 1), jnp.int32), NamedSharding(mesh, P()))
    for _ in range(STEPS):
        params, state, value = program(params, state, tokens)
    jax.block_until_ready(value)


if __name__ == "__main__":
    main()
