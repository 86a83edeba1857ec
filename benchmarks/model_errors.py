"""Derives how sure predictions are from a record of benchmarks/accuracy.py, and says whether the intervals hold the measurements.

    python benchmarks/model_errors.py [--record benchmarks/results/accuracy.json] [--out src/tilestep/figures/model_errors.json]

Families are left out one at a time, so no row helps to make its own interval. `--out` writes the errors, if the bars of the intervals are
met: with src/tilestep/figures/model_errors.json, profiles show intervals from then on. The record then says how the rows lie in them, for
docs/explanation/accuracy.md. Exits 0 if the bars are met, 1 if not, 2 for a record that cannot be read.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # run as a script, this file is in no package

from benchmarks.measured.sureness import LEAST_CERTAIN, calibrations, certain, derive, document, judged, shortfalls, tile_bounds

RECORD = Path(__file__).resolve().parent / "results" / "accuracy.json"


def main(arguments: Sequence[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(description="derives how sure predictions are from a record of benchmarks/accuracy.py")
    parser.add_argument("--record", type=Path, default=RECORD, help="(default: %(default)s)")
    parser.add_argument("--out", type=Path, help="write the errors to this file, if the bars are met")
    options = parser.parse_args(arguments)
    try:
        record = json.loads(options.record.read_text(encoding="utf-8"))
        rows = judged(record)
        found, errors = calibrations(rows), derive(rows, tile_bounds(record))
    except (OSError, ValueError, KeyError) as error:
        print(f"model_errors: {error!r}", file=sys.stderr)
        return 2
    for name, group in found.items():
        print(
            f"{name:48} {group.rows:3} rows, {group.held:4.0%} inside, half-width {group.half_width:5.1%}, "
            f"score {group.score:.3f} (one width for all: {group.score_of_one_width:.3f})"
        )
    sure = certain(record, errors.tile)
    print(f"fullest tile: {errors.tile[0]:.2f} to {errors.tile[1]:.2f} of what is said; {sure:.0%} of the verdicts are certain")
    missed = shortfalls(found)
    if sure < LEAST_CERTAIN:
        missed.append(f"{sure:.0%} of the verdicts are certain, {LEAST_CERTAIN:.0%} wanted")
    for sentence in missed:
        print(f"missed: {sentence}")
    if missed:
        return 1
    if options.out:
        options.out.write_text(json.dumps(document(errors), indent=1) + "\n", encoding="utf-8")
        record["sureness"] = {name: asdict(group) for name, group in found.items()}
        options.record.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
