"""How much larger the batches of a recording's programs can be, within what a page may plan again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, Final, cast, final

from tilestep.advice.batch import MOST_PLANS, Room, room
from tilestep.advice.remedies import MOST_PLANNED
from tilestep.errors import RecordingError, TilestepError
from tilestep.figures.reader import CompiledProgram, Report
from tilestep.options import PlanOptions
from tilestep.plan.liveness import fits
from tilestep.recording.edits.script import ImpossibleEditError
from tilestep.recording.sources import Source, hlo_of, options_of

_LEAST_PLANS: Final = 3  # of a program, or its batch is not looked for
_MOST_ARGUMENTS: Final = 3  # of a batch that are named


@final
class Rooms:
    """How much larger batches can be, of the fullest programs, as far as a page may plan again."""

    def __init__(self, report: Report) -> None:
        self._machine = report.target.machine
        self._texts: dict[int, str] = {}
        self._options: dict[int, PlanOptions] = {}
        self._unknown = "The recording has no HLO of this program, or not the options of its plan."
        try:
            self._texts, self._options = hlo_of(report.tables), options_of(report.tables)
        except RecordingError as error:  # another version's options, perhaps: the rest of the page is not less true
            self._unknown = f"No program can be planned again: {error}."
        self._again = _streamed_again(report.profile)
        self._left = MOST_PLANNED
        self._found: dict[tuple[str, PlanOptions, frozenset[int]], dict[str, Any]] = {}

    def of(self, program: CompiledProgram) -> dict[str, Any]:
        """`room` of a program, or `room_why`."""
        text, options = self._texts.get(program.key), self._options.get(program.key)
        if text is None or options is None or not program.has_tree:
            return {"room": None, "room_why": self._unknown}
        known = (text, options, self._again.get(program.key, frozenset()))
        if known not in self._found:
            self._found[known] = self._planned(program, Source(text=lambda: text, options=options), known[2], len(text))
        return self._found[known]

    def _planned(self, program: CompiledProgram, source: Source, again: frozenset[int], length: int) -> dict[str, Any]:
        plans = min(MOST_PLANS, self._left // max(length, 1))
        if plans < _LEAST_PLANS:
            return {
                "room": None,
                "room_why": f"Planning it again would take too long for a page: its HLO has {length:,} characters. A page plans "
                f"{MOST_PLANNED:,} again, those of the fullest programs first.",
            }
        if not fits(program.planned.memory, self._machine.ipu.tile):
            return {"room": None, "room_why": "It does not fit. What to do says what would free memory."}
        try:
            found = room(program.planned, source, self._machine, again=again, most_plans=plans)
        except (TilestepError, ImpossibleEditError) as error:
            self._left -= length
            return {"room": None, "room_why": f"The batch is not known: {error}."}
        self._left -= length * (len(found.tried) - 1)
        return {"room": _room(found), "room_why": ""}


def _room(found: Room) -> dict[str, Any]:
    return {
        **asdict(found),
        "arguments": list(found.arguments[:_MOST_ARGUMENTS]),
        "arguments_left_out": len(found.arguments[_MOST_ARGUMENTS:]),
    }


def _streamed_again(profile: Mapping[str, Any]) -> dict[int, frozenset[int]]:
    """Key of a program -> indices of arguments that streamed in needlessly, so they are no batch; as far as the profile has them."""
    found: dict[int, frozenset[int]] = {}
    for program in _objects(profile.get("programs")):
        indices = [argument.get("index") for argument in _objects(program.get("streamed_again"))]
        key = program.get("key")
        if isinstance(key, int):
            found[key] = frozenset(index for index in indices if isinstance(index, int))
    return found


def _objects(value: object) -> list[Mapping[str, Any]]:
    items = cast("list[Any]", value) if isinstance(value, list) else []
    return [cast("Mapping[str, Any]", item) for item in items if isinstance(item, Mapping)]
