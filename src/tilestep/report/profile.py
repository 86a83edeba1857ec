"""What a part of a program's emulated life cost: the record that is shown, saved and compared."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any, Final, final

from tilestep.report.advice import findings
from tilestep.report.figures import Figures

SCHEMA_VERSION: Final = 1


@final
@dataclass(frozen=True, kw_only=True)
class Profile(Figures):
    """Emulated time and memory between two moments, as numbers, text and JSON. Cycles are of the IPU's clock."""

    def summary(self, *, width: int = 100, color: bool = False) -> str:
        """What to do about it, then tables.

        Args: width: columns, at least 90; color: with escape codes for a terminal.
        """
        from tilestep.report.summary import render  # rich takes time to import: only who asks pays

        return render(self, width=width, color=color)

    def to_json(self) -> str:
        """A JSON document; docs/reference/profile.md describes it."""
        return json.dumps(self.as_document(), ensure_ascii=False)

    def as_document(self) -> dict[str, Any]:
        """What `to_json` writes, as plain dicts, lists, strings and numbers."""
        return {
            "schema": "tilestep-profile",
            "version": SCHEMA_VERSION,
            "machine": asdict(self.machine),
            "emulated_s": self.emulated_s,
            "emulated_cycles": self.emulated_cycles,
            "busiest_ipu": self.busiest_ipu,
            "num_ipus_used": self.num_ipus_used,
            "cycles_by_kind": {**self.cycles_by_kind, "idle": self.idle_cycles},
            "io_tiles_cycles": self.io_tiles_cycles,
            "dispatches": self.dispatches,
            "dispatch_cycles": self.dispatch_cycles,
            "findings": [finding.text for finding in findings(self)],
            "programs": [asdict(program) for program in self.programs],
            "groups": [asdict(group) for group in self.groups],
            "reshaped": [asdict(function) for function in self.reshaped],
            "batches": [asdict(batch) for batch in self.batches],
            "supersteps": [asdict(step) for step in self.supersteps],
            "assumptions": list(self.assumptions),
            "timeline": {
                "columns": ["ipu", "start_cycle", "end_cycle", "kind", "program"],
                "rows": [[event.ipu, event.start_cycle, event.end_cycle, event.kind, event.program] for event in self.timeline],
            },
        }
