"""Sums per program, kept whether or not events are recorded; a profile is the difference of two states."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeVar, final

from tilestep.plan.steps import Counts, Program
from tilestep.sim.body import BodyCost, Site
from tilestep.sim.trace import KINDS, EventKind

_K = TypeVar("_K")


@dataclass(frozen=True, kw_only=True)
class ProgramTotals:
    """What one program did, up to a mark or between two."""

    program: Program
    key: int
    body: BodyCost
    runs: int
    loads: int  # dispatches that had to load it, on whichever IPUs
    cycles: Mapping[int, Mapping[EventKind, int]]  # ipu -> kind -> cycles
    counted: Mapping[int, Mapping[Site, int]]  # ipu -> (site, arm) -> times
    runs_by_bytes_in: Mapping[int, int]  # bytes of arguments of one run, all its IPUs -> runs; without its very first run
    runs_by_bytes_out: Mapping[int, int]
    first_runs: tuple[tuple[int, int, int], ...]  # (mark, bytes in, bytes out) of the first run after each mark that had one
    bytes_in: int  # of arguments that came over the host link, but for those that are restored
    bytes_out: int  # of results
    bytes_saved: int  # of values in the SRAM of an evicted program, saved because this one uses them
    bytes_restored: int  # of values that lay in the SRAM of an evicted program, and come back because this one keeps them there
    bytes_read: int  # results in SRAM that the host asked for
    refed: tuple[int, ...]  # per argument: runs in which it streamed in although this same program had made it and had stayed loaded
    repeated: tuple[int, ...]  # per argument: runs in which it streamed in although it had before, and the program had stayed loaded

    def since(self, earlier: ProgramTotals | None) -> ProgramTotals:
        """What was added after `earlier`."""
        if earlier is None:
            return self
        return ProgramTotals(
            program=self.program,
            key=self.key,
            body=self.body,
            runs=self.runs - earlier.runs,
            loads=self.loads - earlier.loads,
            cycles={ipu: _minus(kinds, earlier.cycles.get(ipu, {})) for ipu, kinds in self.cycles.items()},
            counted={ipu: _minus(sites, earlier.counted.get(ipu, {})) for ipu, sites in self.counted.items()},
            runs_by_bytes_in=_minus(self.runs_by_bytes_in, earlier.runs_by_bytes_in),
            runs_by_bytes_out=_minus(self.runs_by_bytes_out, earlier.runs_by_bytes_out),
            first_runs=self.first_runs,
            bytes_in=self.bytes_in - earlier.bytes_in,
            bytes_out=self.bytes_out - earlier.bytes_out,
            bytes_saved=self.bytes_saved - earlier.bytes_saved,
            bytes_restored=self.bytes_restored - earlier.bytes_restored,
            bytes_read=self.bytes_read - earlier.bytes_read,
            refed=tuple(a - b for a, b in zip(self.refed, earlier.refed, strict=True)),
            repeated=tuple(a - b for a, b in zip(self.repeated, earlier.repeated, strict=True)),
        )


@final
class ProgramLedger:
    """The running sums of one program. Written by System only, read through `totals`."""

    __slots__ = (
        "body",
        "bytes_in",
        "bytes_out",
        "bytes_read",
        "bytes_restored",
        "bytes_saved",
        "counted",
        "cycles",
        "first_runs",
        "key",
        "loads",
        "program",
        "refed",
        "repeated",
        "runs",
        "runs_by_bytes_in",
        "runs_by_bytes_out",
    )

    def __init__(self, program: Program, key: int, body: BodyCost) -> None:
        self.program = program
        self.key = key
        self.body = body
        self.runs = 0
        self.loads = 0
        self.cycles: dict[int, list[int]] = {}  # ipu -> cycles in the order of KINDS
        self.counted: dict[int, Counter[Site]] = {}
        self.runs_by_bytes_in: Counter[int] = Counter()
        self.runs_by_bytes_out: Counter[int] = Counter()
        self.first_runs: list[tuple[int, int, int]] = []
        self.bytes_in = 0
        self.bytes_out = 0
        self.bytes_saved = 0
        self.bytes_restored = 0
        self.bytes_read = 0
        self.refed = [0] * len(program.arguments)
        self.repeated = [0] * len(program.arguments)

    def on(self, ipu: int) -> list[int]:
        """Cycles on one IPU in the order of KINDS, to add to."""
        row = self.cycles.get(ipu)
        if row is None:
            row = self.cycles[ipu] = [0] * len(KINDS)
        return row

    def count(self, ipu: int, counts: Counts) -> None:
        """Add the counts of one run."""
        total = self.counted.setdefault(ipu, Counter())
        for site in self.body.counted:
            total[site] += counts.times[site]

    def ran(self, *, mark: int, bytes_in: int, bytes_out: int, bytes_saved: int, bytes_restored: int, loaded: bool) -> None:
        """Add one run on all its IPUs; `mark` is the number of the latest mark before it."""
        if self.runs:
            self.runs_by_bytes_in[bytes_in] += 1
            self.runs_by_bytes_out[bytes_out] += 1
        if not self.first_runs or self.first_runs[-1][0] != mark:
            self.first_runs.append((mark, bytes_in, bytes_out))
        self.runs += 1
        self.loads += loaded
        self.bytes_in += bytes_in
        self.bytes_out += bytes_out
        self.bytes_saved += bytes_saved
        self.bytes_restored += bytes_restored

    def totals(self) -> ProgramTotals:
        """A frozen copy."""
        return ProgramTotals(
            program=self.program,
            key=self.key,
            body=self.body,
            runs=self.runs,
            loads=self.loads,
            cycles={ipu: dict(zip(KINDS, row, strict=True)) for ipu, row in self.cycles.items()},
            counted={ipu: dict(sites) for ipu, sites in self.counted.items()},
            runs_by_bytes_in=dict(self.runs_by_bytes_in),
            runs_by_bytes_out=dict(self.runs_by_bytes_out),
            first_runs=tuple(self.first_runs),
            bytes_in=self.bytes_in,
            bytes_out=self.bytes_out,
            bytes_saved=self.bytes_saved,
            bytes_restored=self.bytes_restored,
            bytes_read=self.bytes_read,
            refed=tuple(self.refed),
            repeated=tuple(self.repeated),
        )


def _minus(later: Mapping[_K, int], earlier: Mapping[_K, int]) -> dict[_K, int]:
    return {key: value - earlier.get(key, 0) for key, value in later.items() if value != earlier.get(key, 0)}
