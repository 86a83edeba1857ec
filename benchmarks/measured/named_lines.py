"""Lines of a CSV file, each with an id."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, kw_only=True)
class NamedLine:
    """One line.

    Attributes:
        texts: by column; those of optional columns are '' where the file has none.
        where: its file, line and id, for messages.
    """

    texts: Mapping[str, str]
    where: str


def named_lines(path: Path, needed: Sequence[str], optional: Sequence[str]) -> Iterator[NamedLine]:
    """The lines of a file.

    Raises: ValueError naming the file, and the line and what is wrong with it.
    """
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:  # spreadsheets put a mark before the first column
            yield from _lines(path, csv.DictReader(file, strict=True), needed, optional)  # strict: a quote that isn't closed is an error
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror}; give a CSV file with the columns {', '.join(needed)}") from None
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is no CSV file in UTF-8: {error}") from None


def _lines(path: Path, reader: csv.DictReader[str], needed: Sequence[str], optional: Sequence[str]) -> Iterator[NamedLine]:
    begin = 1  # of the lines that the reader takes next; a field in quotes may have several
    seen: set[str] = set()
    try:
        _require_columns(path, reader.fieldnames or (), needed, optional)
        begin = reader.line_num + 1
        for fields in reader:
            where = f"{path}, line {reader.line_num}"
            texts = {column: (fields.get(column) or "").strip() for column in (*needed, *optional)}
            if not texts["id"] or texts["id"] in seen:
                raise ValueError(f"{where}: id is {texts['id']!r}: every row needs an id of its own")
            beyond: Sequence[str] = fields.get(None) or ()  # type: ignore[call-overload]  # where DictReader puts what has no column
            if more := "".join(beyond).strip():
                raise ValueError(f"{where}, row {texts['id']}: {more!r} is in no column: a text with commas needs quotes around it")
            seen.add(texts["id"])
            yield NamedLine(texts=texts, where=f"{where}, row {texts['id']}")
            begin = reader.line_num + 1
    except csv.Error as error:
        if "unexpected end" in str(error) or "expected after" in str(error):
            raise ValueError(
                f"{path}: the row that begins in line {begin} has a quote that is not closed, or one inside of a text ({error}): write a "
                'text with commas as "a, b", and a quote inside of it twice'
            ) from None
        raise ValueError(f"{path} is no CSV file in UTF-8: {error}") from None


def _require_columns(path: Path, columns: Sequence[str], needed: Sequence[str], optional: Sequence[str]) -> None:
    if missing := [column for column in needed if column not in columns]:
        raise ValueError(f"{path} has no column {missing[0]!r}; it needs {', '.join(needed)}")
    if twice := [column for column in (*needed, *optional) if list(columns).count(column) > 1]:
        raise ValueError(f"{path} has the column {twice[0]!r} twice: give it once")
