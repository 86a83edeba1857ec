"""What view What if reads: emulated time with each knob of the machine halved and doubled, by replay."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from tilestep.advice.evidence import MOST_PLAYED
from tilestep.advice.knob_table import WHY_UNKNOWN, KnobTable, answer, knob_table
from tilestep.advice.knobs import FAMILY, KNOBS
from tilestep.errors import RecordingError
from tilestep.figures.reader import Report
from tilestep.messages import plain
from tilestep.views.page.block import Block
from tilestep.views.page.untrusted import number_in, records_in, text_in

ORIGINS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "what_if.change": "The journal was played again with this knob of the machine turned, and nothing else. The change is exact, "
        "unless it is estimated from the first and the last runs: the others then count as the last ones.",
        "what_if.saved": "The same change of the emulated time, as time.",
        "what_if.family": "Cycles of all supersteps of this family, on each one's slowest IPU, added up over all runs of all programs: "
        "programs on other IPUs may run beside each other, so that the whole run has less of it.",
        "what_if.outcome": "The journal was played again with all these settings.",
    }
)
_MOST: Final = MOST_PLAYED // 4  # of the work of replays of a part, because a page is written at the end of each recorded run


def what_if(report: Report) -> Block | None:
    """The block `what_if`; None if nothing ran.

    Its JSON: answer (which knob matters, in a sentence), cycles (emulated time of the recording, of which the changes are), parallel
    (whether several IPUs worked), knobs (each with knob, title, meaning, now, cycles (of a family's supersteps; None of others), changes
    (setting -> change of emulated time: 0.1 is a tenth longer), unknown (settings that were not played)), others (those without a bar:
    what is known of them, in words, and their names), why_unknown (why some were not played), to_play (one of these; ''), why (why there
    are no knobs; ''), planned (knobs that need programs to be planned again, with title and meaning).
    """
    if "execution" not in report.parts:
        return None
    cycles = report.execution.total_cycles.total
    turned, why = KnobTable(rows=()), ""
    try:
        turned = knob_table(report.history, most=_MOST, cycles=cycles)
    except RecordingError as error:
        why = plain(error)
    taken = _taken(report)
    return Block(
        json={
            "answer": "" if why else answer(turned),
            "cycles": cycles,
            "parallel": (number_in(report.profile, "num_ipus_used") or 1) > 1,
            "knobs": [
                {
                    "knob": row.knob,
                    "title": row.title,
                    "meaning": _meaning(row.knob),
                    "now": row.now,
                    "cycles": taken.get(row.knob.removeprefix(FAMILY)) if row.knob.startswith(FAMILY) else None,
                    "changes": dict(row.changes),
                    "unknown": list(row.unknown),
                }
                for row in (*turned.rows, *turned.unplayed)
            ],
            "others": [[words, [row.knob for row in rows]] for words, rows in turned.others.items()],
            "why_unknown": WHY_UNKNOWN,
            "to_play": turned.to_play,
            "why": why,
            "planned": [{"knob": knob.name, "title": knob.title, "meaning": knob.meaning} for knob in KNOBS.values() if knob.plans],
        }
    )


def _meaning(name: str) -> str:
    return KNOBS[name].meaning if name in KNOBS else "cycles of these supersteps"


def _taken(report: Report) -> dict[str, int | float]:
    """Cycles of each family of supersteps, as far as the profile has them."""
    found: dict[str, int | float] = {}
    for program in records_in(report.profile, "programs"):
        for family in records_in(program, "families"):
            name = text_in(family, "family")
            found[name] = found.get(name, 0) + sum(number_in(family, part) or 0 for part in ("compute", "exchange", "sync"))
    return found
