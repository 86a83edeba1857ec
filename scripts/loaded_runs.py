#!/usr/bin/env python3
"""Runs the fast tests beside busy processes, again and again, and appends what each run said to a record: nothing may fail by chance.

    scripts/loaded_runs.py                     one run
    scripts/loaded_runs.py --runs 10           ten in a row; what has run is kept if it is interrupted
    scripts/loaded_runs.py --busy 8 --runs 1   with eight busy processes instead of four
    scripts/loaded_runs.py --busy 0            beside whatever else this machine does: the record has its load

The record is benchmarks/results/loaded_runs.json: the commit, the day, what ran beside, the mean load of the last quarter of an hour, which
counts the tests too, and how many tests passed and failed, by name.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.commit import commit  # noqa: E402

RECORD = ROOT / "benchmarks" / "results" / "loaded_runs.json"


@contextlib.contextmanager
def busy(count: int) -> Iterator[None]:
    """Keeps `count` processes computing."""
    processes = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


def outcome(junit: Path) -> dict[str, object]:
    """How many tests ran, and the names of those that failed. Args: junit: what `pytest --junit-xml` has written."""
    cases = list(ET.parse(junit).iter("testcase"))
    failed = [case for case in cases if case.find("failure") is not None or case.find("error") is not None]
    skipped = sum(case.find("skipped") is not None for case in cases)
    return {
        "passed": len(cases) - len(failed) - skipped,
        "skipped": skipped,
        "failed": sorted(f"{case.get('classname')}::{case.get('name')}" for case in failed),
    }


def run(count: int) -> dict[str, object]:
    """One run, as `make test` has it, but for format, lint and types."""
    began_wall_s = time.monotonic()
    with busy(count), tempfile.TemporaryDirectory() as folder:
        junit = Path(folder, "junit.xml")
        status = subprocess.run([ROOT / "scripts" / "check", "--tests", f"--junit-xml={junit}"], cwd=ROOT, check=False).returncode
        said = outcome(junit) if junit.exists() else {}
    return {
        "commit": commit(),
        "day": time.strftime("%Y-%m-%d"),
        "cores": os.cpu_count(),
        "busy": count,
        "load": round(os.getloadavg()[2], 1),
        "status": status,
        "wall_s": round(time.monotonic() - began_wall_s),
        **said,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=1, help="how many (default %(default)s)")
    parser.add_argument("--busy", type=int, default=4, help="busy processes beside the tests (default %(default)s)")
    options = parser.parse_args()
    failed = False
    for _ in range(options.runs):
        record = run(options.busy)
        records = json.loads(RECORD.read_text(encoding="utf-8")) if RECORD.exists() else []
        RECORD.write_text(json.dumps([*records, record], indent=1) + "\n", encoding="utf-8")
        print(json.dumps(record), flush=True)
        failed = failed or record["status"] != 0
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
