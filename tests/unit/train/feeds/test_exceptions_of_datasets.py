"""`InfeedQueue`: a dataset that raises loses no element, and a loop can go on after it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from tests.unit.train.feeds.infeeds import used
from tilestep.errors import DatasetError
from tilestep.train import InfeedQueue, OutfeedQueue, repeat


class Failing:
    """Numbers from 0 on, and an exception instead of each of some, so many times."""

    def __init__(self, *bad: int, times: int = 1, size: int = 1, begins: int = 0) -> None:
        self.bad, self.size, self.begins = dict.fromkeys(bad, times), size, begins
        self.next = 0
        self.closed = 0

    def __iter__(self) -> Failing:
        if self.begins:
            self.begins -= 1
            raise OSError("the file is locked")
        return self

    def __next__(self) -> Any:
        if self.bad.get(self.next, 0):
            self.bad[self.next] -= 1
            raise OSError(f"element {self.next} cannot be read")
        self.next += 1
        return np.full(self.size, self.next - 1, np.float32)

    def close(self) -> None:
        self.closed += 1


def used_in_turns(infeed: InfeedQueue, total: int, n: int, **options: Any) -> tuple[list[float], int]:
    """(elements of loops until there are `total`; how many of the loops have ended with an OSError). Each goes on after what was used."""
    found: list[float] = []
    errors = 0
    while len(found) < total:
        assert errors < 20
        outfeed = OutfeedQueue()

        def body(c: Any, x: Any, outfeed: OutfeedQueue = outfeed) -> Any:
            outfeed.enqueue(x.ravel()[0])
            return c

        try:
            repeat(min(n, total - len(found)), body, 0, infeed, outfeed, **options)
        except OSError:
            errors += 1
        values = outfeed.dequeue()
        found += [] if values is None else values.tolist()
        assert infeed.consumed == len(found)
    return found, errors


@pytest.mark.slow
@pytest.mark.parametrize("size", [1, 40_000])  # gathered; large
@pytest.mark.parametrize("chunk", [1, 3, 16])
@pytest.mark.parametrize("depth", [1, 5])
def test_an_iterator_that_raises_and_goes_on_loses_nothing(size: int, chunk: int, depth: int) -> None:
    dataset = Failing(0, 7, 8, 20, times=2, size=size)
    with InfeedQueue(dataset, prefetch_depth=depth) as infeed:
        found, errors = used_in_turns(infeed, 40, 8, chunk=chunk)
        assert found == list(range(40))
        assert errors == 8
    assert dataset.closed == 1


def test_a_way_to_a_position_goes_on_where_it_stopped() -> None:
    infeed = InfeedQueue(Failing(3))
    infeed.restore({"elements": 5})
    with pytest.raises(OSError, match="element 3 cannot be read"):
        used(infeed, 2)
    assert used(infeed, 2) == [[5], [6]]


def test_an_element_that_was_refused_is_refused_again_and_not_passed_over() -> None:
    infeed = InfeedQueue(iter([np.float32(0), np.zeros(2), np.float32(2)]))
    for _ in range(3):
        with pytest.raises(DatasetError, match=r"element 1 is float64\[2\], in the first one it was float32"):
            used(infeed, 2)
    assert used(infeed, 1) == [0]


def test_a_generator_that_has_raised_is_over_and_the_error_says_so() -> None:
    tries: list[int] = []

    def dataset() -> Iterator[Any]:
        tries.append(0)
        for k in range(10):
            if k == 3 and len(tries) == 1:
                raise OSError("the disk")
            yield np.float32(k)

    infeed = InfeedQueue(dataset)
    with pytest.raises(OSError, match="the disk"):
        used(infeed, 4, chunk=2)
    for _ in range(2):
        with pytest.raises(
            DatasetError,
            match=r"iterator had raised OSError: the disk, and was over when it was asked again, after 3 elements, as a generator is "
            r"that has raised: the loop needs more; 2 are used, 1 after them are left .* infeed\.restore\(infeed\.state\(\)\) begins",
        ):
            used(infeed, 2)
    assert used(infeed, 1) == [2]
    infeed.restore(infeed.state())
    assert used(infeed, 2) == [3, 4]
    with pytest.raises(DatasetError, match="the dataset ended after 10 elements: the loop needs more"):
        used(infeed, 20)


def test_an_exception_comes_each_time_as_it_left_the_dataset() -> None:
    infeed, frames = InfeedQueue(Failing(1, times=3)), []
    for _ in range(3):
        with pytest.raises(OSError, match="element 1") as caught:
            used(infeed, 2)
        frames.append(len(caught.traceback))
        assert len(caught.value.__notes__) == 1
    assert len(set(frames)) == 1
