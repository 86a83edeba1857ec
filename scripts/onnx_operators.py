#!/usr/bin/env python3
"""Rewrites docs/reference/onnx.md: the operators as the registry has them now, and which of onnx's own tests pass and fail."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from tilestep.onnx.coverage import NOT_COVERED, coverage

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))  # for the tests' list

from tests.conformance.onnx.differences import (  # noqa: E402
    AS_A_PROGRAM,
    MODELS_AS_PROGRAMS,
    MODELS_IN_FILES,
    NODE_BY_NODE,
    TESTS_OF_OPERATORS,
)

PAGE = ROOT / "docs" / "reference" / "onnx.md"
BEGIN, END = "<!-- operators: scripts/onnx_operators.py -->\n", "<!-- end of operators -->\n"
BEGIN_COUNTS, END_COUNTS = "<!-- counts: scripts/onnx_operators.py -->\n", "<!-- end of counts -->\n"
BEGIN_TESTS, END_TESTS = "<!-- differences: scripts/onnx_operators.py -->\n", "<!-- end of differences -->\n"


def table() -> str:
    """The table as Markdown."""
    lines = ["| Domain | Operator | Versions | Static inputs |", "|---|---|---|---|"]
    for row in coverage():
        why = NOT_COVERED.get((row.domain, row.name))
        static = ", ".join(f"`{name}`" for name in row.static)
        lines.append(f"| {row.domain or 'ai.onnx'} | {row.name} | {row.versions if why is None else f'none: {why}'} | {static} |")
    return "\n".join(lines) + "\n"


def table_of_counts() -> str:
    """How many of onnx's tests pass, as Markdown."""

    def row(name: str, tests: int, *different: dict[str, str]) -> str:
        return f"| {name} | {tests:,} | " + " | ".join(f"{tests - len(names):,}" for names in different) + " |"

    operators = row("operators", TESTS_OF_OPERATORS, NODE_BY_NODE, AS_A_PROGRAM)
    models = row("models in files", MODELS_IN_FILES, {}, MODELS_AS_PROGRAMS)
    return "\n".join(["| Tests | All | Node by node | As one program |", "|---|--:|--:|--:|", operators, models]) + "\n"


def table_of_tests() -> str:
    """The tests that differ, with the reason of each, as Markdown."""
    as_programs = AS_A_PROGRAM | MODELS_AS_PROGRAMS
    rows = [
        f"| {name} | {'always' if name in NODE_BY_NODE else 'as one program'} | {why} |"
        for name, why in sorted(as_programs.items(), key=lambda row: (row[0] not in NODE_BY_NODE, row[1], row[0]))
    ]
    return "\n".join(["| Test | Fails | Why |", "|---|---|---|", *rows]) + "\n"


def rewritten(text: str) -> str:
    """The page with today's tables. Raises: ValueError if it has no place for one."""
    tables = (
        (BEGIN, END, table()),
        (BEGIN_COUNTS, END_COUNTS, table_of_counts()),
        (BEGIN_TESTS, END_TESTS, table_of_tests()),
    )
    for begin, end, made in tables:
        if not re.search(f"{re.escape(begin)}.*{re.escape(end)}", text, re.DOTALL):
            raise ValueError(f"{PAGE} lacks the lines {begin.strip()} and {end.strip()}")
        before, rest = text.split(begin)
        text = f"{before}{begin}\n{made}\n{end}{rest.split(end)[1]}"
    return text


if __name__ == "__main__":
    PAGE.write_text(rewritten(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
