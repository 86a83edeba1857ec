"""How near are tilestep's figures to those of real IPUs?

Runs every published measurement that a JAX program or a superstep can express, under the conditions of its run, and
prints predicted, measured and their ratio, of training also the time of an update, and how full the fullest tile is.
docs/explanation/accuracy.md explains what is judged and how, and which columns rows of your own have.

    python benchmarks/accuracy.py [--rows FILE.csv ...] [--conditions FILE.csv] [--only NAME ...] [--jobs N] [--json FILE]

Exits 0 if the bar is met, 1 if it is not or nothing could be run, 2 if the rows cannot be read or the record cannot be written.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # run as a script, this file is in no package

import jax

import tilestep
from benchmarks.commit import commit
from benchmarks.measured.answer import Verdict, machine_of
from benchmarks.measured.bars import group_of
from benchmarks.measured.judge import Outcome, Summary, by_machine, judge, shortfalls, summaries
from benchmarks.measured.report import report
from benchmarks.measured.rows import MEASUREMENTS, OUTSIDE, Row, read_rows
from benchmarks.measured.training.conditions import TRAINING_CONDITIONS, TrainingConditions, read_conditions
from benchmarks.measured.training.update import Update
from benchmarks.measured.workers import shared
from tilestep.messages import nearest

Read = TypeVar("Read")

QUESTION = "how near are tilestep's figures to those of real IPUs?"


def main(arguments: Sequence[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=QUESTION, epilog="exit status: 0 the bar is met, 1 it is not, 2 bad input")
    parser.add_argument(
        "--rows", type=Path, nargs="+", default=(MEASUREMENTS, OUTSIDE), help="files of measured rows (default: the published ones)"
    )
    parser.add_argument("--json", type=Path, help="write a record of all rows to this file")
    parser.add_argument(
        "--conditions", type=Path, default=TRAINING_CONDITIONS, help="of training rows, a line for each id (default: %(default)s)"
    )
    parser.add_argument("--only", nargs="+", metavar="NAME", help="rows or families, such as TR37 ML")
    parser.add_argument("--jobs", type=int, default=1, help="processes that share the rows (default: %(default)s)")
    options = parser.parse_args(arguments)
    if options.jobs < 1:
        parser.error(f"--jobs is {options.jobs}: it must be 1 or more")
    try:
        conditions = _read("--conditions", read_conditions, options.conditions)
        rows = _chosen(_rows(options.rows, conditions), options.only)
        if options.json:
            options.json.open("a", encoding="utf-8").close()  # before the work, which takes long
    except (OSError, ValueError) as error:
        print(f"accuracy: {_said(error)}", file=sys.stderr)
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
    print("\n".join(report(outcomes, found_summaries, options.conditions)))
    if options.json:
        options.json.write_text(
            json.dumps(record(outcomes, found_summaries, wall_s=time.perf_counter() - start), indent=1) + "\n", encoding="utf-8"
        )
    return 1 if shortfalls(found_summaries, outcomes) else 0


def _rows(paths: Sequence[Path], conditions: Mapping[str, TrainingConditions]) -> Sequence[Row]:
    """Of all files. Raises: ValueError naming the option, and what is wrong; also for an id that two files have."""
    found: dict[str, Row] = {}
    for path in paths:
        rows = _read("--rows", lambda path: read_rows(path, conditions), path)
        if twice := [row.id for row in rows if row.id in found]:
            raise ValueError(f"--rows {path}: id {twice[0]!r} is in another file, too: every row needs an id of its own")
        found.update((row.id, row) for row in rows)
    return tuple(found.values())


def _judged(rows: Sequence[Row], jobs: int) -> Iterator[Outcome]:
    """Outcomes as they come."""
    if jobs <= 1:
        yield from map(judge, rows)
        return
    yield from shared(judge, rows, jobs)


def _read(option: str, read: Callable[[Path], Read], path: Path) -> Read:
    """Raises: ValueError naming the option, too."""
    try:
        return read(path)
    except ValueError as error:
        raise ValueError(f"{option} {error}") from None


def _said(error: OSError | ValueError) -> str:
    """Without the system's number."""
    return f"--json {error.filename} cannot be written: {error.strerror}" if isinstance(error, OSError) else str(error)


def record(outcomes: Sequence[Outcome], found: Sequence[Summary], *, wall_s: float) -> dict[str, Any]:
    """What the run found, for plots and comparisons."""
    return {
        "question": QUESTION,
        "commit": commit(),
        "versions": {"tilestep": tilestep.__version__, "jax": jax.__version__, "python": platform.python_version()},
        "wall_s": round(wall_s, 1),
        "bar_met": not shortfalls(found, outcomes),
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
            near = _nearest(name, {*(row.id for row in rows), *(row.family for row in rows)})
            raise ValueError(f"--only {name}: no row and no family has this name" + (f"; the nearest is {near}" if near else ""))
    return [row for row in rows if row.id in names or row.family in names]


def _nearest(name: str, known: Collection[str]) -> str | None:
    """The known name that is most like this one, small letters or capitals."""
    spelt = {each.casefold(): each for each in sorted(known)}
    near = nearest(name.casefold(), spelt)
    return None if near is None else spelt[near]


def _row_record(outcome: Outcome) -> dict[str, Any]:
    row, run, update = outcome.row, outcome.answer.prediction, outcome.answer.update
    return {
        "id": row.id,
        "family": row.family,
        "group": group_of(row).name,
        "workload": f"{row.workload}, {row.shape}, {row.dtype}",
        "status": outcome.status,
        "reason": outcome.reason,
        "unit": outcome.answer.unit or row.unit,
        "measured": outcome.measured,
        "predicted": outcome.answer.predicted,
        "ratio": outcome.ratio,
        "verdicts": [_verdict_record(verdict) for verdict in outcome.answer.verdicts],
        "emulated_cycles": run and {"compute": run.compute_cycles, "exchange": run.exchange_cycles, "sync": run.sync_cycles},
        "peak_tile_bytes": run.peak_tile_bytes if run else update and update.peaks[0].tile_bytes,
        "update_s": update and update.seconds,
        "machine": machine_of(row) if outcome.answer.shares else None,
        "shares": {kind: round(share, 4) for kind, share in sorted(outcome.answer.shares.items(), key=lambda each: -each[1])},
        "fullest": update and _fullest_record(update),
    }


def _verdict_record(verdict: Verdict) -> dict[str, Any]:
    full = verdict.fullness
    return {
        "what": verdict.what,
        "measured": verdict.measured,
        "predicted": verdict.predicted,
        "fullness": None if full is None else round(full, 4),
    }


def _fullest_record(update: Update) -> dict[str, Any]:
    """The fullest tile of an update's programs, and the values there."""
    peak = update.peaks[0]
    return {"program": peak.program, "share": round(update.fullness, 4), "largest": dict(peak.largest)}


if __name__ == "__main__":
    sys.exit(main())
