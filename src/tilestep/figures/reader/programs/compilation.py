"""What the compiler made: programs, their trees, and their memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import Any, cast, final

import numpy as np

from tilestep.errors import RecordingError
from tilestep.figures.reader.grouped import Grouped
from tilestep.figures.reader.programs.lines import SourceLine, lines_of_table
from tilestep.figures.reader.programs.memory import LivenessStep, MemoryReport, Tile, Variable
from tilestep.figures.reader.programs.nodes import (
    GlobalExchange,
    HostExchange,
    OnTileExecute,
    ProgramLeaf,
    ProgramSequence,
    ProgramVisitor,
    Repeat,
    Switch,
)
from tilestep.figures.reader.programs.trees import cycles_of_leaves, nodes_of, priced, program_from_tree
from tilestep.figures.reader.sums import BusiestIpu, CyclesByIpu, busiest_of, cycles_by_ipu
from tilestep.machine.spec import MachineSpec
from tilestep.messages import nearest, plain
from tilestep.plan.steps import Program
from tilestep.recording.tables import Tables, json_text
from tilestep.sim.cycles.body import BodyCost, Site
from tilestep.sim.state.ledger import ProgramTotals


@dataclass(frozen=True, kw_only=True)
class Target:
    """The emulated machine.

    Attributes:
        machine: every field of it.
    """

    machine: MachineSpec

    @property
    def name(self) -> str:
        return self.machine.name

    @property
    def architecture(self) -> str:
        """'ipu1', 'ipu2' or 'ipu21'."""
        return self.machine.ipu.version

    @property
    def num_ipus(self) -> int:
        return self.machine.num_ipus

    @property
    def tiles_per_ipu(self) -> int:
        return self.machine.ipu.num_tiles

    @property
    def num_tiles(self) -> int:
        """Of all IPUs."""
        return self.num_ipus * self.tiles_per_ipu

    @property
    def bytes_per_tile(self) -> int:
        return self.machine.ipu.tile.sram_bytes

    @property
    def bytes_per_ipu(self) -> int:
        return self.machine.ipu.sram_bytes

    @property
    def total_memory(self) -> int:
        """Bytes of the tiles of all IPUs."""
        return self.num_ipus * self.bytes_per_ipu

    @property
    def clock_hz(self) -> float:
        return self.machine.ipu.clock_hz


@dataclass(frozen=True, kw_only=True)
class GraphSize:
    """How large the programs are, all together. Only trees that were kept count.

    Attributes:
        num_programs: in the recording.
        num_compute_sets: supersteps.
        num_codelets: different codes that they run.
        num_global_exchanges: exchanges between IPUs.
        num_host_exchanges: host calls.
        num_repeats: loops.
        num_switches: branches.
        num_vars: values in the tiles, of programs in detail.
    """

    num_programs: int
    num_compute_sets: int
    num_codelets: int
    num_global_exchanges: int
    num_host_exchanges: int
    num_repeats: int
    num_switches: int
    num_vars: int


@final
class CompiledProgram:
    """One program.

    Attributes:
        row: in table `programs`.
        key: its number in its process.
        name: of the program.
        fingerprint: equal for equal StableHLO, options and machine; '' if unknown.
        num_ipus: that run it together.
        origin: 'user', 'jax' or 'group'.
        group: program group that it is a member of; ''.
        detailed: whether its memory was recorded.
        runs: how often it ran.
        loads: runs before which another program was loaded; members of a group bring their code without a load.
    """

    def __init__(self, compilation: Compilation, row: int) -> None:
        tables, strings = compilation.tables, compilation.strings

        def text(column: str) -> str:
            return strings[int(tables.column("programs", column)[row])]

        def number(column: str) -> int:
            return int(tables.column("programs", column)[row])

        self._compilation = compilation
        self._costs: dict[tuple[int, ...], BodyCost] = {}
        self.row = row
        self.key, self.num_ipus, self.runs, self.loads = number("key"), number("num_ipus"), number("runs"), number("loads")
        self.name, self.fingerprint, self.origin, self.group = text("name"), text("fingerprint"), text("origin"), text("group")
        self.detailed = bool(number("detailed"))

    def __repr__(self) -> str:
        return f"<program '{plain(self.name)}' of {self.num_ipus} IPUs, {self.runs:,} runs>"

    @property
    def label(self) -> str:
        """Its name, with its key where another program has the same name."""
        return f"{self.name} #{self.key}" if self._compilation.names[self.name] > 1 else self.name

    @cached_property
    def total(self) -> BusiestIpu:
        """What it took in all runs on the IPU on which it took most; nothing if it never ran."""
        return busiest_of(self.cycles_by_ipu)

    @cached_property
    def cycles_by_ipu(self) -> CyclesByIpu:
        """What each IPU took for it in all runs."""
        return cycles_by_ipu(self._compilation.tables, self.grouped.rows("sums", "program", self.row))

    @property
    def peak_tile_bytes(self) -> int | None:
        """Bytes on the fullest tile; None if its tree was not kept."""
        return self.planned.memory.peak_bytes if self.has_tree else None

    @property
    def tables(self) -> Tables:
        """Of the recording."""
        return self._compilation.tables

    @property
    def grouped(self) -> Grouped:
        """Rows of the recording's tables, by program."""
        return self._compilation.grouped

    @property
    def counts(self) -> Mapping[Site, int]:
        """(site, arm) -> times in all runs, of data-dependent loops and branches on the slowest of its IPUs. Raises as `counts_by_ipu`."""
        return self.counts_by_ipu.get(self.total.ipu, {})

    @cached_property
    def counts_by_ipu(self) -> Mapping[int, Mapping[Site, int]]:
        """IPU -> (site, arm) -> times in all runs, of data-dependent loops and branches.

        Raises: RecordingError if the recording has them of single runs alone, as those before form 3.
        """
        tables = self._compilation.tables
        if self.cost().counted and tables.has("trips") and not tables.has("counts"):
            raise RecordingError("the recording does not say how often loops and branches that depend on data were taken: record it again")
        rows = self.grouped.rows("counts", "program", self.row)
        ipus, sites, arms, counts = ([*map(int, tables.column("counts", name)[rows])] for name in ("ipu", "site", "arm", "times"))
        found: dict[int, dict[Site, int]] = {}
        for ipu, site, arm, times in zip(ipus, sites, arms, counts, strict=True):
            found.setdefault(ipu, {})[site, arm] = max(0, times)
        return found

    @property
    def has_tree(self) -> bool:
        """Whether its tree was recorded."""
        known = self._compilation
        return self.row in known.planned or (self.row < len(known.trees) and known.trees[self.row] is not None)

    @cached_property
    def planned(self) -> Program:
        """The program as it was planned: arguments, results, flops, assumptions, peak of memory.

        Raises: RecordingError if its tree was not kept, or is damaged.
        """
        if (known := self._compilation.planned.get(self.row)) is not None:
            return known.program
        if not self.has_tree:
            raise RecordingError(f"the recording has no tree of program '{plain(self.name)}': record it again")
        return program_from_tree(self._compilation.trees[self.row], self._compilation.target.machine, name=self.name)

    @cached_property
    def ipus(self) -> tuple[int, ...]:
        """The IPUs that ran it, by index; the machine's first if it never ran, or on several sets.

        Those of one IPU-Machine share its streaming memory and its host link, so that a step's cycles depend on where it runs.

        Raises: RecordingError as `planned` does.
        """
        compilation, needed = self._compilation, self.planned.num_ipus
        if not compilation.tables.has("sums"):
            return tuple(range(needed))
        ran = np.unique(compilation.tables.column("sums", "ipu")[self.grouped.rows("sums", "program", self.row)]).tolist()
        known = len(ran) == needed and min(ran) >= 0 and max(ran) < compilation.target.num_ipus
        return tuple(ran) if known else tuple(range(needed))

    def cost(self, ipus: tuple[int, ...] | None = None) -> BodyCost:
        """What one run costs on certain IPUs; None: on those that ran it. Raises: RecordingError as `planned` does."""
        if ipus is None and (known := self._compilation.planned.get(self.row)) is not None:
            return known.body
        ipus = self.ipus if ipus is None else ipus
        if ipus not in self._costs:
            self._costs[ipus] = priced(self.planned, self._compilation.target.machine, ipus)
        return self._costs[ipus]

    @cached_property
    def tree(self) -> ProgramSequence:
        """Its nodes, with the cycles of each on the IPUs that ran it. Raises: RecordingError as `planned` does."""
        return self.tree_on(None)

    def tree_on(self, ipus: tuple[int, ...] | None) -> ProgramSequence:
        """Its nodes, with the cycles of each on certain IPUs."""
        return nodes_of(self.planned, cycles_of_leaves(self.planned, self.cost(ipus)))

    @property
    def leaves(self) -> tuple[ProgramLeaf, ...]:
        """The nodes that take time, in order."""
        return tuple(node for node in self.tree.walk() if isinstance(node, ProgramLeaf))

    def accept(self, visitor: ProgramVisitor) -> None:
        """Lets a visitor walk over the tree. Raises: RecordingError as `planned` does."""
        self.tree.accept(visitor)

    @property
    def hlo(self) -> str:
        """The HLO that it was planned from. Raises: RecordingError if it was not kept."""
        texts = self._compilation.texts
        text = texts[self.row] if self.row < len(texts) else None
        if not isinstance(text, str):
            raise RecordingError(f"the recording has no HLO of program '{plain(self.name)}': it was made without, to be smaller")
        return text

    @cached_property
    def memory(self) -> MemoryReport:
        """Its memory per tile, by variable and over time. Raises: RecordingError if it was not recorded, or is damaged."""
        if not self.detailed:
            raise RecordingError(
                f"the recording has no detail of the memory of program '{plain(self.name)}', only the peak: planned.memory"
            )
        machine = self._compilation.target.machine
        return MemoryReport(
            self._compilation.grouped,
            self.row,
            strings=self._compilation.strings,
            name=self.name,
            num_tiles=machine.ipu.num_tiles - self.planned.num_io_tiles,
            sram_bytes=machine.ipu.tile.sram_bytes,
            leaves=self.leaves,
            lines=lambda: self._compilation.lines,
        )


