"""Draws the pictures of accuracy from a record of benchmarks/accuracy.py, and writes the tables of the pages on accuracy anew.

    python benchmarks/plot.py [--record benchmarks/results/accuracy.json] [--docs docs]

docs/pictures/accuracy.svg has operations and inference, docs/pictures/accuracy-training.svg training. A point is a row: on the diagonal the
two agree, and the lines beside it stand for the bar's 90th percentile. Figures of
unlike units share the axes as parts of their own family's largest, so that every family spans its own range.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # run as a script, this file is in no package

from benchmarks.measured.bars import CONVOLUTIONS, LISTED, MAIN, TRAINING, Group
from benchmarks.measured.tables import NAMES, PAGES, judged_families, with_tables

ROOT = Path(__file__).resolve().parents[1]
PICTURES: Mapping[str, Sequence[Group]] = {"accuracy.svg": (MAIN, CONVOLUTIONS, LISTED), "accuracy-training.svg": (TRAINING,)}
# Okabe and Ito's colours, which people with any kind of colour blindness tell apart, each with a shape of its own.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#999999")
SHAPES = ("circle", "square", "triangle", "diamond", "down", "cross", "plus")
WIDTH, HEIGHT = 760, 560
LEFT, TOP, SIZE = 80, 70, 420  # of the square of the axes
SMALLEST = (0.05, 0.002)  # parts of a family's largest where the axes may begin


# Light, or dark as the reader has chosen; the marks' colours are readable on both.
STYLE = """
text { font: 13px sans-serif; fill: #222 }
.small { font-size: 11px }
.title { font-size: 16px; font-weight: bold }
.ground { fill: #fff }
.line { fill: none; stroke: #222 }
.band { fill: none; stroke: #888; stroke-dasharray: 4 4 }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3 }
  .ground { fill: #0d1117 }
  .line { stroke: #9da7b3 }
}
"""


_TICKS = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
_SIDES = ("measured", "predicted")


@dataclass(frozen=True, kw_only=True)
class Scale:
    """A logarithmic scale from `smallest` to 1.2; what is smaller stands at the edge."""

    smallest: float

    def place(self, part: float) -> float:
        """Distance from the axes' beginning."""
        return SIZE * math.log(max(part, self.smallest) / self.smallest) / math.log(1.2 / self.smallest)


def main(arguments: Sequence[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(description="draws predicted against measured from a record of benchmarks/accuracy.py")
    parser.add_argument("--record", type=Path, default=ROOT / "benchmarks" / "results" / "accuracy.json", help="(default: %(default)s)")
    parser.add_argument("--docs", type=Path, default=ROOT / "docs", help="folder of the pages and of pictures/ (default: %(default)s)")
    options = parser.parse_args(arguments)
    try:
        record = json.loads(options.record.read_text(encoding="utf-8"))
        drawings = {name: parity(record, groups) for name, groups in PICTURES.items()}
        pages = [options.docs / page for page in PAGES]
        texts = [with_tables(page.read_text(encoding="utf-8"), record, names) for page, names in zip(pages, PAGES.values(), strict=True)]
    except (OSError, ValueError, KeyError) as error:
        print(f"plot: {error!r}", file=sys.stderr)
        return 2
    for name, drawing in drawings.items():
        (options.docs / "pictures" / name).write_text(drawing, encoding="utf-8")
    for page, text in zip(pages, texts, strict=True):
        page.write_text(text, encoding="utf-8")
    return 0


def parity(record: Mapping[str, Any], groups: Sequence[Group]) -> str:
    """An SVG of the judged rows of these groups. The title and the lines are of the first.

    Raises: ValueError if there is no such row.
    """
    names = {group.name for group in groups}
    ours = {family for name, group in record["groups"].items() if name in names for family in group["mean_error_by_family"]}
    families = {family: rows for family, rows in judged_families(record).items() if family in ours}
    if not families:
        raise ValueError(f"no row of the record is judged in {' and '.join(sorted(names))}")
    first = groups[0]
    band = first.p90_at_most or 0.0
    least = min(row[side] / max(other["measured"] for other in rows) for rows in families.values() for row in rows for side in _SIDES)
    scale = Scale(smallest=next((part for part in SMALLEST if part <= least), SMALLEST[-1]))
    parts = [*_frame(record, first, scale), *_diagonals(band, scale)]
    for index, (family, rows) in enumerate(families.items()):
        colour, shape = COLOURS[index % len(COLOURS)], SHAPES[(index + index // len(COLOURS)) % len(SHAPES)]
        largest = max(row["measured"] for row in rows)
        for row in rows:
            x, y = scale.place(row["measured"] / largest), scale.place(row["predicted"] / largest)
            title = f"{row['id']}: {row['workload']}: predicted {row['predicted']:.4g} {row['unit']}, measured {row['measured']:.4g}"
            parts.append(_mark(shape, LEFT + x, TOP + SIZE - y, colour, title))
        parts += _legend(index, family, rows, colour, shape)
    body, label = "\n".join(parts), escape(_finding(record, first))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{label}">\n'
        f'<style>{STYLE}</style>\n<rect width="{WIDTH}" height="{HEIGHT}" class="ground"/>\n{body}\n</svg>\n'
    )


def _finding(record: Mapping[str, Any], group: Group) -> str:
    summary = record["groups"][group.name]
    median, p90 = summary["median_absolute_error"], summary["p90_absolute_error"]
    return f"{group.name.capitalize()}: half of {summary['judged']} published figures within {median:.1%}, nine in ten within {p90:.1%}"


def _frame(record: Mapping[str, Any], group: Group, scale: Scale) -> Iterator[str]:
    """Title, axes, and where the figures come from."""
    yield _text(20, 32, _finding(record, group), "title")
    yield f'<rect x="{LEFT}" y="{TOP}" width="{SIZE}" height="{SIZE}" class="line"/>'
    for part in (part for part in _TICKS if part >= scale.smallest):
        place = scale.place(part)
        yield f'<path d="M{LEFT + place:.1f},{TOP + SIZE}v5M{LEFT},{TOP + SIZE - place:.1f}h-5" class="line"/>'
        yield _text(LEFT + place, TOP + SIZE + 20, f"{part:g}", "small", "middle")
        yield _text(LEFT - 9, TOP + SIZE - place + 4, f"{part:g}", "small", "end")
    yield _text(LEFT + SIZE / 2, TOP + SIZE + 40, "measured on hardware, part of the family's largest", "", "middle")
    yield f'<g transform="translate(28,{TOP + SIZE / 2}) rotate(-90)">{_text(0, 0, "predicted, in the same parts", "", "middle")}</g>'
    versions = record["versions"]
    yield _text(
        LEFT,
        HEIGHT - 10,
        f"tilestep {versions['tilestep']}, commit {record['commit']}, jax {versions['jax']}; each row on the machine it was measured on",
        "small",
    )


def _diagonals(band: float, scale: Scale) -> Iterator[str]:
    """Agreement, and the bar's 90th percentile on either side."""
    for factor, style in (
        (1.0, 'class="line"'),
        (1 + band, 'class="band"'),
        (1 - band, 'class="band"'),
    ):
        start, end = max(scale.smallest, scale.smallest / factor), min(1.2, 1.2 / factor)
        yield (
            f'<path d="M{LEFT + scale.place(start):.1f},{TOP + SIZE - scale.place(start * factor):.1f}'
            f'L{LEFT + scale.place(end):.1f},{TOP + SIZE - scale.place(end * factor):.1f}" {style}/>'
        )
    x, y = LEFT + scale.place(3 * scale.smallest), TOP + SIZE - scale.place(3 * scale.smallest * (1 + band))
    yield _text(x - 8, y - 4, f"+{band:.0%}", "small", "end")


def _legend(index: int, family: str, rows: Sequence[Mapping[str, Any]], colour: str, shape: str) -> Iterator[str]:
    y = TOP + 14 + 40 * index
    mean = sum(row["ratio"] - 1 for row in rows) / len(rows)
    yield _mark(shape, LEFT + SIZE + 26, y - 4, colour, "")
    yield _text(LEFT + SIZE + 40, y, NAMES.get(family, family))
    yield _text(LEFT + SIZE + 40, y + 15, f"{family}, {len(rows)} {'row' if len(rows) == 1 else 'rows'}, mean {mean:+.1%}", "small")


def _mark(shape: str, x: float, y: float, colour: str, title: str) -> str:
    paths = {
        "square": "m-4.5,-4.5h9v9h-9z",
        "triangle": "m0,-6l5.5,10h-11z",
        "diamond": "m0,-6l6,6l-6,6l-6,-6z",
        "down": "m0,6l5.5,-10h-11z",
        "cross": "m-5,-5l10,10m0,-10l-10,10",
        "plus": "m-6,0h12m-6,-6v12",
    }
    inner = f"<title>{escape(title)}</title>" if title else ""
    paint = f'fill="{colour}" fill-opacity="0.65" stroke="{colour}" stroke-width="1.5"'
    if shape == "circle":
        return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="5" {paint}>{inner}</circle>'
    return f'<path d="M{x:.1f},{y:.1f}{paths[shape]}" {paint}>{inner}</path>'


def _text(x: float, y: float, text: str, kind: str = "", anchor: str = "start") -> str:
    named = f' class="{kind}"' if kind else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{named}>{escape(text)}</text>'


if __name__ == "__main__":
    sys.exit(main())
