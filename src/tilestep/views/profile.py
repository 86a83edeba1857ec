"""The profile: emulated time and memory of a part of a program, as a record to show, save and compare."""

import json
from dataclasses import asdict, dataclass, field
from functools import cached_property
from html import escape
from typing import Any, final

from tilestep.advice import Advice, Finding, Steady, Together, advice, evidence_of, steady_state
from tilestep.advice.evidence import Evidence
from tilestep.advice.verdict import Verdict, verdict
from tilestep.figures.records import SCHEMA_VERSION, Figures


@final
@dataclass(frozen=True, kw_only=True)
class Profile(Figures):
    """Emulated time and memory between two moments, as numbers, text and JSON. Cycles are of the IPU's clock.

    Attributes:
        machine: the emulated machine.
        emulated_cycles: from the end of all earlier work to the end of all work in the profile.
        programs: in order of their first dispatch.
        groups: program groups.
        reshaped: functions that are several programs, because the shapes or dtypes of their arguments differ.
        batches: of loops that accumulate gradients.
        supersteps: the largest ones, largest first.
        busiest_ipu: index of the IPU that did most.
        num_ipus_used: how many IPUs ran programs.
        loaded_on_busiest: keys of the programs that it loaded, whole or in part.
        loaded_elsewhere: what each other IPU loaded, that with the longest loads first.
        cycles_by_kind: of the busiest IPU.
        cycles_by_ipu: of each IPU; a profile that was read from a recording has none.
        io_tiles_cycles: of its I/O tiles, beside the others.
        dispatches: by the host, of programs outside of groups.
        dispatch_cycles: of the host, for these dispatches.
        timeline: the events that were kept.
        assumptions: sentences.
        refused: what programs needed that did not fit, so that they never ran.
        interval: how sure the time and the fullest tile are; None: nothing ran, or nobody wants to know.
        ended_by: what ended the program before its own end, such as 'SIGTERM': the figures are of what ran until then; '': nothing.
        history: what the host program did, so that the gains of findings can be worked out; None: it was not kept.
        sources: what the programs were planned from, by key.
        unfit: programs that did not fit, so that they never ran.
        operation_of: what a summary calls the operation of a scope. A front end has words of its own.
        given: the advice that was given on it, as a front end or a recording has it; None: it is worked out when somebody asks.
    """

    given: Advice | None = field(default=None, repr=False, compare=False)

    @cached_property
    def verdict(self) -> Verdict | None:
        """Whether all that ran, or was to run, fits; None if there is nothing."""
        return verdict(self)

    @cached_property
    def findings(self) -> tuple[Finding, ...]:
        """What to do about the profile, the most valuable first. The gains are worked out at the first use, in a few seconds at most."""
        return self._advice.findings

    @property
    def together(self) -> Together | None:
        """What the findings save if all are followed that can be played together; None if those are fewer than two."""
        return self._advice.together

    @cached_property
    def _advice(self) -> Advice:
        return self.given or advice(self, evidence=self._evidence)

    @cached_property
    def steady(self) -> Steady | None:
        """What one step takes once the system is warm, apart from set-up; None if nothing ran often enough, or the history was not kept."""
        if self.given is not None:
            return self.given.steady
        return None if self._evidence is None else steady_state(self, self._evidence)

    @cached_property
    def _evidence(self) -> Evidence | None:
        return evidence_of(self)

    def summary(self, *, width: int = 100, color: bool = False, all: bool = False) -> str:
        """Text: what to do about the profile, then tables.

        Args:
            width: columns, at least 90.
            color: whether to add escape codes for a terminal.
            all: whether to name findings that save less than a hundredth of emulated time as well, of advice that was not `given`.
        """
        from tilestep.views.summary import render  # importing rich takes time, so only a summary pays for it

        found = advice(self, all=True, evidence=self._evidence) if all and self.given is None else self._advice
        return render(self, found.findings, self.steady, together=found.together, width=width, color=color)

    def _repr_html_(self) -> str:  # IPython calls it
        """The summary for notebooks, as text: it has no script, so it shows in untrusted notebooks, too."""
        return f"<pre>{escape(self.summary())}</pre>"

    def to_json(self) -> str:
        """The profile as a JSON document, which docs/reference/profile.md describes."""
        return json.dumps(self.as_document(), ensure_ascii=False)

    def as_document(self) -> dict[str, Any]:
        """The document of `to_json` as plain dicts, lists, strings and numbers."""
        return {
            "schema": "tilestep-profile",
            "version": SCHEMA_VERSION,
            "machine": asdict(self.machine),
            "verdict": None if self.verdict is None else self.verdict.as_document(),
            "ended_by": self.ended_by,
            "emulated_s": self.emulated_s,
            "interval": self.interval
            and {**asdict(self.interval), "text": self.interval.text("" if self.verdict is None else self.verdict.tile_word)},
            "emulated_cycles": self.emulated_cycles,
            "busiest_ipu": self.busiest_ipu,
            "num_ipus_used": self.num_ipus_used,
            "cycles_by_kind": {**self.cycles_by_kind, "idle": self.idle_cycles},
            "io_tiles_cycles": self.io_tiles_cycles,
            "dispatches": self.dispatches,
            "dispatch_cycles": self.dispatch_cycles,
            "steady": None if self.steady is None else self.steady.as_document(self.machine.clock_hz),
            "findings": [finding.as_document() for finding in self.findings],
            "together": None if self.together is None else self.together.as_document(),
            "programs": [asdict(program) for program in self.programs],
            "groups": [asdict(group) for group in self.groups],
            "reshaped": [asdict(function) for function in self.reshaped],
            "batches": [asdict(batch) for batch in self.batches],
            "supersteps": [{**asdict(step), "operation": self.operation_of(step.scope)} for step in self.supersteps],
            "refused": [asdict(need) for need in self.refused],
            "assumptions": list(self.assumptions),
            "timeline": {
                "columns": ["ipu", "start_cycle", "end_cycle", "kind", "program"],
                "rows": [[event.ipu, event.start_cycle, event.end_cycle, event.kind, event.program] for event in self.timeline],
            },
        }