@final
class Compilation:
    """The programs of a recording.

    Attributes:
        tables: of the recording.
        target: the emulated machine.
        planned: of recordings in memory, programs by row with what a run costs, which need not be read from their trees.
        grouped: rows of the tables by program.
    """

    def __init__(self, tables: Tables, target: Target, planned: Mapping[int, ProgramTotals] = MappingProxyType({})) -> None:
        self.tables, self.target, self.planned, self.grouped = tables, target, planned, Grouped(tables)

    @cached_property
    def strings(self) -> tuple[str, ...]:
        """Texts that columns number; -1, which is none, has the last one, ''."""
        return (*self.tables.strings, "")

    @cached_property
    def programs(self) -> tuple[CompiledProgram, ...]:
        """In order of first dispatch, then those that never ran."""
        return tuple(CompiledProgram(self, row) for row in range(self.tables.rows("programs")))

    @cached_property
    def names(self) -> Counter[str]:
        """How many programs have each name."""
        return Counter(program.name for program in self.programs)

    def program(self, name: str) -> CompiledProgram:
        """The first program of a name. Raises: RecordingError if there is none, with the nearest."""
        found = next((program for program in self.programs if program.name == name), None)
        if found is None:
            near = nearest(name, [program.name for program in self.programs])
            hint = f": did you mean '{plain(near)}'?" if near else ""
            raise RecordingError(f"the recording has no program '{plain(name)}'{hint}")
        return found

    @cached_property
    def main(self) -> CompiledProgram:
        """The program whose fullest tile holds most, of those in detail: whose `tiles`, `variables` and `liveness` are here.

        Raises: RecordingError if no program is in detail.
        """
        detailed = [program for program in self.programs if program.detailed]
        if not detailed:
            raise RecordingError(
                "the recording has no program with detail of its memory: `programs` has the peak of each, as planned.memory"
            )
        return max(detailed, key=lambda program: (program.planned.memory.peak_bytes, -program.row))

    @property
    def tiles(self) -> Sequence[Tile]:
        """Of `main`."""
        return self.main.memory.tiles

    @property
    def variables(self) -> Sequence[Variable]:
        """Of `main`."""
        return self.main.memory.variables

    @property
    def liveness(self) -> Sequence[LivenessStep]:
        """Of `main`."""
        return self.main.memory.liveness

    @cached_property
    def graph(self) -> GraphSize:
        """Counts of all programs together."""
        nodes = [node for program in self.programs if program.has_tree for node in program.tree.walk()]

        def count(kind: type) -> int:
            return sum(isinstance(node, kind) for node in nodes)

        return GraphSize(
            num_programs=len(self.programs),
            num_compute_sets=count(OnTileExecute),
            num_codelets=len({node.superstep.codelet for node in nodes if isinstance(node, OnTileExecute) and node.superstep.codelet}),
            num_global_exchanges=count(GlobalExchange),
            num_host_exchanges=count(HostExchange),
            num_repeats=count(Repeat),
            num_switches=count(Switch),
            num_vars=self.tables.rows("lives"),
        )

    @cached_property
    def lines(self) -> tuple[SourceLine | None, ...]:
        """Lines of the user's program by row of table `frames`; row 0 is None."""
        return lines_of_table(self.tables)

    @cached_property
    def texts(self) -> Sequence[Any]:
        """The HLO of the programs, unchecked, as far as it was kept."""
        texts: Any = json_text(self.tables, "hlo")
        return cast("list[Any]", texts) if isinstance(texts, list) else []

    @cached_property
    def trees(self) -> Sequence[Any]:
        """The records of the programs' trees, unchecked. Raises: RecordingError if they are no list."""
        trees: Any = json_text(self.tables, "trees")
        if trees is not None and not isinstance(trees, list):
            raise RecordingError("text 'trees' of the recording is no list: it must have a tree for each program")
        return cast("list[Any]", trees or [])
