"""Recordings made in memory, row by row or column by column."""

import functools
import json
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from types import MappingProxyType
from typing import Any, Final, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tilestep.errors import RecordingError
from tilestep.messages import plain, shown
from tilestep.recording.schema import FORMAT, TABLES, VERSION, Column
from tilestep.recording.tables import Tables, known_column, known_columns, no_rows, require_rows_in, require_text, sealed

KINDS: Final = ("run", "program", "trace")
_version: Final = functools.cache(version)  # each look reads the package's metadata


@final
class Builder:
    """Makes a recording in memory.

    Args:
        kind: 'run', 'program' or 'trace'.
        notes: further entries of the manifest; they must be JSON.
    """

    def __init__(self, *, kind: str, notes: Mapping[str, Any] | None = None) -> None:
        if kind not in KINDS:
            raise RecordingError(f"kind of a recording is {shown(kind)}: it must be one of {', '.join(KINDS)}")
        made = {"format": FORMAT, "version": VERSION, "tilestep": _version("tilestep"), "kind": kind}
        self._manifest: dict[str, Any] = {**made, **{name: note for name, note in (notes or {}).items() if name not in made}}
        self._strings: dict[str, int] = {}
        self._parts: dict[str, dict[str, list[NDArray[Any]]]] = {}
        self._pending: dict[str, list[dict[str, int | float]]] = {}
        self._rows: dict[str, int] = {}
        self._texts: dict[str, str] = {}

    def string(self, text: str) -> int:
        """The number of a text."""
        return self._strings.setdefault(text, len(self._strings))

    def rows(self, table: str) -> int:
        """How many rows a table has so far: the number of the next one."""
        known_columns(table)
        return self._rows.get(table, 0)

    def append(self, table: str, **values: int | float | str) -> int:
        """Adds one row, with a value for each column, and returns its number. Text may be given as it is, or by its number."""
        columns = known_columns(table)
        _require_columns(table, values)
        row: dict[str, int | float] = {}
        for name, value in values.items():
            if isinstance(value, str) and columns[name].table != "strings":
                raise RecordingError(f"column '{table}/{name}' is {columns[name].dtype}: it is given the text {shown(value)}")
            row[name] = self.string(value) if isinstance(value, str) else value
        self._pending.setdefault(table, []).append(row)
        return self._count(table, 1)

    def extend(self, table: str, **columns: ArrayLike) -> int:
        """Adds rows, given as one array for each column, and returns the number of the first.

        Raises: RecordingError if they are not one-dimensional arrays of one length whose values fit the columns.
        """
        declared = known_columns(table)
        _require_columns(table, columns)
        arrays = {name: _fitting(table, name, column, columns[name]) for name, column in declared.items()}
        lengths = {name: len(array) for name, array in arrays.items()}
        if len(set(lengths.values())) > 1:
            raise RecordingError(f"columns of '{table}' have unequal lengths: {shown(lengths)}")
        self._flush(table)
        for name, array in arrays.items():
            self._parts.setdefault(table, {}).setdefault(name, []).append(array)
        return self._count(table, next(iter(lengths.values())))

    def put_text(self, name: str, text: str) -> None:
        """Sets one of the texts, which replaces an earlier one. It must be JSON."""
        require_text(name)
        if name == "strings":
            raise RecordingError("text 'strings' is made of the texts that columns number: use string()")
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise RecordingError(f"text '{name}' cannot be UTF-8 ({plain(error)}): use put_json(), which escapes such characters") from None
        self._texts[name] = text

    def put_json(self, name: str, value: Any) -> None:
        """Sets one of the texts to a value, as JSON."""
        self.put_text(name, json.dumps(value, separators=(",", ":"), allow_nan=False))

    def tables(self) -> Tables:
        """What has been added so far. Raises: RecordingError if a column numbers a row that is not there."""
        for table in tuple(self._pending):
            self._flush(table)
        present = [table for table in TABLES if self._rows.get(table)]
        columns = {table: {name: sealed(np.concatenate(self._parts[table][name])) for name in TABLES[table]} for table in present}
        built = _Built(self._manifest, tuple(self._strings), columns, dict(self._texts))
        for table in columns:
            for name, values in columns[table].items():
                require_rows_in(built, table, name, values)
        return built

    def _count(self, table: str, new: int) -> int:
        first = self._rows.get(table, 0)
        self._rows[table] = first + new
        return first

    def _flush(self, table: str) -> None:
        """Makes arrays of the rows that were appended."""
        rows = self._pending.pop(table, [])
        if rows:
            for name, column in TABLES[table].items():
                array = _fitting(table, name, column, [row[name] for row in rows])
                self._parts.setdefault(table, {}).setdefault(name, []).append(array)


@final
class _Built:
    """A recording in memory."""

    def __init__(
        self,
        manifest: Mapping[str, Any],
        strings: Sequence[str],
        columns: Mapping[str, Mapping[str, NDArray[Any]]],
        texts: Mapping[str, str],
    ) -> None:
        self.manifest: Mapping[str, Any] = MappingProxyType(dict(manifest))
        self.strings = tuple(strings)
        self._columns, self._texts = columns, texts

    def has(self, table: str) -> bool:
        return self.rows(table) > 0

    def rows(self, table: str) -> int:
        known_columns(table)
        return len(next(iter(self._columns[table].values()))) if table in self._columns else 0

    def column(self, table: str, column: str) -> NDArray[Any]:
        declared = known_column(table, column)
        return self._columns[table][column] if table in self._columns else no_rows(declared)

    def text(self, name: str) -> str:
        require_text(name)
        return json.dumps(self.strings, separators=(",", ":")) if name == "strings" else self._texts.get(name, "")


def _require_columns(table: str, values: Mapping[str, object]) -> None:
    columns = known_columns(table)
    if values.keys() != columns.keys():
        missing = [name for name in columns if name not in values]
        strange = [name for name in values if name not in columns]
        raise RecordingError(f"a row of '{table}' lacks {missing} and has the unknown {strange}: its columns are {', '.join(columns)}")


def _fitting(table: str, name: str, column: Column, values: ArrayLike) -> NDArray[Any]:
    """The values in the column's type. Raises: RecordingError if they do not fit."""
    bound = f"column '{table}/{name}' is {column.dtype}"
    try:
        given = np.asarray(values)
    except (OverflowError, ValueError, TypeError) as error:
        raise RecordingError(f"{bound}: {plain(error)}") from None
    if given.ndim != 1 or (given.size and given.dtype.kind not in ("iufb" if column.dtype == "float64" else "iub")):
        raise RecordingError(f"{bound}, in one dimension: it is given {given.dtype} of shape {given.shape}")
    if given.size and column.dtype != "float64":
        limits, low, high = np.iinfo(column.dtype), int(given.min()), int(given.max())
        if low < limits.min or high > limits.max:
            raise RecordingError(f"{bound}, {limits.min:,} to {limits.max:,}: it is given {low:,} to {high:,}")
    return given.astype(column.dtype)
