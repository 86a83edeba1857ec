"""What view What to do reads: the findings of the profile, and what they are about."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import PurePath
from types import MappingProxyType
from typing import Any, Final, cast

from tilestep.record.tables import json_text
from tilestep.report.advice.finding import ASIDE, CELL
from tilestep.report.overview import relative_files
from tilestep.report.page.block import Block
from tilestep.report.page.untrusted import number_in, records_in, text_in, texts_in
from tilestep.report.reader import Report

ORIGINS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "findings.replayed": "The journal was played again with the change made: the gain is exact.",
        "findings.within": "The journal was played again with the change made; programs that will be compiled anew may differ by 2 %.",
        "findings.about": "An estimate, on the ground that is named beside it.",
        "findings.turn": "Cycles from one run to the next once nothing more is loaded or put on the IPU, from the journal.",
        "findings.set_up": "Cycles before and beside the steady runs.",
        "findings.runs": "How often the program ran.",
        "findings.loads": "Runs that had to load the program first.",
        "findings.program": "Cycles of all runs on the program's slowest IPU.",
        "findings.tile": "Bytes on the fullest tile, at the step at which it is fullest, as the program was planned.",
    }
)
_PROOFS: Final[Mapping[str, str]] = MappingProxyType(  # kind of a finding -> view that proves it
    {
        "memory": "memory",
        "offload": "memory",
        "steps": "execution",
        "products": "operations",
        "halves": "operations",
        "partials": "operations",
        "limit": "operations",
        "fallback": "operations",
        "collectives": "operations",
        "pipeline": "pipeline",
        "bubbles": "pipeline",
    }
)
_OTHERS: Final = "execution"


def findings(report: Report) -> Block | None:
    """The block `findings`; None if the recording has no profile.

    Its JSON: found (each with headline, edit, text, aside, urgent, line {file, number, label}, others (further lines with their shares),
    gain {cycles, share, tile_bytes}, how, basis, proof (name of a view)), steady {label, turns, turn_cycles, set_up_cycles} or null,
    idle_cycles, assumptions, options (autoReport and other engine options that were set).

    Raises: RecordingError if the profile is damaged.
    """
    profile = json_text(report.tables, "profile")
    if not isinstance(profile, dict):
        return None
    document = cast("dict[str, Any]", profile)
    relative = relative_files(report)
    steady = document.get("steady")
    return Block(
        json={
            "found": [_finding(record, relative) for record in records_in(document, "findings")],
            "steady": {
                "label": text_in(steady, "label"),
                **{name: number_in(steady, name) for name in ("turns", "turn_cycles", "set_up_cycles")},
            }
            if isinstance(steady, dict)
            else None,
            "idle_cycles": number_in(document.get("cycles_by_kind"), "idle"),
            "assumptions": texts_in(document, "assumptions"),
            "fallbacks": sorted({name for program in records_in(document, "programs") for name in texts_in(program, "fallback_ops")}),
            "options": _options(report.notes.get("engine_options")),
        }
    )


def _finding(record: Mapping[str, Any], relative: Callable[[str], str]) -> dict[str, Any]:
    kind = text_in(record, "kind")
    urgent = record.get("urgent") is True
    how = text_in(record, "how")
    return {
        "kind": kind,
        "edit": text_in(record, "edit"),
        "text": text_in(record, "text"),
        "aside": kind in ASIDE and not urgent,
        "urgent": urgent,
        "line": _line(record.get("line"), relative),
        "others": [{**line, "share": number_in(of, "share")} for of in records_in(record, "lines") if (line := _line(of, relative))],
        "gain": {name: number_in(record, f"gain_{name}") for name in ("cycles", "share", "tile_bytes")} if how else None,
        "how": how,
        "basis": text_in(record, "basis"),
        "proof": _PROOFS.get(kind, _OTHERS),
    }


def _line(record: Any, relative: Callable[[str], str]) -> dict[str, Any] | None:
    """A line: its file as the other views name it, its number, and a label."""
    if not isinstance(record, dict):
        return None
    file, number = text_in(record, "file"), number_in(record, "line")
    if not file or number is None:
        return None
    label = f"line {number} of a cell" if CELL.search(file) else f"{PurePath(file).name}:{number}"
    return {"file": relative(file), "number": number, "label": label}


def _options(options: Any) -> list[list[str]]:
    """Name and value of each engine option that was set."""
    if not isinstance(options, dict):
        return []
    return [[str(name), str(value)] for name, value in cast("dict[Any, Any]", options).items()]
