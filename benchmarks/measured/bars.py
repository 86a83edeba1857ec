"""Groups of rows, and the bar of each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, kw_only=True)
class Group:
    """Families that are judged together.

    Attributes:
        name: in words.
        families: letters that their rows' ids begin with; empty: all that are in no other group.
        median_at_most: of absolute errors; None: listed without a bar.
        p90_at_most: 90th percentile of absolute errors; None: no bar.
        family_mean_at_most: of signed errors of each family; None: no bar.
        fits_at_least: share of verdicts that are as measured; None: no bar.
        fullest_at_most: of the fullest tile of each row, 1 is full; None: no bar.
    """

    name: str
    families: frozenset[str] = frozenset()
    median_at_most: float | None = None
    p90_at_most: float | None = None
    family_mean_at_most: float | None = None
    fits_at_least: float | None = None
    fullest_at_most: float | None = None


MAIN: Final = Group(name="operations and inference", median_at_most=0.06, p90_at_most=0.18, family_mean_at_most=0.12, fits_at_least=1.0)
TRAINING: Final = Group(
    name="training",
    families=frozenset({"TR", "ML", "CO"}),
    median_at_most=0.15,
    p90_at_most=0.35,
    fits_at_least=0.8,
    fullest_at_most=1.2,
)
CONVOLUTIONS: Final = Group(name="convolutions of few channels", families=frozenset({"CV"}), median_at_most=0.25)
LISTED: Final = Group(name="stencils on several IPUs, networks through the host", families=frozenset({"HE", "BY"}))
GROUPS: Final = (MAIN, TRAINING, CONVOLUTIONS, LISTED)


def group_of(family: str) -> Group:
    """The group of a family."""
    return next((group for group in GROUPS if family in group.families), MAIN)
