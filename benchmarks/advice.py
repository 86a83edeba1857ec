"""Do findings save what they promise?

    benchmarks/advice.py                                            a table
    benchmarks/advice.py --only donation reads                      some kinds
    benchmarks/advice.py --json benchmarks/results/advice.json      the record, and the table of docs/explanation/advice.md anew

Each program has a version in which the finding is followed by hand. The finding promises a share of a warm step. Measured is what a step
takes in the long run, of both: what twice as many steps take more than those, over their number. So loads and first transfers cancel out.
Values are compared too: of a program that is too large to be computed, those of a smaller one.
Exits with 1 if a finding is not there, a promise is too far off, a value is, or a function has left the IPU.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import statistics
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # run as a script, this file is in no package
os.environ.setdefault("TILESTEP_MACHINE", "bow-2000")

import jax
import numpy as np

import tilestep
from benchmarks.advice_cases import CASES, Case, Options
from benchmarks.advice_popart import Session
from benchmarks.advice_programs import ipu
from benchmarks.commit import commit
from tilestep.advice import Gain, evidence_of
from tilestep.advice.memory.remedies import remedies
from tilestep.advice.memory.savings import freed_of
from tilestep.views.profile import Profile

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "explanation" / "advice.md"
START, END = "<!-- table -->\n", "<!-- end -->"
MEDIAN, WORST = 2.0, 10.0  # points, at most


def profiled(program: Callable[[], Any], *, dry: bool) -> tuple[Profile, Any]:
    """A program's profile, and its values; of a dry run these are none."""
    with tilestep.profile() as recording, jax.default_device(ipu()):
        if dry:
            with tilestep.dry_run(values="zeros"):
                values = jax.block_until_ready(program())
        else:
            values = jax.block_until_ready(program())
    return (values.profile, values.values) if isinstance(values, Session) else (recording.profile, values)


def promise(profile: Profile, case: Case) -> tuple[str, Gain] | None:
    """The edit of the case's kind, and its gain."""
    advice = profile.findings
    told = [(found.edit, found.gain) for found in advice if found.kind == case.kind]
    told += [(other.edit, other.gain) for found in advice if found.kind == case.kind for other in found.others]
    return next(((edit, gain) for edit, gain in told if gain is not None and re.search(case.edit, edit)), None)


