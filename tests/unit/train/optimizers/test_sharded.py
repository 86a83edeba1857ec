"""An optimiser's state divided among replicas: values are what they were, each replica keeps its part, and little is gathered."""

from collections import Counter
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax.sharding import PartitionSpec as P

from tilestep.train import Replicas, cross_replica, offloaded, replica_specs, sharded, unsharded
from tilestep.train.replicas.groups import part_elements

FOUR = Replicas(4)
RNG = np.random.default_rng(0)
PARAMS = {"w": RNG.normal(size=(5, 2, 3)).astype(np.float32), "b": RNG.normal(size=8).astype(np.float32), "scale": np.float32(1)}
X = RNG.normal(size=(16, 10)).astype(np.float32)


def loss(params: Any, x: Any) -> Any:
    return jnp.mean((params["scale"] * jnp.tanh(x @ params["w"].reshape(10, 3)) + params["b"][:3] - 1) ** 2)


def step(optimizer: Any) -> Any:
    def body(params: Any, state: Any, x: Any) -> Any:
        updates, state = optimizer.update(jax.grad(loss)(params, x), state, params)
        return optax.apply_updates(params, updates), state

    return body


def mapped(optimizer: Any, there: Replicas = FOUR) -> tuple[Any, Any, Any]:
    """(a step on replicas, parameters, state)."""
    params = there.place(PARAMS)
    shapes = jax.eval_shape(there.shard_map(optimizer.init, in_specs=P(), out_specs=P()), params)
    specs = replica_specs(shapes, there.axis)
    state = jax.jit(there.shard_map(optimizer.init, in_specs=P(), out_specs=specs))(params)
    return there.shard_map(step(optimizer), in_specs=(P(), specs, P(there.axis)), out_specs=(P(), specs)), params, state


def trained(optimizer: Any, steps: int = 3) -> tuple[Any, Any]:
    function, params, state = mapped(optimizer)
    function, x = jax.jit(function), jax.device_put(X, FOUR.divided)
    for _ in range(steps):
        params, state = function(params, state, x)
    return params, state


def collectives(optimizer: Any) -> Counter[str]:
    """Collectives of a step, by name."""
    found: Counter[str] = Counter()

    def visit(jaxpr: Any) -> None:
        for equation in jaxpr.eqns:
            # Newer JAX has an all_gather_invariant only where shard_map checks what varies, which replicas don't ask of it.
            found[equation.primitive.name.removesuffix("_invariant")] += 1
            for value in equation.params.values():
                if hasattr(value, "eqns") or hasattr(value, "jaxpr"):
                    visit(getattr(value, "jaxpr", value))

    function, params, state = mapped(optimizer)
    visit(jax.make_jaxpr(function)(params, state, X).jaxpr)
    return Counter({name: found[name] for name in ("psum", "reduce_scatter", "all_gather") if found[name]})


@pytest.mark.slow
@pytest.mark.parametrize(
    "optimizer",
    [
        optax.adamw(0.1, mask=lambda params: jax.tree.map(lambda leaf: leaf.ndim > 1, params)),
        optax.chain(optax.clip_by_global_norm(0.1), optax.lamb(0.1)),
        optax.adafactor(0.1, min_dim_size_to_factor=2),
    ],
    ids=["adamw of matrices", "clipped lamb", "adafactor"],
)
def test_values_are_what_they_are_without_division(optimizer: Any) -> None:
    params, state = trained(sharded(cross_replica(optimizer), least_elements=2))
    expected = trained(cross_replica(optimizer))
    found = (params, unsharded(state))
    assert jax.tree.structure(found) == jax.tree.structure(expected)
    for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)  # some 10 operations, each fused with others or not


def test_each_replica_keeps_its_part() -> None:
    """PopART's example: a tensor of [5, 2, 3] over four replicas is 8 elements on each."""
    params, state = trained(sharded(cross_replica(optax.adam(0.1)), least_elements=9), steps=1)
    moment = state[0].mu["w"]
    assert moment.shape == (5, 2, 3)
    assert [shard.data.shape for shard in moment.values.addressable_shards] == [(8,)] * 4
    assert (np.asarray(moment.values)[30:] == 0).all()
    assert state[0].mu["b"].shape == params["b"].shape == (8,)  # fewer than 9: whole
    assert part_elements(30, 4) == 8


@pytest.mark.slow
def test_parts_from_a_checkpoint_are_divided_anew_over_any_number_of_replicas() -> None:
    _, state = trained(sharded(cross_replica(optax.adam(0.1)), least_elements=2))
    kept, whole = jax.device_get(state), unsharded(state)
    assert isinstance(kept[0].mu["w"].values, np.ndarray)
    for there, each in ((FOUR, 8), (Replicas(3), 10)):
        again = there.place(kept)
        assert [shard.data.shape for shard in again[0].mu["w"].values.addressable_shards] == [(each,)] * there.count
        for one, other in zip(jax.tree.leaves(unsharded(again)), jax.tree.leaves(whole), strict=True):
            np.testing.assert_array_equal(one, other)


def test_only_what_is_needed_whole_is_gathered() -> None:
    def of(optimizer: Any) -> Counter[str]:
        return collectives(sharded(cross_replica(optimizer), least_elements=2))

    # scale is a scalar; w and b are scattered as they are summed, and their updates gathered
    assert of(optax.adam(0.1)) == {"psum": 1, "reduce_scatter": 2, "all_gather": 2}
    assert of(optax.chain(optax.clip_by_global_norm(1.0), optax.adam(0.1))) == {"psum": 3, "all_gather": 2}
    assert of(optax.lamb(0.1)) == {"psum": 1, "reduce_scatter": 2, "all_gather": 2}  # the norm is of what is gathered anyway


def test_without_replicas_it_is_the_optimizer() -> None:
    plain = optax.sgd(0.1, momentum=0.9)
    params = jax.tree.map(jnp.asarray, PARAMS)
    found, expected = (jax.jit(step(one))(params, one.init(params), X) for one in (sharded(plain, least_elements=2), plain))
    for one, other in zip(jax.tree.leaves((found[0], unsharded(found[1]))), jax.tree.leaves(expected), strict=True):
        np.testing.assert_array_equal(one, other)


def test_what_cannot_be_is_told() -> None:
    with pytest.raises(ValueError, match="least_elements is 0: it must be 1 or more"):
        sharded(optax.adam(0.1), least_elements=0)
    with pytest.raises(ValueError, match=r"use offloaded\(sharded\(optimizer\)\)"):
        sharded(offloaded(optax.adam(0.1), True)).init({"w": jnp.ones(10)})
