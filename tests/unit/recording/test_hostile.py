"""Recordings from anywhere: what is wrong with one is a named error in under a second."""

import io
import json
import random
import struct
import tracemalloc
import warnings
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.bounded import ends_soon
from tests.unit.recording.recordings import changed, members_of, small_recording, zipped
from tilestep import RecordingError
from tilestep.recording.schema import TABLES, TEXTS, VERSION
from tilestep.recording.storage import texts
from tilestep.recording.storage.container import Builder, parse_recording, read_recording, recording_bytes
from tilestep.recording.storage.texts import from_json
from tilestep.recording.tables import Tables, json_text


@pytest.fixture(autouse=True)
def _soon() -> Iterator[None]:
    with ends_soon():
        yield


def npy(array: Any, version: tuple[int, int] = (1, 0)) -> bytes:
    """A .npy file as NumPy writes it."""
    file = io.BytesIO()
    np.lib.format.write_array(file, np.asarray(array), version=version)
    return file.getvalue()


def header(text: str, body: bytes = b"") -> bytes:
    """A .npy file with any header."""
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text.encode() + body


def read_all(tables: Tables) -> None:
    """Asks for everything that a recording has."""
    for table, columns in TABLES.items():
        for column in columns:
            tables.column(table, column)
    for name in TEXTS:
        if name != "strings":
            json_text(tables, name)


def test_a_file_of_a_gigabyte_is_refused_by_its_size(tmp_path: Path) -> None:
    path = tmp_path / "run.tilestep"
    with path.open("wb") as file:
        file.truncate(2**30)  # takes no space
    with pytest.raises(
        RecordingError, match=r"run\.tilestep' has 1,073,741,824 B: files of at most 268,435,456 B are read; record fewer runs"
    ):
        read_recording(path)


def test_a_missing_file_is_an_error_of_the_system(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"no\.tilestep"):
        read_recording(tmp_path / "no.tilestep")


def test_a_truncated_file_is_an_error_wherever_it_ends() -> None:
    data = recording_bytes(small_recording())
    for length in range(0, len(data), 97):
        with pytest.raises(RecordingError):
            parse_recording(data[:length])


@pytest.mark.parametrize(
    ("manifest", "message"),
    [
        ([], "no object in 'manifest.json'"),
        ({}, "is of format None"),
        ({"format": "zip"}, "is of format 'zip'"),
        ({"version": VERSION + 1}, f"has form {VERSION + 1}: this version of tilestep reads forms up to {VERSION}: install a newer one"),
        ({"version": True}, "has the form True"),
        ({"version": 10**4000}, "whole number of 13,288 bits"),
        ({"version": 0}, "has the form 0"),
        ({"kind": "movie"}, "is of kind 'movie': it must be one of run, program, trace"),
    ],
)
def test_a_manifest_of_something_else_is_an_error(manifest: Any, message: str) -> None:
    good = {"format": "tilestep-recording", "version": VERSION, "kind": "run"}
    whole = {**good, **manifest} if manifest else manifest
    with pytest.raises(RecordingError, match=message):
        parse_recording(changed({"manifest.json": json.dumps(whole).encode()}))


def test_another_zip_file_is_an_error() -> None:
    with pytest.raises(RecordingError, match=r"has no 'manifest\.json': every recording has one: this is another zip file"):
        parse_recording(zipped({"a.txt": b""}))


@pytest.mark.parametrize("name", ["/etc/passwd", "../run.npy", "events/../events/start.npy", "events/colour.npy", "hlo.txt", "run\x1b[2J"])
def test_a_member_that_the_schema_lacks_is_an_error(name: str) -> None:
    with pytest.raises(RecordingError, match="has no such table, column or text") as caught:
        parse_recording(changed({name: b""}))
    assert "\x1b" not in str(caught.value)


def test_a_newer_form_is_told_before_its_new_members() -> None:
    manifest = {"format": "tilestep-recording", "version": VERSION + 1, "kind": "run"}
    with pytest.raises(RecordingError, match=f"has form {VERSION + 1}"):
        parse_recording(changed({"manifest.json": json.dumps(manifest).encode(), "events/colour.npy": b""}))


