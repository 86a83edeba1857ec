"""How sure predictions are: errors of kinds of work from a record's judged rows, and whether the intervals of these hold the measurements.

A row's error is |ln(predicted / measured)|, and its half-width the sum of the errors of kinds of work by their shares of its time. The
errors of kinds are those with the smallest mean interval score (Gneiting and Raftery 2007), so that eight of ten rows lie within theirs.
Networks outside the fit have a kind more, which tells how much worse they are. A family counts by the root of its number of rows, because
its rows err alike. Errors are drawn towards `PRIOR`: a kind that few rows spend time on has about that.
"""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from benchmarks.measured.bars import MAIN, OUTSIDE, TRAINING
from tilestep.figures.intervals import UNSEEN, ModelErrors
from tilestep.machine import load_machine

Row = Mapping[str, Any]

PRIOR: Final = 0.25  # the error of what nobody has measured: the worst networks outside of the fit were a quarter off
PULL: Final = 0.01  # how much a kind's squared distance from that counts beside the score
LEAST: Final = 0.005  # of a kind's error
HELD: Final = 0.8  # of the measurements
ALL: Final = "all rows"
# Bars: of the measurements inside, of all rows and of each group; of the median half-width of a group's rows.
BETWEEN: Final = (0.7, 0.9)
LEAST_HELD: Final = 0.65
LEAST_CERTAIN: Final = 0.6  # of the verdicts
HALF_WIDTHS: Final = {MAIN.name: 0.08, TRAINING.name: 0.12, OUTSIDE.name: 0.25}
_EDGE: Final = 1e-3


@dataclass(frozen=True, kw_only=True)
class Calibration:
    """Whether the intervals of some rows are right, and narrow.

    Attributes:
        rows: how many.
        held: share of the measurements inside of their interval.
        half_width: median.
        score: mean interval score of logarithms: the width, and ten times what a measurement lies outside.
        score_of_one_width: the same with one half-width for each group, that of eight of ten errors of its other families.
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
    weights = np.array([families[row["family"]] ** -0.5 for row in rows])
    spent = [shares_of(row) for row in rows]
    kinds = sorted({kind for each in spent for kind in each})
    shares = np.array([[each.get(kind, 0.0) for kind in kinds] for each in spent])
    errors = np.array([error_of(row) for row in rows])

    def loss(of_kinds: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        """Mean interval score, and its slopes; its edge is rounded off over `_EDGE`."""
        widths = shares @ of_kinds
        beyond = np.clip((errors - widths) / _EDGE, 0, 1)
        outside = np.maximum(errors - widths - _EDGE / 2, beyond**2 * _EDGE / 2) * (beyond > 0)
        pulled = of_kinds - PRIOR
        score = weights @ (widths + outside / (1 - HELD)) / weights.sum() + PULL * pulled @ pulled
        return score, shares.T @ (weights * (1 - beyond / (1 - HELD))) / weights.sum() + 2 * PULL * pulled

    found = minimize(loss, np.full(len(kinds), PRIOR), jac=True, bounds=[(LEAST, 1)] * len(kinds), method="L-BFGS-B").x
    return ModelErrors(kinds=dict(zip(kinds, map(float, found), strict=True)), other=PRIOR, tile=tile)


def tile_bounds(record: Mapping[str, Any]) -> tuple[float, float]:
    """From less to more: parts of what the fullest tile is said to need that no published verdict contradicts.

    What failed with a tile that is 90 % full here needs at least 1 / 0.9 of that. Networks in 8-bit floats tell nothing, because nobody
    knows what of them stayed in halves.
    """
    ran, failed = ([full for full, fits in verdicts(record) if fits is wanted] for wanted in (True, False))
    return min(1.0, 1 / max(ran)), max(1.0, 1 / min(failed))


def certain(record: Mapping[str, Any], tile: tuple[float, float]) -> float:
    """Share of the published verdicts at which no full tile lies between the bounds; the others are 'likely'."""
    return statistics.fmean(not full * tile[0] <= 1 < full * tile[1] for full, _ in verdicts(record))


def verdicts(record: Mapping[str, Any]) -> list[tuple[float, bool]]:
    """(how full the fullest tile is here, whether it fitted) of each that is judged."""
    rows = [row for row in record["rows"] if row["status"] == "judged" and "fp8" not in row["workload"]]
    return [(each["fullness"], each["measured"]) for row in rows for each in row["verdicts"] if each["fullness"]]


def left_out(rows: Sequence[Row]) -> dict[str, float]:
    """Row -> the half-width that the other families give it."""
    found: dict[str, float] = {}
    for family in {row["family"] for row in rows}:
        errors = derive([row for row in rows if row["family"] != family])
        found.update((row["id"], half_width(errors, row)) for row in rows if row["family"] == family)
    return found


def calibrations(rows: Sequence[Row]) -> dict[str, Calibration]:
    """Of each group, and of `ALL`; each family's widths come from the others."""
    widths, names = left_out(rows), dict.fromkeys(row["group"] for row in rows)
    groups = {name: [row for row in rows if row["group"] == name] for name in names}
    same = {row["id"]: _one_width(row, own, rows) for own in groups.values() for row in own}
    return {name: _calibration(own, widths, same) for name, own in {ALL: list(rows), **groups}.items()}


