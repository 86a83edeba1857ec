"""A recording with other tables in place of some of its own."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, final

from numpy.typing import NDArray

from tilestep.recording.schema import TABLES
from tilestep.recording.tables import Tables, known_column, known_columns, require_text, sealed


@final
class Replaced:
    """See the module's docstring; a `Tables`.

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
