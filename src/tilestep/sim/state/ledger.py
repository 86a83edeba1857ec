"""Sums per program, kept whether or not events are recorded. A profile is the difference of two states of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeVar, final

from tilestep.plan.steps import Counts, Program
from tilestep.sim.cycles.body import BodyCost, Site
from tilestep.sim.trace import KINDS, EventKind

_K = TypeVar("_K")
_V = TypeVar("_V")


@dataclass(slots=True, kw_only=True)
class HostBytes:
    """Bytes between one program's IPUs and the host, all runs and IPUs together."""

    saved: int = 0  # values in the SRAM of an evicted program, saved because this program uses them
    restored: int = 0  # values that were in the SRAM of an evicted program, and return because this program keeps them there
    read: int = 0  # results in SRAM that the host asked for

    def minus(self, other: HostBytes) -> HostBytes:
        """The difference to another."""
        return HostBytes(
            saved=self.saved - other.saved,
            restored=self.restored - other.restored,
            read=self.read - other.read,
        )


@dataclass(frozen=True, kw_only=True)
class RunSizes:
    """How many bytes single runs of a program stream, on all their IPUs together."""

    runs_by_bytes_in: Mapping[int, int]  # bytes of arguments -> runs; without the program's very first run
    runs_by_bytes_out: Mapping[int, int]  # bytes of results -> runs; likewise
    first_runs: tuple[tuple[int, int, int], ...]  # (mark, bytes in, bytes out) of the first run after each mark that had one

    def since(self, earlier: RunSizes) -> RunSizes:
        """The runs after `earlier`, with all first runs."""
        return RunSizes(
            runs_by_bytes_in=_minus(self.runs_by_bytes_in, earlier.runs_by_bytes_in),
            runs_by_bytes_out=_minus(self.runs_by_bytes_out, earlier.runs_by_bytes_out),
            first_runs=self.first_runs,
        )


@dataclass(frozen=True, kw_only=True)
class ProgramTotals:
    """The sums of one program, up to a mark or between two."""

    program: Program  # the program
    key: int  # its number
    body: BodyCost  # the cost of one run
    runs: int  # how often it ran
    loads: int  # runs before which another program was loaded, on whichever IPUs; members of a group bring their code without a load
    cycles: Mapping[int, Mapping[EventKind, int]]  # IPU -> kind -> cycles
    counted: Mapping[int, Mapping[Site, int]]  # IPU -> (site, arm) -> how often a data-dependent part was taken
    host: HostBytes  # bytes between its IPUs and the host
    sizes: RunSizes  # bytes that single runs streamed
    refed: tuple[int, ...]  # per argument, runs in which it streamed in although this program had made it and had stayed loaded
    repeated: tuple[int, ...]  # per argument, runs in which it streamed in again although the program had stayed loaded
    runs_by_group: Mapping[str, int]  # program group -> runs as its member

    def since(self, earlier: ProgramTotals | None) -> ProgramTotals:
        """The sums of everything after `earlier`."""
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
            host=self.host.minus(earlier.host),
            sizes=self.sizes.since(earlier.sizes),
            refed=tuple(a - b for a, b in zip(self.refed, earlier.refed, strict=True)),
            repeated=tuple(a - b for a, b in zip(self.repeated, earlier.repeated, strict=True)),
            runs_by_group=_minus(self.runs_by_group, earlier.runs_by_group),
        )


@final
class ProgramLedger:
    """The running sums of one program. Only this folder writes them; others read `totals`.

    Args: price: works out the cost of one run.
    """

    def __init__(self, program: Program, key: int, price: Callable[[], BodyCost]) -> None:
        self.program = program
        self.key = key
        self._price = price
        self._body: BodyCost | None = None
        self.runs = 0
        self.loads = 0
        self.cycles: dict[int, list[int]] = {}  # ipu -> cycles in the order of KINDS
        self.counted: dict[int, Counter[Site]] = {}
        self.host = HostBytes()
        self.runs_by_bytes_in: Counter[int] = Counter()
        self.runs_by_bytes_out: Counter[int] = Counter()
        self.first_runs: list[tuple[int, int, int]] = []
        self.refed = [0] * len(program.arguments)
        self.repeated = [0] * len(program.arguments)
        self.runs_by_group: Counter[str] = Counter()
        self.read_alone = 0  # bytes of `host.read` that the host reads of the simulated IPUs only
        self.alike: dict[int, int] = {}  # IPU that is not simulated -> the one whose work it does

    @property
    def body(self) -> BodyCost:
        """The cost of one run, worked out once it is asked for: most programs of a snapshot never run again."""
        if self._body is None:
            self._body = self._price()
        return self._body

    def on(self, ipu: int) -> list[int]:
        """Cycles on one IPU in the order of KINDS, to add to."""
        row = self.cycles.get(ipu)
        if row is None:
            row = self.cycles[ipu] = [0] * len(KINDS)
        return row

    def count(self, ipu: int, counts: Counts) -> None:
        """Adds the counts of one run."""
        total = self.counted.setdefault(ipu, Counter())
        for site in self.body.counted:
            total[site] += counts.times[site]

    def ran(self, *, mark: int, group: str, bytes_in: int, bytes_out: int, bytes_saved: int, bytes_restored: int, loaded: bool) -> None:
        """Adds one run on all its IPUs; `mark` is the number of the latest mark before it, `group` the program group around it, or ''."""
        if self.runs:
            self.runs_by_bytes_in[bytes_in] += 1
            self.runs_by_bytes_out[bytes_out] += 1
        if not self.first_runs or self.first_runs[-1][0] != mark:
            self.first_runs.append((mark, bytes_in, bytes_out))
        self.runs += 1
        self.loads += loaded
        if group:
            self.runs_by_group[group] += 1
        host = self.host
        host.saved += bytes_saved
        host.restored += bytes_restored

    def totals(self) -> ProgramTotals:
        """A frozen copy, with what IPUs that are not simulated do."""
        times = 1 + len(self.alike) // max(len(set(self.alike.values())), 1)
        read = self.host.read * times - self.read_alone * (times - 1)
        return ProgramTotals(
            program=self.program,
            key=self.key,
            body=self.body,
            runs=self.runs,
            loads=self.loads,
            cycles={ipu: dict(zip(KINDS, row, strict=True)) for ipu, row in self._on_all(self.cycles)},
            counted={ipu: dict(sites) for ipu, sites in self._on_all(self.counted)},
            host=HostBytes(saved=self.host.saved * times, restored=self.host.restored * times, read=read),
            sizes=RunSizes(
                runs_by_bytes_in={size * times: runs for size, runs in self.runs_by_bytes_in.items()},
                runs_by_bytes_out={size * times: runs for size, runs in self.runs_by_bytes_out.items()},
                first_runs=tuple((mark, bytes_in * times, bytes_out * times) for mark, bytes_in, bytes_out in self.first_runs),
            ),
            refed=tuple(count * times for count in self.refed),
            repeated=tuple(count * times for count in self.repeated),
            runs_by_group=dict(self.runs_by_group),
        )

    def _on_all(self, by_ipu: Mapping[int, _V]) -> Iterator[tuple[int, _V]]:
        """(IPU, what it has), those that are not simulated last."""
        yield from by_ipu.items()
        yield from ((ipu, by_ipu[simulated]) for ipu, simulated in self.alike.items() if simulated in by_ipu)


def _minus(later: Mapping[_K, int], earlier: Mapping[_K, int]) -> dict[_K, int]:
    return {key: value - earlier.get(key, 0) for key, value in later.items() if value != earlier.get(key, 0)}
