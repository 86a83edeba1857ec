"""`InfeedQueue`: a position can be saved, and restored in another queue."""

import io
import itertools
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from tests.unit.train.feeds.infeeds import numbers, used
from tilestep.errors import DatasetError, QueueError
from tilestep.train import InfeedQueue
from tilestep.train.feeds.passes import DatasetPass, Start
from tilestep.train.progress_bar import shown_late


@pytest.mark.slow
@pytest.mark.parametrize("make", [lambda: lambda: numbers(), lambda: range(100), lambda: np.arange(100)])
def test_a_position_can_be_saved_and_restored(make: Any) -> None:
    infeed = InfeedQueue(make())
    assert infeed.state() == {"elements": 0}
    used(infeed, 7, chunk=3)
    state = infeed.state()
    assert state == {"elements": 7}
    assert used(infeed, 3) == [7, 8, 9]
    infeed.restore(state)
    assert used(infeed, 4) == [7, 8, 9, 10]
    other = InfeedQueue(make())
    other.restore(state)
    assert (used(other, 2), other.consumed, other.state()) == ([7, 8], 9, {"elements": 9})


def test_an_iterator_cannot_go_back() -> None:
    infeed = InfeedQueue(numbers())
    infeed.restore({"elements": 5})  # forward, before it has begun
    assert used(infeed, 2) == [5, 6]
    with pytest.raises(QueueError, match="the dataset is an iterator whose one pass has begun: it cannot go back"):
        infeed.restore({"elements": 0})


@pytest.mark.parametrize("state", [{}, {"elements": -1}, {"elements": 1.5}, {"elements": 1, "other": 2}, {"elements": 3, "skip": "x"}])
def test_what_is_no_state_is_refused(state: Any) -> None:
    with pytest.raises(ValueError, match="is no state of an InfeedQueue"):
        InfeedQueue(numbers()).restore(state)


def test_a_state_is_a_mapping() -> None:
    with pytest.raises(TypeError, match="state is a int: it must be a mapping"):
        InfeedQueue(numbers()).restore(5)


def test_a_dataset_shorter_than_a_restored_position_is_an_error() -> None:
    infeed = InfeedQueue(range(5))
    infeed.restore({"elements": 9})
    with pytest.raises(DatasetError, match=r"ended after 5 elements, before the position to which restore\(\) goes: after 9"):
        used(infeed, 1)


@pytest.mark.parametrize(("is_terminal", "step_s", "is_shown"), [(True, 0.4, True), (True, 0.001, False), (False, 0.4, False)])
def test_a_bar_comes_on_a_terminal_after_a_second(is_terminal: bool, step_s: float, is_shown: bool) -> None:
    file, times = io.StringIO(), itertools.count()
    console = Console(file=file, force_terminal=is_terminal, width=100)
    with shown_late("skipping elements of the dataset", 5, clock=lambda: step_s * next(times), console=console) as show:
        for done in range(1, 6):
            show(done)
    assert ("skipping elements of the dataset" in file.getvalue()) == is_shown
    assert ("5/5" in file.getvalue()) == is_shown


def test_a_pass_goes_to_its_place_or_says_that_there_is_none() -> None:
    start = Start(elements=3, skip=3)
    assert next(DatasetPass(lambda: iter(range(5)), start).iterator()) == 3
    with pytest.raises(DatasetError, match="the dataset ended after 2 elements, before the position to which restore"):
        DatasetPass(lambda: iter(range(2)), start).iterator()