def test_a_member_that_is_there_twice_is_an_error() -> None:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive, warnings.catch_warnings(action="ignore"):
        archive.writestr("manifest.json", b"{}")
        archive.writestr("manifest.json", b"{}")
    with pytest.raises(RecordingError, match=r"two members 'manifest\.json'"):
        parse_recording(file.getvalue())


def test_a_symbolic_link_is_an_error() -> None:
    file, info = io.BytesIO(), zipfile.ZipInfo("hlo.json")
    info.create_system, info.external_attr = 3, 0o120777 << 16
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr(info, "/etc/passwd")
    with pytest.raises(RecordingError, match=r"'hlo\.json': it is a symbolic link"):
        parse_recording(file.getvalue())


def test_an_encrypted_member_is_an_error() -> None:
    data = bytearray(zipped({"hlo.json": b"[]"}))
    data[data.index(b"PK\x01\x02") + 8] |= 1
    with pytest.raises(RecordingError, match="it is encrypted"):
        parse_recording(bytes(data))


def test_too_many_members_are_an_error() -> None:
    with pytest.raises(RecordingError, match="has 1,001 members: at most 1,000 are read"):
        parse_recording(zipped({f"{i}": b"" for i in range(1001)}, zipfile.ZIP_STORED))


def test_an_unknown_way_of_packing_is_an_error() -> None:
    with pytest.raises(RecordingError, match="packed by method 12"):
        parse_recording(zipped({"hlo.json": b"[]"}, zipfile.ZIP_BZIP2))


@pytest.mark.parametrize("method", [zipfile.ZIP_DEFLATED, zipfile.ZIP_LZMA])
def test_a_bomb_is_refused_by_the_size_that_it_declares(method: int) -> None:
    data = bytearray(zipped({"hlo.json": bytes(2**20)}, method))
    entry = data.index(b"PK\x01\x02")
    data[entry + 24 : entry + 28] = struct.pack("<L", 2**31)
    with pytest.raises(RecordingError, match=r"'hlo\.json': it unpacks to 2,147,483,648 B, and at most 134,217,728 B are read"):
        parse_recording(bytes(data))


def test_many_members_that_are_large_together_are_refused() -> None:
    data = bytearray(changed({}))
    position = 0
    while (position := data.find(b"PK\x01\x02", position + 1)) > 0:
        data[position + 24 : position + 28] = struct.pack("<L", 100 * 2**20)
    with pytest.raises(RecordingError, match=r"unpacks to \d,\d+,\d+,\d+ B: at most 536,870,912 B are read"):
        parse_recording(bytes(data))


@pytest.mark.parametrize("method", [zipfile.ZIP_DEFLATED, zipfile.ZIP_LZMA])
def test_a_bomb_that_declares_a_small_size_is_not_unpacked(method: int) -> None:
    members = members_of(recording_bytes(small_recording()))
    data = bytearray(zipped({**members, "hlo.json": bytes(16 * 2**20)}, method))
    entry = data.rindex(b"PK\x01\x02", 0, data.rindex(b"hlo.json"))
    data[entry + 24 : entry + 28] = struct.pack("<L", 4000)
    tracemalloc.start()
    try:
        with pytest.raises(RecordingError, match=r"'hlo\.json': it has more bytes where its directory says 4,000 B"):
            parse_recording(bytes(data)).text("hlo")
        assert tracemalloc.get_traced_memory()[1] < 12 * 2**20  # a dictionary of LZMA is 8 MiB
    finally:
        tracemalloc.stop()


def test_an_lzma_dictionary_of_gigabytes_is_refused() -> None:
    data = bytearray(zipped({"manifest.json": bytes(10_000)}, zipfile.ZIP_LZMA))
    at = data.index(b"manifest.json") + len("manifest.json") + 5
    data[at : at + 4] = struct.pack("<L", 2**32 - 1)
    with pytest.raises(RecordingError, match="its LZMA dictionary may have 67,108,864 B, and it has 4,294,967,295 B"):
        parse_recording(bytes(data))


