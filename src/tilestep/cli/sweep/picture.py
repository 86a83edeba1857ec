"""The picture of a sweep."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tilestep.cli.sweep.sweep_table import Row, rate_of
from tilestep.views.front import Choice, draw

_TITLES: Final = {
    "items_per_s": "time of an item",
    "step_s": "time of a warm step",
    "whole_s": "time of the whole run",
}


def plot(rows: Sequence[Row], path: Path) -> None:
    """Draws the sweep to a file, whose suffix is one of `FORMS`. Raises: OSError naming the file; ImportError without Matplotlib."""
    rate, figure_name = rate_of(rows)
    choices = [
        Choice(row.found.num_ipus or 1, row.found.full, 1 / rate(row), row.found.fits, " ".join(row.setting.cells().values()))
        for row in rows
        if rate(row) > 0 and row.found.full is not None
    ]
    absent = len(rows) - len(choices)
    draw(choices, path, time_of=_TITLES[figure_name], note=f"{absent} of {len(rows)} settings have no time" if absent else "")
