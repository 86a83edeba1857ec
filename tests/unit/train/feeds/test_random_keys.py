"""Random keys in queues: each draws in a loop's or pipeline's step what it draws outside, and comes out as it went in."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from tilestep.train import InfeedQueue, OutfeedQueue, Pipeline, Replicas, cross_replica_sum, repeat


def keys(count: int, impl: str = "threefry2x32") -> list[jax.Array]:
    return [jax.random.fold_in(jax.random.key(0, impl=impl), number) for number in range(count)]


def dataset(count: int, impl: str = "threefry2x32") -> list[dict[str, Any]]:
    return [{"key": key, "x": np.float32(number)} for number, key in enumerate(keys(count, impl))]


def drawn(count: int, impl: str = "threefry2x32") -> list[float]:
    return [float(jax.random.normal(element["key"]) + element["x"]) for element in dataset(count, impl)]


def numbers(found: Any) -> np.ndarray:
    return np.asarray(jax.random.key_data(found))


def all_numbers(count: int, impl: str = "threefry2x32") -> np.ndarray:
    return np.stack([numbers(key) for key in keys(count, impl)])


def drawing(outfeed: OutfeedQueue) -> Any:
    def body(carry: Any, key: Any, x: Any) -> Any:
        outfeed.enqueue({"drawn": jax.random.normal(key) + x, "key": key})
        return carry + 1

    return body


@pytest.mark.few(3)
@pytest.mark.parametrize("platform", ["cpu", "ipu"])
@pytest.mark.parametrize(("chunk", "impl"), [(None, "threefry2x32"), (3, "rbg"), (1, "threefry2x32")])
def test_keys_go_in_and_come_out(chunk: int | None, impl: str, platform: str) -> None:
    with jax.default_device(jax.devices(platform)[0]), InfeedQueue(dataset(7, impl)) as infeed, OutfeedQueue() as outfeed:
        repeat(4, drawing(outfeed), 0, infeed, outfeed, chunk=chunk)
        repeat(3, drawing(outfeed), 0, infeed, outfeed, chunk=chunk)
        found = outfeed.dequeue()
        assert found["key"].dtype == keys(1, impl)[0].dtype
        assert {device.platform for device in found["key"].devices()} == {"cpu"}
        np.testing.assert_array_equal(numbers(found["key"]), all_numbers(7, impl))
        np.testing.assert_allclose(found["drawn"], drawn(7, impl), rtol=1e-5)
        assert outfeed.dequeue()["key"].shape == (0,)


def test_each_replica_has_its_own() -> None:
    replicas = Replicas(2, devices=jax.devices("ipu")[:2])
    outfeed = OutfeedQueue()

    def body(carry: Any, key: Any, x: Any) -> Any:
        outfeed.enqueue({"key": key})
        return carry + cross_replica_sum(jax.random.normal(key) + x)

    with InfeedQueue(dataset(4), replicas=replicas) as infeed:
        carry = repeat(2, body, jnp.float32(0), infeed, outfeed, replicas=replicas)
    np.testing.assert_allclose(carry, sum(drawn(4)), rtol=1e-5)
    np.testing.assert_array_equal(numbers(outfeed.dequeue()["key"]), all_numbers(4).reshape(2, 2, -1))


@pytest.mark.parametrize(
    ("keys", "says"),
    [
        (["threefry2x32", "rbg"], "does not say of each array whether it has random keys"),
        ([None], "does not say of each array"),
        (5, "does not say of each array"),
        (["of nobody"], "unrecognized PRNG implementation"),
        (["rbg"], "invalid PRNG key data"),
    ],
)
def test_a_state_with_keys_that_there_are_none_of_is_refused_and_the_queue_stays_empty(keys: Any, says: str) -> None:
    queue = OutfeedQueue()
    with pytest.raises((TypeError, ValueError), match=says):
        queue.restore_unread({"steps": 1, "values": [np.zeros((1, 2), np.uint32)], "keys": keys})
    assert len(queue) == 0


@pytest.mark.few(2)
@pytest.mark.parametrize("platform", ["cpu", "ipu"])
@pytest.mark.parametrize("training", [False, True])
def test_keys_pass_through_the_stages_of_a_pipeline(training: bool, platform: str) -> None:
    def first(w: Any, key: Any, x: Any) -> Any:
        return (jax.random.normal(key) + x) * w, key

    def last(w: Any, h: Any, key: Any) -> Any:
        return h * w + jax.random.normal(key), key

    pipeline = Pipeline([first, last], optax.sgd(0.1) if training else None, 4, devices=jax.devices(platform)[:2])
    outfeed = OutfeedQueue()
    with InfeedQueue(dataset(8)) as infeed:
        pipeline.run(pipeline.init([jnp.float32(1), jnp.float32(2)]), infeed, outfeed, repeat_count=2)
    found, came = outfeed.dequeue()
    expected = [2 * value + float(jax.random.normal(key)) for value, key in zip(drawn(4), keys(4), strict=True)]
    np.testing.assert_allclose(found[:4], expected, rtol=1e-4)  # before training changes the weights
    np.testing.assert_array_equal(numbers(came), all_numbers(8))
