"""`InfeedQueue`: a loop gets each element as it was, whatever the dataset does with its memory."""

import itertools
import threading
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.unit.train.feeds.infeeds import used
from tilestep.train import InfeedQueue, OutfeedQueue, frozen, repeat


def test_memory_that_is_used_again_changes_no_array_that_lives() -> None:
    """Large chunks lie in memory that goes round; arrays that are kept hold on to theirs."""
    size = 50_000
    infeed = InfeedQueue((np.full(size, k, np.float32) for k in itertools.count()), prefetch_depth=1)
    infeed.reserve("test")
    infeed.begin(chunk_steps=2, steps=2, carry_sharding=None)
    kept = []
    for _ in range(12):
        chunk = infeed.take()
        kept.append(jnp.asarray(chunk.on_device) if len(kept) % 2 else jax.device_put(chunk.on_device))
        del chunk
    for k, array in enumerate(kept):
        np.testing.assert_array_equal(np.asarray(array)[:, 0], [2 * k, 2 * k + 1])


def test_a_frozen_data_set_is_fed_where_it_lies() -> None:
    data = frozen({"x": np.arange(120_000, dtype=np.float32).reshape(3, 40_000), "y": [1, 2, 3], "z": np.zeros((0, 4), ">f4")})
    assert data["x"].ctypes.data % 64 == 0
    with pytest.raises(ValueError, match="read-only"):
        data["x"][0, 0] = 1
    with pytest.raises(ValueError, match="WRITEABLE"):
        data["x"].flags.writeable = True
    infeed = InfeedQueue(itertools.cycle(data["x"]))
    infeed.reserve("a test")
    infeed.begin(chunk_steps=1, steps=3, carry_sharding=None)
    for k in range(3):
        assert np.shares_memory(infeed.take().on_device, data["x"][k])
    infeed.release()
    infeed.close()
    np.testing.assert_array_equal(data["y"], [1, 2, 3])
    with pytest.raises(TypeError, match="no array of numbers"):
        frozen([object()])


def test_frozen_rows_in_their_order_are_a_chunk_where_they_lie() -> None:
    """But for a chunk with the first element, by which the queue sees what comes, and for those at the border of two epochs."""
    rows, labels, length = frozen(np.arange(8 * 20_000, dtype=np.float32).reshape(8, 20_000)), np.arange(8), 3

    def epochs() -> Iterator[Any]:
        for k in itertools.count():
            yield {"row": rows[k % 8], "label": labels[k % 8]}

    infeed = InfeedQueue(epochs)
    infeed.reserve("a test")
    infeed.begin(chunk_steps=length, steps=length, carry_sharding=None)
    shared: list[bool] = []
    for first in range(0, 24, length):
        chunk = infeed.take().on_device
        expected = [k % 8 for k in range(first, first + length)]
        np.testing.assert_array_equal(chunk["label"], expected)
        np.testing.assert_array_equal(chunk["row"], rows[expected])
        shared.append(np.shares_memory(chunk["row"], rows))
    infeed.release()
    infeed.close()
    borders = [any(k % 8 == 0 for k in range(first + 1, first + length)) for first in range(0, 24, length)]
    assert shared == [first > 0 and not border for first, border in zip(range(0, 24, length), borders, strict=True)]


def test_a_row_that_the_dataset_may_write_to_is_no_part_of_a_run() -> None:
    memory = np.arange(9 * 20_000 + 16, dtype=np.float32)
    start = -memory.ctypes.data % 64 // 4
    rows = memory[start : start + 9 * 20_000].reshape(9, 20_000)
    last = rows[5]  # a view from when the memory was not read-only
    memory.flags.writeable = False
    settled = memory[start : start + 9 * 20_000].reshape(9, 20_000)

    def dataset() -> Iterator[Any]:
        yield from settled[:5]
        yield last
        last[:] = -1
        yield from settled[6:]

    assert [row[0] for row in used(InfeedQueue(dataset), 9, chunk=3)] == [20_000 * k + start for k in range(9)]


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int8])
def test_large_elements_are_copied_by_two_threads(dtype: Any) -> None:
    length = 3_000_001

    def dataset() -> Iterator[Any]:
        memory = np.empty((length,), dtype)
        for k in range(6):
            memory[:] = k
            memory[-1] = 100 + k
            yield memory

    outfeed, infeed = OutfeedQueue(), InfeedQueue(dataset)

    def body(c: Any, x: Any) -> Any:
        outfeed.enqueue((x.astype(np.float32).sum(), x[-1], x[0]))
        return c

    for chunk in (1, 2):
        repeat(3, body, 0, infeed, outfeed, chunk=chunk)
    sums, last, first = outfeed.dequeue()
    np.testing.assert_allclose(sums, [k * (length - 1) + 100 + k for k in range(6)], rtol=1e-6)
    assert last.tolist() == [100 + k for k in range(6)]
    assert first.tolist() == list(range(6))


@pytest.mark.parametrize("copy", [True, False])
def test_without_copies_elements_are_used_where_they_lie(copy: bool) -> None:
    """What is written to a chunk's memory before a loop uses it is seen exactly if the caller has promised to write nothing."""
    size = 50_000
    memory = np.zeros(3 * size + 16, np.float32)
    start = -memory.ctypes.data % 64 // 4
    rows = memory[start : start + 3 * size].reshape(3, size)  # rows begin at a multiple of 64 bytes
    given = threading.Event()

    def dataset() -> Iterator[Any]:
        yield from rows
        given.set()
        yield rows[0]

    infeed = InfeedQueue(dataset, copy=copy)
    infeed.reserve("test")
    infeed.begin(chunk_steps=1, steps=1, carry_sharding=None)
    first = infeed.take()
    assert given.wait(10)
    rows[:] = 1
    assert float(np.asarray(first.on_device)[0, 0]) == (0 if copy else 1)
    infeed.close()


def test_an_element_that_comes_after_its_chunk_was_taken_back_is_not_lost() -> None:
    rows, asked, goes_on = frozen(np.arange(12 << 14, dtype=np.float32).reshape(12, -1)), threading.Event(), threading.Event()

    def dataset() -> Iterator[Any]:
        for k, row in enumerate(rows):
            if k == 4:
                asked.set()
                assert goes_on.wait(60)
            yield row

    with InfeedQueue(dataset, prefetch_depth=1) as infeed:
        infeed.begin(chunk_steps=4, steps=8, carry_sharding=None)
        chunks = [infeed.take()]
        assert asked.wait(60)  # the next chunk has begun, of elements that are used where they are, and has none yet
        infeed.begin(chunk_steps=2, steps=4, carry_sharding=None)
        goes_on.set()
        chunks += [infeed.take() for _ in range(2)]
    assert [float(row[0]) / (1 << 14) for chunk in chunks for row in chunk.on_device] == list(range(8))
