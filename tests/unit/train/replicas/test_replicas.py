"""Loops on replicas, which are CPU devices; in `make test-all` they are emulated IPUs too."""

import itertools
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax.sharding import AxisType, Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from tilestep import train
from tilestep.errors import ReplicasDifferError
from tilestep.train import InfeedQueue, OutfeedQueue, Replicas, repeat, while_loop

PLATFORM = "cpu"
DEVICES = jax.devices(PLATFORM)


@pytest.fixture(autouse=True, params=["cpu", pytest.param("ipu", marks=pytest.mark.slow)])
def _platform(request: pytest.FixtureRequest) -> None:
    global PLATFORM, DEVICES
    PLATFORM = request.param
    DEVICES = jax.devices(PLATFORM)


def replicas(count: int, shards: int = 1) -> Replicas:
    return Replicas(devices=DEVICES[: count * shards], shards=shards)


def numbers() -> Iterator[Any]:
    return (np.float32(k) for k in itertools.count())


def trained(there: Replicas | None, optimizer: Any, data: Any, steps: int) -> Any:
    """Weights after `steps` updates on batches of `data` that the replicas share."""
    optimizer = train.cross_replica(optimizer)
    count = 1 if there is None else there.count
    size = len(data) // (steps * count)
    batches = list(data.reshape(steps * count, size, data.shape[-1]))

    def body(carry: Any, batch: Any) -> Any:
        params, state = carry

        def loss(params: Any) -> Any:
            return jnp.mean((batch[:, :-1] @ params["w"] + params["b"] - batch[:, -1]) ** 2)

        updates, state = optimizer.update(jax.grad(loss)(params), state, params)
        return optax.apply_updates(params, updates), state

    params = {"w": jnp.zeros(data.shape[-1] - 1), "b": jnp.zeros(())}
    infeed = InfeedQueue(batches, replicas=there)
    (params, state) = repeat(steps, body, (params, optimizer.init(params)), infeed, replicas=there)
    if there is not None:
        train.require_equal_replicas((params, state), there)
    return params


@pytest.mark.parametrize(
    "optimizer",
    [
        pytest.param(optax.sgd(0.1, momentum=0.9), marks=pytest.mark.slow),
        optax.chain(optax.clip_by_global_norm(0.5), optax.adamw(1e-2)),
        pytest.param(optax.lamb(1e-2), marks=pytest.mark.slow),
    ],
)
def test_replicas_that_share_a_batch_are_one_replica_with_all_of_it(optimizer: Any) -> None:
    data = np.random.default_rng(0).normal(size=(6 * 8, 4)).astype(np.float32)
    one = trained(None, optimizer, data, 6)
    for count in (2, 4):
        result = trained(replicas(count), optimizer, data, 6)
        for name in one:
            np.testing.assert_allclose(result[name], one[name], rtol=1e-5, atol=1e-6)


def test_without_a_cross_replica_optimiser_replicas_drift_apart_and_it_is_found() -> None:
    """TensorFlow for the IPU's replicated graph without a reduction: each replica has its own weights then."""
    there = replicas(2)

    def body(w: Any, x: Any) -> Any:
        return {"w": w["w"] - 0.5 * x, "steps": w["steps"] + 1}

    result = repeat(3, body, {"w": np.float32(0), "steps": 0}, InfeedQueue(numbers(), replicas=there), replicas=there)
    (difference,) = train.replica_differences(result, there)
    assert (difference.path, difference.replica, difference.largest) == ("['w']", 1, 1.5)  # 0 + 2 + 4 against 1 + 3 + 5, halved
    with pytest.raises(ReplicasDifferError, match=r"\['w'\]: 1 of 1 elements on replica 1 differ from replica 0's, by 1.5 at most"):
        train.require_equal_replicas(result, there)
    assert [float(shard.data) for shard in result["w"].addressable_shards] == [-3, -4.5]
    again = repeat(1, body, result, InfeedQueue(itertools.repeat(np.float32(0)), replicas=there), replicas=there)
    assert [float(shard.data) for shard in again["w"].addressable_shards] == [-3, -4.5]  # each goes on with its own


def test_a_condition_must_hold_on_all_replicas() -> None:
    there = replicas(2)
    result = while_loop(lambda c: c["mine"] < 6, lambda c: {"mine": c["mine"] + 1 + train.replica_index(), "steps": c["steps"] + 1},
                        {"mine": 0, "steps": 0}, replicas=there)  # fmt: skip
    assert int(result["steps"]) == 3
    assert [int(shard.data) for shard in result["mine"].addressable_shards] == [3, 6]


def test_a_condition_that_is_false_on_the_replicas_needs_no_element() -> None:
    there = replicas(2)
    infeed = InfeedQueue(iter(()), replicas=there)
    assert while_loop(lambda c: train.cross_replica_sum(c) < 2, lambda c, x: c + x, 1.0, infeed, replicas=there) == 1


@pytest.mark.parametrize("explicit", [False, True])
def test_a_replica_of_several_devices_divides_its_arrays(explicit: bool) -> None:
    there = replicas(2, shards=2)
    if explicit:
        mesh = Mesh(there.mesh.devices, ("data", "model"), axis_types=(AxisType.Explicit, AxisType.Explicit))
        there = Replicas(mesh=mesh, axis="data")
    model = there.mesh.axis_names[1]
    w = jax.device_put(np.arange(8, dtype=np.float32).reshape(4, 2), NamedSharding(there.mesh, P(model)))

    def body(carry: Any, x: Any) -> Any:
        return {"w": carry["w"] + train.cross_replica_mean(x) * carry["w"], "steps": carry["steps"] + 1}

    result = repeat(3, body, {"w": w, "steps": 0}, InfeedQueue(numbers(), replicas=there), chunk=2, replicas=there)
    assert result["w"].sharding.spec == P(model)
    np.testing.assert_allclose(result["w"], np.arange(8).reshape(4, 2) * 1.5 * 3.5 * 5.5)
    assert int(result["steps"]) == 3
    train.require_equal_replicas(result, there)


