"""Raises constraints.txt, and the newest JAX that counts as tested, to what is installed where this runs. `make newest` calls it."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from importlib.metadata import distributions
from pathlib import Path

from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).resolve().parent.parent
CONSTRAINTS = ROOT / "constraints.txt"
VERSIONS = ROOT / "src" / "tilestep" / "pjrt" / "jax_private" / "versions.py"


def raised(constraints: str, installed: Mapping[str, str]) -> str:
    """The lines of constraints.txt, with a newer version where one is installed. What is not installed keeps its line."""

    def line(match: re.Match[str]) -> str:
        name, bound = match.groups()
        version = Version(installed.get(canonicalize_name(name), bound))
        return f"{name}<={version.public}" if version > Version(bound) else match.group()

    return re.sub(r"^([\w.-]+)<=(\S+)$", line, constraints, flags=re.MULTILINE)


def with_newest_tested(versions: str, jax: str) -> str:
    """The source of versions.py, which says that this version of JAX is tested."""
    text, count = re.subn(r"^(NEWEST_TESTED = )\(.*\)$", rf"\g<1>{(*Version(jax).release, 0, 0)[:3]}", versions, flags=re.MULTILINE)
    assert count == 1
    return text


def main() -> int:
    installed = {canonicalize_name(each.name): each.version for each in distributions()}
    before = CONSTRAINTS.read_text(encoding="utf-8")
    after = raised(before, installed)
    if after == before:
        print("constraints.txt has the newest of each")
        return 0
    for old, new in zip(before.splitlines(), after.splitlines(), strict=True):
        if old != new:
            print(f"{old} is now {new}")
    CONSTRAINTS.write_text(after, encoding="utf-8")
    VERSIONS.write_text(with_newest_tested(VERSIONS.read_text(encoding="utf-8"), installed["jax"]), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
