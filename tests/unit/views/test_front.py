"""What no other choice beats, and its picture."""

from pathlib import Path

import pytest

from tilestep.views.front import Choice, Point, draw, front

SMALL = Choice(num_ipus=1, full=0.9, seconds=2e-3, fits=True, name="small")
LARGE = Choice(num_ipus=4, full=0.5, seconds=1e-3, fits=True, name="large")
OVER = Choice(num_ipus=2, full=1.3, seconds=1e-3, fits=False, name="over")


def test_the_front_is_what_no_other_beats() -> None:
    points = [Point(x, y, SMALL) for x, y in ((4, 1), (1, 5), (2, 5), (2, 3), (4, 2), (8, 1))]
    assert [(point.x, point.y) for point in front(points)] == [(1, 5), (2, 3), (4, 1)]


@pytest.mark.process  # Matplotlib asks for the system's fonts when it is first used
def test_a_picture_names_the_best_and_is_the_same_each_time(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    files = [tmp_path / "first.svg", tmp_path / "second.svg"]
    for file in files:
        draw([SMALL, LARGE, OVER], file, time_of="time of an update", note="3 have none")
    text = files[0].read_text()
    assert text == files[1].read_text()
    assert all(word in text for word in ("small", "large", "time of an update", "3 have none", "does not fit"))
    assert "over" not in text  # what does not fit is no choice
