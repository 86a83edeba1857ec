#!/usr/bin/env python3
"""Gets the code of others that the page of a report carries anew, from npm: `src/tilestep/report/assets/vendor/VENDORED.toml` says which.

    scripts/vendor.py           writes the files
    scripts/vendor.py --check   says which files are not what the hashes say, without the network

For another version, change `version` and `integrity` in that file (npm tells the hash: `npm view PACKAGE@VERSION dist.integrity`), run this
script, read the difference, and write the hashes that it names.
"""

from __future__ import annotations

import argparse
import hashlib
import sys
import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from scripts.npm import NpmError, package  # noqa: E402

VENDOR = ROOT / "src" / "tilestep" / "report" / "assets" / "vendor"


def libraries(folder: Path = VENDOR) -> dict[str, Any]:
    """What VENDORED.toml says, by library."""
    return tomllib.loads((folder / "VENDORED.toml").read_text(encoding="utf-8"))


def wrong_files(folder: Path = VENDOR) -> list[str]:
    """What is wrong with the files, in words."""
    known = {name: sha256 for library in libraries(folder).values() for name, (_, sha256) in library["files"].items()}
    found = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir() if path.name != "VENDORED.toml"}
    wrong = [f"{name} has the sha256 {found[name]}, not {known[name]}" for name in known if name in found and found[name] != known[name]]
    wrong += [f"{name} is missing" for name in known if name not in found]
    return wrong + [f"{name} stands in no list of VENDORED.toml" for name in sorted(found) if name not in known]


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--check", action="store_true", help="compare the files with their hashes only")
    options = parser.parse_args()
    if not options.check:
        for library in libraries().values():
            try:
                source = package(library["package"], library["version"], library["integrity"], ROOT / "build" / "npm")
            except NpmError as error:
                print(f"scripts/vendor.py: {error}", file=sys.stderr)
                return 1
            for name, (member, _) in library["files"].items():
                (VENDOR / name).write_bytes((source / member).read_bytes())
    for problem in (wrong := wrong_files()):
        print(f"scripts/vendor.py: {problem}", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