@pytest.mark.parametrize(
    ("member", "message"),
    [
        (npy(np.zeros(100)), r"'<f8': the column is int64, so it may be \|u1, \|i1, .*, <i8"),
        (npy(np.zeros(100, np.uint64)), "'<u8'"),
        (npy(np.zeros(100, ">i4")), "'>i4'"),
        (npy(np.zeros(100, bool)), r"'\|b1'"),
        (npy(np.zeros(100, "S3")), r"'\|S3'"),
        (npy(np.zeros((10, 10), np.int8)), "one-dimensional array"),
        (npy(np.zeros((), np.int8)), "one-dimensional array"),
        (npy(np.zeros(100, [("a", "i4")])), "one-dimensional array"),
        (npy(np.array([None] * 100, object)), r"'\|O'"),
        (npy(np.zeros(99, np.int8)), "unequal lengths in table 'events'"),
        (npy(np.zeros(100, np.int8), (3, 0)), "version 1.0 or 2.0"),
        (b"", "begins with b''"),
        (b"\x93NUMPY\x01\x00\x02\x00{}", "has the header '{}'"),
        (b"\x93NUMPY\x01\x00\xff\xff" + bytes(3000), "header of 65,545 B: a column's has at most 1,024 B"),
        (b"\x93NUMPY\x02\x00\xff\xff\xff\xff" + bytes(30), "header of 4,294,967,307 B"),
        (header("{'descr': '<i8', 'fortran_order': True, 'shape': (100,), }\n", bytes(800)), "in C order"),
        (header("{'descr': '<i8', 'fortran_order': False, 'shape': (100), }\n", bytes(800)), "one-dimensional"),
        (header("{'descr': '<i8', 'fortran_order': False, 'shape': (99999999999,), }\n"), "declares 99,999,999,999 elements"),
        (header("{'descr': '<i8', 'fortran_order': False, 'shape': (100,), }\n", bytes(792)), "declares 100 elements of 8 B behind"),
        (header("{'descr': '<i8', 'descr': '<i8', 'shape': (100,), }\n", bytes(800)), "one-dimensional array of numbers"),
        (header("__import__('os').system('true')"), "one-dimensional array of numbers"),
        (header("[" * 900), "one-dimensional array of numbers"),
    ],
)
def test_a_column_of_another_form_is_an_error(member: bytes, message: str) -> None:
    with pytest.raises(RecordingError, match=message):
        parse_recording(changed({"events/start.npy": member}))


def test_a_column_in_version_2_is_read() -> None:
    tables = parse_recording(changed({"events/kind.npy": npy(np.full(100, 9, np.uint8), (2, 0))}))
    assert tables.column("events", "kind").tolist() == [9] * 100


def test_a_column_that_others_have_written_is_read() -> None:
    member = header("{'shape':(100,),'fortran_order':False,'descr':'<i2'}", bytes(200))
    assert parse_recording(changed({"events/cause.npy": member})).column("events", "cause").tolist() == [0] * 100


@pytest.mark.parametrize(
    ("column", "values", "message"),
    [
        ("lane", [2] * 100, "column 'events/lane' has 2 in row 0: 'lanes' has 2 rows, and -1 is none"),
        ("program", [0] * 99 + [-2], "column 'events/program' has -2 in row 99: 'programs' has 1 rows"),
        ("cause", [1] * 100, "column 'events/cause' has 100 in row 99: 'events' has 100 rows"),
        ("cause", [2**40] * 100, r"has differences that sum to 1,099,511,627,776 \.\. 109,951,162,777,600, outside of int32"),
    ],
)
def test_a_row_number_outside_of_its_table_is_an_error(column: str, values: list[int], message: str) -> None:
    tables = parse_recording(changed({f"events/{column}.npy": npy(np.array(values, np.int64 if max(values) > 2**31 else np.int32))}))
    with pytest.raises(RecordingError, match=message):
        tables.column("events", column)


