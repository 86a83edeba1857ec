"""The block of view What if: the command line's table, or why there is none."""

from __future__ import annotations

import pytest

from tests.unit.figures.reader.recorded import journaled, larger, recorded, report_of, two_stages
from tests.unit.sim.toy import Host, superstep
from tilestep.advice import knob_table as module
from tilestep.advice.knob_table import knob_table
from tilestep.advice.knobs import KNOBS
from tilestep.figures.reader import Report
from tilestep.recording.call_tables import history_of
from tilestep.views.page.block import packed
from tilestep.views.page.sections import what_if as section
from tilestep.views.page.sections.what_if import ORIGINS, what_if


def test_its_rows_are_those_of_the_command_line() -> None:
    report = Report(journaled(two_stages(), runs=4))
    block = what_if(report)
    assert block is not None
    found = knob_table(history_of(report.tables))
    assert [(knob["knob"], knob["now"], knob["changes"], knob["unknown"]) for knob in block.json["knobs"]] == [
        (row.knob, row.now, dict(row.changes), []) for row in found.rows
    ]
    assert block.json["others"] == [[words, [row.knob for row in rows]] for words, rows in found.others.items()]
    assert (block.json["to_play"], block.json["why"]) == ("", "")
    assert all(knob["meaning"] for knob in block.json["knobs"])
    assert [knob["knob"] for knob in block.json["planned"]] == [knob.name for knob in KNOBS.values() if knob.plans]
    packed(block)


def test_a_family_saves_no_more_than_it_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its time now and its effect are of the whole recording, also where some runs were played."""
    runs = 400
    taken = {"family": superstep(1).family, "compute": (4 + 5 * 17 + 3) * runs, "exchange": 10 * runs, "sync": 10 * runs}
    report = Report(journaled(two_stages(), runs=runs, profile={"programs": [{"families": [taken]}]}))
    for most in (2_000_000, 60_000, 1):
        monkeypatch.setattr(section, "_MOST", most)
        block = what_if(report)
        assert block is not None
        assert block.json["cycles"] == report.execution.total_cycles.total
        known = [knob for knob in block.json["knobs"] if knob["cycles"]]
        assert known
        assert all(-knob["changes"]["/2"] * block.json["cycles"] <= knob["cycles"] for knob in known)


def test_a_long_recording_is_played_in_part_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    report = Report(journaled(two_stages(), runs=40))
    monkeypatch.setattr(section, "_MOST", 1)
    block = what_if(report)
    assert block is not None
    assert knob_table(history_of(report.tables), most=1).basis in block.json["answer"]
    assert "No effect in the runs that were played" in dict(block.json["others"])


def test_what_was_not_played_is_among_its_knobs(monkeypatch: pytest.MonkeyPatch) -> None:
    report = Report(journaled(two_stages(), runs=4))
    monkeypatch.setattr(module, "_MOST_LONG", 200)
    monkeypatch.setattr(section, "_MOST", 1)
    block = what_if(report)
    assert block is not None
    unplayed = [knob for knob in block.json["knobs"] if not knob["changes"]]
    assert unplayed
    assert all(knob["unknown"] for knob in unplayed)


def test_without_a_journal_it_says_why() -> None:
    block = what_if(report_of(two_stages()))
    assert block is not None
    assert block.json["knobs"] == []
    assert "has no journal" in block.json["why"]


def test_where_nothing_ran_there_is_no_block() -> None:
    assert what_if(Report(recorded(Host(on=larger()), []))) is None


def test_every_origin_is_a_sentence() -> None:
    assert all(text[0].isupper() and text.endswith(".") for text in ORIGINS.values())
