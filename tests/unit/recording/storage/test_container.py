"""Recordings as they are made, written and read back."""

import zipfile
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from tests.unit.recording.recordings import members_of, small_recording
from tilestep import RecordingError
from tilestep.recording.schema import TABLES, TEXTS, Column
from tilestep.recording.storage.container import Builder, Tables, parse_recording, read_recording, recording_bytes, write_recording
from tilestep.recording.tables import json_text


def equal(a: Tables, b: Tables) -> bool:
    """Whether two recordings hold the same."""
    return (
        dict(a.manifest) == dict(b.manifest)
        and list(a.strings) == list(b.strings)
        and all(a.text(name) == b.text(name) for name in TEXTS)
        and all(
            np.array_equal(a.column(table, name), b.column(table, name), equal_nan=column.dtype == "float64")
            and a.column(table, name).dtype == b.column(table, name).dtype == column.dtype
            for table, columns in TABLES.items()
            for name, column in columns.items()
        )
    )


def infos_of(data: bytes) -> dict[str, zipfile.ZipInfo]:
    with zipfile.ZipFile(BytesIO(data)) as archive:
        return {info.filename: info for info in archive.infolist()}


def test_what_was_written_is_read(tmp_path: Path) -> None:
    write_recording(tmp_path / "run.tilestep", small_recording())
    read = read_recording(tmp_path / "run.tilestep")
    assert equal(read, small_recording())
    assert read.manifest["kind"] == "run"
    assert read.manifest["jax"] == "0.10.2"
    assert read.strings[read.column("programs", "name")[0]] == "step"
    assert read.column("events", "end")[-1] == 1000
    assert json_text(read, "machine") == {"name": "mk2"}


def test_an_absent_table_is_empty() -> None:
    tables = parse_recording(recording_bytes(small_recording()))
    assert not tables.has("lives")
    assert tables.rows("lives") == 0
    assert tables.column("lives", "tile_bytes").tolist() == []
    assert tables.text("hlo") == ""
    assert json_text(tables, "hlo") is None


def test_equal_recordings_are_equal_bytes() -> None:
    assert recording_bytes(small_recording()) == recording_bytes(parse_recording(recording_bytes(small_recording())))


def test_a_recording_is_packed_well_unless_it_has_to_be_quick() -> None:
    builder = Builder(kind="trace")
    builder.append("channels", name="a")
    builder.put_text("hlo", "\n".join(f"%add.{number} = f32[{number}] add(%x, %y)" for number in range(2000)))
    tables = builder.tables()
    well, quickly = recording_bytes(tables), recording_bytes(tables, quickly=True)
    assert len(well) < len(quickly)
    assert equal(parse_recording(well), parse_recording(quickly))
    packed = {name: (info.compress_type, info.file_size) for name, info in infos_of(well).items()}
    assert {method for method, size in packed.values() if size < 4096} == {zipfile.ZIP_DEFLATED}
    assert {method for method, size in packed.values() if size > 4096} == {zipfile.ZIP_LZMA}
    assert {info.compress_type for info in infos_of(quickly).values()} == {zipfile.ZIP_DEFLATED}


def test_columns_are_unpacked_when_they_are_asked_for() -> None:
    data = bytearray(recording_bytes(small_recording()))
    entry = data.rindex(b"PK\x01\x02", 0, data.rindex(b"events/end.npy"))
    data[entry + 16] ^= 0xFF  # its checksum
    tables = parse_recording(bytes(data))
    assert tables.column("events", "start")[-1] == 990
    with pytest.raises(RecordingError, match=r"'events/end\.npy'"):
        tables.column("events", "end")


def test_columns_take_the_narrowest_type() -> None:
    members = members_of(recording_bytes(small_recording()))
    assert b"'|u1'" in members["events/start.npy"]  # differences of 10
    assert b"'|i1'" in members["events/cause.npy"]  # they begin with -1


def test_a_column_cannot_be_written_to() -> None:
    for tables in (small_recording(), parse_recording(recording_bytes(small_recording()))):
        with pytest.raises(ValueError, match="read-only"):
            tables.column("events", "start")[0] = 1


def test_equal_texts_have_one_number() -> None:
    builder = Builder(kind="trace")
    assert builder.append("channels", name="Framework") == 0
    assert builder.append("channels", name=builder.string("Framework")) == 1
    assert list(builder.tables().strings) == ["Framework"]


