"""Random keys in queues: each draws in a loop's or pipeline's step what it draws outside, and comes out as it went in."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from tilestep.errors import DatasetError, QueueError
from tilestep.train import InfeedQueue, OutfeedQueue, Pipeline, Replicas, cross_replica_sum, dataset_benchmark, repeat


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
    ("odd", "found"),
    [
        (np.zeros(2, np.uint32), r"uint32\[2\]"),
        (jax.random.key(1, impl="rbg"), r"key<rbg>\[\]"),
        (jax.random.split(jax.random.key(1)), r"key<threefry2x32>\[2\]"),
    ],
)
def test_an_element_with_another_kind_of_key_is_refused(odd: Any, found: str) -> None:
    with (
        InfeedQueue([jax.random.key(0), odd]) as infeed,
        pytest.raises(DatasetError, match=rf"element 1 is {found}, in the first one it was key<threefry2x32>\[\]"),
    ):
        repeat(2, lambda carry, key: carry, 0, infeed)


def test_keys_wait_for_keys_alone() -> None:
    outfeed = OutfeedQueue()

    def enqueuing(value: Any) -> Any:
        def body(carry: Any) -> Any:
            outfeed.enqueue(value)
            return carry

        return body

    repeat(1, enqueuing(jax.random.key(0)), 0, outfeed=outfeed)
    with pytest.raises(QueueError, match=r"the loop enqueues uint32\[2\], but values like key<threefry2x32>\[\] wait to be read"):
        repeat(1, enqueuing(jnp.zeros(2, jnp.uint32)), 0, outfeed=outfeed)


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


def test_keys_that_a_stage_makes_pass_on_update_after_update() -> None:
    def first(w: Any, number: Any) -> Any:
        return number * w, jax.random.fold_in(jax.random.key(0), number.astype(int))

    pipeline = Pipeline([first, lambda w, h, key: (h * w, key)], None, 2, devices=jax.devices("cpu")[:2])
    outfeed = OutfeedQueue()
    with InfeedQueue([np.float32(number) for number in range(6)]) as infeed:
        pipeline.run(pipeline.init([jnp.float32(1), jnp.float32(2)]), infeed, outfeed, repeat_count=3)
    np.testing.assert_array_equal(numbers(outfeed.dequeue()[1]), all_numbers(6))


def test_keys_count_as_their_numbers_in_a_benchmark() -> None:
    assert '"total_bytes_processed": 16.0' in dataset_benchmark(lambda: iter(keys(2)), 1, 2)
