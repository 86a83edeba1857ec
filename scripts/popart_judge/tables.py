"""What scripts/popart_tests.py prints and writes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

from scripts.popart_judge.groups import NAMES, ONE_DEVICE, SEVERAL
from scripts.popart_judge.known import Known
from scripts.popart_judge.runner import Result
from scripts.popart_judge.source import Function

_ROW: Final = "{:34} {:>9} {:>8} {:>11} {:>11} {:>12} {:>13}"


def counts(found: Sequence[Function]) -> str:
    """How many functions there are, and which are left out."""
    black = [function for function in found if function.black_box]
    one, silent = sum(f.one_device for f in black), sum(not f.asserts for f in black)
    lines = [f"{len(found):,} functions; {len(black):,} are black boxes, {one:,} of these need one device only; {silent:,} assert nothing"]
    lines += [f"  left out: {number:4} {why}" for why, number in Counter(f.why_out for f in found if f.why_out).most_common()]
    return "\n".join(lines)


def table(results: Sequence[Result]) -> str:
    """A row for each group: functions that assert something, those of them on one device and on more, cases, those without assertion."""
    rows = [_ROW.format("group", "passed", "", "one device", "more", "cases", "no assertion")]
    rows += [_row(name, [r for r in results if r.group == name]) for name in NAMES if any(r.group == name for r in results)]
    rows.append(_row("all", results))
    rows.append(_row("90 % is asked: one device", [r for r in results if r.group in ONE_DEVICE and r.function.one_device]))
    rows.append(_row("90 % is asked: several", [r for r in results if r.group in SEVERAL]))
    rows.append(f"with and without an assertion: {_of(results)} pass ({_percent(results)})")
    return "\n".join(rows)


def _row(name: str, results: Sequence[Result]) -> str:
    judged = [r for r in results if r.function.asserts]
    return _ROW.format(
        name,
        _of(judged),
        _percent(judged),
        _of([r for r in judged if r.function.one_device]),
        _of([r for r in judged if not r.function.one_device]),
        f"{sum(r.cases_passed for r in judged)}/{sum(len(r.cases) for r in judged)}",
        _of([r for r in results if not r.function.asserts]),
    )


def _of(results: Sequence[Result]) -> str:
    return f"{sum(r.passed for r in results)}/{len(results)}" if results else "-"


def _percent(results: Sequence[Result]) -> str:
    return f"{sum(r.passed for r in results) / len(results):.1%}" if results else "-"


def failures(results: Sequence[Result], known: Known) -> str:
    """Each function that fails: its error, and the reason that the list gives."""
    lines: list[str] = []
    for result in results:
        if not result.passed:
            many = f" [{result.cases_passed} of {len(result.cases)} cases pass]" if len(result.cases) > 1 else ""
            lines.append(f"{result.function.id} on {result.target}{many}\n    {result.error}")
            if result.function.id in known.failures:
                lines.append(f"    listed: {known.failures[result.function.id]}")
    return "\n".join(lines)


def mutated(results: Sequence[Result], known: Known) -> str:
    """Of the functions that look at results, how many notice that all anchors are zero."""
    shown = [r for r in results if r.function.asserts and r.function.id not in known.failures and any(c.anchors for c in r.cases.values())]
    alive = [r for r in shown if r.passed]
    noticed = f"{len(shown) - len(alive)} of {len(shown)} functions ({_percent_noticed(len(shown), len(alive))})"
    line = f"{noticed} that assert something, and whose sessions gave an anchor that was not zero, fail when all are zeroed"
    return "\n".join([line, *(f"  still passes: {r.function.id}" for r in alive)])


def _percent_noticed(shown: int, alive: int) -> str:
    return f"{(shown - alive) / shown:.1%}" if shown else "none ran"


def record(found: Sequence[Function], results: Sequence[Result], known: Known) -> Mapping[str, Any]:
    """The same as plain data."""
    return {
        "functions": len(found),
        "black_box": sum(f.black_box for f in found),
        "one_device": sum(f.black_box and f.one_device for f in found),
        "results": [
            {
                "function": result.function.id,
                "group": result.group,
                "target": result.target,
                "one_device": result.function.one_device,
                "asserts": result.function.asserts,
                "passed": result.passed,
                "error": result.error,
                "known": known.failures.get(result.function.id),
                "cases": {
                    name: {"outcome": case.outcome, "error": case.error, "anchors": case.anchors} for name, case in result.cases.items()
                },
            }
            for result in results
        ],
    }
