"""The emulated device that each test asks for, as the originals' build decides it (CMakeLists.txt)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from scripts.popart_judge.source import TESTS

DEFAULT: Final = "Cpu"
ORDER: Final = ("Cpu", "IpuModel2", "Hw")  # the first of these that a test lists
_VARIABLE: Final = re.compile(r"\$\{HW\w*\}")  # "Hw" on machines that have the links
_CALL: Final = re.compile(r"add_popart_py_unit_test\s*\(([^)]*)\)")
_COMMENT: Final = re.compile(r"#[^\n]*")
_WORD: Final = re.compile(r'"([^"]*)"|(\S+)')
_KEYWORDS: Final = ("VARIANTS", "LABELS", "DEPENDS", "PROPERTIES", "MATCHEXPR", "NUM_WORKERS", "TEST_IPUMODEL", "ALLOW_SKIP")


@dataclass(frozen=True, kw_only=True)
class Build:
    """What the originals' build says of their tests; files are below tests/integration.

    Attributes:
        targets: file -> "Cpu", "IpuModel2" or "Hw"; files that the build doesn't name are left out.
        disabled: files that it never runs.
    """

    targets: Mapping[str, str]
    disabled: frozenset[str]


def read_build(checkout: Path) -> Build:
    """Of a checkout of PopART."""
    root = checkout / TESTS
    variants: dict[str, set[str]] = {}
    disabled: set[str] = set()
    for lists in sorted(root.rglob("CMakeLists.txt")):
        folder = lists.parent.relative_to(root)
        for call in _CALL.finditer(_COMMENT.sub("", lists.read_text(encoding="utf-8"))):
            name, given = _parsed(call.group(1))
            file = str(folder / f"{name}.py")
            variants.setdefault(file, set()).update(given["VARIANTS"] or [DEFAULT])
            if "DISABLED" in given["PROPERTIES"]:
                disabled.add(file)
    targets = {file: next((target for target in ORDER if target in listed), DEFAULT) for file, listed in variants.items()}
    return Build(targets=targets, disabled=frozenset(disabled))


def _parsed(arguments: str) -> tuple[str, Mapping[str, list[str]]]:
    """(name, keyword -> its words) of one call."""
    words = [quoted or plain for quoted, plain in _WORD.findall(arguments)]
    given: dict[str, list[str]] = {keyword: [] for keyword in _KEYWORDS}
    keyword = ""
    for word in words[1:]:
        if word in _KEYWORDS:
            keyword = word
        elif keyword:
            given[keyword] += _VARIABLE.sub("Hw", word).split(";")
    return words[0].removesuffix(".py"), given
