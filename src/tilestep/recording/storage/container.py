"""Recordings in files: a zip of one manifest, a .npy file for each column, and texts. `schema.py` says which there are.

`Builder` makes a recording in memory, `write_recording` keeps it, and `read_recording` reads it back, from anybody.
"""

import json
import math
from collections.abc import Mapping, Sequence
from os import PathLike, fspath
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, cast, final

from numpy.typing import NDArray

from tilestep.errors import RecordingError
from tilestep.files import read_file, write_file
from tilestep.messages import plain, shown
from tilestep.recording.builder import KINDS
from tilestep.recording.builder import Builder as Builder
from tilestep.recording.schema import FORMAT, MOST_ROWS, TABLES, TEXTS, VERSION
from tilestep.recording.storage.archive import Archive, archived
from tilestep.recording.storage.columns import HEADER_BYTES, column_bytes, column_length, column_values
from tilestep.recording.storage.texts import MOST_TEXT_BYTES, from_json
from tilestep.recording.tables import Tables as Tables
from tilestep.recording.tables import known_column, known_columns, no_rows, require_rows_in, require_text, sealed

MOST_FILE_BYTES: Final = 256 * 2**20
_MANIFEST: Final = "manifest.json"
_MOST_MANIFEST_BYTES: Final = 2**20
_STRINGS: Final = "strings.json"
_LESS: Final = "record fewer runs"


def write_recording(path: str | PathLike[str], tables: Tables, *, quickly: bool = False) -> None:
    """Writes a recording, whole or not at all.

    Args: quickly: takes a tenth of the time, and up to twice the bytes.
    Raises:
        RecordingError: it is too large for `read_recording`.
        OSError: the file cannot be written.
    """
    write_file(path, recording_bytes(tables, quickly=quickly))


def read_recording(path: str | PathLike[str]) -> Tables:
    """Reads a recording, which may come from anywhere. Columns are unpacked when they are first asked for.

    Raises:
        RecordingError: the file is no recording, is damaged or too large, or has a newer form than this version of the package reads.
        OSError: there is no such file, or it cannot be read.
    """
    where = f"recording '{plain(fspath(path))}'"
    if Path(path).is_file() and (size := Path(path).stat().st_size) > MOST_FILE_BYTES:
        raise RecordingError(f"{where} has {size:,} B: files of at most {MOST_FILE_BYTES:,} B are read; {_LESS}")
    return parse_recording(read_file(path, most_bytes=MOST_FILE_BYTES), where=where)


def recording_bytes(tables: Tables, *, quickly: bool = False) -> bytes:
    """A recording as the bytes of a file; equal recordings give equal bytes.

    Args: quickly: takes a tenth of the time, and up to twice the bytes.
    Raises: RecordingError if they are too many.
    """
    members = {_MANIFEST: _json_bytes(dict(tables.manifest)), _STRINGS: _json_bytes(list(tables.strings))}
    members |= {f"{name}.json": text.encode() for name in TEXTS if name != "strings" and (text := tables.text(name))}
    for name, data in members.items():
        if len(data) > MOST_TEXT_BYTES:
            raise RecordingError(
                f"a recording would have {len(data):,} B in '{name}': at most {MOST_TEXT_BYTES:,} B are read; leave it out"
            )
    for table, columns in TABLES.items():
        if tables.rows(table) > MOST_ROWS.get(table, math.inf):
            raise RecordingError(
                f"a recording would have {tables.rows(table):,} rows in table '{table}': at most {MOST_ROWS[table]:,} are read; {_LESS}"
            )
        if tables.has(table):
            members |= {f"{table}/{name}.npy": column_bytes(column, tables.column(table, name)) for name, column in columns.items()}
    data = archived(members, quickly=quickly)
    if len(data) > MOST_FILE_BYTES:
        raise RecordingError(f"a recording would have {len(data):,} B: files of at most {MOST_FILE_BYTES:,} B are read; {_LESS}")
    return data


def parse_recording(data: bytes, *, where: str = "recording") -> Tables:
    """Reads a recording from the bytes of its file.

    Args: where: what messages call it.
    Raises: RecordingError as `read_recording` does.
    """
    return _Read(Archive(data, where=where))


