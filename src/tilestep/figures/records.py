"""The figures of a profile: emulated time and memory as plain records, which the rest of this folder explains, draws and saves."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

from tilestep.figures.quantities import time_text
from tilestep.figures.scopes import short_scope
from tilestep.machine.spec import MachineSpec
from tilestep.plan.steps import Program
from tilestep.recording.history import History
from tilestep.recording.sources import Source
from tilestep.sim.trace import BESIDE, Event, EventKind
from tilestep.units import seconds_from_cycles

SCHEMA_VERSION: Final = 2  # a reader of a profile's JSON refuses a higher one
PINNED_HOST: Final = "pinned_host"  # family of the steps in which a program stops for values in that memory
Origin = Literal[
    "user",  # a jitted function of the user or of a library
    "jax",  # an operation outside of jit, or a function that JAX has jitted itself: nobody can donate its arguments
    "group",  # a member of a program group: its author chose the values that stream
]


@dataclass(frozen=True, kw_only=True)
class ProgramCycles:
    """Cycles over all runs of one program, on its slowest IPU."""

    compute: int
    exchange: int  # between tiles, and between IPUs
    sync: int
    host: int  # arguments and results over the host link, host calls, saved values of an evicted program
    load: int  # the program's code over the host link
    read: int  # results in SRAM that the host asked for
    beside: int = 0  # arguments and results over I/O tiles, beside the other tiles' work

    @property
    def total(self) -> int:
        """All of them except `beside`, which took no time of its own."""
        return self.compute + self.exchange + self.sync + self.host + self.load + self.read

    @classmethod
    def of_kinds(cls, kinds: Mapping[str, int]) -> ProgramCycles:
        """Those of one IPU, by kind of event."""
        spent = Counter(kinds)
        return cls(
            compute=spent["compute"],
            exchange=spent["exchange"] + spent["collective"],
            sync=spent["sync"],
            host=spent["stream-in"] + spent["stream-out"] + spent["host-call"] + spent["save"],
            load=spent["load"],
            read=spent["read"],
            beside=sum(spent[kind] for kind in BESIDE),
        )


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
    """An argument that streamed in again needlessly: donated, it would have stayed in SRAM."""

    index: int  # position among the arguments
    name: str
    shape: str
    size_bytes: int  # per call and IPU
    calls: int  # in which it streamed in needlessly, counted on every IPU
    cycles: int  # the host link's, in all these calls, per IPU
    reason: Literal["own result", "same value"]  # the program itself had made it; the same value had streamed in before


@dataclass(frozen=True, kw_only=True)
class ProgramProfile:
    """One compiled program. Two programs of one name are two records with different keys.

    It has 34 fields, because it is one flat row of the JSON profile: its readers find each figure under one name
    (docs/reference/profile.md).

    Attributes:
        name: the program's name.
        key: its number.
        origin: who made it.
        group: the program group that it is a member of; '' if of none.
        num_ipus: IPUs that run it together.
        ipu: the first that ran it; 0 if only results were read.
        runs: how often it ran.
        loads: runs before which another program was loaded; members of a group bring their code without a load.
        host_bytes_in: arguments of one run in steady state, all its IPUs together; without restored values.
        host_bytes_out: results of one run, likewise; without saved values.
        first_run_host_bytes_in: arguments of the first run that this profile covers.
        host_bytes_saved: values in the SRAM of evicted programs that went to the host because this program uses them; all runs together.
        host_bytes_restored: values that returned to the SRAM from which they were evicted, because this program keeps them there;
            all runs together.
        host_bytes_read: results in SRAM that the host read; all runs together.
        call_bytes_in: bytes that callbacks and infeeds brought, all runs and IPUs together.
        call_bytes_out: bytes that callbacks and outfeeds sent, likewise.
        peak_tile_bytes: bytes on the fullest tile, at the superstep at which it is fullest.
        peak_tile: that tile.
        peak_step: that superstep.
        tile_bytes_by_kind: (kind, bytes) there; kinds are code, stacks, resident values and the like, and they add up to the peak.
        alive_tile_bytes: (name, bytes) of values and temporaries there, the largest first, at most 100.
        largest_tile_bytes: (part, bytes) of both kinds of parts, the 8 largest.
        values_bytes: of values and temporaries at that superstep, on all tiles of an IPU together.
        out_of_memory: whether it needs more than a tile has, and ran because that was allowed, or because the run was dry.
        dry: whether it was compiled in a dry run, in which memory is no limit.
        streaming_memory_bytes: of arguments, results and parked values in pinned_host, in the IPU-Machine that has most of them.
        donated: arguments that become a result and stay in SRAM.
        not_donated: arguments that stream in at each call, although a result of their shape could take their memory.
        streamed_again: arguments that streamed in needlessly.
        could_recompute: whether it computes gradients and nothing of them again (`jax.checkpoint`).
        fallback_ops: operations without an estimator.
        flops: floating-point operations of one run on one IPU, with every data-dependent loop taken once.
        cycles: over all runs, on its slowest IPU.
        families: the same by family of operations, the largest first.
    """

    name: str
    key: int
    origin: Origin
    group: str
    num_ipus: int
    ipu: int
    runs: int
    loads: int
    host_bytes_in: int
    host_bytes_out: int
    first_run_host_bytes_in: int
    host_bytes_saved: int
    host_bytes_restored: int
    host_bytes_read: int
    call_bytes_in: int
    call_bytes_out: int
    peak_tile_bytes: int
    peak_tile: int
    peak_step: str
    tile_bytes_by_kind: tuple[tuple[str, int], ...]
    alive_tile_bytes: tuple[tuple[str, int], ...]
    largest_tile_bytes: tuple[tuple[str, int], ...]
    values_bytes: int
    out_of_memory: bool
    dry: bool
    streaming_memory_bytes: int
    donated: tuple[str, ...]
    not_donated: tuple[str, ...]
    streamed_again: tuple[StreamedArgument, ...]
    could_recompute: bool
    fallback_ops: tuple[str, ...]
    flops: int
    cycles: ProgramCycles
    families: tuple[FamilyCycles, ...]


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
    """Programs that were dispatched as one program per IPU, on the fullest IPU."""

    name: str
    ipu: int
    programs: tuple[str, ...]
    peak_tile_bytes: int  # the code of all, each codelet once + the most values that are there at once


@dataclass(frozen=True, kw_only=True)
class ShapesProfile:
    """A function that is several programs, because calls differed in the shapes or dtypes of their arguments."""

    name: str
    keys: tuple[int, ...]  # most runs first
    argument: str  # the largest of those that differed
    shapes: tuple[str, ...]  # by program
    differs: Literal["batch", "shape", "dtype"]  # batch: only in its first dimension, and other arguments kept their shapes


@dataclass(frozen=True, kw_only=True)
class BatchProfile:
    """The batch of one update of a loop that accumulates gradients: microbatch x count x replicas."""

    loop: str  # name of its programs
    steps: int  # microbatches that each replica has done
    microbatch: int | None  # samples of a microbatch, if the loop knows
    count: int  # microbatches that a replica accumulates for an update
    replicas: int
    microbatches: int
    samples: int | None


@dataclass(frozen=True, kw_only=True)
class MachineProfile:
    """The properties of the machine that explain the figures."""

    name: str
    num_ipus: int
    num_tiles: int  # per IPU
    tile_sram_bytes: int
    tile_executable_bytes: int  # the part of it that can hold code
    clock_hz: float
    sync_pattern: str
    streaming_memory_bytes: int  # per IPU-Machine; 0: pinned_host is the host's memory


@dataclass(frozen=True, kw_only=True)
class Loading:
    """What one IPU loaded."""

    ipu: int
    load_cycles: int
    save_cycles: int  # values of evicted programs are saved
    keys: tuple[int, ...]  # programs that it loaded, whole or in part


@dataclass(frozen=True, kw_only=True)
class Need:
    """What a program, or a group of programs, needs of a memory."""

    what: str  # 'jit_step', 'program group 'pipeline''
    where: str  # 'tile 17 of IPU 0'
    needed_bytes: int
    available_bytes: int
    of_tile: bool = True  # else of memory for code alone, or of an IPU-Machine
    ran: bool = True  # else it was refused for it

    @property
    def over_bytes(self) -> int:
        """How many it needs above what there is; negative if it fits."""
        return self.needed_bytes - self.available_bytes


@dataclass(frozen=True, kw_only=True)
class Unfit:
    """A program that did not fit into the machine for which it was planned, so that it never ran."""

    program: Program  # as it was planned
    source: Source | None  # None: it was not kept
    machine: MachineSpec


@dataclass(frozen=True, kw_only=True)
class Interval:
    """Within which the time of real IPUs and what their fullest tile needs lie eight times of ten.

    Attributes:
        time_s: what is predicted; 0 if nothing ran.
        low_s: of the time.
        high_s: of the time.
        widest: what makes the interval of the time as wide as it is.
        tile: of the fullest tile of all programs, also of program groups and of what was refused, what is predicted: 1 is full.
        low_tile: of that, what it may need at least.
        high_tile: of that, at most.
    """

    time_s: float
    low_s: float
    high_s: float
    widest: str
    tile: float
    low_tile: float
    high_tile: float

    def text(self, word: str) -> str:
        """'24.4 ms (21.9 to 27.8); widest: elementwise rates. Memory: 82 % of a tile (78 to 96): likely fits.'

        Args: word: the verdict on the tile; '': the verdict is on another memory.
        """
        digits = 0 if self.tile >= 0.1 else 1
        tile, low, high = (f"{100 * tile:.{digits}f}" for tile in (self.tile, self.low_tile, self.high_tile))
        time = f"{time_text(self.time_s, self.low_s, self.high_s)}; widest: {self.widest}. " if self.time_s else ""
        return f"{time}Memory: {tile} % of a tile ({low} to {high}){word and f': {word}'}."


@dataclass(frozen=True, kw_only=True)
class Figures:
    """The fields and sums of a `Profile`, whose docstring explains the fields (views/profile.py).

    It has 23 fields, because it is the document that `Profile.to_json` writes, and the evidence for its findings.
    """

    machine: MachineProfile
    emulated_cycles: int
    programs: tuple[ProgramProfile, ...]
    groups: tuple[GroupProfile, ...]
    reshaped: tuple[ShapesProfile, ...]
    batches: tuple[BatchProfile, ...]
    supersteps: tuple[StepProfile, ...]
    busiest_ipu: int
    num_ipus_used: int
    loaded_on_busiest: tuple[int, ...] = ()
    loaded_elsewhere: tuple[Loading, ...] = ()
    cycles_by_kind: Mapping[EventKind, int]
    cycles_by_ipu: Mapping[int, Mapping[str, int]] = field(default_factory=dict[int, Mapping[str, int]], repr=False)
    io_tiles_cycles: int
    dispatches: int
    dispatch_cycles: int
    timeline: Sequence[Event] = ()
    assumptions: tuple[str, ...]
    refused: tuple[Need, ...] = ()
    interval: Interval | None = None
    ended_by: str = ""
    history: History | None = field(default=None, repr=False, compare=False)
    sources: Mapping[int, Source] = field(default_factory=dict[int, Source], repr=False, compare=False)
    unfit: Sequence[Unfit] = field(default=(), repr=False, compare=False)
    operation_of: Callable[[str], str] = field(default=short_scope, repr=False, compare=False)

    @property
    def emulated_s(self) -> float:
        """Seconds that the emulated machine needs."""
        return seconds_from_cycles(self.emulated_cycles, self.machine.clock_hz)

    @property
    def idle_cycles(self) -> int:
        """Cycles in which the busiest IPU waited for the host or for other IPUs."""
        return max(self.emulated_cycles - sum(self.cycles_by_kind.values()), 0)

    @property
    def rest_cycles(self) -> int:
        """Cycles of the busiest IPU without loads and waits, which weigh less the longer a program runs."""
        return self.emulated_cycles - self.idle_cycles - self.cycles_by_kind.get("load", 0)

    def label(self, key: int) -> str:
        """The name of a program, with its key if another has the same name."""
        name = next(program.name for program in self.programs if program.key == key)
        return name if sum(program.name == name for program in self.programs) == 1 else f"{name} #{key}"
