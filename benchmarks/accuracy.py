"""How near are tilestep's figures to those of real IPUs?

Runs every published measurement that a JAX program or a superstep can express, under the conditions of its run, and
prints predicted, measured and their ratio. docs/explanation/accuracy.md explains what is judged and how.

    python benchmarks/accuracy.py [--rows FILE.csv] [--conditions FILE.csv] [--only NAME ...] [--jobs N] [--json FILE]

Exits 0 if the bar is met, 1 if it is not, 2 if the rows cannot be read or the record cannot be written.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # run as a script, this file is in no package

import jax

import tilestep
from benchmarks.commit import commit
from benchmarks.measured.bars import GROUPS
from benchmarks.measured.judge import FamilyErrors, Outcome, Summary, by_machine, judge, shortfalls, summaries, summarise
from benchmarks.measured.rows import MEASUREMENTS, Row, read_rows
from benchmarks.measured.training.conditions import TRAINING_CONDITIONS, read_conditions
from benchmarks.measured.training.update import Update

QUESTION = "how near are tilestep's figures to those of real IPUs?"


def main(arguments: Sequence[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=QUESTION, epilog="exit status: 0 the bar is met, 1 it is not, 2 bad input")
    parser.add_argument("--rows", type=Path, default=MEASUREMENTS, help="measured rows (default: %(default)s)")
    parser.add_argument("--json", type=Path, help="write a record of all rows to this file")
    parser.add_argument("--conditions", type=Path, default=TRAINING_CONDITIONS, help="of training rows (default: %(default)s)")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="rows or families, such as TR37 ML")
    parser.add_argument("--jobs", type=int, default=1, help="processes that share the rows (default: %(default)s)")
    options = parser.parse_args(arguments)
    if options.jobs < 1:
        parser.error(f"--jobs is {options.jobs}: it must be 1 or more")
    try:
        rows = _chosen(read_rows(options.rows, read_conditions(options.conditions)), options.only)
        if options.json:
            options.json.open("a", encoding="utf-8").close()  # before the work, which takes long
    except (OSError, ValueError) as error:
        print(f"accuracy: {error}", file=sys.stderr)
        return 2
    start = time.perf_counter()
    found: dict[str, Outcome] = {}
    for outcome in _judged(by_machine(rows), min(options.jobs, len(rows))):
        found[outcome.row.id] = outcome
        if sys.stderr.isatty():
            print(f"\r{len(found)}/{len(rows)} {outcome.row.id:8}", end="", file=sys.stderr, flush=True)
    if sys.stderr.isatty():
        print("\r" + " " * 20, end="\r", file=sys.stderr)
    outcomes = [found[row.id] for row in rows]
    found_summaries = summaries(outcomes)
    print("\n".join(report(outcomes, found_summaries)))
    if options.json:
        options.json.write_text(
            json.dumps(record(outcomes, found_summaries, wall_s=time.perf_counter() - start), indent=1) + "\n", encoding="utf-8"
        )
    return 1 if shortfalls(found_summaries) else 0


def _judged(rows: Sequence[Row], jobs: int) -> Iterator[Outcome]:
    """Outcomes as they come."""
    if jobs <= 1:
        yield from map(judge, rows)
        return
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        for done in as_completed([pool.submit(judge, row) for row in rows]):
            yield done.result()


def report(outcomes: Sequence[Outcome], found: Sequence[Summary]) -> list[str]:
    """Lines of text: rows, families, the summary of each group."""
    lines = [f"{'row':7}{'predicted':>12}{'measured':>12} {'unit':13}{'ratio':>6}  {'':9} workload"]
    lines += [_row_line(outcome) for outcome in outcomes if outcome.status != "left out"]
    for outcome in outcomes:
        if outcome.answer.update is not None and not outcome.answer.update.fits:
            lines += _misfit_lines(outcome.row.id, outcome.answer.update)
    lines += ["", "left out"]
    lines += [f"  {ids:40} {reason}" for reason, ids in _left_out(outcomes)]
    lines += ["", f"{'family':10}{'rows':>5}{'median':>9}{'worst':>9}{'mean':>9}  (median of absolute errors; worst and mean signed)"]
    lines += [_family_line(family) for summary in found for family in summary.families]
    shown = [family for group in GROUPS for family in summarise(outcomes, group=group, status="reported").families]
    if shown:
        lines += ["reported, not judged", *map(_family_line, shown)]
    for summary in found:
        lines += ["", summary.group.name, *_summary_lines(summary)]
    lines += [f"missed: {sentence}" for sentence in shortfalls(found)]
    return lines


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
    lines = [
        f"judged rows                       {len(summary.errors)}",
        f"median absolute error             {summary.median:.1%}{_bar(group.median_at_most)}",
        f"90th percentile                   {summary.p90:.1%}{_bar(group.p90_at_most)}",
    ]
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


def record(outcomes: Sequence[Outcome], found: Sequence[Summary], *, wall_s: float) -> dict[str, Any]:
    """What the run found, for plots and comparisons."""
    return {
        "question": QUESTION,
        "commit": commit(),
        "versions": {"tilestep": tilestep.__version__, "jax": jax.__version__, "python": platform.python_version()},
        "wall_s": round(wall_s, 1),
        "bar_met": not shortfalls(found),
        "groups": {summary.group.name: _summary_record(summary) for summary in found},
        "rows": [_row_record(outcome) for outcome in outcomes],
    }


def _summary_record(summary: Summary) -> dict[str, Any]:
    return {
        "judged": len(summary.errors),
        "median_absolute_error": summary.median if summary.errors else None,  # JSON has no nan
        "p90_absolute_error": summary.p90 if summary.errors else None,
        "mean_error_by_family": {family.family: family.mean for family in summary.families},
        "verdicts": len(summary.verdicts),
        "wrong_verdicts": [f"{row} {verdict.what}" for row, verdict in summary.wrong_verdicts],
        "fullness": dict(summary.fullness),
        "bar_met": not summary.shortfalls,
    }


def _chosen(rows: Sequence[Row], names: Sequence[str] | None) -> Sequence[Row]:
    """Rows of these names and families.

    Raises: ValueError for a name of none.
    """
    if names is None:
        return rows
    for name in names:
        if not any(name in (row.id, row.family) for row in rows):
            raise ValueError(f"--only {name}: no row and no family has this name")
    return [row for row in rows if row.id in names or row.family in names]


def _row_record(outcome: Outcome) -> dict[str, Any]:
    row, run, update = outcome.row, outcome.answer.prediction, outcome.answer.update
    return {
        "id": row.id,
        "family": row.family,
        "workload": f"{row.workload}, {row.shape}, {row.dtype}",
        "status": outcome.status,
        "reason": outcome.reason,
        "unit": outcome.answer.unit or row.unit,
        "measured": outcome.measured,
        "predicted": outcome.answer.predicted,
        "ratio": outcome.ratio,
        "verdicts": [{"what": v.what, "measured": v.measured, "predicted": v.predicted} for v in outcome.answer.verdicts],
        "emulated_cycles": run and {"compute": run.compute_cycles, "exchange": run.exchange_cycles, "sync": run.sync_cycles},
        "peak_tile_bytes": run.peak_tile_bytes if run else update and update.peaks[0].tile_bytes,
        "update_s": update and update.seconds,
        "fullest": update and _fullest_record(update),
    }


def _fullest_record(update: Update) -> dict[str, Any]:
    """The fullest tile of an update's programs, and the values there."""
    peak = update.peaks[0]
    return {"program": peak.program, "share": round(update.fullness, 4), "largest": dict(peak.largest)}


def _row_line(outcome: Outcome) -> str:
    row = outcome.row
    figures = f"{_figure(outcome.answer.predicted):>12}{_figure(outcome.measured):>12} {(outcome.answer.unit or row.unit)[:12]:13}"
    ratio = "      " if outcome.ratio is None else f"{outcome.ratio:6.3f}"
    verdicts = "".join(
        "" if verdict.right else f"; {verdict.what}: wrongly {_fits(verdict.predicted)}" for verdict in outcome.answer.verdicts
    )
    shown = "" if outcome.status == "judged" else "not judged"
    why = f" ({outcome.reason})" if outcome.reason else ""
    return f"{row.id:7}{figures}{ratio}  {shown:10} {row.workload}, {row.shape}, {row.dtype}{why}{verdicts}"


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


if __name__ == "__main__":
    sys.exit(main())