def test_what_replicas_are() -> None:
    there = replicas(2, shards=2)
    assert (there.count, there.shards, there.local, there.axis) == (2, 2, (0, 1), "replica")
    assert [[d.id for d in row] for row in there.mesh.devices] == [[0, 1], [2, 3]]
    assert Replicas(devices=DEVICES[:4], shards=2) == there != replicas(4)
    assert hash(Replicas(mesh=there.mesh)) == hash(there)
    assert repr(there) == f"<Replicas: 2, each 2 devices of platform {PLATFORM}>"
    assert Replicas(1).mesh.devices.tolist() == jax.devices()[:1]
    with pytest.raises(AttributeError, match="immutable"):
        there.count = 3
    assert list(there.share(range(5))) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (
            {"count": 3, "shards": 1},
            ValueError,
            r"3 replicas x 1 shards = 3 devices, but 4 were given: leave count away, or give 3 devices",
        ),
        ({"count": 2, "shards": 4}, ValueError, r"2 replicas x 4 shards = 8 devices, but 4 were given"),
        (
            {"shards": 3},
            ValueError,
            r"4 devices / 3 shards = 1.333 replicas, no whole number above 0: give 3 or 6 devices, or other shards",
        ),
        ({"shards": 8}, ValueError, r"4 devices / 8 shards = 0.5 replicas, no whole number above 0: give 8 devices, or other shards"),
        ({"shards": 0}, ValueError, r"shards is 0: it must be 1 or more"),
        ({"count": 0}, ValueError, r"count is 0"),
        ({"count": True}, TypeError, r"count is True: it must be a whole number"),
        ({"devices": DEVICES[:1] * 2}, ValueError, r"devices has .* 2 times: each device is of one replica"),
        ({"devices": []}, ValueError, r"0 devices / 1 shards = 0 replicas"),
        ({"devices": DEVICES[0]}, TypeError, r"devices is .*: it must be a list of devices, such as jax.devices\(\)\[:2\]"),
        (
            {"devices": [0, 1]},
            TypeError,
            r"devices has 0: it must have jax.Devices; select_devices\(ids=\[...\]\) finds them by their numbers",
        ),
        ({"mesh": 3}, TypeError, r"mesh is 3: it must be a jax.sharding.Mesh"),
        ({"axis": ""}, TypeError, r"axis is '': it must be the name of a mesh axis, a string that is not empty"),
        ({"axis": "shard"}, ValueError, r"axis is 'shard': that is the name of the axis within a replica"),
        ({"mesh": Mesh(np.array(DEVICES[:2]), ("d",))}, ValueError, r"mesh and devices are given"),
        ({"mesh": Mesh(np.array(DEVICES[:2]), ("d",)), "devices": None}, ValueError, r"axis is 'replica', but the mesh has 'd'"),
        (
            {"mesh": Mesh(np.array(DEVICES[:2]), ("d",)), "devices": None, "axis": "d", "count": 4},
            ValueError,
            r"count is 4, but the mesh \{'d': 2\} has 2 replicas \(axis 'd'\) x 1 shards = 2 devices",
        ),
    ],
)
def test_devices_that_do_not_make_up_replicas_are_an_error_with_the_arithmetic(
    arguments: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        Replicas(**({"devices": DEVICES[:4]} | arguments))


def test_feeds_of_other_replicas_are_refused() -> None:
    there = replicas(2)

    def body(total: Any, x: Any) -> Any:
        return total + x

    for infeed, found in ((InfeedQueue(numbers()), "one"), (InfeedQueue(numbers(), replicas=3), "3")):
        with pytest.raises(ValueError, match=rf"the loop has 2 replicas, but a step of the InfeedQueue is of {found}: make it InfeedQueue"):
            repeat(1, body, 0.0, infeed, replicas=there)
    with pytest.raises(ValueError, match=r"the OutfeedQueue is made for values with an axis of 2 replicas"):
        repeat(1, lambda total: total, 0.0, outfeed=OutfeedQueue(replicas=2), replicas=there)
    with pytest.raises(TypeError, match=r"replicas is 2: it must be Replicas, such as Replicas\(2\)"):
        repeat(1, lambda total: total, 0.0, replicas=2)


def test_a_carry_that_is_divided_over_replicas_is_refused() -> None:
    there = replicas(2)
    with pytest.raises(ValueError, match=r"carry\['w'\] is divided over devices .*, but each replica needs all of it"):
        repeat(1, lambda c: c, {"w": jax.device_put(np.zeros(4), there.divided)}, replicas=there)
    other = Mesh(np.array(DEVICES[:2]), ("d",))
    with pytest.raises(ValueError, match=r"carry is divided over devices"):
        repeat(1, lambda c: c, jax.device_put(np.zeros(4), NamedSharding(other, P("d"))), replicas=there)
    moved = repeat(1, lambda c: c + 1, jax.device_put(np.zeros(4), NamedSharding(other, P())), replicas=there)
    assert moved.sharding == there.replicated
