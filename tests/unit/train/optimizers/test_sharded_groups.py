"""An optimiser's state divided within groups of replicas: values are what they were, and each group has and gathers all of it."""

from dataclasses import replace
from typing import Any

import jax
import numpy as np
import optax
import pytest

from tests.unit.train.optimizers.test_sharded import FOUR, PARAMS, X, mapped, trained
from tilestep.train import Shard, cross_replica, gradient_accumulation, repeat, sharded, unsharded

ADAM = cross_replica(optax.adam(0.1))
PARTS = {1: 30, 2: 15, 4: 8}  # elements of 30 on a replica


def assert_equal(found: Any, expected: Any) -> None:
    for one, other in zip(jax.tree.leaves(unsharded(found)), jax.tree.leaves(expected), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.slow
@pytest.mark.parametrize("group_size", PARTS)
def test_each_group_has_the_whole_state_and_values_are_what_they_are_without_division(group_size: int) -> None:
    params, state = trained(sharded(ADAM, least_elements=2, group_size=group_size))
    for one, other in zip(jax.tree.leaves((params, unsharded(state))), jax.tree.leaves(trained(ADAM)), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)  # some 10 operations, each fused with others or not
    parts = [np.asarray(shard.data) for shard in state[0].mu["w"].values.addressable_shards]
    assert [part.shape for part in parts] == [(PARTS[group_size],)] * 4
    for replica, part in enumerate(parts):
        np.testing.assert_array_equal(part, parts[replica % group_size])


@pytest.mark.slow
def test_a_state_of_another_group_size_is_refused_and_divided_anew_as_the_error_says() -> None:
    _, state = trained(sharded(ADAM, least_elements=2), steps=1)
    function, params, _ = mapped(sharded(ADAM, least_elements=2, group_size=2))
    with pytest.raises(
        ValueError, match=r"state has group_size None, but the optimiser has 2: .*reshape\(-1\), group_size=2\), then Replicas"
    ):
        function(params, state, X)

    def anew(node: Any) -> Any:
        return replace(node, values=unsharded(node).reshape(-1), group_size=2) if isinstance(node, Shard) else node

    grouped = FOUR.place(jax.tree.map(anew, state, is_leaf=lambda node: isinstance(node, Shard)))
    assert [shard.data.shape for shard in grouped[0].mu["w"].values.addressable_shards] == [(15,)] * 4
    assert_equal(grouped, unsharded(state))
    jax.block_until_ready(jax.jit(function)(params, grouped, jax.device_put(X, FOUR.divided)))


def test_an_update_outside_of_the_replicas_keeps_the_copies_of_groups_of_one() -> None:
    optimizer = sharded(optax.adam(0.1), least_elements=2, group_size=1)
    params = FOUR.place(PARAMS)
    state = FOUR.place(optimizer.init(PARAMS))
    expected = jax.jit(optax.adam(0.1).update)(params, optax.adam(0.1).init(PARAMS), params)
    found = jax.jit(optimizer.update)(params, state, params)
    np.testing.assert_array_equal(found[1][0].mu["w"].values.reshape(4, -1), [np.asarray(expected[1][0].mu["w"]).reshape(-1)] * 4)
    assert_equal(found, expected)


def test_an_accumulation_divides_within_groups() -> None:
    params = {"w": np.ones((128, 64), np.float32)}

    def trained_by(**options: Any) -> Any:
        optimizer = gradient_accumulation(ADAM, 2, **options)

        def body(carry: Any) -> Any:
            held, state = carry
            updates, state = optimizer.update({"w": held["w"] * 0.1}, state, held)
            return optax.apply_updates(held, updates), state

        return repeat(2, body, (params, optimizer.init(params)), replicas=FOUR)

    found, expected = trained_by(shard_optimizer_state=2, offload_optimizer_state=True), trained_by()
    moments = found[1].inner[0].mu["w"]
    assert [shard.data.shape for shard in moments.values.addressable_shards] == [(64 * 64,)] * 4
    assert moments.values.sharding.memory_kind == "pinned_host"
    for one, other in zip(jax.tree.leaves(unsharded(found)), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)
