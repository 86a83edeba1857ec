#!/usr/bin/env python3
"""Tags the commit that is checked out as the version of pyproject.toml, once all that a release needs is there.

    scripts/release.py             what `make release` calls when the wheel is built
    scripts/release.py --dry-run   says what is missing, and tags nothing

A release needs a heading '## VERSION (DAY)' as the first of CHANGELOG.md, a clean tree, no such tag yet, and the wheel in dist/.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def git(root: Path, *arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=root, check=True, capture_output=True, text=True).stdout.strip()


def missing(root: Path, version: str) -> list[str]:
    """What a release of this version lacks, a sentence each."""
    first = re.search(r"^## (.*)$", (root / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    heading, lacks = first[1] if first else "", list[str]()
    if not re.fullmatch(re.escape(version) + r" \(\d{4}-\d\d-\d\d\)", heading):
        lacks.append(f"the first heading of CHANGELOG.md is '{heading}': it must be '{version} (DAY)', with the day as 2026-12-31")
    if changed := git(root, "status", "--porcelain"):
        lacks.append(f"{len(changed.splitlines())} files differ from the last commit: commit them")
    if git(root, "tag", "--list", f"v{version}"):
        lacks.append(f"the tag v{version} is there already: raise the version in pyproject.toml")
    if not list((root / "dist").glob(f"tilestep-{version}-*.whl")):
        lacks.append(f"dist/ has no wheel of {version}: run make wheel")
    return lacks


def main(root: Path = ROOT) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dry-run", action="store_true", help="tag nothing")
    options = parser.parse_args()
    version = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    lacks = missing(root, version)
    for sentence in lacks:
        print(f"release: {sentence}", file=sys.stderr)
    if lacks:
        return 1
    if not options.dry_run:
        git(root, "tag", "--annotate", f"v{version}", "--message", f"tilestep {version}")
    print(f"{'would tag' if options.dry_run else 'tagged'} {git(root, 'rev-parse', '--short', 'HEAD')} as v{version}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
