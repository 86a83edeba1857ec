"""What an update makes of the replicas' gradients, against NumPy."""

from typing import Any

import numpy as np
import optax
import pytest

from tilestep.train import Pipeline, accumulate_gradients, cross_replica, gradient_accumulation, select_devices, unsharded
from tilestep.train.untyped import jax

WIDTH, ROWS, COUNT, RATE, UPDATES = 96, 3, 2, 0.05, 2  # a weight has 9,216 elements: more than the least that is divided
RNG = np.random.default_rng(0)
PARAMS = [RNG.normal(0, 0.05, (WIDTH, WIDTH)).astype(np.float32) for _ in range(2)]
HOST = {"optimizer_state": True, "accumulators": True, "parameters": True}


def dense(params: Any, x: Any) -> Any:
    return x @ params


def loss(params: Any, x: Any) -> Any:
    return ((x @ params) ** 2).sum() / 2


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


@pytest.mark.few(3)
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
