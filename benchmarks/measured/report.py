"""A run of benchmarks/accuracy.py as text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.measured.answer import Verdict
from benchmarks.measured.bars import GROUPS
from benchmarks.measured.judge import FamilyErrors, Outcome, Summary, shortfalls, summarise
from benchmarks.measured.rows import CONDITION_COLUMNS, RUN_CONDITIONS, is_training
from benchmarks.measured.training.update import Update

_SHOWN = {"judged": "", "reported": "not judged", "predicted": "predicted"}


def report(outcomes: Sequence[Outcome], found: Sequence[Summary], conditions: Path) -> list[str]:
    """Lines of text: rows, families, the summary of each group. Args: conditions: the file with those of training rows."""
    lines = [f"{'row':7}{'predicted':>12}{'measured':>12} {'unit':13}{'ratio':>6}{'update, s':>11}{'tile':>6}  {'':10} workload"]
    lines += [_row_line(outcome) for outcome in outcomes if outcome.status != "left out"]
    for outcome in outcomes:
        if outcome.answer.update is not None and not outcome.answer.update.fits:
            lines += _misfit_lines(outcome.row.id, outcome.answer.update)
    if left_out := _left_out(outcomes):
        lines += ["", "left out", *(f"  {ids:40} {reason}" for reason, ids in left_out)]
    lines += _without_conditions(outcomes, conditions)
    lines += _families(outcomes, found)
    for summary in found:
        lines += ["", summary.group.name, *_summary_lines(summary)]
    lines += [f"missed: {sentence}" for sentence in shortfalls(found, outcomes)]
    return lines


def _without_conditions(outcomes: Sequence[Outcome], conditions: Path) -> Iterator[str]:
    """What is missing for rows whose conditions are not known, and where it belongs."""
    rows = [outcome.row for outcome in outcomes if outcome.row.training is None and outcome.row.conditions is None]
    trained, others = ([row.id for row in rows if is_training(row.workload) is wanted] for wanted in (True, False))
    if trained or others:
        yield ""
    if trained:
        yield f"no conditions: {' '.join(trained)}: training rows, and {conditions} (--conditions) has no line with their id"
    if others:
        columns = ", ".join(CONDITION_COLUMNS)
        yield f"no conditions: {' '.join(others)}: give the columns {columns}; {RUN_CONDITIONS.name} has none of their sources"


def _families(outcomes: Sequence[Outcome], found: Sequence[Summary]) -> Iterator[str]:
    """The errors of each family."""
    judged = [family for summary in found for family in summary.families]
    reported = [family for group in GROUPS for family in summarise(outcomes, group=group, status="reported").families]
    if judged or reported:
        yield ""
        yield f"{'family':10}{'rows':>5}{'median':>9}{'worst':>9}{'mean':>9}  (median of absolute errors; worst and mean signed)"
    yield from map(_family_line, judged)
    if reported:
        yield "reported, not judged"
    yield from map(_family_line, reported)


def _misfit_lines(row: str, update: Update) -> list[str]:
    """The fullest tile of a run that does not fit, and the largest values there."""
    peak = update.peaks[0]
    return [
        "",
        f"{row} does not fit: {peak.program} needs {peak.tile_bytes:,} of {update.sram_bytes:,} B on its fullest tile. The largest there:",
        *(f"{size:12,} B  {name}" for name, size in sorted(dict(peak.largest).items(), key=lambda entry: -entry[1])[:8]),
    ]


def _family_line(family: FamilyErrors) -> str:
    return f"{family.family:10}{len(family.errors):5}{family.median:9.1%}{family.worst:+9.1%}{family.mean:+9.1%}"


def _summary_lines(summary: Summary) -> list[str]:
    """The figures of a group, each with its bar."""
    group = summary.group
    lines = [f"judged rows                       {len(summary.errors)}"]
    if summary.failures:
        lines.append(f"rows whose program failed         {len(summary.failures)}")
    if summary.errors:
        lines.append(f"median absolute error             {summary.median:.1%}{_bar(group.median_at_most)}")
        lines.append(f"90th percentile                   {summary.p90:.1%}{_bar(group.p90_at_most)}")
    if (most := group.family_mean_at_most) is not None:
        beyond = ", ".join(family.family for family in summary.families if abs(family.mean) > most) or "none"
        lines.append(f"families beyond {most:.0%} mean error     {beyond}")
    if summary.verdicts:
        right = len(summary.verdicts) - len(summary.wrong_verdicts)
        lines.append(f"fits / doesn't fit, as measured   {right} of {len(summary.verdicts)}{_bar(group.fits_at_least)}")
    if summary.fullness:
        row, fullest = max(summary.fullness, key=lambda pair: pair[1])
        lines.append(f"fullest tile                      {fullest:.0%} ({row}){_bar(group.fullest_at_most)}")
    return lines


def _bar(value: float | None) -> str:
    return "" if value is None else f"  (bar {value:.0%})"


def _row_line(outcome: Outcome) -> str:
    row = outcome.row
    figures = f"{_figure(outcome.answer.predicted):>12}{_figure(outcome.measured):>12} {(outcome.answer.unit or row.unit)[:12]:13}"
    ratio = "" if outcome.ratio is None else f"{outcome.ratio:.3f}"
    update, share = outcome.answer.update, outcome.fullest_tile
    took, full = "" if update is None else _figure(update.seconds), "" if share is None else f"{share:.0%}"
    verdicts = "".join(map(_verdict, outcome.answer.verdicts))
    why = f" ({outcome.reason})" if outcome.reason else ""
    what = f"{row.workload}, {row.shape}, {row.dtype}{why}{verdicts}"
    return f"{row.id:7}{figures}{ratio:>6}{took:>11}{full:>6}  {_SHOWN[outcome.status]:10} {what}"


def _verdict(verdict: Verdict) -> str:
    """One that is wrong, or of a row that asks for several, how full the fullest tile is."""
    wrong = "" if verdict.right else f" wrongly {_fits(verdict.predicted)}"
    full = "" if verdict.fullness is None else f" {verdict.fullness:.1%}"
    return f"; {verdict.what}:{wrong}{full}" if wrong or verdict.what.startswith("bs ") else ""


def _left_out(outcomes: Sequence[Outcome]) -> list[tuple[str, str]]:
    """(reason, rows)."""
    rows: dict[str, list[str]] = {}
    for outcome in outcomes:
        if outcome.status == "left out":
            rows.setdefault(outcome.reason, []).append(outcome.row.id)
    return [(reason, " ".join(ids)) for reason, ids in rows.items()]


def _figure(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def _fits(verdict: bool) -> str:
    return "fits" if verdict else "does not fit"
