"""Which of both ways a pipeline's runs are done."""

from typing import Any

import pytest

from tilestep.train.pipeline.run.single.chooser import Chooser


def chosen(*took: tuple[float, float], which: Any = "auto", possible: bool = True, alone: bool = False, measured: bool = True) -> list[str]:
    chooser = Chooser(which, possible=possible, alone=alone, measured=measured)
    found = [chooser.now]
    for host, total in took:
        chooser.took(host, total)
        found.append(chooser.now)
    return found


def test_a_run_whose_host_is_idle_for_the_most_part_stays_as_it_is() -> None:
    assert chosen((5, 6), *[(1, 10)] * 4) == ["stages"] * 6


@pytest.mark.parametrize(("single", "then"), [(7, "single"), (9, "stages")])
def test_a_run_whose_host_is_busy_is_tried_as_one_program(single: float, then: str) -> None:
    assert chosen((5, 6), *[(6, 8)] * 3, (20, 30), *[(1, single)] * 3, (1, 1)) == ["stages"] * 4 + ["single"] * 4 + [then, then]


@pytest.mark.parametrize("slow", [0, 1, 2])
def test_a_run_that_something_else_holds_up_decides_nothing(slow: int) -> None:
    """Neither one by stages, in which the host seems idle, nor one by the single program."""
    by_stages, by_single = [(6.0, 8.0)] * 3, [(1.0, 2.0)] * 3
    by_stages[slow], by_single[slow] = (6, 80), (1, 50)
    assert chosen((5, 6), *by_stages, (20, 30), *by_single)[-1] == "single"


def test_only_later_runs_of_each_kind_are_measured() -> None:
    chooser, found = Chooser("auto", possible=True, alone=False, measured=True), []
    for _ in range(9):
        found.append(chooser.measures)
        chooser.took(6, 8)
    assert found == [False, True, True, True, False, True, True, True, False]


def test_what_is_said_or_cannot_be_otherwise_is_not_measured() -> None:
    assert chosen((9, 9), which="single") == ["single", "single"]
    assert chosen((9, 9), (9, 9), which="stages") == ["stages"] * 3
    assert chosen((9, 9), (9, 9), possible=False) == ["stages"] * 3
    assert chosen((9, 9), (9, 9), alone=True) == ["single"] * 3
    assert chosen((9, 9), (9, 9), alone=True, measured=False) == ["stages"] * 3
