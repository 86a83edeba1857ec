"""Datasets for tests of queues, and what a loop has had of them."""

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np

from tilestep.train import InfeedQueue, OutfeedQueue, repeat


def numbers(first: int = 0) -> Iterator[Any]:
    return (np.float32(k) for k in itertools.count(first))


def used(infeed: InfeedQueue, n: int, **options: Any) -> list[float]:
    """The next n elements."""
    outfeed = OutfeedQueue()

    def body(c: Any, x: Any) -> Any:
        outfeed.enqueue(x)
        return c

    repeat(n, body, 0, infeed, outfeed, **options)
    return outfeed.dequeue().tolist()
