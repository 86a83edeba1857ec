"""A planned program: a tree of supersteps for one IPU, and the memory that it needs.

Every IPU that takes part runs the same tree (single program, multiple data). The tree keeps loops and branches, so
that a report can show them and data-dependent ones can be counted when the program runs.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

CollectiveKind = Literal["all-reduce", "all-gather", "reduce-scatter", "all-to-all", "collective-permute", "collective-broadcast"]


@dataclass(frozen=True, kw_only=True)
class Superstep:
    """Exchange, then compute on all tiles of one IPU, with the syncs between; the three are added, never overlapped."""

    name: str  # the HLO instruction
    scope: str  # the user's operation it came from (HLO op_name), '' if unknown
    family: str  # which estimator priced it: 'elementwise', 'matmul', ...
    compute_cycles: int
    exchange_cycles: int
    sync_cycles: int
    flops: int = 0
    exchange_bytes: int = 0  # received by the busiest tile
    temporary_tile_bytes: int = 0  # on the fullest tile, only while the step runs
    fallback: bool = False  # priced without an estimator of its own
    codelet: str = ""  # equal for steps that run the same code on the tiles
    codelet_bytes: int = 0
    exchange_code_bytes: int = 0  # instructions of its exchanges, on the busiest tile
    vertex_state_bytes: int = 0


@dataclass(frozen=True, kw_only=True)
class Collective:
    """An exchange between IPUs over IPU-Links, with the arithmetic that it needs."""

    name: str
    scope: str
    kind: CollectiveKind
    size_bytes: int  # the larger of operand and result, on one IPU
    groups: tuple[tuple[int, ...], ...]  # device positions within the program that communicate with each other
    pairs: tuple[tuple[int, int], ...] = ()  # collective-permute only: (source, target)
    compute_cycles: int = 0


@dataclass(frozen=True, kw_only=True)
class HostCall:
    """The program stops for the host: a callback, an infeed or an outfeed."""

    name: str
    scope: str
    bytes_to_host: int
    bytes_from_host: int
    in_memory: bool = False  # of an array in pinned_host: the bytes go to and from memory, and no host program answers
    is_feed: bool = False  # an infeed or outfeed: the host has its data, or takes them, at any time


@dataclass(frozen=True, kw_only=True)
class Loop:
    """A body (its condition included) that runs `trips` times, or as often as `site` is counted at run time."""

    name: str
    scope: str
    body: Series
    trips: int | None  # None: depends on data
    site: int | None = None  # of a data-dependent loop; None with trips None: not counted, one trip assumed


@dataclass(frozen=True, kw_only=True)
class Branch:
    """One of several arms; arm k ran as often as (site, k) is counted at run time."""

    name: str
    scope: str
    arms: tuple[Series, ...]
    site: int | None  # None: not counted, the dearest arm assumed


@dataclass(frozen=True, kw_only=True)
class Series:
    """Nodes one after the other."""

    nodes: tuple[Node, ...] = ()


Node = Superstep | Collective | HostCall | Loop | Branch | Series


@dataclass(frozen=True, kw_only=True)
class Argument:
    """One input of the program, as it lies on one IPU."""

    index: int
    name: str  # the user's name for it where known (HLO parameter op_name), else 'argN'
    shape: str  # for people, for example 'f32[128,784]'
    size_bytes: int
    result: int | None  # the result whose memory it becomes (its donation took effect), or None
    on_host: bool = False  # lies in the host's memory (pinned_host, unpinned_host), never streamed as a whole
    layout: str = ""  # how the plan of its first product lays it out over the tiles; '' if any layout will do


@dataclass(frozen=True, kw_only=True)
class Result:
    """One output of the program, as it lies on one IPU."""

    index: int
    shape: str
    size_bytes: int
    argument: int | None  # the donated argument whose memory it takes over, or None
    on_host: bool = False


@dataclass(frozen=True, kw_only=True)
class TileMemory:
    """Bytes on the fullest tile at the step at which it is fullest: code, fixed, resident and transient ones."""

    peak_bytes: int  # the sum of the four
    peak_step: str
    code_bytes: int  # loaded with the program: code of all kinds, vertex state, constants
    fixed_bytes: int = 0  # stacks, and what is reserved
    resident_bytes: int  # donated arguments: stay between runs
    transient_bytes: int  # everything else that lives at the peak
    always: tuple[tuple[str, int], ...] = ()  # (kind, bytes) of code and fixed ones, largest first
    alive: tuple[tuple[str, int], ...] = ()  # (name, bytes) of resident and transient ones at the peak, largest first
    tile: int = 0
    values_bytes: int = 0  # resident and transient ones at that step, of all tiles together

    @property
    def instruction_bytes(self) -> int:
        """Of all code: what a tile has to fetch instructions from. Vertex state and constants are data."""
        return sum(size for kind, size in self.always if kind.endswith("code"))

    @property
    def by_kind(self) -> tuple[tuple[str, int], ...]:
        """(kind, bytes) that add up to the peak: code and fixed ones, resident values, other values and temporaries."""
        values = (("resident values", self.resident_bytes), ("other values and temporaries", self.transient_bytes))
        return (*self.always, *(value for value in values if value[1]))

    @property
    def largest(self) -> tuple[tuple[str, int], ...]:
        """(what, bytes) of all parts, largest first."""
        return tuple(sorted((*self.always, *self.alive), key=lambda part: (-part[1], part[0])))


@dataclass(frozen=True, kw_only=True)
class Program:
    """All that is known of a compiled program before it runs."""

    name: str
    num_ipus: int
    body: Series
    arguments: tuple[Argument, ...]
    results: tuple[Result, ...]
    memory: TileMemory
    num_io_tiles: int = 0  # set aside for transfers; the others compute
    fallback_ops: tuple[str, ...] = ()  # HLO operations priced without an own estimator, sorted, each once
    assumptions: tuple[str, ...] = ()  # sentences, sorted, each once
    flops: int = 0  # of one run with every dynamic loop taken once, per IPU
    dry: bool = False  # compiled in a dry run, in which running out of memory is no error
    parked_bytes: int = 0  # in pinned_host on behalf of one IPU, of values that are neither arguments nor results

    @property
    def sites(self) -> tuple[int, ...]:
        """Loops and branches that must be counted at run time, ascending."""
        return tuple(sorted(_sites(self.body)))


@dataclass(frozen=True, kw_only=True)
class Counts:
    """How often the data-dependent parts of one run were taken on one IPU: (site, arm) -> times; a loop has arm 0."""

    times: dict[tuple[int, int], int] = field(default_factory=dict)


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
