"""What view What to do reads: the findings of the profile, and what they are about."""

import re
from collections.abc import Mapping
from functools import cached_property
from itertools import zip_longest
from pathlib import PurePath
from types import MappingProxyType
from typing import Any, Final, cast, get_args

from tilestep.advice.finding import ASIDE, FIXED, NOTEBOOK_CELL, How
from tilestep.advice.phrases import group_text, left_texts
from tilestep.figures.quantities import numbers_text
from tilestep.figures.reader import CompiledProgram, Report
from tilestep.figures.rows import relative_files
from tilestep.recording.schema import EVENT_KINDS
from tilestep.views.page.block import PageBlock
from tilestep.views.page.untrusted import number_in, records_in, text_in, texts_in

ORIGINS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "findings.replayed": "The journal was played again with the change made: the gain is exact.",
        "findings.within": "The journal was played again with the change made; programs that will be compiled anew may differ by 2 %.",
        "findings.least": "Bytes of the divided values themselves; what is computed of them gets smaller as well, which is not planned.",
        "findings.about": "An estimate, on the ground that is named beside it.",
        "findings.together": "The journal was played again with all these edits, so that gains which overlap count once.",
        "findings.then": "The journal was played again with the edits of those findings, then with this one more.",
        "findings.step": "Cycles from one step to the next once nothing more is loaded or put on the IPU, from the journal.",
        "findings.sure": "An end of the 80 % interval of a step: the cost model's errors of kinds of work, by their shares of warm steps.",
        "findings.samples": "What the loop says of its batch, or the first size that all arguments share which are new at each run.",
        "findings.between": "Of a step, what programs that are no part of it take, and the loads that they cause.",
        "findings.rate": "Items of a step by the time that it takes once warm.",
        "findings.set_up": "Cycles before and beside the steady runs.",
        "findings.runs": "How often the program ran, or the step was done.",
        "findings.loads": (
            "Runs before which another program was loaded. The first member of a program group that runs loads the group: "
            "the others bring their code with their first run, which is no load."
        ),
        "findings.loading": "Cycles in which the program was loaded, or as a member of a program group brought its code.",
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
_EVENTS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(  # kind of a finding -> events that view Execution shows of it
    {
        "idle": ("wait", "dispatch", "read"),
        "calls": ("dispatch", "stream-in", "stream-out"),
        "set-up": ("load",),
        "fixed": ("load",),
        "loads": ("load",),
        "donation": ("stream-in",),
        "streaming": ("stream-in",),
        "results": ("stream-out",),
        "reads": ("read",),
        "needed": ("read",),
        "feeds": ("host-call", "io-in", "io-out"),
    }
)
_HOW: Final = get_args(How)
_STEADY: Final = (  # numbers of a warm step
    *("steps", "step_cycles", "between_share", "set_up_cycles", "samples", "items_a_second", "low_cycles", "high_cycles"),
)
_WORD: Final = re.compile(r"[\w.]*\w")  # names of programs among others


def findings(report: Report) -> PageBlock | None:
    """The block `findings`; None if the recording has no profile.

    Its JSON: found (each with headline, edit, text, part ('first', 'fixed' or 'aside'), urgent, line {file, number, label}, others
    (further lines with their shares), gain {cycles, share, step_cycles, step_share, tile_bytes}, how, then (null, or the share that it
    saves of what the findings `numbers` leave), basis, unknown (why nobody knows a gain), ways (other edits, each with edit, gain, how,
    basis), program (row of the only one that its sentence names), proof (name of a view), see (state of that view)), together {gain, how,
    basis, numbers, left (a phrase for each reason)} or null, steady {label, unit, steps, step_cycles, between_share (null: hardly any),
    set_up_cycles, samples, items_a_second, others, reloads, low_cycles, high_cycles, widest} or null, ended_by (what ended the program
    before its own end; '': nothing), sure (the 80 % intervals as a sentence), idle_cycles, assumptions, options (engine options that were
    set).

    Raises: RecordingError if the profile is damaged, or of a newer form.
    """
    document = report.profile
    read = _Findings(report)
    if not document:
        return None
    steady = document.get("steady")
    return PageBlock(
        json={
            "found": [read.finding(record) for record in records_in(document, "findings")],
            "together": _together(document.get("together")),
            "steady": {
                **{name: text_in(steady, name) for name in ("label", "unit", "widest")},
                **{name: number_in(steady, name) for name in _STEADY},
                **{name: steady.get(name) is True for name in ("others", "reloads")},
            }
            if isinstance(steady, dict)
            else None,
            "ended_by": text_in(document, "ended_by"),
            "sure": text_in(document.get("interval"), "text"),
            "idle_cycles": number_in(document.get("cycles_by_kind"), "idle"),
            "assumptions": texts_in(document, "assumptions"),
            "fallbacks": sorted({name for program in records_in(document, "programs") for name in texts_in(program, "fallback_ops")}),
            "options": _options(report.notes.get("engine_options")),
        }
    )


