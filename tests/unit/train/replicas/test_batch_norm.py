"""Batch norm over groups of two neighbouring replicas, against NumPy's formula and JAX's gradient for the rows of whole groups."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest

from tilestep.train import Replicas, cross_replica_mean

REPLICAS, MICROBATCHES, ROWS, FEATURES, CHANNELS = 4, 3, 8, 5, 6
GROUPS = [[0, 1], [2, 3]]


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


@pytest.mark.slow
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
