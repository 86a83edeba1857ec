"""A dataset that goes to its place by making elements shows how far it is, on a terminal, after a second."""

from __future__ import annotations

import io
import itertools

import pytest
from rich.console import Console

from tilestep.errors import DatasetError
from tilestep.train.feeds.passes import Pass, Start
from tilestep.train.progress_bar import shown_late


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
    assert next(Pass(lambda: iter(range(5)), start).iterator()) == 3
    with pytest.raises(DatasetError, match="the dataset ended after 2 elements, before the position to which restore"):
        Pass(lambda: iter(range(2)), start).iterator()
