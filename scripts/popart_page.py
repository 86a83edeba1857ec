#!/usr/bin/env python3
"""Rewrites the table of docs/reference/popart-tests.md from records of scripts/popart_tests.py.

    scripts/popart_page.py record.json [another.json ...]

A function that several records have counts as the last of them says, so a part that ran again may follow the whole.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parent.parent
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from scripts.popart_judge.groups import NAMES, ONE_DEVICE, SEVERAL  # noqa: E402

PAGE: Final = ROOT / "docs" / "reference" / "popart-tests.md"
BEGIN: Final = "<!-- results: scripts/popart_page.py -->\n"
END: Final = "<!-- end of results -->\n"

Row = Mapping[str, Any]  # a function's entry of a record


def merged(records: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    """One record of several. Raises: ValueError if they are of different checkouts."""
    counts = {(record["functions"], record["black_box"]) for record in records}
    if len(counts) != 1:
        raise ValueError(f"the records are of {len(counts)} checkouts: they have different numbers of functions")
    rows = {row["function"]: row for record in records for row in record["results"]}
    return {**records[0], "results": list(rows.values())}


def results(record: Mapping[str, Any]) -> str:
    """What passes, as Markdown."""
    rows: list[Row] = record["results"]
    judged = [row for row in rows if row["asserts"]]
    judged_of = f"Of {record['functions']:,} functions {record['black_box']:,} are black boxes. {len(rows):,} of these can be judged"
    lines = [
        f"{judged_of}: {_passed(rows)} pass ({_percent(rows)}).",
        f"{len(judged):,} of them assert something: {_passed(judged)} pass ({_percent(judged)}).",
        "",
        "| Group | Passed | of these on one device | on several |",
        "|---|---|---|---|",
    ]
    for name in NAMES:
        own = [row for row in judged if row["group"] == name]
        if own:
            lines.append(_line(name, own))
    several = [row for row in judged if row["group"] in SEVERAL]
    one = [row for row in judged if row["group"] in ONE_DEVICE and row["one_device"]]
    lines += [
        _line("all", judged),
        "",
        f"Of {_list(ONE_DEVICE)}, as far as they need one device, {_percent(one)} pass.",
        f"Of {_list(SEVERAL)}, {_percent(several)} pass.",
    ]
    return "\n".join(lines) + "\n"


def page(text: str, record: Mapping[str, Any]) -> str:
    """The page's text with the results of a record. Raises: ValueError if it has no place for them."""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"the page has no lines {BEGIN.strip()} and {END.strip()}")
    return f"{before}{BEGIN}\n{results(record)}\n{END}{after}"


def _line(name: str, rows: Sequence[Row]) -> str:
    one, several = ([row for row in rows if row["one_device"] is wanted] for wanted in (True, False))
    return f"| {name} | {_of(rows)} | {_of(one)} | {_of(several)} |"


def _of(rows: Sequence[Row]) -> str:
    return f"{_passed(rows)} of {len(rows):,}" if rows else ""


def _passed(rows: Sequence[Row]) -> str:
    return f"{sum(row['passed'] for row in rows):,}"


def _percent(rows: Sequence[Row]) -> str:
    return f"{100 * sum(row['passed'] for row in rows) / len(rows):.1f} %" if rows else "none"


def _list(names: Sequence[str]) -> str:
    return f"{', '.join(names[:-1])} and {names[-1]}"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("records", nargs="+", type=Path, metavar="RECORD", help="a file of scripts/popart_tests.py --json")
    options = parser.parse_args(arguments)
    try:
        record = merged([json.loads(path.read_text(encoding="utf-8")) for path in options.records])
        PAGE.write_text(page(PAGE.read_text(encoding="utf-8"), record), encoding="utf-8")
    except (OSError, ValueError) as error:
        print(f"popart_page: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
