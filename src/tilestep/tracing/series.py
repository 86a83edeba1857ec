"""Numbers over wall time: lines of graphs, and heat maps. They are kept only while the process is traced."""

from collections.abc import Sequence
from typing import Any, Final, SupportsFloat, final

import numpy as np
from numpy.typing import ArrayLike

from tilestep.messages import shown
from tilestep.tracing import logs

_MOST_EDGES: Final = 10_000


@final
class Series(logs.SeriesDescription):
    """A line of a graph over wall time. `series` makes it.

    Attributes:
        name: of the line.
        graph: of the graph that it is in.
        unit: of its values.
    """

    __slots__ = ()

    def add(self, value: SupportsFloat) -> None:
        """Adds a point of now. Does nothing in a process that is not traced; else it reads the value, which waits for an array of JAX."""
        current = logs.current
        if current is not None:
            current.note_point(self, float(value))

    def __repr__(self) -> str:
        return f"<series {shown(self.name)} of graph {shown(self.graph)}>"


@final
class HeatMap(logs.Cells):
    """How values are distributed, over wall time. `heat_map` makes it.

    Attributes:
        name: of the heat map.
        edges: between its cells, ascending: one cell lies below the first edge, and one above the last.
        unit: of edges and values.
    """

    __slots__ = ()

    def add(self, values: ArrayLike) -> None:
        """Counts values of now, an array of any shape. A value that equals an edge is above it; NaN is above the last.

        Does nothing in a process that is not traced; else it reads the values, which waits for an array of JAX.

        Raises: TypeError or ValueError if they are no real numbers.
        """
        current = logs.current
        if current is not None:
            cells = np.searchsorted(np.asarray(self.edges), np.asarray(values, np.float64).ravel(), side="right")
            found, times = np.unique(cells, return_counts=True)
            current.note_heat(self, found.tolist(), times.tolist())

    def __repr__(self) -> str:
        return f"<heat map {shown(self.name)} with {len(self.edges) + 1:,} cells>"


def series(name: str, unit: str = "", *, graph: str | None = None) -> Series:
    """A line of a graph, such as the loss: `loss = series("Loss")`, then `loss.add(0.5)` at each step.

    Args:
        name: of the line.
        unit: of its values.
        graph: that it shares with other lines; None: one of its own name.
    """
    return Series(name, name if graph is None else graph, unit)


def heat_map(name: str, edges: Sequence[float], unit: str = "") -> HeatMap:
    """A heat map, such as of gradients: `norms = heat_map("Norms", [0, 0.1, 1, 10])`, then `norms.add(values)` at each step.

    Args:
        name: of the heat map.
        edges: between its cells, ascending; 1 to 10,000 finite numbers.
        unit: of edges and values.

    Raises:
        ValueError: if the edges are others.
    """
    found: Any = np.asarray(edges)
    kind = found.dtype.kind
    if kind not in "iuf" or found.ndim != 1 or not 1 <= len(found) <= _MOST_EDGES or not np.isfinite(found).all():
        raise ValueError(f"heat map {shown(name)} has the edges {shown(edges)}: they must be 1 to {_MOST_EDGES:,} finite numbers")
    if (np.diff(found.astype(np.float64)) <= 0).any():
        raise ValueError(f"heat map {shown(name)} has the edges {shown(edges)}: each must be larger than the one before")
    return HeatMap(name, tuple(float(edge) for edge in found), unit)