class _Findings:
    """Reads findings of a recording, and where its views show what they are about."""

    def __init__(self, report: Report) -> None:
        self.relative = relative_files(report)
        self.programs = report.compilation.programs if "compilation" in report.parts else ()
        self.records = records_in(report.profile, "groups")

    def finding(self, record: Mapping[str, Any]) -> dict[str, Any]:
        """A finding for the page."""
        kind, text = text_in(record, "kind"), text_in(record, "text")
        urgent = record.get("urgent") is True
        how = text_in(record, "how") if text_in(record, "how") in _HOW else ""
        gain = _gain(record)
        known = how != "" and any(gain[name] is not None for name in ("share", "step_share", "tile_bytes"))
        aside = kind in ASIDE and not urgent
        part = "first" if not aside else "fixed" if kind in FIXED else "aside"
        known = known and part != "fixed"  # a longer program is no gain
        line, program = self.line(record.get("line")), self.program(text)
        return {
            "kind": kind,
            "edit": text_in(record, "edit"),
            "text": text,
            "part": part,
            "urgent": urgent,
            "line": line,
            "others": [{**other, "share": number_in(of, "share")} for of in records_in(record, "lines") if (other := self.line(of))],
            "gain": gain if known else None,
            "how": how if known else "",
            "then": _then(record) if known else None,
            "basis": text_in(record, "basis"),
            "unknown": text_in(record, "unknown"),
            "ways": [_way(other) for other in records_in(record, "others")],
            "program": None if program is None else program.row,
            "proof": _PROOFS.get(kind, _OTHERS),
            "see": self.see(kind, line, program),
        }

    def see(self, kind: str, line: Mapping[str, Any] | None, program: CompiledProgram | None) -> dict[str, str]:
        """The state of the view that proves it: what it shows of all that it has."""
        if kind in _EVENTS:
            named = {"find": program.name} if program and kind not in ("idle", "set-up") else {}
            return {"kinds": ",".join(event for event in EVENT_KINDS if event not in _EVENTS[kind]), **named}
        if _PROOFS.get(kind) == "operations" and line and (line["file"], line["number"]) in self.priced:
            return {"q": f"{line['file']}:{line['number']}", "group": "none"}
        return {}

    @cached_property
    def priced(self) -> set[tuple[str, int]]:
        """Lines that have a step."""
        leaves = (leaf for program in self.programs if program.has_tree for leaf in program.leaves)
        return {(self.relative(leaf.line.file), leaf.line.line) for leaf in leaves if leaf.line}

    def program(self, text: str) -> CompiledProgram | None:
        """The only program that a sentence names; of a program group on an IPU the fullest one there."""
        for group, members in self.groups:
            if f"{group_text(group)} on IPU " in text:
                return max(members, key=lambda program: program.planned.memory.peak_bytes if program.has_tree else -1)
        words = set(_WORD.findall(text))
        named = [program for program in self.programs if program.name in words]
        return named[0] if len(named) == 1 else None

    @cached_property
    def groups(self) -> list[tuple[str, list[CompiledProgram]]]:
        """The names of the profile's program groups, and their programs on the fullest IPU of each."""
        found = ((text_in(record, "name"), texts_in(record, "programs")) for record in self.records)
        named = ((name, [each for each in self.programs if each.group == name and each.name in names]) for name, names in found if name)
        return [(name, members) for name, members in named if members]

    def line(self, record: Any) -> dict[str, Any] | None:
        """A line: its file as the other views name it, its number, and a label."""
        if not isinstance(record, dict):
            return None
        file, number = text_in(record, "file"), number_in(record, "line")
        if not file or number is None:
            return None
        label = f"line {number} of a cell" if NOTEBOOK_CELL.search(file) else f"{PurePath(file).name}:{number}"
        return {"file": self.relative(file), "number": number, "label": label}


def _gain(record: Mapping[str, Any]) -> dict[str, int | float | None]:
    return {name: number_in(record, f"gain_{name}") for name in ("cycles", "share", "step_cycles", "step_share", "tile_bytes")}


def _then(record: Mapping[str, Any]) -> dict[str, Any] | None:
    """The share that a finding saves of what others leave, and which these are; None if it is none."""
    numbers, share = _numbers(record.get("gain_after")), number_in(record, "gain_after_share")
    return {"numbers": numbers_text(numbers), "share": share} if numbers and share is not None else None


def _way(record: Mapping[str, Any]) -> dict[str, Any]:
    """Another edit of a finding."""
    how = text_in(record, "how")
    return {
        "edit": text_in(record, "edit"),
        "gain": {**_gain(record), "tile_bytes": None},
        "how": how if how in _HOW else "about",
        "basis": text_in(record, "basis"),
    }


def _together(record: Any) -> dict[str, Any] | None:
    """What findings save together."""
    if not isinstance(record, dict) or all(number_in(record, name) is None for name in ("gain_share", "gain_step_share")):
        return None
    known = cast("dict[str, Any]", record)
    left = zip_longest(_numbers(known.get("left")), texts_in(known, "why"))
    apart = left_texts((number, why or "") for number, why in left if number is not None)
    numbers = _numbers(known.get("numbers"))
    return {**_way(known), "numbers": numbers_text(numbers), "left": apart} if numbers else None


def _numbers(value: Any) -> list[int]:
    return [each for each in cast("list[Any]", value) if type(each) is int] if isinstance(value, list) else []


def _options(options: Any) -> list[list[str]]:
    """Name and value of each engine option that was set."""
    if not isinstance(options, dict):
        return []
    return [[str(name), str(value)] for name, value in cast("dict[Any, Any]", options).items()]
