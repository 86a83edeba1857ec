"""A recording as its readers see it, wherever it is kept."""

import json
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Protocol, final

import numpy as np
from numpy.typing import NDArray

from tilestep.errors import RecordingError
from tilestep.messages import shown
from tilestep.recording.schema import TABLES, TEXTS, Column
from tilestep.recording.storage.columns import require_rows
from tilestep.recording.storage.texts import from_json


class Tables(Protocol):
    """A recording, in a file or in memory."""

    @property
    def manifest(self) -> Mapping[str, Any]:
        """`format`, `version`, `tilestep` (which made it), `kind` (run, program or trace), and notes of whoever made it."""
        ...

    @property
    def strings(self) -> Sequence[str]:
        """The texts that columns number."""
        ...

    def has(self, table: str) -> bool:
        """Whether the table has rows."""
        ...

    def rows(self, table: str) -> int:
        """How many rows it has; 0 if it is absent."""
        ...

    def column(self, table: str, column: str) -> NDArray[Any]:
        """One column in the type of the schema; it cannot be written to. Empty if the table is absent.

        Raises: RecordingError if a file's column is damaged, or has row numbers outside of the table that it numbers.
        """
        ...

    def text(self, name: str) -> str:
        """One of the texts; '' if it is absent. Raises: RecordingError if a file's is damaged."""
        ...


def json_text(tables: Tables, name: str) -> Any:
    """The value of one of the texts, which are JSON; None if it is absent. Raises: RecordingError if it is no JSON, or passes a bound."""
    text = tables.text(name)
    return from_json(text, what=f"text '{name}' of the recording") if text else None


def known_columns(table: str) -> Mapping[str, Column]:
    """The columns that the schema gives a table. Raises: RecordingError if it has no such table."""
    if table not in TABLES:
        raise RecordingError(f"recordings have no table {shown(table)}: they have {', '.join(TABLES)}")
    return TABLES[table]


def known_column(table: str, column: str) -> Column:
    """One column of the schema. Raises: RecordingError if it has no such column."""
    columns = known_columns(table)
    if column not in columns:
        raise RecordingError(f"table '{table}' of recordings has no column {shown(column)}: it has {', '.join(columns)}")
    return columns[column]


def require_text(name: str) -> None:
    """Raises: RecordingError if the schema has no such text."""
    if name not in TEXTS:
        raise RecordingError(f"recordings have no text {shown(name)}: they have {', '.join(TEXTS)}")


def require_rows_in(tables: Tables, table: str, name: str, values: NDArray[Any]) -> None:
    """Raises: RecordingError naming the column if it numbers rows that are not there."""
    column = TABLES[table][name]
    if column.table:
        rows = len(tables.strings) if column.table == "strings" else tables.rows(column.table)
        try:
            require_rows(column, values, rows)
        except RecordingError as error:
            raise RecordingError(f"column '{table}/{name}' {error}") from None


def sealed(values: NDArray[Any]) -> NDArray[Any]:
    """The array, which cannot be written to from now on."""
    values.flags.writeable = False
    return values


def no_rows(column: Column) -> NDArray[Any]:
    """The column of an absent table."""
    return sealed(np.zeros(0, column.dtype))


@final
class Replaced:
    """A recording with other tables in place of some of its own; a `Tables`.

    Args:
        tables: the recording that has all that is not replaced.
        columns: by table and column; each has the type of the schema from here on.
        strings: the texts that columns number, if not those of `tables`.
        notes: are added to the manifest.
    """

    def __init__(
        self,
        tables: Tables,
        columns: Mapping[str, Mapping[str, NDArray[Any]]],
        *,
        strings: Sequence[str] | None = None,
        notes: Mapping[str, Any] | None = None,
    ) -> None:
        self._tables = tables
        self._columns = {
            table: {name: sealed(values.astype(TABLES[table][name].dtype)) for name, values in of_table.items()}
            for table, of_table in columns.items()
        }
        self._strings = None if strings is None else tuple(strings)
        self.manifest: Mapping[str, Any] = MappingProxyType({**tables.manifest, **(notes or {})})

    @property
    def strings(self) -> Sequence[str]:
        return self._tables.strings if self._strings is None else self._strings

    def has(self, table: str) -> bool:
        return self.rows(table) > 0

    def rows(self, table: str) -> int:
        known_columns(table)
        return len(next(iter(self._columns[table].values()))) if table in self._columns else self._tables.rows(table)

    def column(self, table: str, column: str) -> NDArray[Any]:
        known_column(table, column)
        return self._columns[table][column] if table in self._columns else self._tables.column(table, column)

    def text(self, name: str) -> str:
        require_text(name)
        if name == "strings" and self._strings is not None:
            return json.dumps(self._strings, separators=(",", ":"))
        return self._tables.text(name)
