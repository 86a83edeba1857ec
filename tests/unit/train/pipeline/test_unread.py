"""Values that no later stage reads leave the pipeline where they were last read."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import tilestep
from tilestep.train import Pipeline


def first(w: jax.Array, x: jax.Array, notes: dict[str, jax.Array]) -> Any:
    return jnp.tanh(x @ w), notes


def middle(w: jax.Array, x: jax.Array, notes: dict[str, jax.Array]) -> Any:
    return jnp.tanh(x @ w) * notes["read in the middle"][:, None], notes


def loss(w: jax.Array, x: jax.Array, notes: dict[str, jax.Array]) -> jax.Array:
    return -jnp.take_along_axis(jax.nn.log_softmax(x @ w), notes["read at the end"][:, None], 1).mean()


def keeps_all(w: jax.Array, x: jax.Array, notes: dict[str, jax.Array]) -> Any:
    return loss(w, x, notes), notes


def stepped(last: Any, replicas: int, platform: str) -> tuple[Any, dict[str, int]]:
    """What `step` returns the second time, and the bytes that each program sends to the host."""
    leading = (4, replicas) if replicas > 1 else (4,)
    notes = {name: np.ones((*leading, 2), np.int32) for name in ("read in the middle", "read at the end", "never read")}
    x = np.random.default_rng(0).normal(size=(*leading, 2, 8)).astype(np.float32)
    devices = jax.devices(platform)
    pipeline = Pipeline([first, middle, loss if last is None else last], optax.sgd(0.1), 4, devices=devices, device_mapping=[0, 1, 0],
                        replicas=replicas, strict=False)  # fmt: skip
    state = pipeline.init([0.1 * np.eye(8, dtype=np.float32)] * 3)
    state, _ = pipeline.step(state, (x, notes))
    with tilestep.profile() as profile:
        state, outputs = pipeline.step(state, (x, notes))
        outputs = jax.tree.map(np.asarray, outputs)
    return outputs, {program.name: program.host_bytes_out for program in profile.profile.programs if "stage" in program.name}


@pytest.mark.parametrize("replicas", [1, 2])
def test_what_nobody_reads_does_not_go_to_the_host(replicas: int) -> None:
    values, sent = stepped(None, replicas, "ipu")
    assert sent["jit_stage_1_forward"] == 0
    alone, _ = stepped(None, replicas, "cpu") if len(jax.devices("cpu")) >= 2 * replicas else (values, {})
    np.testing.assert_allclose(values, alone, rtol=1e-5)


def test_results_of_the_last_stage_pass_all_stages() -> None:
    (_, notes), _ = stepped(keeps_all, 1, "ipu")
    assert notes["never read"].shape == (4, 2)
    assert (notes["never read"] == 1).all()
