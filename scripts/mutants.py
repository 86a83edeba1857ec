"""Seeded mutants of the program text, and which of two test runs finds them.

    scripts/mutants.py draw          the first sites that a seed draws, area by area

A mutant is one edit of one line (scripts/mutant_sites.py) of the reference, a commit whose fast run is known to find faults.
"""

from __future__ import annotations

import argparse
import functools
import io
import subprocess
import sys
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from scripts.mutant_sites import Site, drawn, sites  # noqa: E402

REFERENCE: Final = "1e01c6ded4d8d97fecab95d7ab183361bca98d4e"
FIRST_SEED, SECOND_SEED = 20_611, 73_939
PAGE: Final = "report/assets"  # the page's JavaScript, an area of its own
AREAS: Final = ("machine", "program", "cost", "plan", "sim", "record", "report", "cli", "train", "onnx", "popart", "pjrt/programs", PAGE)
EACH: Final = 25  # mutants of an area


@functools.cache
def reference_texts() -> Mapping[str, str]:
    """The package's text at the reference, by path."""
    archive = subprocess.run(("git", "archive", REFERENCE, "src/tilestep"), cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        wanted = [member for member in tar if member.name.endswith((".py", ".js"))]
        return {member.name: file.read().decode() for member in wanted if (file := tar.extractfile(member)) is not None}


def drawn_of(area: str, seed: int, texts: Mapping[str, str]) -> list[Site]:
    """All sites of an area, in the order in which a seed draws them."""
    ending = ".js" if area == PAGE else ".py"
    return drawn(
        sites({path: text for path, text in texts.items() if path.startswith(f"src/tilestep/{area}/") and path.endswith(ending)}),
        f"{seed} {area}",
    )


def draw(options: argparse.Namespace) -> None:
    for area in options.area or AREAS:
        for site in drawn_of(area, options.seed, reference_texts())[: options.each]:
            print(f"{site.path}:{site.line} {site.function} {site.kind}\n  - {site.before.strip()}\n  + {site.after.strip()}")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    commands = parser.add_subparsers(required=True)
    each = commands.add_parser("draw", help="print what a seed draws")
    each.add_argument("--seed", type=int, default=FIRST_SEED)
    each.add_argument("--area", nargs="+", choices=AREAS)
    each.add_argument("--each", type=int, default=EACH, help="sites of an area (default %(default)s)")
    each.set_defaults(act=draw)
    options = parser.parse_args()
    options.act(options)


if __name__ == "__main__":
    main()
