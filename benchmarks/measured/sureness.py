"""How sure predictions are: errors of kinds of work from a record's judged rows, and whether the intervals of these hold the measurements.

A row's error is |ln(predicted / measured)|. Each kind of work has it by its share of the row's time, so that the error of a kind is the
weighted mean of the rows that spend time on it. A family counts by the root of its number of rows, because its rows err alike. Each mean
is drawn towards `PRIOR`, which counts as one row that spends all its time on the kind: what few rows have is less sure. All errors are
then scaled so that eight of ten rows lie within theirs.
"""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from benchmarks.measured.bars import MAIN, OUTSIDE, TRAINING
from tilestep.machine import load_machine
from tilestep.report.intervals import ModelErrors

Row = Mapping[str, Any]

PRIOR: Final = 0.25  # the error of what nobody has measured: the worst networks outside of the fit were a quarter off
HELD: Final = 0.8  # of the measurements
ALL: Final = "all rows"
# Bars: of the measurements inside, of all rows and of each group; of the median half-width of a group's rows.
BETWEEN: Final = (0.7, 0.9)
LEAST_HELD: Final = 0.65
HALF_WIDTHS: Final = {MAIN.name: 0.08, TRAINING.name: 0.12, OUTSIDE.name: 0.25}


@dataclass(frozen=True, kw_only=True)
class Calibration:
    """Whether the intervals of some rows are right, and narrow.

    Attributes:
        rows: how many.
        held: share of the measurements inside of their interval.
        half_width: median.
        score: mean interval score of logarithms (Gneiting and Raftery 2007): the width, and ten times what a measurement lies outside.
        score_of_one_width: the same with one half-width for all, that of eight of ten errors of the other families.
    """

    rows: int
    held: float
    half_width: float
    score: float
    score_of_one_width: float


def judged(record: Mapping[str, Any]) -> list[Row]:
    """The rows whose figure is compared, and whose kinds of work are known."""
    return [row for row in record["rows"] if row["status"] == "judged" and row["ratio"] and row["shares"]]


def derive(rows: Sequence[Row], tile: tuple[float, float] = (1.0, 1.0)) -> ModelErrors:
    """Errors of kinds of work. Args: tile: bounds of the fullest tile, which rows do not tell."""
    families = Counter(row["family"] for row in rows)
    weights = {row["id"]: families[row["family"]] ** -0.5 for row in rows}
    errors, shares = Counter[str](), Counter[str]()
    for row in rows:
        for kind, share in row["shares"].items():
            errors[kind] += weights[row["id"]] * share * error_of(row)
            shares[kind] += weights[row["id"]] * share
    kinds = {kind: (errors[kind] + PRIOR) / (shares[kind] + 1) for kind in sorted(shares)}
    found = ModelErrors(kinds=kinds, other=PRIOR, tile=tile)
    scale = _quantile([(error_of(row) / half_width(found, row), weights[row["id"]]) for row in rows])
    return ModelErrors(kinds={kind: error * scale for kind, error in kinds.items()}, other=PRIOR * scale, tile=tile)


def tile_bounds(record: Mapping[str, Any]) -> tuple[float, float]:
    """From less to more: parts of what the fullest tile is said to need that no published verdict contradicts.

    What failed with a tile that is 90 % full here needs at least 1 / 0.9 of that. Networks in 8-bit floats tell nothing, because nobody
    knows what of them stayed in halves.
    """
    verdicts = [
        verdict for row in record["rows"] if row["status"] == "judged" and "fp8" not in row["workload"] for verdict in row["verdicts"]
    ]
    ran, failed = ([each["fullness"] for each in verdicts if each["fullness"] and each["measured"] is fits] for fits in (True, False))
    return min(1.0, 1 / max(ran)), max(1.0, 1 / min(failed))


def left_out(rows: Sequence[Row]) -> dict[str, float]:
    """Row -> the half-width that the other families give it."""
    found: dict[str, float] = {}
    for family in {row["family"] for row in rows}:
        errors = derive([row for row in rows if row["family"] != family])
        found.update((row["id"], half_width(errors, row)) for row in rows if row["family"] == family)
    return found


def calibrations(rows: Sequence[Row]) -> dict[str, Calibration]:
    """Of each group, and of 'all'; each family's widths come from the others."""
    widths = left_out(rows)
    groups = {"all": list(rows)} | {
        name: [row for row in rows if row["group"] == name] for name in dict.fromkeys(row["group"] for row in rows)
    }
    return {name: _calibration(own, rows, widths.__getitem__) for name, own in groups.items()}


def error_of(row: Row) -> float:
    """As a logarithm, without its sign."""
    return abs(math.log(row["ratio"]))


def half_width(errors: ModelErrors, row: Row) -> float:
    """Of a row's interval, as a logarithm."""
    return math.log1p(errors.of_time(row["shares"], load_machine(row["machine"]))[0])


def _calibration(own: Sequence[Row], rows: Sequence[Row], width_of: Callable[[str], float]) -> Calibration:
    same = {row["id"]: _one_width(row, own, rows) for row in own}
    return Calibration(
        rows=len(own),
        held=statistics.fmean(error_of(row) <= width_of(row["id"]) for row in own),
        half_width=statistics.median(map(width_of, (row["id"] for row in own))),
        score=_score((error_of(row), width_of(row["id"])) for row in own),
        score_of_one_width=_score((error_of(row), same[row["id"]]) for row in own),
    )


def _one_width(row: Row, own: Sequence[Row], rows: Sequence[Row]) -> float:
    """Eight of ten errors of the group's other families; of all others, where the group has one family alone."""
    others = [error_of(other) for other in own if other["family"] != row["family"]]
    return float(np.quantile(others or [error_of(other) for other in rows if other["family"] != row["family"]], HELD))


def _score(pairs: Iterable[tuple[float, float]]) -> float:
    return statistics.fmean(2 * width + 2 / (1 - HELD) * max(0.0, error - width) for error, width in pairs)


def _quantile(values: Sequence[tuple[float, float]]) -> float:
    """The smallest value that `HELD` of the weight does not exceed. Args: values: each with its weight."""
    whole, below = sum(weight for _, weight in values), 0.0
    for value, weight in sorted(values):
        below += weight
        if below >= HELD * whole:
            return value
    raise ValueError("no row is judged")