def test_a_text_number_outside_of_the_texts_is_an_error() -> None:
    tables = parse_recording(changed({"strings.json": b"[]"}))
    with pytest.raises(RecordingError, match="column 'programs/name' has 0 in row 0: 'strings' has 0 rows"):
        tables.column("programs", "name")


def test_a_table_without_one_of_its_columns_is_an_error() -> None:
    with pytest.raises(RecordingError, match=r"lacks the column 'events/kind\.npy': table 'events' has all of its columns, or none"):
        parse_recording(changed({"events/kind.npy": None}))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"[1]", "has 1 in 'strings.json': it must be a list of texts"),
        (b"[null]", "has None in 'strings.json'"),
        (b"{}", "has no list in 'strings.json'"),
        (b"[" * 100_000, "nested 100,000 deep: at most 200 are read"),
        (b'["' + b"[" * 300 + b'", [[]]', "is no JSON"),
        (b"[" + b"0," * 5_000_000 + b"0]", "has 5,000,001 values: at most 4,000,000 are read"),
        (b"[1" + b"0" * 100_000 + b"]", "is no JSON"),
        (b"[NaN]", "NaN is no number of JSON"),
        (b'["\xff"]', "is no JSON"),
    ],
)
def test_texts_that_are_no_list_of_texts_are_an_error(text: bytes, message: str) -> None:
    with pytest.raises(RecordingError, match=message):
        parse_recording(changed({"strings.json": text}))


def test_as_many_values_as_the_bound_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(texts, "MOST_JSON_VALUES", 3)
    assert from_json("[1, 2, 3]", what="it") == [1, 2, 3]


def test_bytes_changed_anywhere_give_nothing_but_named_errors() -> None:
    data, source = recording_bytes(small_recording()), random.Random(24)
    found = 0
    for _ in range(400):
        mutated = bytearray(data)
        for _ in range(source.randint(1, 4)):
            mutated[source.randrange(len(mutated))] = source.randrange(256)
        if source.random() < 0.2:
            start = source.randrange(len(mutated))
            del mutated[start : start + source.randrange(40)]
        try:
            read_all(parse_recording(bytes(mutated)))
        except RecordingError as error:
            assert len(str(error)) < 4000  # noqa: PT017
            found += 1
    assert found > 200


def test_a_text_of_escaped_quotes_takes_little_memory() -> None:
    tracemalloc.start()
    try:
        assert len(from_json(b'["' + b'\\"' * 2**21 + b'"]', what="text")[0]) == 2**21
        assert tracemalloc.get_traced_memory()[1] < 2**26  # the text has 2**22 bytes
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("text", [r'["a\"b[[[", "\\", [1]]', r'["\\\"[", {"a": "]"}]', r'"\\"', '""', "1"])
def test_brackets_within_texts_do_not_count(text: str) -> None:
    assert from_json(text, what="text") == json.loads(text)
    deep = "[" * 250 + text + "]" * 250
    with pytest.raises(RecordingError, match=r"text has lists or objects nested 25[012] deep"):
        from_json(deep, what="text")


def test_a_table_of_very_many_programs_is_refused() -> None:
    members = members_of(recording_bytes(small_recording()))
    programs = {name: npy(np.zeros(100_001, np.uint8)) for name in members if name.startswith("programs/")}
    with pytest.raises(RecordingError, match=r"has 100,001 rows in table 'programs': at most 100,000 are read"):
        parse_recording(zipped({**members, **programs}))


def test_a_table_of_very_many_programs_is_not_written() -> None:
    builder = Builder(kind="run")
    builder.extend("lanes", **{name: np.zeros(100_001, np.int64) for name in TABLES["lanes"]})
    with pytest.raises(RecordingError, match=r"would have 100,001 rows in table 'lanes': at most 100,000 are read; record fewer runs"):
        recording_bytes(builder.tables())
