"""Groups of rows, and the bar of each."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from benchmarks.measured.rows import Row, is_training

_FEW: Final = 16  # channels: fewer do not fill the matrix unit
_NEVER_FITTED: Final = re.compile(r"\bYOLO|\bGPT-2\b|\bCLIP\b|\bSwin-\w+ inference|\bResNeXt-50 inference")


@dataclass(frozen=True, kw_only=True)
class Group:
    """Rows that are judged together.

    Attributes:
        name: in words.
        median_at_most: of absolute errors; None: listed without a bar.
        p90_at_most: 90th percentile of absolute errors; None: no bar.
        family_mean_at_most: of signed errors of each family; None: no bar.
        fits_at_least: share of verdicts that are as measured; None: no bar.
        fullest_at_most: of the fullest tile of each row, 1 is full; None: no bar.
    """

    name: str
    median_at_most: float | None = None
    p90_at_most: float | None = None
    family_mean_at_most: float | None = None
    fits_at_least: float | None = None
    fullest_at_most: float | None = None


MAIN: Final = Group(name="operations and inference", median_at_most=0.04, p90_at_most=0.08, family_mean_at_most=0.12, fits_at_least=1.0)
TRAINING: Final = Group(
    name="training",
    median_at_most=0.05,
    p90_at_most=0.14,
    fits_at_least=1.0,
    fullest_at_most=1.2,
)
CONVOLUTIONS: Final = Group(name="convolutions of few channels", median_at_most=0.25)
OUTSIDE: Final = Group(name="networks outside the fit", median_at_most=0.10, p90_at_most=0.20, fits_at_least=0.85)
LISTED: Final = Group(name="stencils on several IPUs, networks through the host")
GROUPS: Final = (MAIN, TRAINING, OUTSIDE, CONVOLUTIONS, LISTED)


def group_of(row: Row) -> Group:
    """The group of a row, by what was run and not by its id."""
    if row.metric.endswith("tile memory"):
        return MAIN  # of a compiler's report, also of a program that trains
    if not row.fitted or _NEVER_FITTED.search(row.workload):
        return OUTSIDE
    if is_training(row.workload):
        return TRAINING
    if (channels := re.search(r" conv.* (\d+) in to (\d+) out channels", row.workload)) and max(map(int, channels.groups())) < _FEW:
        return CONVOLUTIONS
    if re.search(r"\bheat\b|Aliev-Panfilov|\bqueue\b", row.workload):
        return LISTED
    return MAIN
