"""The state of an optimiser that looks across stages, divided among replicas and in the host's memory, on emulated IPUs."""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import tilestep
from tilestep.train import Pipeline, Shard, select_devices, unsharded

WIDTH, ROWS, COUNT, REPLICAS = 96, 8, 2, 2  # a weight has 9,216 elements: more than the least that is divided
OPTIMIZER = optax.chain(optax.clip_by_global_norm(0.01), optax.lamb(0.01))
RNG = np.random.default_rng(0)
PARAMS = [{"w": RNG.normal(0, 0.1, (WIDTH, WIDTH)).astype(np.float32), "b": np.zeros(WIDTH, np.float32)} for _ in range(2)]
DATA = RNG.normal(size=(COUNT, REPLICAS, ROWS, WIDTH)).astype(np.float32)
BOTH = {"shard_optimizer_state": True, "offload_optimizer_state": True}


class Trained(NamedTuple):
    """After two steps. Attributes: profile: of the second one."""

    state: Any
    profile: Any

    def cycles(self, kind: str, ipu: int) -> int:
        return sum(e.end_cycle - e.start_cycle for e in self.profile.timeline if (e.kind, e.ipu) == (kind, ipu))


def dense(params: Any, x: Any) -> Any:
    return jnp.tanh(x @ params["w"] + params["b"])


def loss(params: Any, x: Any) -> Any:
    return (dense(params, x) ** 2).mean()


def trained(optimizer: Any = OPTIMIZER, *, platform: str = "ipu", **options: Any) -> Trained:
    devices = select_devices([4], platform=platform)[0]
    pipeline = Pipeline([dense, loss], optimizer, COUNT, replicas=REPLICAS, devices=devices, strict=False, **options)
    state, _ = pipeline.step(pipeline.init(PARAMS), DATA)
    with tilestep.profile() as profile:
        state, _ = pipeline.step(state, DATA)
        jax.block_until_ready(state)
    return Trained(state, profile)


@functools.cache
def trained_with(*names: str) -> Trained:
    """With these options on. Several tests read the same result."""
    return trained(**dict.fromkeys(names, True))


def assert_same_values(found: Any, wanted: Any) -> None:
    """Rounding alone differs, because XLA fuses other operations."""
    for own, other in zip(jax.tree.leaves(unsharded(found)), jax.tree.leaves(wanted), strict=True):
        np.testing.assert_allclose(np.asarray(own), np.asarray(other), rtol=1e-5, atol=1e-7)


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [
        {"offload_optimizer_state": True},
        BOTH,
        {
            "shard_optimizer_state": True,
            "offload_optimizer_state": {"optimizer_state": True, "parameters": True, "accumulators": True},
            "gradient_accumulation_dtype": "float32",
            "plan_options": [{"partials_type": "half"}, None],
        },
    ],
)
def test_values_are_the_same_wherever_the_state_is(options: Any) -> None:
    is_cached = all(value is True for value in options.values())
    found = trained_with(*options) if is_cached else trained(platform="cpu", **options)
    assert_same_values(found.state, trained_with().state)
    nodes = jax.tree.leaves(found.state.optimizer_state, is_leaf=lambda node: isinstance(node, Shard))
    if "shard_optimizer_state" in options:
        assert sum(isinstance(node, Shard) for node in nodes) == 2 * 2  # LAMB's moments of each stage's weight
    offloads = bool(options.get("offload_optimizer_state"))
    memories = {leaf.sharding.memory_kind for leaf in jax.tree.leaves(found.state.optimizer_state) if leaf.size > 1}
    assert memories == ({"pinned_host"} if offloads else {"device"})
    assert not any(found.cycles("load", ipu) for ipu in range(4))  # the first step has loaded all programs


@pytest.mark.slow
def test_the_state_is_where_it_is_used_and_takes_the_time_of_its_way() -> None:
    whole, away, parts = trained_with(), trained_with("offload_optimizer_state"), trained_with(*BOTH)
    for ipu in range(4):
        assert whole.cycles("host-call", ipu) == 0 < parts.cycles("host-call", ipu) < away.cycles("host-call", ipu)
        assert parts.cycles("collective", ipu) > whole.cycles("collective", ipu)  # updates are gathered
    for stage, devices in enumerate(({0, 2}, {1, 3})):
        moments = parts.state.optimizer_state.state[1][0].mu[stage]["w"]
        assert isinstance(moments, Shard)
        assert {device.id for device in moments.values.devices()} == devices
        assert moments.values.addressable_shards[0].data.shape == (WIDTH * WIDTH // REPLICAS,)


@pytest.mark.slow
def test_only_numbers_cross_for_a_global_norm() -> None:
    """Three weights and three biases, so that the sum over all of them takes several steps."""
    devices = select_devices([3])[0]
    optimizer = optax.chain(optax.clip_by_global_norm(0.01), optax.sgd(0.01, momentum=0.9))
    pipeline = Pipeline([dense, dense, loss], optimizer, COUNT, devices=devices, strict=False)
    params = [*PARAMS, PARAMS[0]]
    state = pipeline.init(params)
    moments = state.optimizer_state.state[1][0].trace
    assert [own["w"].devices() for own in moments] == [{device} for device in devices]
    state, _ = pipeline.step(state, DATA[:, 0])
    moments = state.optimizer_state.state[1][0].trace
    assert [own["w"].devices() for own in moments] == [{device} for device in devices]
