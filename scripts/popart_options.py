#!/usr/bin/env python3
"""Rewrites docs/reference/popart-options.md: what each option, pattern and variable of PopART does, as the code's tables have it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from enum import Enum
from pathlib import Path
from typing import Any

from tilestep.popart.diagnostics.environment import EFFECTS, NO_EFFECT
from tilestep.popart.options.fields import Record, fields_of
from tilestep.popart.options.libraries import KNOWN
from tilestep.popart.options.option_fields import OptionFields
from tilestep.popart.options.table import ALIASES, METHODS, TABLE
from tilestep.popart.patterns import IN_PLACE, PATTERNS, Pattern

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "reference" / "popart-options.md"
TABLES = ("options", "settings", "libraries", "patterns", "variables")


def begin(name: str) -> str:
    """The line before a table."""
    return f"<!-- {name}: scripts/popart_options.py -->\n"


def end(name: str) -> str:
    """The line after a table."""
    return f"<!-- end of {name} -->\n"


def table(name: str) -> str:
    """A table as Markdown. Args: name: one of TABLES."""
    match name:
        case "options":
            return _rows(("Option", "Default", "Here", "What it does, or why it does nothing"), _options())
        case "settings":
            return _rows(("Class", "Field", "Default"), _settings())
        case "libraries":
            return _rows(("Option", "Keys that exist"), ((f"`{option}`", _code(keys)) for option, keys in KNOWN.items()))
        case "patterns":
            return _rows(("Pattern", "At level Default", "Mandatory", "No effect, because"), _patterns())
        case _:
            rows = [(f"`{variable}`", "done", text) for variable, text in EFFECTS.items()]
            return _rows(
                ("Variable", "Here", "What it does, or why it does nothing"),
                rows + [(f"`{v}`", "no effect", w) for v, w in NO_EFFECT.items()],
            )


def _options() -> Iterable[tuple[str, ...]]:
    fields = fields_of(OptionFields)
    for name, row in TABLE.items():
        text = f"{row.text}. To go on: {row.way_out}." if row.way_out else f"{row.text}."
        yield f"`{name}`", _default(fields[name].fresh()), row.fate, text
    for name, other in ALIASES.items():
        yield f"`{name}`", "", TABLE[other].fate, f"another name of `{other}`."
    for name, text in METHODS.items():
        yield f"`{name}()`", "", "done", f"a method: {text}."


def _settings() -> Iterable[tuple[str, ...]]:
    seen: set[str] = set()
    for field in fields_of(OptionFields).values():
        record = field.fresh()
        if isinstance(record, Record) and type(record).__name__ not in seen:
            seen.add(type(record).__name__)
            for name, inner in fields_of(type(record)).items():
                yield f"`{type(record).__name__}`", f"`{name}`", _default(inner.fresh())


def _patterns() -> Iterable[tuple[str, ...]]:
    rows: dict[str, Pattern] = {**PATTERNS, **IN_PLACE}
    for name, pattern in rows.items():
        yield f"`{name}`", "on" if pattern.usual else "off", "yes" if pattern.mandatory else "no", pattern.why


def _default(value: Any) -> str:
    if isinstance(value, Enum):
        return f"`{value.name}`"
    if isinstance(value, Record):
        return f"`{value!r}`"
    if isinstance(value, set):
        return "`{" + ", ".join(sorted(getattr(one, "name", str(one)) for one in value)) + "}`"
    return f"`{value!r}`"


def _code(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _rows(heads: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [heads, tuple("---" for _ in heads), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def rewritten(text: str) -> str:
    """The page with today's tables. Raises: ValueError if it has no place for one."""
    for name in TABLES:
        first, last = begin(name), end(name)
        if not re.search(f"{re.escape(first)}.*{re.escape(last)}", text, re.DOTALL):
            raise ValueError(f"{PAGE} lacks the lines {first.strip()} and {last.strip()}")
        before, rest = text.split(first)
        text = f"{before}{first}\n{table(name)}\n{last}{rest.split(last)[1]}"
    return text


if __name__ == "__main__":
    PAGE.write_text(rewritten(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
