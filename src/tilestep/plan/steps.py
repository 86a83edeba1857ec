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
    """One superstep: exchange, then compute on all tiles of one IPU, with the syncs between. The three are added, never overlapped.

    Attributes:
        name: of the HLO instruction.
        scope: the user's operation that it came from (HLO op_name); '' if unknown.
        family: the estimator that priced it: 'elementwise', 'matmul', ...
        compute_cycles: of the busiest tile.
        exchange_cycles: until the busiest tile has received its bytes.
        sync_cycles: of its barriers, and its fixed cost.
        overhead_cycles: the part of them that is the fixed cost.
        flops: floating-point operations of all tiles.
        exchange_bytes: received by the busiest tile.
        temporary_tile_bytes: on the fullest tile, while the step runs.
        fallback: whether it was priced without an estimator of its own.
        codelet: equal for steps that run the same code on the tiles.
        codelet_bytes: size of that code.
        exchange_code_bytes: instructions of its exchanges, on the busiest tile.
        vertex_state_bytes: of its vertices, on the busiest tile.
        compute_sets: that its code holds one after another.
        frame: number of its line in `Program.frames`, from 1; 0: unknown.
    """

    name: str
    scope: str
    family: str
    compute_cycles: int
    exchange_cycles: int
    sync_cycles: int
    flops: int = 0
    exchange_bytes: int = 0
    temporary_tile_bytes: int = 0
    fallback: bool = False
    codelet: str = ""
    codelet_bytes: int = 0
    exchange_code_bytes: int = 0
    vertex_state_bytes: int = 0
    compute_sets: int = 1
    overhead_cycles: int = 0
    frame: int = 0


@dataclass(frozen=True, kw_only=True)
class Collective:
    """An exchange between IPUs over IPU-Links, with its arithmetic.

    Attributes:
        name: of the HLO instruction.
        scope: the user's operation; '' if unknown.
        kind: opcode of the collective.
        size_bytes: the larger of operand and result, on one IPU.
        groups: device positions within the program that communicate with each other.
        pairs: (source, target) positions of a collective-permute; () for other kinds.
        compute_cycles: of the arithmetic, on the busiest tile.
        frame: number of its line in `Program.frames`, from 1; 0: unknown.
    """

    name: str
    scope: str
    kind: CollectiveKind
    size_bytes: int
    groups: tuple[tuple[int, ...], ...]
    pairs: tuple[tuple[int, int], ...] = ()
    compute_cycles: int = 0
    frame: int = 0


@dataclass(frozen=True, kw_only=True)
class HostCall:
    """The program stops for the host: a callback, an infeed, an outfeed, or an access to pinned_host.

    Attributes:
        name: of the HLO instruction.
        scope: the user's operation; '' if unknown.
        bytes_to_host: of one IPU.
        bytes_from_host: to one IPU.
        in_memory: whether the bytes go to and from pinned_host, so that no host program answers.
        is_feed: whether it is an infeed or outfeed, for which the host is ready at any time.
        frame: number of its line in `Program.frames`, from 1; 0: unknown.
    """

    name: str
    scope: str
    bytes_to_host: int
    bytes_from_host: int
    in_memory: bool = False
    is_feed: bool = False
    frame: int = 0


@dataclass(frozen=True, kw_only=True)
class Loop:
    """A body, with its condition, that runs several times.

    Attributes:
        name: of the HLO instruction.
        scope: the user's operation; '' if unknown.
        body: the steps of one trip.
        trips: number of trips; None: it depends on data.
        site: number under which trips are counted at run time. None, with `trips` None: not counted, and one trip is assumed.
        frame: number of its line in `Program.frames`, from 1; 0: unknown.
    """

    name: str
    scope: str
    body: Series
    trips: int | None
    site: int | None = None
    frame: int = 0


