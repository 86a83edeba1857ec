"""The block of view Compare: the figures of `tilestep report compare`, and how programs belong together."""

from dataclasses import replace

import pytest

from tests.unit.figures.reader.recorded import larger, named_programs, recorded, report_of, step, two_stages
from tests.unit.sim.toy import Host, program
from tilestep.figures.reader import Report
from tilestep.recording.storage.container import Builder
from tilestep.views.page.block import PageBlock, packed
from tilestep.views.page.sections import comparison as section
from tilestep.views.page.sections.comparison import comparison


def block_of(a: Report, b: Report) -> PageBlock:
    found = comparison(a, b)
    assert found is not None
    packed(found)
    return found


def test_machines_that_differ_are_told() -> None:
    other = Host(on=replace(larger(), name="other", host=replace(larger().host, dispatch_seconds=1e-4)))
    called = program(step("a", "", 3))
    other.run(called)
    document = block_of(named_programs(("f", 3)), Report(recorded(other, [called]))).json
    assert document["names"] == ["toy", "other"]
    assert [row[0] for row in document["machines"]] == ["host.dispatch_seconds"]


def test_more_steps_than_a_page_holds_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    a, b = report_of(two_stages(trips=6)), report_of(two_stages(trips=5))
    whole = block_of(a, b).json
    assert len(whole["steps"]) == 2
    monkeypatch.setattr(section, "MOST_STEPS", 1)
    cut = block_of(a, b).json
    assert cut["steps"] == whole["steps"][:1]
    assert cut["left_out"] == 1


def test_a_recording_without_programs_compares_with_nothing() -> None:
    nothing = Report(Builder(kind="run").tables())
    assert comparison(nothing, named_programs(("f", 3))) is None
    assert comparison(named_programs(("f", 3)), nothing) is None
