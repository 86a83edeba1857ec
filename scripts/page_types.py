#!/usr/bin/env python3
"""Checks the types of the page's JavaScript, which its comments declare: `jsconfig.json` says how strictly.

TypeScript's compiler comes from npm once, into `build/`. Where npm's registry is not reached, nothing is checked, and a line says so.
That is an error if PAGE_CHECKS=required.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from scripts.npm import NODE, NpmError, package  # noqa: E402

VERSION = "6.0.3"  # exact: another version finds other things. From 7 on it is one program for each kind of machine
INTEGRITY = "sha512-y2TvuxSZPDyQakkFRPZHKFm+KKVqIisdg9/CZwm9ftvKXLP8NRWj38/ODjNbr43SsoXqNuAisEf1GdCxqWcdBw=="


def main() -> int:
    """Prints what is wrong; exit status 1 if something is."""
    try:
        compiler = package("typescript", VERSION, INTEGRITY, ROOT / "build" / "npm")
    except NpmError as error:
        required = os.environ.get("PAGE_CHECKS") == "required"
        print(f"scripts/page_types.py: types of the page's JavaScript are not checked: {error}", file=sys.stderr)
        return 1 if required else 0
    done = subprocess.run((NODE, compiler / "lib" / "tsc.js", "--project", ROOT / "jsconfig.json"), cwd=ROOT, check=False)
    return 1 if done.returncode else 0


if __name__ == "__main__":
    sys.exit(main())
