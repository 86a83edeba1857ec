"""A planned program: a tree of supersteps for one IPU, and the memory that it needs.

Every IPU that takes part runs the same tree (single program, multiple data). The tree keeps loops and branches, so
that a report can show them and data-dependent ones can be counted when the program runs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

from tilestep.program.frames import Frame as Frame

CollectiveKind = Literal["all-reduce", "all-gather", "reduce-scatter", "all-to-all", "collective-permute", "collective-broadcast"]


@dataclass(frozen=True, kw_only=True)
class Superstep:
    """One superstep: exchange, then compute on all tiles of one IPU, with the syncs between. The three are added, never overlapped."""

    name: str  # name of the HLO instruction
    scope: str  # the user's operation that it came from (HLO op_name); '' if unknown
    family: str  # the estimator that priced it: 'elementwise', 'matmul', ..
    compute_cycles: int  # compute cycles of the busiest tile
    exchange_cycles: int  # until the busiest tile has received its bytes
    sync_cycles: int  # sync cycles of its barriers, and its fixed cost
    flops: int = 0  # floating-point operations of all tiles
    exchange_bytes: int = 0  # received by the busiest tile
    temporary_tile_bytes: int = 0  # on the fullest tile, while the step runs
    fallback: bool = False  # whether it was priced without an estimator of its own
    codelet: str = ""  # equal for steps that run the same code on the tiles
    codelet_bytes: int = 0  # size of that code
    exchange_code_bytes: int = 0  # instructions of its exchanges, on the busiest tile
    vertex_state_bytes: int = 0  # vertex state bytes of its vertices, on the busiest tile
    compute_sets: int = 1  # compute sets that its code holds one after another
    overhead_cycles: int = 0  # the part of them that is the fixed cost
    frame: int = 0  # number of its line in `Program.frames`, from 1; 0: unknown


@dataclass(frozen=True, kw_only=True)
class Collective:
    """An exchange between IPUs over IPU-Links, with its arithmetic."""

    name: str  # name of the HLO instruction
    scope: str  # the user's operation; '' if unknown
    kind: CollectiveKind  # opcode of the collective
    size_bytes: int  # the larger of operand and result, on one IPU
    groups: tuple[tuple[int, ...], ...]  # device positions within the program that communicate with each other
    pairs: tuple[tuple[int, int], ...] = ()  # (source, target) positions of a collective-permute; () for other kinds
    compute_cycles: int = 0  # compute cycles of the arithmetic, on the busiest tile
    frame: int = 0  # number of its line in `Program.frames`, from 1; 0: unknown


@dataclass(frozen=True, kw_only=True)
class HostCall:
    """The program stops for the host: a callback, an infeed, an outfeed, or an access to pinned_host."""

    name: str  # name of the HLO instruction
    scope: str  # the user's operation; '' if unknown
    bytes_to_host: int  # bytes to host of one IPU
    bytes_from_host: int  # to one IPU
    in_memory: bool = False  # whether the bytes go to and from pinned_host, so that no host program answers
    is_feed: bool = False  # whether it is an infeed or outfeed, for which the host is ready at any time
    frame: int = 0  # number of its line in `Program.frames`, from 1; 0: unknown


@dataclass(frozen=True, kw_only=True)
class Loop:
    """A body, with its condition, that runs several times."""

    name: str  # name of the HLO instruction
    scope: str  # the user's operation; '' if unknown
    body: Series  # the steps of one trip
    trips: int | None  # number of trips; None: it depends on data
    # number under which trips are counted at run time. None, with `trips` None: not counted, and one trip is assumed.
    site: int | None = None
    frame: int = 0  # number of its line in `Program.frames`, from 1; 0: unknown


@dataclass(frozen=True, kw_only=True)
class Branch:
    """One of several arms."""

    name: str  # name of the HLO instruction
    scope: str  # the user's operation; '' if unknown
    arms: tuple[Series, ...]  # the steps of each arm
    # number under which arms are counted at run time: arm k as (site, k). None: not counted, and the dearest arm is assumed.
    site: int | None
    frame: int = 0  # number of its line in `Program.frames`, from 1; 0: unknown


@dataclass(frozen=True, kw_only=True)
class Series:
    """Nodes one after the other.

    Attributes:
        nodes: in the order in which they run.
    """

    nodes: tuple[Node, ...] = ()


Leaf = Superstep | Collective | HostCall
Node = Superstep | Collective | HostCall | Loop | Branch | Series


@dataclass(frozen=True, kw_only=True)
class Argument:
    """One input of the program, on one IPU."""

    index: int  # position among the arguments
    name: str  # the user's name if known (HLO parameter op_name), else 'argN'
    shape: str  # as text, for example 'f32[128,784]'
    size_bytes: int  # on one IPU
    result: int | None  # index of the result that takes over its memory, because its donation took effect; None: there is none
    on_host: bool = False  # whether it is in the host's memory (pinned_host, unpinned_host), and never streams in as a whole
    layout: str = ""  # over the tiles, as the plan of its first matmul chose it; '' if any layout will do


@dataclass(frozen=True, kw_only=True)
class Result:
    """One output of the program, on one IPU."""

    index: int  # position among the results
    shape: str  # as text, for example 'f32[128,784]'
    size_bytes: int  # on one IPU
    argument: int | None  # index of the donated argument whose memory it takes over; None: there is none
    on_host: bool = False  # whether the program writes it to the host's memory


@dataclass(frozen=True, kw_only=True)
class TileMemory:
    """Bytes on the fullest tile, at the step at which it is fullest."""

    peak_bytes: int  # code, fixed, resident and transient bytes together
    peak_step: str  # name of that step
    code_bytes: int  # loaded with the program: code of all kinds, vertex state, constants
    fixed_bytes: int = 0  # stacks and reserved bytes
    resident_bytes: int  # donated arguments, which stay between runs
    transient_bytes: int  # all other values and temporaries at the peak
    always: tuple[tuple[str, int], ...] = ()  # (kind, bytes) of code and fixed bytes, largest first
    alive: tuple[tuple[str, int], ...] = ()  # (name, bytes) of resident and transient bytes, largest first
    tile: int = 0  # index of the tile
    values_bytes: int = 0  # resident and transient bytes at that step, of all tiles together

    @property
    def instruction_bytes(self) -> int:
        """Bytes of all code, without vertex state and constants, which are data."""
        return sum(size for kind, size in self.always if kind.endswith("code"))

    @property
    def by_kind(self) -> tuple[tuple[str, int], ...]:
        """(kind, bytes) that add up to the peak: code, fixed bytes, resident values, other values and temporaries."""
        values = (("resident values", self.resident_bytes), ("other values and temporaries", self.transient_bytes))
        return (*self.always, *(value for value in values if value[1]))

    @property
    def largest(self) -> tuple[tuple[str, int], ...]:
        """(name, bytes) of all parts, largest first."""
        return tuple(sorted((*self.always, *self.alive), key=lambda part: (-part[1], part[0])))


@dataclass(frozen=True, kw_only=True)
class Program:
    """A compiled program before it runs."""

    name: str  # name of the program
    num_ipus: int  # IPUs that run it together
    body: Series  # the steps of one IPU
    arguments: tuple[Argument, ...]  # its inputs
    results: tuple[Result, ...]  # its outputs
    memory: TileMemory  # bytes on the fullest tile
    num_io_tiles: int = 0  # tiles that only transfer; the others compute
    fallback_ops: tuple[str, ...] = ()  # HLO operations without an estimator of their own, sorted, each once
    assumptions: tuple[str, ...] = ()  # sentences, sorted, each once
    flops: int = 0  # floating-point operations of one run on one IPU, with one trip of every data-dependent loop
    dry: bool = False  # whether it was compiled in a dry run, in which running out of memory is no error
    parked_bytes: int = 0  # in pinned_host for one IPU, of values that are neither arguments nor results
    # lines of the source that its steps and values come from, and their callers; frame number n is `frames[n - 1]`
    frames: tuple[Frame, ...] = ()

    @property
    def sites(self) -> tuple[int, ...]:
        """Numbers of the loops and branches that have to be counted at run time, ascending."""
        return tuple(sorted(_sites(self.body)))


@dataclass(frozen=True, kw_only=True)
class Counts:
    """How often one run took its data-dependent parts on one IPU."""

    times: dict[tuple[int, int], int] = field(default_factory=dict)  # (site, arm) -> times; a loop has arm 0


def _sites(node: Node) -> set[int]:
    match node:
        case Series(nodes=nodes):
            return {site for child in nodes for site in _sites(child)}
        case Loop(body=body, trips=trips, site=site):
            own: set[int] = {site} if trips is None and site is not None else set()
            return own | _sites(body)
        case Branch(arms=arms, site=site):
            counted: set[int] = {site} if site is not None else set()
            return counted | {inner for arm in arms for inner in _sites(arm)}
        case _:
            return set()


def leaves(node: Node) -> Iterator[Leaf]:
    """All leaves below a node, in order, those of all arms."""
    match node:
        case Series(nodes=nodes):
            for child in nodes:
                yield from leaves(child)
        case Loop(body=body):
            yield from leaves(body)
        case Branch(arms=arms):
            for arm in arms:
                yield from leaves(arm)
        case _:
            yield node
