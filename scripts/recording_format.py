#!/usr/bin/env python3
"""Rewrites the tables of docs/reference/recording-format.md from the schema."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from tilestep.recording.builder import KINDS
from tilestep.recording.schema import CALLS, CATEGORIES, EVENT_KINDS, LANE_KINDS, TABLES, TEXTS, Column

PAGE = Path(__file__).resolve().parent.parent / "docs" / "reference" / "recording-format.md"
BEGIN, END = "<!-- schema: scripts/recording_format.py -->\n", "<!-- end of schema -->\n"


def tables() -> str:
    """Every table and text as Markdown."""
    parts = [_table(name, columns) for name, columns in TABLES.items()]
    texts = "".join(f"| `{name}.json` | {doc} |\n" for name, doc in TEXTS.items())
    lists = "".join(
        f"| {what} | {', '.join(f'{number} {name}' for number, name in enumerate(names))} |\n"
        for what, names in (("LANE_KINDS", LANE_KINDS), ("EVENT_KINDS", EVENT_KINDS), ("CATEGORIES", CATEGORIES), ("CALLS", CALLS))
    )
    manifest = f"JSON object: format, version, tilestep (its version), kind ({', '.join(KINDS)}), and notes"
    head = f"### Texts\n\n| member | what it is |\n|---|---|\n| `manifest.json` | {manifest} |\n{texts}\n"
    return f"{''.join(parts)}{head}### Numbers of kinds\n\n| list | numbers |\n|---|---|\n{lists}"


def _table(name: str, columns: Mapping[str, Column]) -> str:
    rows = "".join(f"| `{name}/{column}.npy` | {_type(of)} | {of.doc} |\n" for column, of in columns.items())
    return f"### {name}\n\n| column | type | what an element is |\n|---|---|---|\n{rows}\n"


def _type(column: Column) -> str:
    of = f" → {column.table}" if column.table else ""
    return f"{column.dtype}{of}{', differences' if column.delta else ''}"


def rewritten(text: str) -> str:
    """The page with today's tables. Raises: ValueError if it has no place for them."""
    if not re.search(f"{re.escape(BEGIN)}.*{re.escape(END)}", text, re.DOTALL):
        raise ValueError(f"{PAGE} lacks the lines {BEGIN.strip()} and {END.strip()}")
    before, rest = text.split(BEGIN)
    return f"{before}{BEGIN}\n{tables()}\n{END}{rest.split(END)[1]}"


if __name__ == "__main__":
    PAGE.write_text(rewritten(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
