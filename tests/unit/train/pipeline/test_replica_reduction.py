"""What an update makes of the replicas' gradients, against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import optax
import pytest

from tilestep.train import Pipeline, Replicas, accumulate_gradients, cross_replica, gradient_accumulation, select_devices, unsharded
from tilestep.train.untyped import jax

WIDTH, ROWS, COUNT, RATE, UPDATES = 96, 3, 2, 0.05, 2  # a weight has 9,216 elements: more than the least that is divided
RNG = np.random.default_rng(0)
PARAMS = [RNG.normal(0, 0.05, (WIDTH, WIDTH)).astype(np.float32) for _ in range(2)]
HOST = {"optimizer_state": True, "accumulators": True, "parameters": True}


def dense(params: Any, x: Any) -> Any:
    return x @ params


def loss(params: Any, x: Any) -> Any:
    return ((x @ params) ** 2).sum() / 2


def whole_loss(params: Any, x: Any) -> Any:
    return loss(params[1], dense(params[0], x))


def data(replicas: int) -> Any:
    return np.random.default_rng(1).normal(size=(COUNT, replicas, ROWS, WIDTH)).astype(np.float32)


def gradients(params: Any, x: Any) -> list[Any]:
    """Those of one microbatch of one replica."""
    hidden = x @ params[0]
    of_outputs = hidden @ params[1]
    return [x.T @ (of_outputs @ params[1].T), hidden.T @ of_outputs]


def expected(replicas: int, reduction: str, replica_reduction: str) -> list[Any]:
    """The parameters after some updates with momentum."""
    params = [one.astype(np.float64) for one in PARAMS]
    traces = [np.zeros_like(one) for one in params]
    microbatches = COUNT if reduction != "sum" else 1
    copies = replicas if replica_reduction == "mean" else 1
    for _ in range(UPDATES):
        every = [gradients(params, x) for row in data(replicas).astype(np.float64) for x in row]
        for stage in range(2):
            gradient = sum(own[stage] for own in every) / microbatches / copies
            traces[stage] = 0.9 * traces[stage] + gradient
            params[stage] = params[stage] - RATE * traces[stage]
    return params


def clipped() -> Any:
    return optax.chain(optax.clip_by_global_norm(1e9), optax.sgd(RATE, momentum=0.9))  # looks across stages, and changes nothing


def trained(replicas: int, optimizer: Any = None, **options: Any) -> list[Any]:
    """Two stages on one device for each replica."""
    devices = select_devices([replicas], platform="cpu")[0]
    optimizer = optax.sgd(RATE, momentum=0.9) if optimizer is None else optimizer
    pipeline = Pipeline([dense, loss], optimizer, COUNT, replicas=replicas, devices=devices, device_mapping=[0, 0], strict=False, **options)
    state = pipeline.init(PARAMS)
    for _ in range(UPDATES):
        state, _ = pipeline.step(state, data(replicas))
    return [np.asarray(one) for one in jax.tree.leaves(unsharded(state.params))]


def require_near(found: list[Any], wanted: list[Any]) -> None:
    for own, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(own, other, rtol=1e-4, atol=1e-5)


CASES: list[tuple[int, str, Any]] = [
    (2, "sum", {}),
    (2, "running_mean", {"offload_optimizer_state": HOST}),
    (2, "mean", {"optimizer": clipped()}),
    (4, "running_mean", {"shard_optimizer_state": True}),
    (4, "sum", {"shard_optimizer_state": 2, "offload_optimizer_state": HOST, "optimizer": clipped()}),
]


@pytest.mark.parametrize(
    ("replicas", "reduction", "options", "replica_reduction"),
    [
        (*CASES[0], "sum"),
        *((*case, "mean") for case in CASES),
        *(pytest.param(*case, "sum", marks=pytest.mark.slow) for case in CASES[1:]),
    ],
)
def test_a_pipeline_takes_the_sum_or_the_mean_of_its_replicas(replicas: int, reduction: str, options: Any, replica_reduction: str) -> None:
    found = trained(replicas, reduction=reduction, replica_reduction=replica_reduction, **options)
    require_near(found, expected(replicas, reduction, replica_reduction))


def accumulated(replicas: int, replica_reduction: Any, **options: Any) -> list[Any]:
    """Updates with `gradient_accumulation`."""
    there = Replicas(devices=select_devices([replicas], platform="cpu")[0])
    optimizer = gradient_accumulation(
        optax.sgd(RATE, momentum=0.9), COUNT, reduction="running_mean", replica_reduction=replica_reduction, **options
    )

    def update(params: Any, x: Any) -> Any:
        state = optimizer.init(params)
        for _ in range(UPDATES):
            for microbatch in range(COUNT):
                own = jax.grad(whole_loss)(params, x[microbatch, 0])
                changes, state = optimizer.update(own, state, params)
                params = optax.apply_updates(params, changes)
        return params

    specs: Any = (jax.sharding.PartitionSpec(), jax.sharding.PartitionSpec(None, there.axis))
    found = jax.jit(there.shard_map(update, in_specs=specs, out_specs=jax.sharding.PartitionSpec()))(there.place(PARAMS), data(replicas))
    return [np.asarray(one) for one in found]


@pytest.mark.parametrize("replica_reduction", ["sum", "mean"])
@pytest.mark.parametrize(("replicas", "shard"), [(2, False), (4, True)])
def test_accumulation_combines_replicas_once_for_each_update(replicas: int, shard: bool, replica_reduction: Any) -> None:
    options = {"shard_optimizer_state": True, "offload_optimizer_state": True} if shard else {}
    require_near(accumulated(replicas, replica_reduction, **options), expected(replicas, "running_mean", replica_reduction))


@pytest.mark.parametrize("replica_reduction", ["sum", "mean", None])
def test_accumulated_gradients_are_each_replica_s_own_unless_they_are_combined(replica_reduction: Any) -> None:
    there = Replicas(devices=select_devices([2], platform="cpu")[0])

    def work(params: Any, x: Any) -> Any:
        _, found = accumulate_gradients(whole_loss, params, (x[:, 0],), replica_reduction=replica_reduction)
        return [leaf[None] for leaf in found]

    spec = jax.sharding.PartitionSpec
    mapped = there.shard_map(work, in_specs=(spec(), spec(None, there.axis)), out_specs=spec(there.axis))
    found = jax.jit(mapped)(there.place(PARAMS), data(2))
    own = [[sum(gradients(PARAMS, row[replica])[stage] for row in data(2)) for replica in range(2)] for stage in range(2)]
    for stage in range(2):
        wanted = own[stage]
        if replica_reduction is not None:
            wanted = [sum(own[stage]) / (2 if replica_reduction == "mean" else 1)] * 2
        np.testing.assert_allclose(np.asarray(found[stage]), np.stack(wanted), rtol=1e-3, atol=1e-4)


def test_other_reductions_are_refused() -> None:
    sgd = optax.sgd(0.1)
    with pytest.raises(ValueError, match=r"replica_reduction is 'max'.*sum.*mean"):
        Pipeline([loss], sgd, 1, replica_reduction="max")
    with pytest.raises(ValueError, match=r"replica_reduction is None.*sum.*mean"):
        cross_replica(sgd, replica_reduction=None)
    with pytest.raises(ValueError, match="replica_reduction is 'running_mean'"):
        gradient_accumulation(sgd, 2, replica_reduction="running_mean")
    with pytest.raises(ValueError, match="replica_reduction is 'no'"):
        accumulate_gradients(loss, 1.0, np.zeros(2), replica_reduction="no")


def test_what_is_no_gradient_passes_a_sum() -> None:
    optimizer = cross_replica(optax.identity(), replica_reduction="sum")
    none = np.zeros(3, jax.dtypes.float0)
    updates: Any = {"a": none, "b": None}
    changes: Any = optimizer.update(updates, optimizer.init({}))[0]
    assert changes["a"] is none
    assert changes["b"] is None
