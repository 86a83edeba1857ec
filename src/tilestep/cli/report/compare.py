"""`tilestep report compare`: what differs between two recordings; its exit status is for continuous integration."""

from __future__ import annotations

import argparse
import math
import re
from dataclasses import asdict
from typing import Any, Final

from tilestep.cli.report.opening import add_path, line_text, print_json, print_line, print_rows, told
from tilestep.cli.usage import tell
from tilestep.messages import plain, shown
from tilestep.report.comparison import Change, Comparison, compare
from tilestep.report.quantities import count_text
from tilestep.report.reader import open_report

_COMMAND: Final = "tilestep report compare"
_MOST: Final = 20  # rows of a table
_PERCENT: Final = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)\s*%?", re.ASCII)


def add_parser(subparsers: Any) -> None:
    """Adds `compare` to the subparsers of `tilestep report`."""
    parser: argparse.ArgumentParser = subparsers.add_parser(
        "compare",
        help="compare two recordings; with --fail-above, exit status 1 if the second is slower",
        description="Compares two recordings, program by program and line by line. Emulated cycles repeat: any difference is real.",
    )
    add_path(parser, "a")
    add_path(parser, "b")
    parser.add_argument(
        "--fail-above",
        metavar="PERCENT",
        type=_percent,
        help="exit status 1 if the emulated time, or a run of a program, takes more than PERCENT longer in B; 0%% fails for any cycle",
    )
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Prints to stdout. Returns 1 if B is slower than --fail-above allows, 2 after a message to stderr if a recording cannot be read."""
    return told(_COMMAND, lambda: _compare(args))


def _percent(text: str) -> float:
    """'2%' as 0.02."""
    found = _PERCENT.fullmatch(text.strip())
    if found is None:
        raise argparse.ArgumentTypeError(f"{shown(text)} must be a number of percent from 0, such as 2%")
    return float(found[1]) / 100


def _compare(args: argparse.Namespace) -> int:
    found = compare(open_report(args.a), open_report(args.b))
    bound: float | None = args.fail_above
    slower = () if bound is None else found.slower(bound)
    if args.json:
        print_json(_document(found, slower))
    else:
        _print(found)
    if slower and bound is not None:
        names = ", ".join(map(plain, slower[:4])) + (f" and {len(slower) - 4} more" if len(slower) > 4 else "")
        tell(_COMMAND, f"slower by more than {100 * bound:g} %: {names}")
    return 1 if slower else 0


def _document(found: Comparison, slower: tuple[str, ...]) -> Any:
    """The comparison as JSON; a figure that grew from nothing has the relative change null."""
    return _with_relative({**asdict(found), "slower": list(slower)})


def _with_relative(value: Any) -> Any:
    match value:
        case {"a": a, "b": b}:
            relative = Change(a=a, b=b).relative
            return {"a": a, "b": b, "relative": relative if relative is not None and math.isfinite(relative) else None}
        case dict():
            return {name: _with_relative(inner) for name, inner in value.items()}  # pyright: ignore[reportUnknownVariableType]
        case list() | tuple():
            return [_with_relative(inner) for inner in value]  # pyright: ignore[reportUnknownVariableType]
        case _:
            return value


def _print(found: Comparison) -> None:
    if found.machines:
        print_line(
            f"A is of {plain(found.names[0])} and B of {plain(found.names[1])}, which differ: cycles are not those of one machine.\n"
        )
        rows = [(plain(path), plain(a), plain(b)) for path, a, b in found.machines[:_MOST]]
        print_rows("Machines", ("field",), ("A", "B"), rows)
    print_rows("Emulated cycles", ("what",), ("A", "B", "B - A", "change"), [("the whole", *_cells(found.emulated_cycles))])
    rows = [
        (plain(each.name), each.matched or ("only in A" if each.runs.b is None else "only in B"), what, *_cells(change))
        for each in found.programs
        for what, change in (
            ("cycles/run", each.cycles_per_run),
            ("runs", each.runs),
            ("cycles of loads", each.load_cycles),
            ("bytes of the fullest tile", each.peak_tile_bytes),
            ("flops/run", each.flops_per_run),
        )
        if what == "cycles/run" or change.a != change.b
    ]
    print_rows("Programs", ("program", "matched by", "what"), ("A", "B", "B - A", "change"), rows)
    rows = [
        (
            line_text(step.line),
            plain("/".join(step.scope.split("/")[-2:])) or "-",
            plain(step.family),
            plain(step.program),
            *_cells(step.cycles_per_run),
        )
        for step in found.steps[:_MOST]
    ]
    print_rows("Steps that differ, cycles a run", ("line", "operation", "family", "program"), ("A", "B", "B - A", "change"), rows)
    if len(found.steps) > _MOST:
        print_line(f"and {count_text(len(found.steps) - _MOST, 'more step')}; --json has all")
    if _is_equal(found):
        print_line("No cycle and no byte differs.")


def _is_equal(found: Comparison) -> bool:
    changes = [found.emulated_cycles]
    for each in found.programs:
        changes += [each.runs, each.cycles_per_run, each.load_cycles, each.peak_tile_bytes, each.flops_per_run]
    return not found.machines and not found.steps and all(change.a == change.b for change in changes)


def _cells(change: Change) -> tuple[str, str, str, str]:
    a, b = ("-" if value is None else _number(value) for value in (change.a, change.b))
    if change.a is None or change.b is None:
        return a, b, "", ""
    relative = change.relative
    text = "" if not relative else "new" if relative == math.inf else f"{100 * relative:+.2f} %"
    return a, b, "" if change.a == change.b else f"{'+' if change.b > change.a else '-'}{_number(abs(change.b - change.a))}", text


def _number(value: float) -> str:
    return f"{value:,.0f}" if value == int(value) else f"{value:,.1f}"