def followed(case: Case, edit: str) -> Options:
    """The options of the program after an edit that says a number: a batch, or steps between two exchanges."""
    number = re.search(case.edit, edit)
    if number is None or not number.groups():
        return case.after
    return {**case.after, **({"every": int(number[1])} if case.kind == "collectives" else {"times": int(number[1]) // 16})}


def small_values(case: Case, options: Options) -> Any:
    """The values of a smaller program, where the case's own is too large to be computed."""
    small = {"steps": case.steps, **(case.small or {})}
    return profiled(lambda: case.program(**{**options, **small}), dry=False)[1]


def apart(case: Case, before: Any, after: Any) -> float:
    """How far the values of a program with an edit are from those without: of the largest of each result, on the IPU.

    Raises: ValueError if all values are zeros or none is finite, so that the comparison could not fail.
    """
    one, other = map(jax.tree.leaves, (before, after))
    worst = 0.0
    for here, there in zip(one, other, strict=True):
        first, second = (np.asarray(each, np.float64) for each in (here, there))
        largest = np.abs(first).max(initial=0.0)
        if not np.isfinite(largest) or not np.isfinite(second).all():
            raise ValueError(f"{case.name}: values are not finite")
        worst = max(worst, np.abs(first - second).max(initial=0.0) / (largest or 1.0))
    if not any(np.any(np.asarray(each)) for each in one):
        raise ValueError(f"{case.name}: all values are zero")
    return worst


def fuller(profile: Profile) -> int:
    """Bytes of the fullest tile of any program."""
    return max(program.peak_tile_bytes for program in profile.programs)


def memory_row(case: Case, row: dict[str, Any]) -> dict[str, Any]:
    """The same of memory: shares of the fullest tile."""
    found, _ = profiled(lambda: case.program(case.steps, **case.before), dry=True)
    evidence = evidence_of(found)
    assert evidence is not None
    [program] = [program for program in found.programs if program.peak_tile_bytes == fuller(found)]
    given = (evidence.programs[program.key], evidence.sources[program.key], evidence.machine)
    known: dict[str, Any] = {"could_recompute": program.could_recompute}
    ways = {way.edit: way for way in freed_of(*given, **known)}
    best = remedies(*given, **known).best
    ways.update({} if best is None else {best.edit: best})
    edit = next((edit for edit in ways if re.search(case.edit, edit)), "")
    if not edit:
        return {**row, "edit": "", "headlines": list(ways)}
    after, _ = profiled(lambda: case.program(case.steps, **case.after), dry=True)
    values = [small_values(case, options) for options in (case.before, case.after)]
    shares = {"promised": ways[edit].tile_bytes / fuller(found), "made": 1 - fuller(after) / fuller(found)}
    return {**row, "edit": edit, "how": ways[edit].how, **shares, "of": "a tile", "apart": apart(case, *values), "left_ipu": False}


def row_of(case: Case) -> dict[str, Any]:
    """What was promised and what came of it."""
    row: dict[str, Any] = {"kind": case.kind, "program": case.name, "public": case.public, "within": case.within}
    if case.kind == "memory":
        return memory_row(case, row)
    dry = case.small is not None
    found, begun = ran(case, case.before, dry=dry)
    told = promise(found, case)
    if told is None:
        return {**row, "edit": "", "headlines": [finding.headline for finding in found.findings if finding.part == "first"]}
    edit, gain = told
    after = followed(case, edit)
    whole, ended = ran(case, after, dry=dry)
    if dry:
        begun, ended = small_values(case, case.before), small_values(case, after)
    if gain.step_share is None or gain.weight < 0.01:  # once: of all
        row["of"], promised, made = "all", gain.share, 1 - whole.emulated_cycles / found.emulated_cycles
    else:
        steps = [
            ran(case, options, twice=True, dry=dry)[0].emulated_cycles - once.emulated_cycles
            for options, once in ((case.before, found), (after, whole))
        ]
        row["of"], promised, made = "a warm step", gain.step_share, 1 - steps[1] / steps[0]
    left = sum(p.runs > 0 and p.origin == "user" for p in found.programs) > 0 == sum(p.runs > 0 for p in whole.programs)
    return {**row, "edit": edit, "how": gain.how, "promised": promised, "made": made, "apart": apart(case, begun, ended), "left_ipu": left}


def ran(case: Case, options: Options, *, dry: bool, twice: bool = False) -> tuple[Profile, Any]:
    """The profile of a case's program, with its steps or with twice as many; and its values."""
    return profiled(lambda: case.program(case.steps * (2 if twice else 1), **options), dry=dry)


def table(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Rows of Markdown, by kind."""
    lines = ["| finding | program | the edit | of | promised | made | values apart |", "|---|---|---|---|---|---|---|"]
    for row in sorted(rows, key=lambda row: row["kind"]):
        values = "0" if row["apart"] < 1e-6 else f"{row['apart']:.0e}"
        edit = re.sub(r"pipeline \d+", "a pipeline", row["edit"]).replace("|", " ")
        promised = f"{'at least ' if row['how'] == 'at least' else ''}{row['promised']:.1%}"
        lines.append(f"| `{row['kind']}` | {row['program']} | {edit} | {row['of']} | {promised} | {row['made']:.1%} | {values} |")
    return lines


def points(rows: Sequence[Mapping[str, Any]]) -> list[float]:
    """How far each promise is from what was made, the nearest first. One of the least that is saved is kept if more is."""
    apart = (row["promised"] - row["made"] for row in rows)
    return sorted(100 * (max(each, 0.0) if row["how"] == "at least" else abs(each)) for row, each in zip(rows, apart, strict=True))


def summary(rows: Sequence[Mapping[str, Any]]) -> str:
    """How far promises are from what was made."""
    errors = points(rows)
    public = sum(row["public"] for row in rows)
    return (
        f"Median error {statistics.median(errors):.1f} points, worst {errors[-1]:.1f}, of {len(rows)} programs, {public} in public styles."
    )


def holds(rows: Sequence[Mapping[str, Any]]) -> bool:
    """Whether promises and values are near enough, and no edit has taken the user's functions off the IPU."""
    errors = points(rows)
    near = statistics.median(errors) <= MEDIAN and errors[-1] <= WORST
    return near and not any(row["apart"] > row["within"] or row["left_ipu"] for row in rows)


def main(arguments: Sequence[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    kinds = sorted({case.kind for case in CASES})
    parser.add_argument("--only", nargs="+", choices=kinds, default=[], metavar="KIND", help="these kinds of findings: " + ", ".join(kinds))
    parser.add_argument(
        "--json",
        type=Path,
        metavar="FILE",
        help="write the record to FILE, and the table of the page from it; with --only rows of other kinds stay as they are",
    )
    options = parser.parse_args(arguments)
    wanted = [case for case in CASES if not options.only or case.kind in options.only]
    kept: list[dict[str, Any]] = []
    if options.only and options.json and options.json.exists():
        kept = json.loads(options.json.read_text(encoding="utf-8"))["answers"]
        kept = [row for row in kept if row["kind"] not in options.only]
    rows: list[dict[str, Any]] = []
    silent = False
    for case in wanted:
        row = row_of(case)
        if not row["edit"]:
            silent = True
            print(f"{case.kind}, {case.name}: no such finding in {row['headlines']}", file=sys.stderr)
            continue
        rows.append(row)
        print(table([row])[-1], flush=True)
        if options.json:
            write([*kept, *rows], options.json)
    print(summary(rows))
    return int(silent or not holds(rows))


def write(rows: Sequence[Mapping[str, Any]], path: Path) -> None:
    """The record, and the table of the page."""
    record = {"question": "do findings save what they promise?", "commit": commit(), "answers": rows}
    path.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    page = PAGE.read_text(encoding="utf-8")
    before, _, rest = page.partition(START)
    after = rest.partition(END)[2]
    PAGE.write_text(f"{before}{START}\n" + "\n".join([*table(rows), "", summary(rows)]) + f"\n\n{END}{after}", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
