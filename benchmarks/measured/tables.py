"""The tables of the pages on accuracy, from a record of benchmarks/accuracy.py."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from benchmarks.measured.bars import OUTSIDE

NAMES = {
    "AMP": "matrix unit, on tile",
    "MM": "matmul",
    "ST": "STREAM triad",
    "RI": "ResNet-50",
    "RH": "ResNet-50, host data",
    "PI": "BERT, ViT, ResNet-50",
    "IO": "host transfers",
    "CV": "thin convolutions",
    "HE": "meshes, hand-written vertices",
    "BY": "BERT packed, ResNet-50, host data",
    "GB": "blur",
    "TR": "training, on Bow",
    "ML": "training, logs of MLPerf",
    "CO": "Conformer, training",
    "YO": "YOLOv4-P5",
    "GP": "GPT-2, training",
    "CL": "CLIP",
    "SW": "Swin-Tiny",
    "VE": "verdicts of other networks",
}

# Page below docs/ to the tables that it has, by the names in their markers.
PAGES: Mapping[str, tuple[str, ...]] = {
    "explanation/accuracy.md": ("families", "outside", "sureness"),
    "reference/accuracy-rows.md": ("rows", "left out"),
}


def judged_families(record: Mapping[str, Any]) -> dict[str, list[Mapping[str, Any]]]:
    """Judged rows that have a ratio."""
    families: dict[str, list[Mapping[str, Any]]] = {}
    for row in record["rows"]:
        if row["status"] == "judged" and row["ratio"] is not None:
            families.setdefault(row["family"], []).append(row)
    return families


def with_tables(page: str, record: Mapping[str, Any], names: Sequence[str]) -> str:
    """The page with today's tables, each between its marker, such as `<!-- rows -->`, and the next `<!-- end -->`.

    Args: names: of the tables that the page has: "families", "outside", "sureness", "rows", "left out".

    Raises: ValueError if a marker is missing.
    """
    tables = {
        "families": _family_table,
        "outside": _outside_table,
        "sureness": _sureness_table,
        "rows": _row_table,
        "left out": _left_out_table,
    }
    for name in names:
        lines = tables[name](record)
        start, end = f"<!-- {name} -->\n", "<!-- end -->"
        before, found, rest = page.partition(start)
        _, closed, after = rest.partition(end)
        if not (found and closed):
            raise ValueError(f"the page has no {start.strip()} or no {end} after it")
        page = before + start + "\n" + "\n".join(lines) + "\n\n" + end + after
    return page


def _sureness_table(record: Mapping[str, Any]) -> Iterator[str]:
    yield "| rows | | measurements inside | half-width, median | interval score | of one width for all |"
    yield "|---|---|---|---|---|---|"
    for name, group in record["sureness"].items():
        figures = f"{group['held']:.0%} | {group['half_width']:.1%} | {group['score']:.3f} | {group['score_of_one_width']:.3f}"
        yield f"| {name} | {group['rows']} | {figures} |"


def _family_table(record: Mapping[str, Any]) -> Iterator[str]:
    yield "| family | judged rows | median error | worst | mean, signed |"
    yield "|---|---|---|---|---|"
    families = judged_families(record)
    for name, group in record["groups"].items():
        if name == OUTSIDE.name:
            continue
        for family in group["mean_error_by_family"]:
            errors = [row["ratio"] - 1 for row in families[family]]
            median, worst = statistics.median(map(abs, errors)), max(errors, key=abs)
            named, mean = f"{family}: {NAMES.get(family, family)}", statistics.fmean(errors)
            yield f"| {named} | {len(errors)} | {median:.1%} | {worst:+.1%} | {mean:+.1%} |"
        median, p90 = (_percent(group[key]) for key in ("median_absolute_error", "p90_absolute_error"))
        yield f"| **all: {name}** | {group['judged']} | **{median}** | 90th percentile **{p90}** | {_right(group)} |"


def _outside_table(record: Mapping[str, Any]) -> Iterator[str]:
    """The rows of networks outside the fit, judged or not, and all of them together."""
    yield "| row | workload | predicted | measured | error | fits, as measured, and how full the fullest tile is here |"
    yield "|---|---|---|---|---|---|"
    for row in record["rows"]:
        if row.get("group") != OUTSIDE.name or row["status"] == "left out":
            continue
        error = "" if row["ratio"] is None else f"{row['ratio'] - 1:+.1%}"
        verdicts = ", ".join(map(_verdict, row["verdicts"])) + ("; not judged" if row["status"] == "reported" else "")
        figures = f"{_figure(row['predicted'])} | {_figure(row['measured'])} {row['unit']}"
        yield f"| {row['id']} | {row['workload']} | {figures} | {error} | {verdicts} |"
    if group := record["groups"].get(OUTSIDE.name):
        median, p90 = (_percent(group[key]) for key in ("median_absolute_error", "p90_absolute_error"))
        yield f"| **all** | {group['judged']} figures | median error **{median}** | 90th percentile **{p90}** | | {_right(group)} |"


def _verdict(verdict: Mapping[str, Any]) -> str:
    full = verdict.get("fullness")
    said = "fits" if verdict["measured"] else "does not fit"
    right = "right" if verdict["measured"] == verdict["predicted"] else "wrong"
    return f"{verdict['what']} {said}: {right}" + ("" if full is None else f" ({full:.0%})")


def _right(group: Mapping[str, Any]) -> str:
    return f"fits or not: {group['verdicts'] - len(group['wrong_verdicts'])} of {group['verdicts']} right" if group["verdicts"] else ""


def _row_table(record: Mapping[str, Any]) -> Iterator[str]:
    yield "| row | workload | predicted | measured | ratio | |"
    yield "|---|---|---|---|---|---|"
    for row in record["rows"]:
        if row["status"] == "left out":
            continue
        wrong = [verdict["what"] for verdict in row["verdicts"] if verdict["measured"] != verdict["predicted"]]
        fullest = row.get("fullest")
        notes = [f"fullest tile {fullest['share']:.0%}"] if fullest else []
        notes += [row["reason"]] * bool(row["reason"]) + [f"verdict of {what} is wrong" for what in wrong]
        ratio = "" if row["ratio"] is None else f"{row['ratio']:.2f}"
        figures = f"{_figure(row['predicted'])} | {_figure(row['measured'])} {row['unit']}"
        yield f"| {row['id']} | {row['workload']} | {figures} | {ratio} | {'; '.join(notes)} |"


def _left_out_table(record: Mapping[str, Any]) -> Iterator[str]:
    reasons: dict[str, list[str]] = {}
    for row in record["rows"]:
        if row["status"] == "left out":
            reasons.setdefault(row["reason"], []).append(row["id"])
    yield "| rows | why |"
    yield "|---|---|"
    for reason, ids in reasons.items():
        yield f"| {' '.join(ids)} | {reason} |"


def _percent(value: float | None) -> str:
    return "none" if value is None else f"{value:.1%}"


def _figure(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
