"""Predictions beside measurements, row by row and all together."""

from __future__ import annotations

import csv
import functools
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np

from benchmarks.measured import convolutions, feeding, footprints, kernels, networks, outside, products, stencils
from benchmarks.measured.answer import Answer, LeftOut, Recogniser, Verdict
from benchmarks.measured.bars import GROUPS, MAIN, Group, group_of
from benchmarks.measured.row_error import RowError
from benchmarks.measured.rows import DATA, Row
from benchmarks.measured.training.answers import training
from benchmarks.measured.verdicts import largest

NETWORKS: tuple[Recogniser, ...] = (
    networks.resnet50_throughput,
    networks.bert,
    networks.vit,
    outside.yolo,
    outside.clip_of_images,
    outside.swin_of_images,
    outside.resnext50,
)  # for inference
RECOGNISERS: tuple[Recogniser, ...] = (
    products.on_tile,
    products.dense,
    functools.partial(largest, NETWORKS),
    *NETWORKS,
    outside.products,
    kernels.stream,
    stencils.blur,
    stencils.mesh,
    convolutions.convolution,
    kernels.matrix_vector,
    feeding.transfer,
    feeding.small_cnn,
    footprints.footprint,
    training,
)

Status = Literal["judged", "reported", "predicted", "left out"]  # predicted: nobody has measured it


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What became of a row."""

    row: Row
    status: Status
    reason: str = ""  # why it is not judged
    measured: float | None = None
    answer: Answer = field(default_factory=Answer)
    failed: bool = False  # it would be judged, but its program could not be run

    @property
    def ratio(self) -> float | None:
        """Predicted over measured; None where either is no number."""
        if self.measured is None or self.answer.predicted is None:
            return None
        return self.answer.predicted / self.measured

    @property
    def fullest_tile(self) -> float | None:
        """How full it is: 1 is full; None where nothing ran."""
        if self.answer.update is not None:
            return self.answer.update.fullness
        run = self.answer.prediction
        return None if run is None else run.fullness

    @property
    def error(self) -> float | None:
        """Signed: +0.1 is a figure 10 % higher than measured."""
        return None if self.ratio is None else self.ratio - 1


@dataclass(frozen=True, kw_only=True)
class FamilyErrors:
    """Signed errors of one family's rows."""

    family: str
    errors: tuple[float, ...]

    @property
    def median(self) -> float:
        """Of the absolute errors."""
        return statistics.median(map(abs, self.errors))

    @property
    def mean(self) -> float:
        """Signed."""
        return statistics.fmean(self.errors)

    @property
    def worst(self) -> float:
        """Signed; the largest by size."""
        return max(self.errors, key=abs)


@dataclass(frozen=True, kw_only=True)
class Summary:
    """The rows of one group.

    Attributes:
        group: with its bar.
        families: errors of each.
        verdicts: (row, verdict).
        fullness: (row, of the fullest tile of its programs; 1 is full), of training runs.
        failures: (row, why) of those that would be judged, but could not be run.
    """

    group: Group
    families: tuple[FamilyErrors, ...]
    verdicts: tuple[tuple[str, Verdict], ...]
    fullness: tuple[tuple[str, float], ...] = ()
    failures: tuple[tuple[str, str], ...] = ()

    @property
    def errors(self) -> tuple[float, ...]:
        """Signed, of all families."""
        return tuple(error for family in self.families for error in family.errors)

    @property
    def median(self) -> float:
        """Of the absolute errors; nan if there are none."""
        return statistics.median(map(abs, self.errors)) if self.errors else float("nan")

    @property
    def p90(self) -> float:
        """90th percentile of the absolute errors; nan if there are none."""
        return float(np.percentile(np.abs(self.errors), 90)) if self.errors else float("nan")

    @property
    def wrong_verdicts(self) -> tuple[tuple[str, Verdict], ...]:
        """(row, verdict) of those that are not as measured."""
        return tuple((row, verdict) for row, verdict in self.verdicts if not verdict.right)

    @property
    def fits(self) -> float:
        """Share of verdicts that are as measured; nan if there are none."""
        return 1 - len(self.wrong_verdicts) / len(self.verdicts) if self.verdicts else float("nan")

    @property
    def shortfalls(self) -> tuple[str, ...]:
        """Sentences: how the bar is missed; empty if it is met."""
        bar = self.group
        found = [f"{row}: {why}" for row, why in self.failures]
        if self.errors and bar.median_at_most is not None and not self.median <= bar.median_at_most:
            found.append(f"median absolute error {self.median:.1%}: at most {bar.median_at_most:.0%} wanted")
        if self.errors and bar.p90_at_most is not None and not self.p90 <= bar.p90_at_most:
            found.append(f"90th percentile {self.p90:.1%}: at most {bar.p90_at_most:.0%} wanted")
        if bar.family_mean_at_most is not None:
            found += [
                f"family {family.family}: mean signed error {family.mean:+.1%}, at most {bar.family_mean_at_most:.0%} either way wanted"
                for family in self.families
                if not abs(family.mean) <= bar.family_mean_at_most
            ]
        if self.verdicts and bar.fits_at_least is not None and self.fits < bar.fits_at_least:
            found += [
                f"{row}, {verdict.what}: {_fits(verdict.predicted)}, but it {_fits(verdict.measured)}"
                for row, verdict in self.wrong_verdicts
            ]
        if bar.fullest_at_most is not None:
            found += [
                f"{row}: its fullest tile is {full:.0%} full, at most {bar.fullest_at_most:.0%} wanted"
                for row, full in self.fullness
                if not full <= bar.fullest_at_most
            ]
        return tuple(found)


