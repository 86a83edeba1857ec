#!/usr/bin/env python3
"""Rewrites the table of operators in docs/reference/onnx.md as the registry has them now."""

from __future__ import annotations

import re
from pathlib import Path

from tilestep.onnx.coverage import NOT_COVERED, coverage

PAGE = Path(__file__).resolve().parent.parent / "docs" / "reference" / "onnx.md"
BEGIN, END = "<!-- operators: scripts/onnx_operators.py -->\n", "<!-- end of operators -->\n"


def table() -> str:
    """The table as Markdown."""
    lines = ["| Domain | Operator | Versions | Static inputs |", "|---|---|---|---|"]
    for row in coverage():
        why = NOT_COVERED.get((row.domain, row.name))
        static = ", ".join(f"`{name}`" for name in row.static)
        lines.append(f"| {row.domain or 'ai.onnx'} | {row.name} | {row.versions if why is None else f'none: {why}'} | {static} |")
    return "\n".join(lines) + "\n"


def rewritten(text: str) -> str:
    """The page with today's table. Raises: ValueError if it has no place for it."""
    if not re.search(f"{re.escape(BEGIN)}.*{re.escape(END)}", text, re.DOTALL):
        raise ValueError(f"{PAGE} lacks the lines {BEGIN.strip()} and {END.strip()}")
    before, rest = text.split(BEGIN)
    return f"{before}{BEGIN}\n{table()}\n{END}{rest.split(END)[1]}"


if __name__ == "__main__":
    PAGE.write_text(rewritten(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