@dataclass(frozen=True, kw_only=True)
class Branch:
    """One of several arms.

    Attributes:
        name: of the HLO instruction.
        scope: the user's operation; '' if unknown.
        arms: the steps of each arm.
        site: number under which arms are counted at run time: arm k as (site, k). None: not counted, and the dearest arm is assumed.
        frame: number of its line in `Program.frames`, from 1; 0: unknown.
    """

    name: str
    scope: str
    arms: tuple[Series, ...]
    site: int | None
    frame: int = 0


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
    """One input of the program, on one IPU.

    Attributes:
        index: position among the arguments.
        name: the user's name if known (HLO parameter op_name), else 'argN'.
        shape: as text, for example 'f32[128,784]'.
        size_bytes: on one IPU.
        result: index of the result that takes over its memory, because its donation took effect; None: there is none.
        on_host: whether it is in the host's memory (pinned_host, unpinned_host), and never streams in as a whole.
        layout: over the tiles, as the plan of its first matmul chose it; '' if any layout will do.
    """

    index: int
    name: str
    shape: str
    size_bytes: int
    result: int | None
    on_host: bool = False
    layout: str = ""


@dataclass(frozen=True, kw_only=True)
class Result:
    """One output of the program, on one IPU.

    Attributes:
        index: position among the results.
        shape: as text, for example 'f32[128,784]'.
        size_bytes: on one IPU.
        argument: index of the donated argument whose memory it takes over; None: there is none.
        on_host: whether the program writes it to the host's memory.
    """

    index: int
    shape: str
    size_bytes: int
    argument: int | None
    on_host: bool = False


@dataclass(frozen=True, kw_only=True)
class TileMemory:
    """Bytes on the fullest tile, at the step at which it is fullest.

    Attributes:
        peak_bytes: code, fixed, resident and transient bytes together.
        peak_step: name of that step.
        code_bytes: loaded with the program: code of all kinds, vertex state, constants.
        fixed_bytes: stacks and reserved bytes.
        resident_bytes: donated arguments, which stay between runs.
        transient_bytes: all other values and temporaries at the peak.
        always: (kind, bytes) of code and fixed bytes, largest first.
        alive: (name, bytes) of resident and transient bytes, largest first.
        tile: index of the tile.
        values_bytes: resident and transient bytes at that step, of all tiles together.
    """

    peak_bytes: int
    peak_step: str
    code_bytes: int
    fixed_bytes: int = 0
    resident_bytes: int
    transient_bytes: int
    always: tuple[tuple[str, int], ...] = ()
    alive: tuple[tuple[str, int], ...] = ()
    tile: int = 0
    values_bytes: int = 0

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
    """A compiled program before it runs.

    Attributes:
        name: of the program.
        num_ipus: IPUs that run it together.
        body: the steps of one IPU.
        arguments: its inputs.
        results: its outputs.
        memory: bytes on the fullest tile.
        num_io_tiles: tiles that only transfer; the others compute.
        fallback_ops: HLO operations without an estimator of their own, sorted, each once.
        assumptions: sentences, sorted, each once.
        flops: floating-point operations of one run on one IPU, with one trip of every data-dependent loop.
        dry: whether it was compiled in a dry run, in which running out of memory is no error.
        parked_bytes: in pinned_host for one IPU, of values that are neither arguments nor results.
        frames: lines of the source that its steps and values come from, and their callers; frame number n is `frames[n - 1]`.
    """

    name: str
    num_ipus: int
    body: Series
    arguments: tuple[Argument, ...]
    results: tuple[Result, ...]
    memory: TileMemory
    num_io_tiles: int = 0
    fallback_ops: tuple[str, ...] = ()
    assumptions: tuple[str, ...] = ()
    flops: int = 0
    dry: bool = False
    parked_bytes: int = 0
    frames: tuple[Frame, ...] = ()

    @property
    def sites(self) -> tuple[int, ...]:
        """Numbers of the loops and branches that have to be counted at run time, ascending."""
        return tuple(sorted(_sites(self.body)))


@dataclass(frozen=True, kw_only=True)
class Counts:
    """How often one run took its data-dependent parts on one IPU.

    Attributes:
        times: (site, arm) -> times; a loop has arm 0.
    """

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
