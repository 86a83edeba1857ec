"""Costs of lines in a page against what the reader says of the same recording."""

import json
from collections import Counter
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.unit.figures.reader.recorded import everything, liveness, recorded, report_of, run_of, two_stages
from tilestep.errors import RecordingError
from tilestep.figures.reader import Report
from tilestep.figures.rows import step_rows
from tilestep.recording.schema import CALLS
from tilestep.recording.tables import Tables
from tilestep.views.page.block import PageBlock
from tilestep.views.page.sections import source as section
from tilestep.views.page.sections.source import COLUMNS, source

PUT, WAIT, READ, DISPATCH = (CALLS.index(kind) for kind in ("put", "wait", "read", "dispatch"))


def block_of(report: Report) -> PageBlock:
    """The block, which there is."""
    found = source(report)
    assert found is not None
    return found


class Changed:
    """A recording with other texts and columns."""

    def __init__(self, tables: Tables, texts: dict[str, Any], columns: dict[str, list[int]] | None = None) -> None:
        self.manifest, self.strings, self.has, self._tables = tables.manifest, tables.strings, tables.has, tables
        self._texts, self._columns = texts, columns or {}

    def text(self, name: str) -> str:
        return json.dumps(self._texts[name]) if name in self._texts else self._tables.text(name)

    def rows(self, table: str) -> int:
        return next((len(values) for name, values in self._columns.items() if name.startswith(f"{table}/")), self._tables.rows(table))

    def column(self, table: str, column: str) -> NDArray[Any]:
        values = self._columns.get(f"{table}/{column}")
        return self._tables.column(table, column) if values is None else np.array(values)


def kept() -> Tables:
    """A recording of two runs."""
    called = two_stages()
    return recorded(run_of(called, runs=2), [called])


def lines(block: PageBlock) -> dict[str, dict[str, Any]]:
    """'train.py:3' -> what it costs."""
    rows = zip(*(block.columns[name].tolist() for name in COLUMNS), strict=True)
    made = [dict(zip(COLUMNS, row, strict=True)) for row in rows]
    return {f"{block.json['texts'][row['file']]}:{row['line']}": row for row in made}


def test_costs_of_lines_are_those_of_its_steps() -> None:
    called, counts = everything()
    for report in (report_of(two_stages(), runs=3), report_of(called, runs=2, counts=counts)):
        block = block_of(report)
        theirs: dict[str, Counter[str]] = {}
        kinds = ("steps", "executions", "cycles", "compute", "exchange", "sync", "collective", "host_call")
        for row in step_rows(report):
            theirs.setdefault(row.line, Counter()).update({kind: getattr(row, kind) for kind in kinds})
        unknown = theirs.pop("", Counter())
        mine = {line: {kind: row[kind] for kind in kinds} for line, row in lines(block).items() if row["steps"]}
        assert mine == {line: dict(found) for line, found in theirs.items()}
        assert block.json["unknown_cycles"] == unknown["cycles"]
        assert block.json["cycles"] == sum(row.cycles for row in step_rows(report))


def test_a_line_has_the_largest_of_the_values_that_it_made() -> None:
    found = lines(block_of(report_of(two_stages(), detail=liveness())))
    assert found["train.py:3"]["tile_bytes"] == 32
    assert block_of(report_of(two_stages(), detail=liveness())).json["has_lives"]


def test_calls_of_the_host_are_counted_by_line() -> None:
    columns = {"calls/call": [DISPATCH, WAIT, DISPATCH, READ, PUT, DISPATCH], "call_notes/note": [1, 2, 1, 2, 7, 0]}
    report = Report(Changed(kept(), {"call_lines": [["/home/me/train.py", 20], ["/home/me/train.py", 21]]}, columns))
    found = {line: (row["dispatches"], row["waits"], row["reads"]) for line, row in lines(block_of(report)).items() if not row["steps"]}
    assert found == {"train.py:20": (2, 0, 0), "train.py:21": (0, 1, 1)}


def test_loads_and_transfers_are_of_the_line_that_alone_calls_their_program() -> None:
    files = {"call_lines": [["/home/me/train.py", 20], ["/home/me/train.py", 21]]}
    sums = Report(kept()).execution.total_cycles.by_kind
    expected = sum(sums.get(kind, 0) for kind in ("save", "load", "stream-in", "stream-out"))
    for notes, moved in (([1, 1], {"train.py:20": expected}), ([1, 2], {}), ([0, 0], {}), ([1], {})):
        columns = {"calls/call": [DISPATCH] * len(notes), "call_notes/note": notes}
        found = lines(block_of(Report(Changed(kept(), files, columns))))
        assert {line: row["moved"] for line, row in found.items() if row["moved"]} == moved
    assert expected


def test_code_is_kept_for_files_that_frames_name_alone() -> None:
    report = Report(Changed(kept(), {"sources": {"/home/me/train.py": "a\nb\n", "/home/me/other.py": "secret"}}))
    block = block_of(report)
    assert block.json["files"] == [{"file": "train.py", "code": "a\nb\n", "why": ""}]
    assert "secret" not in json.dumps(block.json)


def test_code_that_is_not_there_has_a_reason() -> None:
    [file] = block_of(report_of(two_stages())).json["files"]
    assert file["code"] is None
    assert "without the code" in file["why"]


def test_code_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(section, "MOST_TEXT", 3)
    [file] = block_of(Report(Changed(kept(), {"sources": {"/home/me/train.py": "a\nb\n"}}))).json["files"]
    assert file["code"] is None
    assert "3 characters" in file["why"]


def test_damaged_sources_are_an_error() -> None:
    with pytest.raises(RecordingError, match="'sources'"):
        source(Report(Changed(kept(), {"sources": ["x"]})))
