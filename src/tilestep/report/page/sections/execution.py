"""What view Execution reads: the events of all lanes."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from tilestep.report.page.block import Block
from tilestep.report.reader import Report

ORIGINS: Final[Mapping[str, str]] = MappingProxyType({"execution.events": "Events of the lane that were kept."})


def execution(report: Report) -> Block | None:
    """The block `execution`; None if nothing ran."""
    if "execution" not in report.parts:
        return None
    events = report.execution.events
    return Block(
        json={"lanes": [{"name": lane.name, "kind": lane.kind, "events": len(events.of_lane(lane))} for lane in events.lanes]},
        columns={name: events.column(name) for name in ("lane", "kind", "start", "end", "run", "program", "cause")},
    )
