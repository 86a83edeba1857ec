"""The record of a benchmark that tries the same thing again and again: an outcome for each time, to which later runs add."""

from __future__ import annotations

import json
import os
from importlib.metadata import version
from pathlib import Path
from typing import Any

from benchmarks.commit import commit

Outcomes = list[dict[str, Any]]


def kept(path: Path | None) -> Outcomes:
    """The outcomes of a record; [] if there is none."""
    return json.loads(path.read_text(encoding="utf-8"))["outcomes"] if path is not None and path.exists() else []


def keep(path: Path | None, question: str, what: str, outcomes: Outcomes) -> None:
    """Writes the record. Each new outcome gets the commit it was made with.

    Args: path: None: nowhere. question: that it answers. what: was tried, such as 'kills'.
    """
    if path is None:
        return
    here = commit()
    for outcome in outcomes:
        outcome.setdefault("commit", here)
    record = {
        "question": question,
        "host": {"cpus": os.cpu_count()},
        "versions": {name: version(name) for name in ("tilestep", "jax", "orbax-checkpoint")},
        what: len(outcomes),
        "bit_equal": sum(outcome["bit_equal"] for outcome in outcomes),
        "outcomes": outcomes,
    }
    path.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
