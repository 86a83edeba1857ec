"""`OutfeedQueue`: values of each step, after the loop or, from another thread, while it runs."""

import itertools
import threading
import time
import warnings
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tilestep.errors import QueueError
from tilestep.train import InfeedQueue, OutfeedQueue, loop_state, repeat, while_loop
from tilestep.train.feeds import outfeed_queue


def counting(outfeed: OutfeedQueue) -> Any:
    def body(c: Any) -> Any:
        outfeed.enqueue(c)
        return c + 1

    return body


def test_values_come_stacked_in_their_structure_and_once() -> None:
    outfeed = OutfeedQueue()
    assert outfeed.dequeue() is None

    def body(c: Any) -> Any:
        outfeed.enqueue({"a": (c, jnp.ones((2, 3)) * c), "n": 3})
        return c + 1

    repeat(5, body, 0, outfeed=outfeed, chunk=2)
    result = outfeed.dequeue()
    np.testing.assert_array_equal(result["a"][0], np.arange(5))
    assert (result["a"][1].shape, result["n"].tolist()) == ((5, 2, 3), [3] * 5)
    empty = outfeed.dequeue()
    assert (empty["a"][1].shape, empty["a"][1].dtype, empty["n"].shape) == ((0, 2, 3), np.float32, (0,))


def test_mode_last_keeps_the_newest_alone() -> None:
    outfeed = OutfeedQueue("last")
    with pytest.raises(QueueError, match="nothing new in the OutfeedQueue"):
        outfeed.dequeue()
    for _ in range(2):
        repeat(7, counting(outfeed), 0, outfeed=outfeed, chunk=3)
    assert outfeed.dequeue() == 6
    with pytest.raises(QueueError, match="nothing new"):
        outfeed.dequeue()
    with pytest.raises(QueueError, match="mode 'last' has no sequence"):
        iter(outfeed)


def test_a_replica_axis_is_there_for_more_than_one_replica() -> None:
    for replicas, expected in ((1, (20, 4, 4)), (2, (20, 2, 4, 4))):
        outfeed, last = OutfeedQueue(replicas=replicas), OutfeedQueue("last", replicas=replicas)
        for queue in (outfeed, last):

            def body(c: Any, queue: OutfeedQueue = queue, replicas: int = replicas) -> Any:
                queue.enqueue(jnp.zeros((replicas, 4, 4)) + c)
                return c + 1

            repeat(20, body, 0, outfeed=queue)
        assert outfeed.dequeue().shape == expected
        assert last.dequeue().shape == expected[1:]
    queue = OutfeedQueue(replicas=2)
    with pytest.raises(TypeError, match=r"enqueued value has shape \(\): its leading axis must be that of the queue's 2 replicas"):
        repeat(1, counting(queue), 0, outfeed=queue)


