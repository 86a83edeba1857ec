"""What a process takes of a dataset that all processes have."""

import dataclasses
import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest

from tilestep.errors import QueueError
from tilestep.train import InfeedQueue, Replicas, cross_replica_sum, repeat
from tilestep.train.replicas.share import ProcessShare

ELEMENTS = [np.float32(k) for k in range(24)]


def replicas() -> Replicas:
    return Replicas(2)


def of_process(dataset: Any, *, count: int = 4, mine: Sequence[int] = (1, 2)) -> Any:
    """What `Replicas.share` makes in a process that has replicas `mine` of `count`."""
    shared = replicas().share(dataset)
    assert isinstance(shared, ProcessShare)
    return dataclasses.replace(shared, count=count, mine=frozenset(mine))


def loop_sum(infeed: InfeedQueue, steps: int) -> float:
    """The sum over both replicas of what the last of so many steps takes."""
    return float(repeat(steps, lambda _, x: cross_replica_sum(x), np.float32(0), infeed, replicas=replicas()))


class Counting:
    """An iterator that knows its place."""

    def __init__(self) -> None:
        self.next = 0
        self.is_closed = False

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        self.next += 1
        return np.float32(self.next - 1)

    def get_state(self) -> dict[str, int]:
        return {"next": self.next}

    def set_state(self, state: dict[str, int]) -> None:
        self.next = state["next"]

    def close(self) -> None:
        self.is_closed = True


def test_a_shared_iterator_has_one_pass() -> None:
    shared = replicas().share(iter(ELEMENTS))
    assert isinstance(shared, Iterator)
    infeed = InfeedQueue(shared, replicas=replicas())
    loop_sum(infeed, 1)
    with pytest.raises(QueueError, match="the dataset is an iterator whose one pass has begun"):
        infeed.restore(infeed.state())


@pytest.mark.parametrize(("dataset", "message"), [(5, "dataset is a int: it must be an iterable"), ({"x": 1}, "that is one element")])
def test_what_is_no_dataset_is_refused(dataset: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        replicas().share(dataset)


@pytest.mark.parametrize("dataset", [ELEMENTS, lambda: iter(ELEMENTS), lambda: itertools.islice(Counting(), 24)])
def test_each_process_has_its_own_elements_in_order(dataset: Any) -> None:
    shares = [of_process(dataset, mine=mine) for mine in ((0, 1), (2, 3))]
    for _ in range(2):
        assert [list(share) for share in shares] == [[k for k in range(24) if k % 4 // 2 == process] for process in range(2)]


@pytest.mark.parametrize("taken", range(5))
def test_a_share_goes_to_the_place_that_its_state_says(taken: int) -> None:
    """A share's iterator, for each place in a step at which its state may be asked."""
    iterator = iter(of_process(Counting))
    for _ in range(taken):
        next(iterator)
    state = iterator.get_state()
    expected = [float(next(iterator)) for _ in range(4)]
    later = iter(of_process(Counting))
    later.set_state(state)
    assert [float(next(later)) for _ in range(4)] == expected == [k for k in range(40) if k % 4 in (1, 2)][taken : taken + 4]


def test_a_queue_of_one_process_s_share_goes_there_itself() -> None:
    made: list[Counting] = []

    def dataset() -> Counting:
        made.append(Counting())
        return made[-1]

    infeed = InfeedQueue(of_process(dataset), replicas=replicas())
    assert loop_sum(infeed, 20) == 77 + 78
    state = infeed.state()
    other = InfeedQueue(of_process(dataset), replicas=replicas())
    other.restore(state)
    assert loop_sum(other, 1) == 81 + 82
    other.close()
    assert made[1].is_closed


@pytest.mark.parametrize("state", [3, {"next": 3}, {"dataset": {"next": 8}, "next": 4}])
def test_another_dataset_s_state_is_refused(state: Any) -> None:
    with pytest.raises(ValueError, match="is no state of a dataset that 4 replicas share"):
        iter(of_process(Counting)).set_state(state)


def test_a_share_goes_on_after_an_error() -> None:
    class Failing(Counting):
        def __next__(self) -> Any:
            if self.next == 6:
                self.next += 1
                raise OSError("disk")
            return super().__next__()

    iterator = iter(of_process(Failing))
    assert [float(next(iterator)) for _ in range(3)] == [1, 2, 5]
    with pytest.raises(OSError, match="disk"):
        next(iterator)
    assert [float(next(iterator)) for _ in range(2)] == [7, 10]  # what failed is no element
