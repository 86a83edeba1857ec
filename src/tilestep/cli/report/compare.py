"""`tilestep report compare`: what differs between two recordings; its exit status is for continuous integration."""

import argparse
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any, Final, Literal

from tilestep.cli.report.opening import add_path, exit_status, line_text, print_json, print_line, print_rows
from tilestep.cli.usage import tell
from tilestep.figures.comparison import Change, Comparison, ProgramChange, compare
from tilestep.figures.quantities import count_text, time_text
from tilestep.figures.reader import open_report
from tilestep.figures.scopes import short_scope
from tilestep.messages import plain, shown

_COMMAND: Final = "tilestep report compare"
_MOST: Final = 20  # rows of a table without --all
_MOST_ALONE: Final = 5  # rows of the programs that one recording alone has, without --all
_FIGURES: Final = ("A", "B", "B - A", "change")
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
    parser.add_argument("--all", action="store_true", help="print all rows, also of programs that are equal")
    parser.add_argument("--json", action="store_true", help="print JSON, with all rows, instead of tables")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Prints to stdout. Returns 1 if B is slower than --fail-above allows, 2 after a message to stderr if a recording cannot be read."""
    return exit_status(_COMMAND, lambda: _compare(args))


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
        _print(found, everything=args.all)
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
            return {name: _with_relative(inner) for name, inner in value.items()}
        case list() | tuple():
            return [_with_relative(inner) for inner in value]
        case _:
            return value


def _print(found: Comparison, *, everything: bool) -> None:
    if found.machines:
        names = f"A is of {plain(found.names[0])} and B of {plain(found.names[1])}, which differ"
        clocks = "" if found.one_clock else " Their clocks differ, so times are compared."
        print_line(f"{names}: cycles are not those of one machine.{clocks}\n")
        rows = [(plain(path), plain(a), plain(b)) for path, a, b in found.machines]
        _print_most("Machines", ("field",), ("A", "B"), rows, everything=everything)
    for side, ended_by in zip("AB", found.ended_by, strict=True):
        if ended_by:
            print_line(f"{side} was ended by {plain(ended_by)}: it is of what ran until then, so the whole is no measure.\n")
    if found.one_clock:
        print_rows("Emulated cycles", ("what",), _FIGURES, [("the whole", *_cells(found.emulated_cycles))])
    else:
        print_rows("Emulated time", ("what",), _FIGURES, [("the whole", *_cells(found.emulated_s, time_text))])
    _print_programs(found, everything=everything)
    for side in ("A", "B"):
        _print_alone(side, found.only(side), in_time=not found.one_clock, everything=everything)
    rows = [
        (
            line_text(step.line),
            plain(short_scope(step.scope)) or "-",
            plain(step.family),
            plain(step.program),
            *(_cells(step.cycles_per_run) if found.one_clock else _cells(step.emulated_s_per_run, time_text)),
        )
        for step in found.steps
    ]
    words = ("line", "operation", "family", "program")
    _print_most(f"Steps that differ, {'cycles' if found.one_clock else 'time'} a run", words, _FIGURES, rows, everything=everything)
    if _is_equal(found):
        print_line("No cycle and no byte differs.")


def _print_programs(found: Comparison, *, everything: bool) -> None:
    """What differs between the programs that both have: a row for each figure."""
    both, equal = found.both, sum(not program.differs for program in found.both)
    rows = [
        (plain(program.label), program.matched, what, *_cells(change, text))
        for program in both
        for what, change, text in _figures(program, in_time=not found.one_clock)
        if change.a != change.b or (everything and what in {"cycles/run", "time/run"})
    ]
    _print_most("Programs", ("program", "matched by", "what"), _FIGURES, rows, everything=everything)
    if equal and not everything:
        print_line(f"{count_text(equal, 'program')} of {len(both):,} in both without a difference; --all shows them\n")


def _figures(program: ProgramChange, *, in_time: bool) -> list[tuple[str, Change, Callable[[float], str]]]:
    """What may differ of a program, with how it is written; what is counted in cycles as time where clocks differ."""
    times = {"cycles/run": 0, "cycles of loads": 1} if in_time else {}
    return [(*program.times[times[what]], time_text) if what in times else (what, change, _number) for what, change in program.figures]


def _print_alone(side: Literal["A", "B"], programs: Sequence[ProgramChange], *, in_time: bool, everything: bool) -> None:
    """The programs that one recording alone has, together and one by one."""

    def of(change: Change) -> float | None:
        return change.a if side == "A" else change.b

    def spent(each: ProgramChange) -> tuple[Change, Change]:
        return (each.emulated_s, each.emulated_s_per_run) if in_time else (each.cycles, each.cycles_per_run)

    figures = [[of(change) for change in (each.runs, *spent(each), each.peak_tile_bytes)] for each in programs]
    texts = (_number, *((time_text,) * 2 if in_time else (_number,) * 2), _number)
    rows = [
        (plain(each.label), *("-" if value is None else text(value) for value, text in zip(row, texts, strict=True)))
        for each, row in zip(programs, figures, strict=True)
    ]
    runs, whole = (sum(row[column] or 0 for row in figures) for column in (0, 1))
    taken = time_text(whole) if in_time else count_text(round(whole), "cycle")
    title = f"Only in {side}: {count_text(len(programs), 'program')} with {taken} in {count_text(round(runs), 'run')}"
    columns = ("runs", *(("time", "time/run") if in_time else ("cycles", "cycles/run")), "bytes of the fullest tile")
    _print_most(title, ("program",), columns, rows, everything=everything, most=_MOST_ALONE)


def _print_most(
    title: str, words: tuple[str, ...], figures: tuple[str, ...], rows: Sequence[Sequence[str]], *, everything: bool, most: int = _MOST
) -> None:
    """A table of the first rows, and how many more there are."""
    print_rows(title, words, figures, rows if everything else rows[:most])
    if len(rows) > most and not everything:
        print_line(f"and {count_text(len(rows) - most, 'more row')}; --all shows them\n")


def _is_equal(found: Comparison) -> bool:
    whole = found.emulated_cycles
    return not found.machines and not found.steps and whole.a == whole.b and not any(program.differs for program in found.programs)


def _number(value: float) -> str:
    return f"{value:,.0f}" if value == int(value) else f"{value:,.1f}"


def _cells(change: Change, written: Callable[[float], str] = _number) -> tuple[str, str, str, str]:
    a, b = ("-" if value is None else written(value) for value in (change.a, change.b))
    if change.a is None or change.b is None:
        return a, b, "", ""
    relative = change.relative
    text = "" if not relative else "new" if relative == math.inf else f"{100 * relative:+.2f} %"
    return a, b, "" if change.a == change.b else f"{'+' if change.b > change.a else '-'}{written(abs(change.b - change.a))}", text
