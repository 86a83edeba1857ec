"""How near are tilestep's figures to those of real IPUs?

Runs every published measurement that a JAX program or a superstep can express, under the conditions of its run, and
prints predicted, measured and their ratio. docs/explanation/accuracy.md explains what is judged and how.

    python benchmarks/accuracy.py [--rows FILE.csv] [--json FILE]

Exits 0 if the bar is met, 1 if it is not, 2 if the rows cannot be read.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # run as a script, this file is in no package

import jax

import tilestep
from benchmarks.commit import commit
from benchmarks.measured.judge import FAMILY_MEAN_AT_MOST, MEDIAN_AT_MOST, P90_AT_MOST, Outcome, Summary, by_machine, judge, summarise
from benchmarks.measured.rows import MEASUREMENTS, read_rows

QUESTION = "how near are tilestep's figures to those of real IPUs?"


def main(arguments: Sequence[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=QUESTION, epilog="exit status: 0 the bar is met, 1 it is not, 2 bad input")
    parser.add_argument("--rows", type=Path, default=MEASUREMENTS, help="measured rows (default: %(default)s)")
    parser.add_argument("--json", type=Path, help="write a record of all rows to this file")
    options = parser.parse_args(arguments)
    try:
        rows = read_rows(options.rows)
    except (OSError, ValueError) as error:
        print(f"accuracy: {error}", file=sys.stderr)
        return 2
    start = time.perf_counter()
    found: dict[str, Outcome] = {}
    for row in by_machine(rows):
        if sys.stderr.isatty():
            print(f"\r{len(found) + 1}/{len(rows)} {row.id:8}", end="", file=sys.stderr, flush=True)
        found[row.id] = judge(row)
    if sys.stderr.isatty():
        print("\r" + " " * 20, end="\r", file=sys.stderr)
    outcomes = [found[row.id] for row in rows]
    summary = summarise(outcomes)
    print("\n".join(report(outcomes, summary)))
    if options.json:
        options.json.write_text(
            json.dumps(record(outcomes, summary, wall_s=time.perf_counter() - start), indent=1) + "\n", encoding="utf-8"
        )
    return 1 if summary.shortfalls else 0


def report(outcomes: Sequence[Outcome], summary: Summary) -> list[str]:
    """Lines of text: rows, families, verdicts, the summary."""
    lines = [f"{'row':7}{'predicted':>12}{'measured':>12} {'unit':13}{'ratio':>6}  {'':9} workload"]
    lines += [_row_line(outcome) for outcome in outcomes if outcome.status != "left out"]
    lines += ["", "left out"]
    lines += [f"  {ids:40} {reason}" for reason, ids in _left_out(outcomes)]
    lines += ["", f"{'family':10}{'rows':>5}{'median':>9}{'worst':>9}{'mean':>9}  (median of absolute errors; worst and mean signed)"]
    for family in summary.families:
        lines.append(f"{family.family:10}{len(family.errors):5}{family.median:9.1%}{family.worst:+9.1%}{family.mean:+9.1%}")
    shown = summarise(outcomes, status="reported")
    if shown.families:
        lines.append("reported, not judged")
        lines += [f"{each.family:10}{len(each.errors):5}{each.median:9.1%}{each.worst:+9.1%}{each.mean:+9.1%}" for each in shown.families]
    right = len(summary.verdicts) - len(summary.wrong_verdicts)
    lines += [
        "",
        f"judged rows                       {len(summary.errors)}",
        f"median absolute error             {summary.median:.1%}  (bar {MEDIAN_AT_MOST:.0%})",
        f"90th percentile                   {summary.p90:.1%}  (bar {P90_AT_MOST:.0%})",
        f"families beyond {FAMILY_MEAN_AT_MOST:.0%} mean error     "
        + (", ".join(f.family for f in summary.families if abs(f.mean) > FAMILY_MEAN_AT_MOST) or "none"),
        f"fits / doesn't fit, as measured   {right} of {len(summary.verdicts)}",
    ]
    lines += [f"missed: {sentence}" for sentence in summary.shortfalls]
    return lines


def record(outcomes: Sequence[Outcome], summary: Summary, *, wall_s: float) -> dict[str, Any]:
    """What the run found, for plots and comparisons."""
    return {
        "question": QUESTION,
        "commit": commit(),
        "versions": {"tilestep": tilestep.__version__, "jax": jax.__version__, "python": platform.python_version()},
        "wall_s": round(wall_s, 1),
        "summary": {
            "judged": len(summary.errors),
            "median_absolute_error": summary.median,
            "p90_absolute_error": summary.p90,
            "mean_error_by_family": {family.family: family.mean for family in summary.families},
            "verdicts": len(summary.verdicts),
            "wrong_verdicts": [f"{row} {verdict.what}" for row, verdict in summary.wrong_verdicts],
            "bar_met": not summary.shortfalls,
        },
        "rows": [_row_record(outcome) for outcome in outcomes],
    }


def _row_record(outcome: Outcome) -> dict[str, Any]:
    row, run = outcome.row, outcome.answer.prediction
    return {
        "id": row.id,
        "family": row.family,
        "workload": f"{row.workload}, {row.shape}, {row.dtype}",
        "status": outcome.status,
        "reason": outcome.reason,
        "unit": row.unit,
        "measured": outcome.measured,
        "predicted": outcome.answer.predicted,
        "ratio": outcome.ratio,
        "verdicts": [{"what": v.what, "measured": v.measured, "predicted": v.predicted} for v in outcome.answer.verdicts],
        "emulated_cycles": run and {"compute": run.compute_cycles, "exchange": run.exchange_cycles, "sync": run.sync_cycles},
        "peak_tile_bytes": run and run.peak_tile_bytes,
    }


def _row_line(outcome: Outcome) -> str:
    row = outcome.row
    figures = f"{_figure(outcome.answer.predicted):>12}{_figure(outcome.measured):>12} {row.unit[:12]:13}"
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
