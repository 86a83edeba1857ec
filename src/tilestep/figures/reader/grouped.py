"""Rows of tables by what they number, sorted once: to look for those of one program takes no longer where there are more."""

from typing import final

import numpy as np
from numpy.typing import NDArray

from tilestep.recording.tables import Tables


@final
class Grouped:
    """The rows of a recording's tables by one of their columns."""

    def __init__(self, tables: Tables) -> None:
        self.tables = tables
        self._orders: dict[tuple[str, str], tuple[NDArray[np.int64], NDArray[np.int64]]] = {}

    def rows(self, table: str, column: str, value: int) -> NDArray[np.int64]:
        """The rows in which a column has a value, in their order."""
        order, values = self._order(table, column)
        begin, end = np.searchsorted(values, (value, value + 1))
        return order[begin:end]

    def _order(self, table: str, column: str) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        key = table, column
        if key not in self._orders:
            values = self.tables.column(table, column).astype(np.int64)  # as numbers are, so that no search has to widen them all
            order = np.argsort(values, kind="stable")
            self._orders[key] = order, values[order]
        return self._orders[key]