@final
class _Read:
    """A recording in a file's bytes."""

    def __init__(self, archive: Archive) -> None:
        self._archive = archive
        self.manifest: Mapping[str, Any] = MappingProxyType(_manifest(archive))
        _require_names(archive)
        self.strings: Sequence[str] = _strings(archive)
        self._rows = {table: _rows(archive, table) for table in TABLES}
        self._columns: dict[tuple[str, str], NDArray[Any]] = {}

    def has(self, table: str) -> bool:
        return self.rows(table) > 0

    def rows(self, table: str) -> int:
        known_columns(table)
        return self._rows[table]

    def column(self, table: str, column: str) -> NDArray[Any]:
        declared = known_column(table, column)
        if not self._rows[table]:
            return no_rows(declared)
        if (table, column) not in self._columns:
            member = f"{table}/{column}.npy"
            data = self._archive.read(member)
            try:
                values = sealed(column_values(declared, data))
            except RecordingError as error:
                raise self._archive.error(f"has a damaged column '{member}'", f"it {error}") from None
            try:
                require_rows_in(self, table, column, values)
            except RecordingError as error:
                raise RecordingError(f"{self._archive.where}, {error}") from None
            self._columns[table, column] = values
        return self._columns[table, column]

    def text(self, name: str) -> str:
        require_text(name)
        member = f"{name}.json"
        if member not in self._archive.sizes:
            return ""
        try:
            return self._archive.read(member).decode()
        except UnicodeDecodeError as error:
            raise self._archive.error(f"has a damaged text '{member}'", f"it is no UTF-8 ({plain(error)})") from None


def _manifest(archive: Archive) -> dict[str, Any]:
    if _MANIFEST not in archive.sizes:
        raise archive.error(f"has no '{_MANIFEST}'", "every recording has one: this is another zip file")
    if archive.sizes[_MANIFEST] > _MOST_MANIFEST_BYTES:
        raise archive.error(f"has {archive.sizes[_MANIFEST]:,} B in '{_MANIFEST}'", f"at most {_MOST_MANIFEST_BYTES:,} B are read")
    manifest = _json(archive, _MANIFEST)
    if not isinstance(manifest, dict):
        raise archive.error(f"has no object in '{_MANIFEST}'", "this is another zip file")
    manifest = cast("dict[str, Any]", manifest)
    form, kind = manifest.get("version"), manifest.get("kind")
    if manifest.get("format") != FORMAT:
        raise archive.error(f"is of format {shown(manifest.get('format'))}", f"it must be '{FORMAT}': this is another zip file")
    if type(form) is not int or form < 1:
        raise archive.error(f"has the form {shown(form)}", "a form is a whole number from 1")
    if form > VERSION:
        raise archive.error(f"has form {shown(form)}", f"this version of tilestep reads forms up to {VERSION}: install a newer one")
    if kind not in KINDS:
        raise archive.error(f"is of kind {shown(kind)}", f"it must be one of {', '.join(KINDS)}")
    return manifest


def _require_names(archive: Archive) -> None:
    known = {_MANIFEST, *(f"{name}.json" for name in TEXTS)}
    known |= {f"{table}/{column}.npy" for table, columns in TABLES.items() for column in columns}
    strange = next((name for name in archive.sizes if name not in known), None)
    if strange is not None:
        raise archive.error(f"has the member '{plain(strange)}'", f"form {VERSION} of recordings has no such table, column or text")
    long = next((name for name, size in archive.sizes.items() if name.endswith(".json") and size > MOST_TEXT_BYTES), None)
    if long is not None:
        raise archive.error(f"has {archive.sizes[long]:,} B in '{long}'", f"at most {MOST_TEXT_BYTES:,} B are read")


def _strings(archive: Archive) -> tuple[str, ...]:
    strings: Any = _json(archive, _STRINGS) if _STRINGS in archive.sizes else []
    if not isinstance(strings, list):
        raise archive.error(f"has no list in '{_STRINGS}'", "it must be a list of texts")
    strings = cast("list[Any]", strings)
    wrong = next((text for text in strings if not isinstance(text, str)), None)
    if wrong is not None or None in strings:
        raise archive.error(f"has {shown(wrong)} in '{_STRINGS}'", "it must be a list of texts")
    return tuple(strings)


def _json(archive: Archive, member: str) -> Any:
    return from_json(archive.read(member), what=f"{archive.where}: '{member}'")


def _rows(archive: Archive, table: str) -> int:
    """Rows of a table, from the headers of its columns."""
    members = {column: f"{table}/{column}.npy" for column in TABLES[table]}
    present = [column for column, member in members.items() if member in archive.sizes]
    if not present:
        return 0
    if len(present) < len(members):
        missing = next(member for column, member in members.items() if column not in present)
        raise archive.error(f"lacks the column '{missing}'", f"table '{table}' has all of its columns, or none")
    lengths: dict[str, int] = {}
    for column, member in members.items():
        begin = archive.begin(member, HEADER_BYTES)
        try:
            lengths[column] = column_length(TABLES[table][column], begin, archive.sizes[member])
        except RecordingError as error:
            raise archive.error(f"has a damaged column '{member}'", f"it {error}") from None
    if len(set(lengths.values())) > 1:
        raise archive.error(f"has columns of unequal lengths in table '{table}'", shown(lengths))
    rows = lengths[present[0]]
    if rows > MOST_ROWS.get(table, math.inf):
        raise archive.error(f"has {rows:,} rows in table '{table}'", f"at most {MOST_ROWS[table]:,} are read")
    return rows


def _json_bytes(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":"), allow_nan=False).encode()
