"""An optimiser's state in the host's memory: no value changes, and each array is where it was asked for."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from tilestep.train import (
    apply_updates,
    gradient_accumulation,
    offloaded,
    on_device,
    placed,
    repeat,
    sharded,
)
from tilestep.train.offload import why_not

X = np.random.default_rng(0).normal(size=(16, 8)).astype(np.float32)


def parameters() -> Any:
    return {"w": jnp.asarray(X[:8]), "b": jnp.zeros(8), "scale": jnp.float32(1)}


def loss(params: Any, x: Any) -> Any:
    return jnp.mean((params["scale"] * jnp.tanh(x @ params["w"] + params["b"]) - 1) ** 2)


def step(optimizer: Any) -> Callable[[Any], Any]:
    def body(carry: Any) -> Any:
        params, state = carry
        updates, state = optimizer.update(jax.grad(loss)(on_device(params), X), state, params)
        return apply_updates(params, updates), state

    return body


def trained(optimizer: Any, params: Any = None, steps: int = 5) -> Any:
    params = parameters() if params is None else params
    return repeat(steps, step(optimizer), (params, optimizer.init(params)))


def memories(tree: Any) -> Any:
    return jax.tree.map(lambda leaf: leaf.sharding.memory_kind, tree)


def test_a_divided_state_that_is_to_stay_on_the_device_is_refused() -> None:
    """TensorFlow for the IPU's `replicated_optimizer_state_sharding` with `offload_weight_update_variables=False`."""
    for offload in (False, {"optimizer_state": False}):
        with pytest.raises(ValueError, match=r"offload_optimizer_state False: .* give sharded\(optimizer\)"):
            gradient_accumulation(optax.adam(0.1), 2, offload_optimizer_state=offload, shard_optimizer_state=True)
    gradient_accumulation(optax.adam(0.1), 2, shard_optimizer_state=True)
    gradient_accumulation(sharded(optax.adam(0.1)), 2, offload_optimizer_state=False)


def test_variables_are_chosen_one_by_one() -> None:
    seen: list[tuple[str, Any]] = []

    def choose(path: str, leaf: Any) -> bool:
        seen.append((path, leaf.shape))
        return path.endswith("mu/w")

    _, state = trained(offloaded(optax.adam(0.1), choose))
    assert memories(state[0].mu) == {"w": "pinned_host", "b": "device", "scale": "device"}
    assert set(memories(state[0].nu).values()) == {"device"}
    assert seen[:4] == [("0/count", ()), ("0/mu/b", (8,)), ("0/mu/scale", ()), ("0/mu/w", (8, 8))]


def test_a_body_that_moves_its_carry_is_refused() -> None:
    with pytest.raises(
        TypeError, match=r"carry\['h'\]: the loop's body, .*lambda.*, must keep it in the host's memory: found in the device's"
    ):
        repeat(2, lambda carry: on_device(carry), placed({"h": jnp.ones(3)}, True))


def test_a_platform_without_such_a_memory_is_told_of(monkeypatch: pytest.MonkeyPatch) -> None:
    """There is none here, so this one is described as one."""
    monkeypatch.setattr("tilestep.train.offload.HOST_KIND", "attic")
    params = parameters()
    with pytest.raises(
        ValueError, match=r"offload wants optimizer_state in the host's memory, but the devices of platform 'cpu' address no"
    ):
        offloaded(optax.adam(0.1), True).init(params)
    with pytest.warns(
        UserWarning, match="optimizer_state stay on the device: the devices of platform 'ipu' address no memory 'attic'"
    ) as told:
        state = offloaded(optax.adam(0.1), platform="ipu").init(params)
    assert len(told) == 1
    assert told[0].filename == __file__
    assert set(jax.tree.leaves(memories(state))) == {"device"}


def test_what_cannot_be_is_told() -> None:
    assert why_not("gpu", ["device", "pinned_host"]) is None
    assert why_not("abacus", ["device"]) == "the devices of platform 'abacus' address no memory 'pinned_host', only device"
    with pytest.raises(TypeError, match="offload is 'yes' for optimizer_state: it must be None, True, False or a function"):
        offloaded(optax.adam(0.1), "yes")
    with pytest.raises(ValueError, match="offload has an entry for 'weights': the kinds are optimizer_state, accumulators, parameters"):
        offloaded(optax.adam(0.1), {"weights": True})
    with pytest.raises(TypeError, match=r"offload\('0/count', leaf\) returned 1: it must be True or False"):
        offloaded(optax.adam(0.1), lambda path, leaf: 1).init(parameters())