def shortfalls(found: Mapping[str, Calibration]) -> list[str]:
    """Sentences: how the bars of intervals are missed; empty if they are met."""
    missed: list[str] = []
    for name, group in found.items():
        least, most = BETWEEN if name == ALL else (LEAST_HELD, 1.0)
        if not least <= group.held <= most:
            missed.append(f"{name}: {group.held:.0%} of the measurements are inside, {least:.0%} to {most:.0%} wanted")
        if group.half_width > HALF_WIDTHS.get(name, 1.0):
            missed.append(f"{name}: half-width {group.half_width:.1%}, at most {HALF_WIDTHS[name]:.0%} wanted")
        if name == ALL and not group.score <= group.score_of_one_width:
            missed.append(f"{name}: interval score {group.score:.3f}, that of one width for each group is {group.score_of_one_width:.3f}")
    return missed


def document(errors: ModelErrors) -> dict[str, Any]:
    """For `model_errors.json`."""
    kinds = {kind: round(error, 3) for kind, error in errors.kinds.items()}
    return {"kinds": kinds, "other": round(errors.other, 3), "tile": [round(bound, 3) for bound in errors.tile]}


def error_of(row: Row) -> float:
    """As a logarithm, without its sign."""
    return abs(math.log(row["ratio"]))


def half_width(errors: ModelErrors, row: Row) -> float:
    """Of a row's interval, as a logarithm."""
    return math.log1p(errors.of_time(shares_of(row), load_machine(row["machine"]))[0])


def shares_of(row: Row) -> dict[str, float]:
    """Of kinds of work in a row's time; a network outside the fit has the error of one that nobody fitted besides."""
    return {**row["shares"], **({UNSEEN: 1.0} if row["group"] == OUTSIDE.name else {})}


def _calibration(own: Sequence[Row], widths: Mapping[str, float], same: Mapping[str, float]) -> Calibration:
    return Calibration(
        rows=len(own),
        held=statistics.fmean(error_of(row) <= widths[row["id"]] for row in own),
        half_width=statistics.median(widths[row["id"]] for row in own),
        score=_score((error_of(row), widths[row["id"]]) for row in own),
        score_of_one_width=_score((error_of(row), same[row["id"]]) for row in own),
    )


def _one_width(row: Row, own: Sequence[Row], rows: Sequence[Row]) -> float:
    """Eight of ten errors of the group's other families; of all others, where the group has one family alone."""
    others = [error_of(other) for other in own if other["family"] != row["family"]]
    return float(np.quantile(others or [error_of(other) for other in rows if other["family"] != row["family"]], HELD))


def _score(pairs: Iterable[tuple[float, float]]) -> float:
    return statistics.fmean(2 * width + 2 / (1 - HELD) * max(0.0, error - width) for error, width in pairs)
