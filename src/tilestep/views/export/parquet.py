"""The tables of a recording as Parquet files, one for each, with texts in place of their numbers."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tilestep.errors import UnsupportedError
from tilestep.figures.paths import relative_paths
from tilestep.figures.reader import Report
from tilestep.files import writable_directory, written_file
from tilestep.recording.schema import TABLES

SOURCE_TABLES = ("frames",)  # they name lines of the user's program


def write_parquet(report: Report, directory: Path, *, source: bool) -> tuple[Path, ...]:
    """Writes a file for each table that has rows.

    Args:
        directory: for the files; it is made if it is missing.
        source: whether lines of the user's program are in them; their paths are relative to what they have in common.

    Returns:
        The files.

    Raises:
        UnsupportedError: if pyarrow is not installed.
        RecordingError: if the recording is damaged.
        OSError: if a file cannot be written.
    """
    arrow, parquet = _pyarrow()
    writable_directory(directory)
    files: list[Path] = []
    for table in TABLES:
        if report.tables.has(table) and (source or table not in SOURCE_TABLES):
            columns = dict(_columns(report, table, arrow, source=source))
            file = directory / f"{table}.parquet"
            with written_file(file) as sink:
                parquet.write_table(arrow.table(columns), sink, compression="zstd")
            files.append(file)
    return tuple(files)


def _columns(report: Report, table: str, arrow: Any, *, source: bool) -> Iterator[tuple[str, Any]]:
    tables = report.tables
    for name, column in TABLES[table].items():
        values = tables.column(table, name)
        if column.table == "strings":
            numbers: list[int] = values.tolist()
            texts: list[str | None] = [None if number < 0 else tables.strings[number] for number in numbers]
            if (table, name) == ("processes", "name") and not source:
                texts = [None] * len(texts)  # a command may name a path
            elif (table, name) == ("frames", "file"):
                relative = relative_paths(text for text in texts if text)
                texts = [relative(text) if text else text for text in texts]
            plain = [None if text is None else text.encode("utf-8", "backslashreplace").decode() for text in texts]
            yield name, arrow.array(plain, type=arrow.string())
        elif column.table in SOURCE_TABLES and not source:
            yield name, arrow.array([0] * len(values), type=arrow.int32())
        else:
            yield name, arrow.array(values)


def _pyarrow() -> tuple[Any, Any]:
    """pyarrow, and its part for Parquet."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise UnsupportedError("Parquet files need pyarrow, which is not installed: pip install 'tilestep[parquet]'") from None
    return pyarrow, pyarrow.parquet
