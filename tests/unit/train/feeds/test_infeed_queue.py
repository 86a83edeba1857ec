"""`InfeedQueue`: elements of any dataset, in order, each once; how far ahead it goes, and how its thread ends."""

import itertools
import threading
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from tests.unit.train.feeds.infeeds import numbers, used
from tilestep.errors import QueueError
from tilestep.train import InfeedQueue, repeat


def test_a_chunk_that_was_taken_without_a_word_is_made_up_for() -> None:
    """As when a Ctrl-C comes between a chunk and its program."""
    infeed = InfeedQueue(range(3), prefetch_depth=1)
    infeed.reserve("test")
    infeed.begin(chunk_steps=1, steps=1, carry_sharding=None)
    infeed.take(wake=False)
    infeed.release()
    assert used(infeed, 1) == [1]
    infeed.close()


@pytest.mark.slow
def test_it_goes_ahead_by_its_depth_and_no_further() -> None:
    pulled = []

    def dataset() -> Iterator[Any]:
        for k in itertools.count():
            pulled.append(k)
            yield np.float32(k)

    with InfeedQueue(dataset, prefetch_depth=2) as infeed:
        time.sleep(0.05)
        assert pulled == []  # it starts with the first loop
        for _ in range(3):
            repeat(4, lambda c, x: c + x, 0.0, infeed)
        deadline = time.monotonic() + 30
        while len(pulled) < 20 and time.monotonic() < deadline:
            time.sleep(0.001)
        time.sleep(0.05)
        assert len(pulled) == 12 + 2 * 4


def test_close_ends_the_thread_and_the_dataset() -> None:
    closed = threading.Event()

    def dataset() -> Iterator[Any]:
        try:
            yield from numbers()
        finally:
            closed.set()

    before = set(threading.enumerate())
    infeed = InfeedQueue(dataset)
    used(infeed, 2)
    infeed.close()
    infeed.close()
    assert closed.wait(30)
    assert not [each for each in set(threading.enumerate()) - before if each.name.startswith("tilestep-infeed")]
    with pytest.raises(QueueError, match="the InfeedQueue is closed"):
        used(infeed, 1)


def test_close_during_a_loop_ends_it() -> None:
    held = threading.Event()

    def dataset() -> Iterator[Any]:
        yield np.float32(0)
        held.wait(60)

    infeed = InfeedQueue(dataset)
    threading.Timer(0.2, infeed.close).start()
    with pytest.raises(QueueError, match="the InfeedQueue is closed"):
        used(infeed, 2, chunk=1)
    held.set()
