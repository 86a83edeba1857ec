"""What view What if reads: emulated time with each knob of the machine halved and doubled, by replay."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

from tilestep.errors import RecordingError
from tilestep.messages import plain
from tilestep.report.advice.evidence import MOST_PLAYED
from tilestep.report.knobs import KNOBS
from tilestep.report.page.block import Block
from tilestep.report.reader import Report
from tilestep.report.what_if import Turned, table

ORIGINS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "what_if.change": "The journal was played again with this knob of the machine turned, and nothing else: the change is exact.",
        "what_if.outcome": "The journal was played again with all these settings.",
    }
)
_MOST: Final = MOST_PLAYED // 4  # of the work of replays, because a page is written at the end of each recorded run


def what_if(report: Report) -> Block | None:
    """The block `what_if`; None if nothing ran.

    Its JSON: knobs (each with knob, meaning, now, changes (setting -> change of emulated time: 0.1 is a tenth longer)), basis (of which
    runs; '' of all), why (why there are none; ''), planned (knobs that need programs to be planned again, with their meaning).
    """
    if "execution" not in report.parts:
        return None
    rows: Sequence[Turned] = ()
    basis = why = ""
    try:
        rows, basis = table(report.history, most=_MOST)
    except RecordingError as error:
        why = plain(error)
    return Block(
        json={
            "knobs": [{"knob": row.knob, "meaning": _meaning(row.knob), "now": row.now, "changes": dict(row.changes)} for row in rows],
            "basis": basis,
            "why": why,
            "planned": [{"knob": knob.name, "meaning": knob.meaning} for knob in KNOBS.values() if knob.plans],
        }
    )


def _meaning(name: str) -> str:
    return KNOBS[name].meaning if name in KNOBS else "cycles of these supersteps"
