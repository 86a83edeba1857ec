"""The emulated device that each test asks for, as the originals' build decides it (CMakeLists.txt)."""

from __future__ import annotations

import re
from collections.abc import Mapping
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


def targets(checkout: Path) -> Mapping[str, str]:
    """File below tests/integration -> "Cpu", "IpuModel2" or "Hw"; files that the build doesn't name are left out."""
    root = checkout / TESTS
    found: dict[str, set[str]] = {}
    for lists in sorted(root.rglob("CMakeLists.txt")):
        folder = lists.parent.relative_to(root)
        for call in _CALL.finditer(_COMMENT.sub("", lists.read_text(encoding="utf-8"))):
            name, variants = _parsed(call.group(1))
            found.setdefault(str(folder / f"{name}.py"), set()).update(variants or (DEFAULT,))
    return {file: next((target for target in ORDER if target in variants), DEFAULT) for file, variants in found.items()}


def _parsed(arguments: str) -> tuple[str, list[str]]:
    """(name, variants) of one call."""
    words = [quoted or plain for quoted, plain in _WORD.findall(arguments)]
    variants: list[str] = []
    keyword = ""
    for word in words[1:]:
        if word in _KEYWORDS:
            keyword = word
        elif keyword == "VARIANTS":
            variants += _VARIABLE.sub("Hw", word).split(";")
    return words[0].removesuffix(".py"), variants
