"""What a part of a program's emulated life cost, as numbers: what else in this folder reads, advises on, draws and saves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from tilestep.sim.trace import Event, EventKind
from tilestep.units import seconds_from_cycles

PINNED_HOST: Final = "pinned_host"  # the family of a program's stops for values in that memory
Origin = Literal[
    "user",  # a jitted function of the user's, or of a library's
    "jax",  # an operation outside of jit, or a function that JAX has jitted itself: nobody can donate its arguments
    "group",  # a member of a program group: what streams is the choice of whoever made the group
]


@dataclass(frozen=True, kw_only=True)
class ProgramCycles:
    """Cycles over all runs of one program, on its slowest IPU."""

    compute: int
    exchange: int  # between tiles, and between IPUs
    sync: int
    host: int  # arguments and results over the host link, host calls, values of an evicted program that are saved
    load: int  # the program itself over the host link
    read: int  # results in SRAM that the host asked for
    beside: int = 0  # arguments and results over I/O tiles, while the other tiles did something else

    @property
    def total(self) -> int:
        """All of them but what went beside: that took no time of its own."""
        return self.compute + self.exchange + self.sync + self.host + self.load + self.read


@dataclass(frozen=True, kw_only=True)
class FamilyCycles:
    """Cycles of all supersteps of one kind of operation, over all runs, on the slowest IPU."""

    family: str  # 'matmul', 'elementwise', 'all-reduce', 'host call', 'pinned_host', ...
    compute: int
    exchange: int
    sync: int
    host: int

    @property
    def total(self) -> int:
        """All of them."""
        return self.compute + self.exchange + self.sync + self.host


@dataclass(frozen=True, kw_only=True)
class StreamedArgument:
    """An argument that came over the host link again although it need not: donated, it would have stayed in SRAM since."""

    name: str
    shape: str
    size_bytes: int  # of one call, on one IPU
    calls: int  # in which it streamed in needlessly, counted on every IPU
    cycles: int  # of the host link for its bytes in all of them, on one IPU
    reason: Literal["own result", "same value"]  # the program had made it itself; it had streamed in before


@dataclass(frozen=True, kw_only=True)
class ProgramProfile:
    """One compiled program. Two programs of one name are two of these, told apart by `key`."""

    name: str
    key: int
    origin: Origin
    num_ipus: int
    runs: int
    loads: int  # runs that had to load it first
    host_bytes_in: int  # arguments of one run in steady state, all its IPUs together; not what is restored
    host_bytes_out: int  # results of one, likewise; not what is saved
    first_run_host_bytes_in: int  # of the first run that this profile covers
    host_bytes_saved: int  # values in the SRAM of evicted programs, which it uses, so they went to the host first; all together
    host_bytes_restored: int  # values that lay in the SRAM of an evicted program and came back, because it keeps them there; all together
    host_bytes_read: int  # results in SRAM that the host asked for, all together
    call_bytes_in: int  # that callbacks and infeeds brought in all its runs, all its IPUs together
    call_bytes_out: int  # that callbacks and outfeeds sent
    peak_tile_bytes: int
    peak_tile: int  # the fullest tile
    peak_step: str  # the superstep at which it is fullest
    tile_bytes_by_kind: tuple[tuple[str, int], ...]  # (kind, bytes) there: kinds of code, stacks, resident values, ...; they add up
    alive_tile_bytes: tuple[tuple[str, int], ...]  # (name, bytes) of values and temporaries there, the largest first, at most 100
    largest_tile_bytes: tuple[tuple[str, int], ...]  # (what, bytes) of both kinds of parts, the 8 largest
    values_bytes: int  # of values and temporaries at that step on all tiles of an IPU together
    out_of_memory: bool  # it needs more than a tile has, and ran because that was allowed
    streaming_memory_bytes: int  # of arguments, results and parked values in pinned_host, in the IPU-Machine that has most of them
    donated: tuple[str, ...]  # arguments that become a result and stay in SRAM
    not_donated: tuple[str, ...]  # that stream in at each call, though a result of their shape could take their memory
    streamed_again: tuple[StreamedArgument, ...]
    fallback_ops: tuple[str, ...]
    flops: int  # of one run on one IPU, every data-dependent loop taken once
    cycles: ProgramCycles
    families: tuple[FamilyCycles, ...]  # largest first


@dataclass(frozen=True, kw_only=True)
class StepProfile:
    """One superstep, collective or host call of a program, over all runs, on the slowest IPU."""

    program: str
    key: int
    name: str
    scope: str  # the user's operation
    family: str
    executions: int
    compute: int
    exchange: int
    sync: int
    host: int
    fallback: bool

    @property
    def total(self) -> int:
        """All of them."""
        return self.compute + self.exchange + self.sync + self.host


@dataclass(frozen=True, kw_only=True)
class GroupProfile:
    """Programs that were dispatched as one program per IPU; figures of the IPU that is fullest."""

    name: str
    ipu: int
    programs: tuple[str, ...]
    peak_tile_bytes: int  # resident values + the code of all + the largest transient


@dataclass(frozen=True, kw_only=True)
class BatchProfile:
    """What an update of a loop that accumulates gradients is of: microbatch x count x replicas."""

    loop: str  # name of its programs
    steps: int  # that it has done: microbatches of each replica
    microbatch: int | None  # samples of one, if the loop knows
    count: int  # microbatches that a replica accumulates for an update
    replicas: int
    microbatches: int  # of an update
    samples: int | None  # of an update


@dataclass(frozen=True, kw_only=True)
class MachineProfile:
    """The machine, as far as the figures need it."""

    name: str
    num_ipus: int
    num_tiles: int  # of one IPU
    tile_sram_bytes: int
    tile_executable_bytes: int  # of that: what can hold code
    clock_hz: float
    sync_pattern: str
    streaming_memory_bytes: int  # of one IPU-Machine; 0: pinned_host is the host's memory


@dataclass(frozen=True, kw_only=True)
class Figures:
    """Emulated time and memory between two moments. Cycles are of the IPU's clock."""

    machine: MachineProfile
    emulated_cycles: int  # from the end of all work before to the end of all work in it
    programs: tuple[ProgramProfile, ...]  # in order of their first dispatch
    groups: tuple[GroupProfile, ...]
    batches: tuple[BatchProfile, ...]  # of loops that accumulate gradients
    supersteps: tuple[StepProfile, ...]  # the largest, largest first
    busiest_ipu: int
    loaded_on_busiest: tuple[int, ...]  # keys of the programs that it loaded, or whose code it brought
    cycles_by_kind: Mapping[EventKind, int]  # of the busiest IPU
    io_tiles_cycles: int  # of its I/O tiles, beside all that
    dispatches: int  # by the host, of programs outside of groups
    dispatch_cycles: int  # of the host's own, for these
    timeline: tuple[Event, ...]
    assumptions: tuple[str, ...]  # sentences

    @property
    def emulated_s(self) -> float:
        """Seconds that the machine would have taken."""
        return seconds_from_cycles(self.emulated_cycles, self.machine.clock_hz)

    @property
    def idle_cycles(self) -> int:
        """Cycles in which the busiest IPU did nothing: it waited for the host or for other IPUs."""
        return max(self.emulated_cycles - sum(self.cycles_by_kind.values()), 0)

    def label(self, key: int) -> str:
        """The name of a program, with its key where another has the same name."""
        name = next(program.name for program in self.programs if program.key == key)
        return name if sum(program.name == name for program in self.programs) == 1 else f"{name} #{key}"