def judge(row: Row) -> Outcome:
    """Asks every kind of workload whether the row is one of its own, and puts the answer beside the measurement.

    A row that nothing understands is left out with the reason; so is one whose program fails, which misses the bar if it counts.
    """
    try:
        if not row.n_ipus:
            raise RowError("n_ipus is no whole number of 1 or more")
        answer = next((found for recognise in RECOGNISERS if (found := recognise(row)) is not None), None)
    except RowError as error:
        answer = LeftOut(reason=str(error))
    except Exception as error:  # whatever a program brings: the other rows go on
        why = f"its program failed: {type(error).__name__}: {str(error).partition(chr(10))[0]}"
        return Outcome(row=row, status="left out", reason=why, failed=not row.not_judged)
    if answer is None:
        return Outcome(row=row, status="left out", reason=why_left_out(row))
    if isinstance(answer, LeftOut):
        return Outcome(row=row, status="left out", reason=answer.reason)
    return _measured(row, answer) if row.value or answer.measured is not None else _predicted(row, answer)


def _measured(row: Row, answer: Answer) -> Outcome:
    """Of a row that somebody has measured."""
    return Outcome(
        row=row,
        status="reported" if row.not_judged else "judged",
        reason=row.not_judged,
        measured=row.measured if answer.measured is None else answer.measured,
        answer=answer,
    )


def _predicted(row: Row, answer: Answer) -> Outcome:
    """Of a row that nobody has measured: whether it ran nobody knows, either."""
    if answer.predicted is None:
        return Outcome(row=row, status="left out", reason=row.not_judged or "nothing to predict: its value would say what to compare")
    return Outcome(row=row, status="predicted", reason=row.not_judged, answer=replace(answer, verdicts=()))


def summarise(outcomes: Sequence[Outcome], *, group: Group = MAIN, status: Status = "judged") -> Summary:
    """Errors by family and verdicts of a group's rows of one status."""
    ours = [outcome for outcome in outcomes if group_of(outcome.row) == group]
    chosen = [outcome for outcome in ours if outcome.status == status]
    errors: dict[str, list[float]] = {}
    for outcome in chosen:
        if outcome.error is not None:
            errors.setdefault(outcome.row.family, []).append(outcome.error)
    return Summary(
        group=group,
        families=tuple(FamilyErrors(family=family, errors=tuple(own)) for family, own in sorted(errors.items())),
        verdicts=tuple((outcome.row.id, verdict) for outcome in chosen for verdict in outcome.answer.verdicts),
        fullness=tuple((outcome.row.id, outcome.answer.update.fullness) for outcome in chosen if outcome.answer.update is not None),
        failures=tuple((outcome.row.id, outcome.reason) for outcome in ours if outcome.failed and status == "judged"),
    )


def summaries(outcomes: Sequence[Outcome]) -> tuple[Summary, ...]:
    """Of all groups that have a judged row."""
    found = [summarise(outcomes, group=group) for group in GROUPS]
    return tuple(summary for summary in found if summary.errors or summary.verdicts or summary.failures)


def shortfalls(found: Sequence[Summary], outcomes: Sequence[Outcome]) -> tuple[str, ...]:
    """Sentences: how bars are missed, and by which group; empty if all are met, and if rows without a measurement have their prediction.

    Args: outcomes: of which `found` has the summaries.
    """
    missed = tuple(f"{summary.group.name}: {sentence}" for summary in found for sentence in summary.shortfalls)
    if any(outcome.row.value for outcome in outcomes):
        return missed if any(summary.errors or summary.verdicts for summary in found) else ("no row could be judged", *missed)
    return missed if any(outcome.status == "predicted" for outcome in outcomes) else ("no row could be predicted", *missed)


def why_left_out(row: Row) -> str:
    """The first line of `left_out.csv` whose words occur in the row's workload or metric."""
    for words, reason in _reasons():
        if words.casefold() in f"{row.workload} {row.metric}".casefold():
            return reason
    return "nothing here expresses this workload"


def by_machine(rows: Sequence[Row]) -> list[Row]:
    """Rows that share a machine one after the other: changing it starts the platform anew."""
    return sorted(rows, key=lambda row: (row.generation, row.n_ipus))


@functools.cache
def _reasons() -> tuple[tuple[str, str], ...]:
    with (DATA / "left_out.csv").open(newline="", encoding="utf-8") as file:
        lines: list[Mapping[str, str]] = list(csv.DictReader(file))
    return tuple((line["workload"], line["reason"]) for line in lines)


def _fits(verdict: bool) -> str:
    return "fits" if verdict else "does not fit"