def test_another_thread_sees_values_in_order_while_the_loop_runs() -> None:
    """TensorFlow for the IPU's second example: 100 losses, in order, before the loop returns; each at most one chunk after its step."""
    outfeed, seen, ahead = OutfeedQueue(), [], []
    returned = threading.Event()
    gates = [threading.Event() for _ in range(10)]

    def dataset() -> Any:
        for k in range(100):
            if k and k % 10 == 0:  # the next chunk waits until all values of the one before it have been read
                assert gates[k // 10].wait(60)
            yield np.float32(k)

    def read() -> None:
        for value in outfeed:
            ahead.append(returned.is_set())
            seen.append(float(value))
            if len(seen) % 10 == 0 and len(seen) < 100:
                gates[len(seen) // 10].set()

    def body(c: Any, x: Any) -> Any:
        outfeed.enqueue(x * 2)
        return c

    reader = threading.Thread(target=read)
    reader.start()
    with InfeedQueue(dataset) as infeed:
        repeat(100, body, 0, infeed, outfeed, chunk=10)
        gates[0].set()
        returned.set()
    reader.join(60)
    assert seen == [2.0 * k for k in range(100)]
    assert not any(ahead[:90])


def test_iteration_elsewhere_waits_for_each_loop_and_ends_with_close() -> None:
    outfeed, rounds = OutfeedQueue(), []
    body = counting(outfeed)

    def read() -> None:
        for _ in range(3):
            rounds.append([int(x) for x in outfeed])  # noqa: PERF401 (one at a time: others look meanwhile)

    reader = threading.Thread(target=read)
    reader.start()
    repeat(5, body, 0, outfeed=outfeed, chunk=2)
    while len(rounds) < 1:
        time.sleep(0.001)
    repeat(3, body, 5, outfeed=outfeed)
    while len(rounds) < 2:
        time.sleep(0.001)
    outfeed.close()
    reader.join(60)
    assert rounds == [[0, 1, 2, 3, 4], [5, 6, 7], []]
    with pytest.raises(QueueError, match="the OutfeedQueue is closed"):
        repeat(1, body, 0, outfeed=outfeed)


def test_dequeue_can_wait_for_the_end_of_a_loop() -> None:
    outfeed, result = OutfeedQueue(), []
    started = threading.Event()

    def dataset() -> Any:
        for k in itertools.count():
            started.set()
            time.sleep(0.001)
            yield np.float32(k)

    def body(c: Any, x: Any) -> Any:
        outfeed.enqueue(x)
        return c

    with InfeedQueue(dataset) as infeed:
        loop = threading.Thread(target=repeat, args=(50, body, 0, infeed, outfeed), kwargs={"chunk": 5})
        loop.start()
        assert started.wait(60)
        while len(outfeed) == 0:
            time.sleep(0.001)
        result.append(outfeed.dequeue(wait=True))
        loop.join(60)
    np.testing.assert_array_equal(result[0], np.arange(50))


def test_a_full_queue_blocks_drops_or_is_an_error() -> None:
    dropping = OutfeedQueue(buffer_depth=4, when_full="drop")
    repeat(11, counting(dropping), 0, outfeed=dropping, chunk=5)
    np.testing.assert_array_equal(dropping.dequeue(), [7, 8, 9, 10])

    strict = OutfeedQueue(buffer_depth=4, when_full="error")
    with pytest.raises(QueueError, match="holds the values of 4 steps, the next chunk has 4, and buffer_depth is 4") as caught:
        repeat(11, counting(strict), 0, outfeed=strict)
    state = loop_state(caught.value)
    assert state is not None
    assert (state.steps, int(state.carry)) == (4, 4)
    np.testing.assert_array_equal(strict.dequeue(), [0, 1, 2, 3])

    blocking, seen = OutfeedQueue(buffer_depth=4), []
    most = []

    def read() -> None:
        for x in blocking:
            most.append(len(blocking))
            seen.append(int(x))

    reader = threading.Thread(target=read)
    reader.start()
    repeat(30, counting(blocking), 0, outfeed=blocking)
    reader.join(60)
    assert seen == list(range(30))
    assert max(most) < 4


def test_chunks_are_no_longer_than_the_queue() -> None:
    outfeed = OutfeedQueue(buffer_depth=4)
    with pytest.raises(ValueError, match="chunk is 5, but the outfeed holds the values of 4 steps at most"):
        repeat(11, counting(outfeed), 0, outfeed=outfeed, chunk=5)


def test_more_than_a_gibibyte_warns_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outfeed_queue, "WARN_BYTES", 100)
    outfeed = OutfeedQueue()
    body = counting(outfeed)
    with pytest.warns(ResourceWarning, match="holds more than 1 GiB .* give it a buffer_depth") as caught:
        repeat(60, body, 0, outfeed=outfeed, chunk=10)
    assert len(caught) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        repeat(60, body, 0, outfeed=outfeed, chunk=10)


def test_enqueue_has_its_place() -> None:
    outfeed, other = OutfeedQueue(), OutfeedQueue()
    with pytest.raises(QueueError, match="outside of a loop that has this queue"):
        outfeed.enqueue(1)
    with pytest.raises(QueueError, match="outside of a loop that has this queue"):
        repeat(1, counting(outfeed), 0)
    with pytest.raises(QueueError, match="outside of a loop that has this queue"):
        repeat(1, counting(outfeed), 0, outfeed=other)
    with pytest.raises(QueueError, match=r"its body did not enqueue\(\)"):
        repeat(1, lambda c: c, 0, outfeed=outfeed)

    def twice(c: Any) -> Any:
        outfeed.enqueue(c)
        outfeed.enqueue(c)
        return c

    with pytest.raises(QueueError, match="called twice in one body"):
        repeat(1, twice, 0, outfeed=outfeed)


@pytest.mark.parametrize(
    "transform",
    [
        lambda f: lambda c: jax.lax.cond(c > 0, f, f, c),
        lambda f: lambda c: jax.lax.fori_loop(0, 3, lambda i, c: f(c), c),
        lambda f: jax.jit(f),
        lambda f: lambda c: jax.grad(f)(c),
        lambda f: lambda c: jax.vmap(f)(c[None])[0],
    ],
)
def test_enqueue_inside_of_a_transformed_function_is_an_error(transform: Any) -> None:
    outfeed = OutfeedQueue()

    def inner(c: Any) -> Any:
        outfeed.enqueue(c)
        return c

    with pytest.raises(QueueError, match=r"inside of a function that the body transforms .* enqueue them in the body itself"):
        repeat(2, transform(inner), 0.0, outfeed=outfeed)


def test_only_arrays_keys_and_numbers_can_be_enqueued() -> None:
    outfeed = OutfeedQueue()

    def body(c: Any) -> Any:
        outfeed.enqueue({"k": "text"})
        return c

    with pytest.raises(TypeError, match=r"enqueued value\['k'\] is a str, no array or number"):
        repeat(1, body, 0, outfeed=outfeed)


def test_values_of_another_kind_wait_for_the_first_to_be_read() -> None:
    outfeed = OutfeedQueue()
    body = counting(outfeed)
    repeat(2, body, 0, outfeed=outfeed)
    carry = jnp.zeros((), jnp.float32)
    for loop in (repeat, lambda n, body, carry, outfeed: while_loop(lambda _: True, body, carry, outfeed=outfeed, maximum_iterations=n)):
        with pytest.raises(QueueError, match=r"enqueues float32\[\], but values like int32\[\] wait to be read") as caught:
            loop(2, body, carry, outfeed=outfeed)
        assert loop_state(caught.value).steps == 0  # before anything runs: what it would have enqueued is not lost
        assert float(carry) == 0
    assert outfeed.dequeue().tolist() == [0, 1]
    repeat(2, body, 0.0, outfeed=outfeed)
    assert outfeed.dequeue().dtype == np.float32
