"""How sure the figures are."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tilestep.figures.intervals import ModelErrors
from tilestep.figures.records import Interval
from tilestep.machine import load_machine

ERRORS = ModelErrors(kinds={"matmul": 0.04, "host": 0.1}, other=0.3, tile=(0.95, 1.2))
SURE = Interval(time_s=0.0244, low_s=0.0219, high_s=0.0278, widest="elementwise rates", tile=0.82, low_tile=0.78, high_tile=0.96)


def test_the_error_of_a_time_is_that_of_its_kinds_of_work_by_their_shares() -> None:
    error, widest = ERRORS.of_time({"matmul": 0.5, "fft": 0.5}, load_machine("bow-2000"))
    assert error == pytest.approx(0.5 * 0.04 + 0.5 * 0.3)
    assert widest == "fft"  # no measurement has it


def test_a_figure_of_the_machine_that_is_less_sure_than_the_model_counts_instead() -> None:
    error, _ = ERRORS.of_time({"host": 1.0}, load_machine("bow-2000"))
    assert error == pytest.approx(0.3)  # of the link to the host


def test_what_no_figure_of_the_machine_says_has_the_error_of_measurements_alone() -> None:
    assert replace(ERRORS, kinds={"unseen": 0.03}).of_time({"unseen": 1.0}, load_machine("bow-2000"))[0] == pytest.approx(0.03)


def test_an_interval_reads_as_a_sentence() -> None:
    assert SURE.text("fits") == "24.4 ms (21.9 to 27.8); widest: elementwise rates. Memory: 82 % of a tile (78 to 96): fits."


def test_a_verdict_on_another_memory_does_not_stand_behind_a_tile() -> None:
    assert SURE.text("").endswith("Memory: 82 % of a tile (78 to 96).")


def test_of_a_tile_that_is_nearly_empty_there_are_tenths_and_of_no_time_there_is_none() -> None:
    assert (
        replace(SURE, time_s=0, tile=0.03, low_tile=0.0295, high_tile=0.033).text("fits") == "Memory: 3.0 % of a tile (2.9 to 3.3): fits."
    )
