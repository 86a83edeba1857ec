"""Batch norm over groups of two neighbouring replicas, against NumPy's formula and JAX's gradient for the rows of whole groups."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import tilestep
from tilestep.train import InfeedQueue, Pipeline, Replicas, accumulate_gradients, cross_replica, cross_replica_mean, repeat, select_devices

REPLICAS, MICROBATCHES, ROWS, FEATURES, CHANNELS = 4, 3, 8, 5, 6
GROUPS = [[0, 1], [2, 3]]
SCALE = np.arange(CHANNELS, dtype=np.float32)
MEANS = {
    "cross_replica_mean": lambda x: cross_replica_mean(x, group_size=2),
    "jax.lax.pmean": lambda x: jax.lax.pmean(x, "replica", axis_index_groups=GROUPS),
    "of each replica": lambda x: x,
}
RNG = np.random.default_rng(0)
WEIGHTS = RNG.normal(size=(FEATURES, CHANNELS)).astype(np.float32)
DATA = RNG.normal(size=(MICROBATCHES, REPLICAS, ROWS, FEATURES)).astype(np.float32)


def normalised(x: Any, mean: Any) -> Any:
    center = mean(x.mean(0))
    variance = mean(((x - center) ** 2).mean(0))
    return (x - center) / (variance + 1e-3) ** 0.5


def loss(w: Any, x: Any, mean: Any) -> Any:
    return (jnp.tanh(normalised(x @ w, mean)) * SCALE).mean()


def of_whole_groups(w: Any, x: Any) -> Any:
    """The mean loss of all replicas, [replicas, rows, features], as if one device had the rows of a group."""
    return jnp.mean(jnp.stack([loss(w, x[jnp.array(group)].reshape(-1, FEATURES), lambda x: x) for group in GROUPS]))


def wanted() -> np.ndarray[Any, Any]:
    with jax.default_device(jax.devices("cpu")[0]):
        gradient = sum(jax.grad(of_whole_groups)(WEIGHTS, x) for x in DATA)
        return np.asarray(WEIGHTS - 0.1 * gradient / MICROBATCHES)


def collective_cycles(profile: Any) -> int:
    return sum(event.end_cycle - event.start_cycle for event in profile.timeline if event.kind == "collective" and event.ipu == 0)


def updated_in_repeat(mean: Any) -> tuple[Any, int]:
    replicas = Replicas(devices=select_devices([REPLICAS], platform="ipu")[0])
    optimizer = cross_replica(optax.sgd(0.1))

    def step(carry: Any, x: Any) -> Any:
        w, state = carry
        _, gradient = accumulate_gradients(lambda w, x: loss(w, x, mean), w, x, reduction="mean")
        updates, state = optimizer.update(gradient, state, w)
        return optax.apply_updates(w, updates), state

    infeed = InfeedQueue([DATA[:, replica] for replica in range(REPLICAS)], replicas=replicas)
    with tilestep.profile() as profile:
        w, _ = repeat(1, step, (WEIGHTS, optimizer.init(jnp.asarray(WEIGHTS))), infeed, replicas=replicas)
        w = np.asarray(w)
    return w, collective_cycles(profile)


def updated_in_pipeline(mean: Any) -> tuple[Any, int]:
    def first(w: Any, x: Any) -> Any:
        return normalised(x @ w, mean)

    def last(scale: Any, x: Any) -> Any:
        return (jnp.tanh(x) * jax.lax.stop_gradient(scale)).mean()

    pipeline = Pipeline(
        [first, last],
        optax.sgd(0.1),
        MICROBATCHES,
        reduction="mean",
        replicas=REPLICAS,
        devices=select_devices([REPLICAS], platform="ipu")[0],
        device_mapping=[0, 0],
        strict=False,
    )
    with tilestep.profile() as profile:
        state, _ = pipeline.step(pipeline.init([WEIGHTS, SCALE]), DATA)
        w = np.asarray(state.params[0])
    return w, collective_cycles(profile)


@pytest.mark.parametrize(("update", "name"), [(updated_in_repeat, "jax.lax.pmean"), (updated_in_pipeline, "cross_replica_mean")])
def test_groups_of_replicas_share_statistics_forward_and_backward(update: Any, name: str) -> None:
    """Rounding alone differs: sums of 16 rows in another order."""
    alone, cycles_alone = update(MEANS["of each replica"])
    assert np.abs(alone - wanted()).max() > 1e-5
    found, cycles = update(MEANS[name])
    np.testing.assert_allclose(found, wanted(), rtol=1e-5, atol=1e-6)
    assert cycles > cycles_alone  # what crosses takes time in each microbatch


def test_statistics_are_those_of_numpy() -> None:
    replicas = Replicas(REPLICAS)
    x = DATA[0] @ WEIGHTS
    for name in ("cross_replica_mean", "jax.lax.pmean"):
        spec = jax.sharding.PartitionSpec(replicas.axis)
        found = jax.jit(replicas.shard_map(lambda x, name=name: normalised(x[0], MEANS[name])[None], in_specs=spec, out_specs=spec))(
            jax.device_put(x, jax.sharding.NamedSharding(replicas.mesh, spec))
        )
        for group in GROUPS:
            rows = x[group].reshape(-1, CHANNELS)
            expected = (x[group] - rows.mean(0)) / np.sqrt(rows.var(0) + 1e-3)
            np.testing.assert_allclose(np.asarray(found)[group], expected, rtol=1e-5, atol=1e-5)