def test_rows_and_columns_mix() -> None:
    builder = Builder(kind="trace")
    builder.append("channels", name="a")
    assert builder.extend("channels", name=[0, 0]) == 1
    assert builder.append("channels", name="b") == 3
    assert builder.rows("channels") == 4
    assert builder.tables().column("channels", "name").tolist() == [0, 0, 0, 1]


def test_what_builds_on_goes_into_the_next_tables_only() -> None:
    builder = Builder(kind="trace")
    builder.append("channels", name="a")
    before = builder.tables()
    builder.append("channels", name="b")
    assert (before.rows("channels"), builder.tables().rows("channels")) == (1, 2)


@pytest.mark.parametrize(
    ("table", "values", "message"),
    [
        ("chanels", {"name": 0}, "no table 'chanels'"),
        ("channels", {"nam": 0}, r"lacks \['name'\] and has the unknown \['nam'\]"),
        ("processes", {"pid": "x", "name": "y"}, "column 'processes/pid' is int64: it is given the text 'x'"),
    ],
)
def test_a_row_that_no_table_has_is_an_error(table: str, values: dict[str, Any], message: str) -> None:
    with pytest.raises(RecordingError, match=message):
        Builder(kind="run").append(table, **values)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"pid": [1, 2], "name": [0]}, "unequal lengths"),
        ({"pid": [[1]], "name": [0]}, r"in one dimension: it is given int64 of shape \(1, 1\)"),
        ({"pid": [1.5], "name": [0]}, "it is given float64"),
        ({"pid": [2**63], "name": [0]}, "it is given 9,223,372,036,854,775,808"),
        ({"pid": [1], "name": [2**31]}, r"'processes/name' is int32, -2,147,483,648 to 2,147,483,647: it is given 2,147,483,648"),
    ],
)
def test_columns_that_do_not_fit_are_an_error(columns: dict[str, Any], message: str) -> None:
    with pytest.raises(RecordingError, match=message):
        Builder(kind="run").extend("processes", **columns)


def test_a_row_number_outside_of_its_table_is_an_error() -> None:
    builder = Builder(kind="run")
    builder.append("threads", process=1, tid=1, name="main")
    builder.append("processes", pid=1, name="python")
    with pytest.raises(RecordingError, match="column 'threads/process' has 1 in row 0: 'processes' has 1 rows, and -1 is none"):
        builder.tables()


def test_an_unknown_frame_needs_no_frames() -> None:
    builder = Builder(kind="program")
    builder.append("frames", file=-1, function=-1, line=0, column=0, parent=0)
    assert builder.tables().column("frames", "parent").tolist() == [0]


def test_unknown_kinds_and_texts_are_errors() -> None:
    with pytest.raises(RecordingError, match="'runs': it must be one of run, program, trace"):
        Builder(kind="runs")
    with pytest.raises(RecordingError, match="no text 'tree'"):
        Builder(kind="run").put_text("tree", "")
    with pytest.raises(RecordingError, match="is made of the texts"):
        Builder(kind="run").put_text("strings", "[]")
    with pytest.raises(RecordingError, match=r"put_json\(\), which escapes"):
        Builder(kind="run").put_text("hlo", "\udcff")


def values_of(column: Column, rows: int) -> st.SearchStrategy[Any]:
    """Columns of a length, whose row numbers are none."""
    if column.table:
        return st.just(np.full(rows, -1))
    return arrays.arrays(np.dtype(column.dtype), rows)


@pytest.mark.slow
@settings(deadline=None, max_examples=60)
@given(st.data(), st.sampled_from(sorted(TABLES)), st.integers(1, 30), st.lists(st.text(st.characters(codec=None)), unique=True))
def test_any_table_and_any_text_come_back(data: st.DataObject, table: str, rows: int, strings: list[str]) -> None:
    builder = Builder(kind="run", notes={"note": strings})
    for text in strings:
        builder.string(text)
    builder.extend(table, **{name: data.draw(values_of(column, rows)) for name, column in TABLES[table].items()})
    builder.put_json("hlo", strings)
    tables = builder.tables()
    read = parse_recording(recording_bytes(tables))
    assert equal(read, tables)
    assert json_text(read, "hlo") == strings
