"""Lines of a CSV file, each with an id."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from pathlib import Path


def named_lines(path: Path, needed: Sequence[str], optional: Sequence[str]) -> Iterator[dict[str, str]]:
    """The texts of each line by column; those of optional columns are '' where the file has none.

    Raises: ValueError naming the line and what is wrong with it; OSError if the file cannot be read.
    """
    with path.open(newline="", encoding="utf-8-sig") as file:  # spreadsheets put a mark before the first column
        reader = csv.DictReader(file)
        try:
            columns = reader.fieldnames or ()
            if missing := [column for column in needed if column not in columns]:
                raise ValueError(f"{path} has no column {missing[0]!r}; it needs {', '.join(needed)}")
            if twice := [column for column in (*needed, *optional) if list(columns).count(column) > 1]:
                raise ValueError(f"{path} has the column {twice[0]!r} twice: give it once")
            seen: set[str] = set()
            for fields in reader:
                texts = {column: (fields.get(column) or "").strip() for column in (*needed, *optional)}
                if not texts["id"] or texts["id"] in seen:
                    raise ValueError(f"{path}, line {reader.line_num}: id is {texts['id']!r}: every row needs an id of its own")
                seen.add(texts["id"])
                yield texts
        except (csv.Error, UnicodeDecodeError) as error:
            raise ValueError(f"{path} is no CSV file in UTF-8: {error}") from None
