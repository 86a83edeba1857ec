"""The block of memory: its rows are the recording's, what is not known has a sentence, and large recordings have bounds."""

from dataclasses import replace
from typing import Any

import pytest

from tests.unit.figures.reader.recorded import everything, liveness, report_of, two_stages
from tilestep.errors import RecordingError
from tilestep.figures.reader import Report
from tilestep.plan import Branch, Series
from tilestep.recording.schema import CATEGORIES
from tilestep.recording.storage.container import Builder, parse_recording, recording_bytes
from tilestep.views.page.block import PageBlock, packed
from tilestep.views.page.sections import memory as section
from tilestep.views.page.sections.memory import loops, memory


def block_of(report: Report) -> PageBlock:
    found = memory(report)
    assert found is not None
    return found


def only(block: PageBlock) -> dict[str, Any]:
    (program,) = block.json["programs"]
    return program


def test_rows_of_lives_and_ticks_are_those_of_the_reader() -> None:
    report = report_of(two_stages(), detail=liveness())
    block, detail = block_of(report), report.compilation.main.memory
    names, lines, columns = block.json["names"], block.json["lines"], block.columns
    for life in detail.variables:
        row = life.index
        assert names[columns["life_name"][row]] == life.name
        assert CATEGORIES[columns["life_category"][row]] == life.category
        assert lines[columns["life_line"][row]] == ("" if life.line is None else f"train.py:{life.line.line}")
        for name in ("first", "last", "tile_bytes", "tiles", "start_tile", "size_bytes"):
            assert columns[f"life_{name}"][row] == getattr(life, name)
    for step in detail.liveness:
        assert names[columns["tick_step"][step.tick]] == step.name
        assert columns["tick_leaf"][step.tick] == (-1 if step.program is None else step.program.leaf)
        assert columns["tick_temporary"][step.tick] == step.temporary_tile_bytes
    program = only(block)
    assert program["lives"] == [0, 4]
    assert program["ticks"] == [0, 8]
    assert program["peak"] == {"bytes": detail.peak.total_bytes, "tile": detail.peak.tile, "tick": detail.peak.tick}
    assert program["peak_bytes"] == detail.peak.total_bytes
    assert program["code"] == [["vertex code", 100, 0], ["control code", 20, 0], ["stacks", 30, 1]]
    assert program["loops"] == [["loop", 2, 5, 5, 0, "loop"]]
    assert program["why"] == ""
    packed(block)


def test_a_program_without_detail_has_its_peak_by_kind() -> None:
    called = two_stages()
    program = only(block_of(report_of(called)))
    assert program["why"].startswith("The recording has only its peak")
    assert program["kinds"] == [list(part) for part in called.memory.by_kind]
    assert program["peak_bytes"] == called.memory.peak_bytes
    assert "lives" not in program


def test_loops_and_branches_have_the_ticks_around_them() -> None:
    called, _ = everything()
    expected = [-1, 0, -1, -1, 1, -1, -1, 2, 3, -1, -1, -1, 4, 5, -1, 6, 7, -1]
    assert loops(called.body, expected) == [
        ["outer", 2, 10, 4, 0, "loop"],
        ["inner", 3, 5, None, 1, "loop"],
        ["branch", 6, 9, None, 1, "branch"],
        ["either", 11, 14, None, 0, "branch"],
    ]
    assert loops(called.body, expected[:-1]) == []
    assert loops(Series(nodes=(Branch(name="none", scope="", arms=(), site=None),)), [-1, -1, -1]) == [["none", 1, 1, None, 0, "branch"]]


def test_more_values_than_a_page_holds_are_left_out_with_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(section, "MOST_LIVES", 3)
    block = block_of(report_of(two_stages(), detail=liveness()))
    assert only(block)["why"].startswith("This page has only its peak: it holds at most 3 values")
    assert len(block.columns["life_first"]) == 0


def test_without_programs_there_is_no_block() -> None:
    builder = Builder(kind="run")
    assert memory(Report(parse_recording(recording_bytes(builder.tables())))) is None


def test_damage_is_told() -> None:
    broken = replace(liveness(), lives=(replace(liveness().lives[0], last=7, first=7, tiles=17),))
    with pytest.raises(RecordingError, match="column tiles of lives"):
        memory(report_of(two_stages(), detail=broken))
