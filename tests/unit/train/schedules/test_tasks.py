"""What a timeline says of itself."""

from __future__ import annotations

from tilestep.train import schedules


def test_a_timeline_is_short_when_it_is_printed() -> None:
    timeline = schedules.grouped(4, 64).simulate()
    assert repr(timeline) == str(timeline) == f"<Timeline: 516 tasks on 4 devices, makespan 201, bubble {timeline.bubble:.1%}>"
    assert repr(schedules.sequential(1, 1).simulate()) == "<Timeline: 3 tasks on 1 device, makespan 3, bubble 0.0%>"
