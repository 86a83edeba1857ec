"""What one setting of a sweep takes, and the process that finds out: `python -m tilestep.cli.sweep.setting FILE TRIPS PROGRAM...`."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tilestep.cli.first_import import first_import
from tilestep.cli.program import run_whole
from tilestep.cli.run import choose_platform, read_program
from tilestep.figures.lane_names import KIND_TEXTS
from tilestep.figures.quantities import share_text
from tilestep.files import write_file
from tilestep.messages import headline_of, sentences, shortened
from tilestep.profiling.profiles import dry_run, profiled

if TYPE_CHECKING:
    from tilestep.views.profile import Profile

LONGEST_ERROR: Final = 300  # characters
_TRANSIENT: Final = ("load", "save", "read", "dispatch")  # kinds of time that are no part of a warm step, unless each loads its programs
_WORDS: Final[Mapping[str, str]] = {
    "host": "host link",
    "idle": "waiting",
    "load": KIND_TEXTS["load"],
    "save": KIND_TEXTS["save"],
    "stream-in": "host link",
    "stream-out": "host link",
}


@dataclass(frozen=True, kw_only=True)
class Measured:
    """What a dry run has found."""

    outcome: str  # the verdict's word ('fits', 'likely fits', 'likely does not fit', 'does not fit'), 'failed', or 'killed' by a signal
    error: str = ""  # why it failed: the program's exception; '' if it has not
    machine: str = ""  # the machine's name; '' if the platform never started
    num_ipus: int | None = None  # num ipus of the machine
    where: str = ""  # the fullest tile, or what else does not suffice
    needed_bytes: int = 0  # there
    available_bytes: int = 0  # there
    step_s: float | None = None  # emulated seconds of a step once warm; None if nothing ran often enough to have one
    whole_s: float = 0.0  # emulated seconds of the whole run, set-up included
    step_low_s: float | None = None  # the lower end of the 80 % interval of `step_s`; None: nobody knows
    step_high_s: float | None = None  # the upper end
    samples: int | None = None  # samples of a step, as the program's inputs show; None: they don't
    limit: str = ""  # the part that takes most of the time

    @property
    def full(self) -> float | None:
        """What the fullest tile needs as part of what it has: 1 is full; None if nobody knows."""
        return self.needed_bytes / self.available_bytes if self.available_bytes else None

    @property
    def fits(self) -> bool:
        """Whether it does, as predicted."""
        return self.outcome.endswith("fits")

    @property
    def text(self) -> str:
        """'fits', 'does not fit: 1.3x', 'failed'."""
        return f"{self.outcome}: {self.full:.3g}x" if self.outcome.endswith("does not fit") else self.outcome

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Measured:
        """The opposite of `asdict`. Raises: TypeError or KeyError for another document."""
        return cls(**{each.name: document[each.name] for each in fields(cls)})


def measured_of(profile: Profile, error: str) -> Measured:
    """The row of a profile. Args: error: what ended the program; '': nothing did. It is kept if all that ran fits, or nothing ran."""
    machine, found, clock_hz = profile.machine, profile.verdict, profile.machine.clock_hz
    common: dict[str, Any] = {"machine": machine.name, "num_ipus": machine.num_ipus, "whole_s": profile.emulated_s}
    if found is not None:
        need = found.need
        common |= {"where": need.where, "needed_bytes": need.needed_bytes, "available_bytes": need.available_bytes}
    if found is None or (error and found.fits):
        return Measured(outcome="failed", error=error or "no program ran on an IPU", **common)
    steady = profile.steady
    step, low, high = (None, None, None) if steady is None else (steady.step_cycles, steady.low_cycles, steady.high_cycles)
    return Measured(
        outcome=found.word,
        step_s=None if step is None else step / clock_hz,
        step_low_s=None if low is None else low / clock_hz,
        step_high_s=None if high is None else high / clock_hz,
        samples=None if steady is None else steady.samples,
        limit=_limit(profile),
        **common,
    )


def _limit(profile: Profile) -> str:
    """'matmul 61 %': the largest part of a warm step, of a pipeline on its busiest IPU."""
    steady = profile.steady
    program = next((each for each in profile.programs if steady is not None and each.key == steady.key), None)
    parts: dict[str, int] = {}
    if steady is not None and program is not None and not program.group:
        cycles, families = program.cycles, {each.family: each.total - each.host for each in program.families}
        rest = cycles.compute + cycles.exchange + cycles.sync - sum(families.values())
        parts = {**families, "other supersteps": rest, "host link": cycles.host}
        parts["waits, loads and other programs"] = max(steady.steps * steady.step_cycles - sum(parts.values()), 0)
    else:
        longest = max(profile.programs, key=lambda each: each.cycles.total, default=None)
        again = steady.reloads if steady is not None else longest is not None and longest.loads > 1
        for kind, spent in {**profile.cycles_by_kind, "idle": profile.idle_cycles}.items():
            if kind not in _TRANSIENT or (kind in ("load", "save") and again):
                parts[_WORDS.get(kind, kind)] = parts.get(_WORDS.get(kind, kind), 0) + spent
    most = max(parts, key=parts.__getitem__, default="")
    return f"{most} {share_text(parts[most], sum(parts.values()))}" if most and parts[most] > 0 else ""


def _error(code: int) -> str:
    """What ended the program: its exception; '' if it ended well."""
    last = getattr(sys, "last_value", None)
    if not code:
        return ""
    if last is None:
        return f"it ended with exit status {code}"
    return shortened(sentences(headline_of(last)), LONGEST_ERROR)


def main(words: list[str]) -> int:
    """Runs the program of `words` dry, writes what it takes, and returns its exit code."""
    target, trips, *rest = words
    program = read_program(rest, "")
    choose_platform()
    with profiled(None) as recording, dry_run("zeros", trip_count=int(trips) if trips else None), first_import():
        code, ended_by = run_whole(program)
    found = measured_of(recording.profile, f"ended by {ended_by}" if ended_by else _error(code))
    write_file(Path(target), json.dumps(asdict(found)))
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
