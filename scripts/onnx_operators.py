#!/usr/bin/env python3
"""Rewrites two tables in docs/reference/onnx.md: the operators as the registry has them now, and the tests of onnx that differ here."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from tilestep.onnx.coverage import NOT_COVERED, coverage

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))  # for the tests' list

from tests.conformance.onnx.suite import DIFFERENT  # noqa: E402

PAGE = ROOT / "docs" / "reference" / "onnx.md"
BEGIN, END = "<!-- operators: scripts/onnx_operators.py -->\n", "<!-- end of operators -->\n"
BEGIN_TESTS, END_TESTS = "<!-- differences: scripts/onnx_operators.py -->\n", "<!-- end of differences -->\n"


def table() -> str:
    """The table as Markdown."""
    lines = ["| Domain | Operator | Versions | Static inputs |", "|---|---|---|---|"]
    for row in coverage():
        why = NOT_COVERED.get((row.domain, row.name))
        static = ", ".join(f"`{name}`" for name in row.static)
        lines.append(f"| {row.domain or 'ai.onnx'} | {row.name} | {row.versions if why is None else f'none: {why}'} | {static} |")
    return "\n".join(lines) + "\n"


def table_of_tests() -> str:
    """The tests that differ, with the reason of each, as Markdown."""
    return "\n".join(["| Test | Why |", "|---|---|", *(f"| {name} | {why} |" for name, why in sorted(DIFFERENT.items()))]) + "\n"


def rewritten(text: str) -> str:
    """The page with today's tables. Raises: ValueError if it has no place for one."""
    for begin, end, made in ((BEGIN, END, table()), (BEGIN_TESTS, END_TESTS, table_of_tests())):
        if not re.search(f"{re.escape(begin)}.*{re.escape(end)}", text, re.DOTALL):
            raise ValueError(f"{PAGE} lacks the lines {begin.strip()} and {end.strip()}")
        before, rest = text.split(begin)
        text = f"{before}{begin}\n{made}\n{end}{rest.split(end)[1]}"
    return text


if __name__ == "__main__":
    PAGE.write_text(rewritten(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
