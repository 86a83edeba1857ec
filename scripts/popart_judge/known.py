"""The list of functions that fail, each with its reason: scripts/popart_judge/known.toml."""

from __future__ import annotations

import tomllib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from scripts.popart_judge.runner import Result

LIST: Final = Path(__file__).with_name("known.toml")


@dataclass(frozen=True, kw_only=True)
class Known:
    """`failures`: function's id -> why it fails. `skips`: beginnings of reasons for which the originals skip a case anywhere."""

    failures: Mapping[str, str] = field(default_factory=dict)
    skips: tuple[str, ...] = ()


def read_known(path: Path = LIST) -> Known:
    """Raises: ValueError for a list that isn't of this form, or that names a function twice."""
    data = tomllib.loads(path.read_text(encoding="utf-8"))
    failures: dict[str, str] = {}
    for entry in data.get("failure", []):
        match entry:
            case {"why": str(why), "functions": list(functions)} if why.strip() and len(entry) == 2:
                for function in functions:
                    if function in failures:
                        raise ValueError(f"{path}: {function} is listed twice")
                    failures[function] = why
            case _:
                raise ValueError(f"{path}: a [[failure]] has a `why` and a list `functions`, and this one is {entry}")
    return Known(failures=failures, skips=tuple(data.get("skipped_by_the_originals", ())))


def surprises(results: Sequence[Result], known: Known, *, whole: bool, names: Collection[str]) -> list[str]:
    """What differs from the list, a sentence each: new failures, listed functions that pass, listed ones that don't exist.

    `whole`: whether all functions of a checkout were run, whose names are `names`.
    """
    found: list[str] = []
    for result in results:
        name = result.function.id
        if not result.passed and name not in known.failures:
            found.append(f"{name} fails and is not listed")
        if result.passed and name in known.failures:
            found.append(f"{name} passes; take it off the list")
    if whole:
        found += [f"{name} is listed, but there is no such function" for name in known.failures if name not in names]
    return found
