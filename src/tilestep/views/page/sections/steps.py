"""What views Program, Operations and Source read: the tree of each program, and what its steps took."""

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from tilestep.figures.reader import (
    CompiledProgram,
    GlobalExchange,
    HostExchange,
    OnTileExecute,
    ProgramNode,
    ProgramSequence,
    Repeat,
    Report,
    Switch,
)
from tilestep.figures.reader.programs.nodes import ProgramLeaf
from tilestep.figures.reader.runs.layout import below
from tilestep.figures.rows import relative_files
from tilestep.machine.spec import IpuSpec
from tilestep.options import PlanOptions
from tilestep.recording.sources import options_of
from tilestep.sim.cycles.body import BodyCycles, Site
from tilestep.views.page.block import PageBlock, columns_of
from tilestep.views.page.sections.roofs import UNKNOWN, dtype_of, flop_roofs, roof_of
from tilestep.views.page.sections.string_table import Lines, Texts

MOST_PAGE_NODES: Final = 100_000
ROOT, LOOP, BRANCH, ARM, SUPERSTEP, COLLECTIVE, HOST_CALL = range(7)
ORIGINS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "steps.cycles": "Cycles of all runs on the slowest of the program's IPUs: executions times cycles of one, without waits for links.",
        "steps.once": "Cycles of one execution on the slowest of the program's IPUs, from the cost model.",
        "steps.run": "Cycles of the steps alone in all runs by the number of runs, on the slowest of the program's IPUs: without "
        "arguments, results, loads and waits for links.",
        "steps.share": "Part of the cycles of all steps of all programs, on the slowest IPU of each.",
        "steps.share_of_program": "Part of the cycles of the program's steps, on the slowest of its IPUs.",
        "steps.executions": "Executions in all runs, on the slowest of the program's IPUs; those that depend on data were counted.",
        "steps.executions_of_run": "Executions in all runs by the number of runs.",
        "steps.flops": "Floating-point operations of all tiles in all executions, as the cost model counts them.",
        "steps.flops_once": "Floating-point operations of all tiles in one execution, as the cost model counts them.",
        "steps.exchange_bytes": "Bytes that the busiest tile receives in all executions.",
        "steps.exchange_bytes_once": "Bytes that the busiest tile receives in one execution.",
        "steps.rate": "Floating-point operations by the emulated seconds of the operation, on one IPU.",
        "steps.peak": "Part of the matrix unit's peak for the dtype: twice the multiply-adds of all tiles. Only products come near it.",
        "steps.per_cycle": "Bytes that the busiest tile receives, by the cycles of the exchange.",
        "steps.trips": "How often the body of the loop ran in all runs, on the slowest of the program's IPUs.",
        "steps.fixed_trips": "Trips of the loop, which the compiler knew.",
        "steps.arm": "How often this arm was taken in all runs, on the slowest of the program's IPUs.",
        "steps.temporary": "Bytes on the fullest tile while the step runs, beside values.",
        "steps.code": "Bytes on the busiest tile that the step's code takes, as the memory model has it.",
        "steps.size": "The larger of operand and result, on one IPU.",
        "steps.host": "Bytes of one IPU in one execution.",
        "steps.overhead": "The part of sync that is the fixed cost of supersteps (ipu.superstep_overhead_cycles each).",
    }
)


class TreeNode(NamedTuple):
    """A node of a tree, in the order of the tree; loops and arms have the nodes of their sequences below them."""

    program: int  # in the list of the block
    depth: int  # the root's is 0
    kind: int
    name: int  # text
    scope: int  # text
    line: int  # -1: unknown
    leaf: int  # row of the leaves; -1: it is none
    trips: int  # UNKNOWN: it is no loop, or they depend on data
    times: int  # executions in all runs; of a loop those of its body
    of_run: int  # executions in one run; 0: they depend on data, or it never runs
    assumed: int  # whether its trips, or the arm that is taken, are not counted


class StepLeaf(NamedTuple):
    """A step."""

    program: int
    number: int  # among the leaves of its program
    kind: int
    name: int  # text
    scope: int  # text
    family: int  # text
    line: int
    executions: int  # in all runs
    of_run: int  # in one run; 0: they depend on data, or it never runs
    priced: int  # whether it may run at all
    compute: int  # cycles of one execution, by kind
    exchange: int
    sync: int
    collective: int
    host_call: int
    overhead: int  # the part of sync that is fixed cost; UNKNOWN
    dtype: int  # text
    roof: int  # row of the roofs; UNKNOWN
    flops: int
    exchange_bytes: int
    temporary_tile_bytes: int
    fallback: int
    codelet: int  # text
    codelet_bytes: int
    exchange_code_bytes: int
    vertex_state_bytes: int
    size_bytes: int  # 0 but for collectives
    groups: int  # text
    to_host: int
    from_host: int


def steps(report: Report) -> PageBlock | None:
    """The block `steps`; None if the recording has no programs.

    Its JSON: texts, lines (as `Lines.all`), programs (row in the recording, label, runs, num_ipus, left_out: why its tree is not there, or
    ''), roofs (words, rate) of the matrix unit. Its columns: those of `TreeNode` with `node_` before, of `StepLeaf` with `leaf_`.

    Raises: RecordingError if a tree is damaged.
    """
    if "compilation" not in report.parts:
        return None
    texts = Texts()
    maker = _RowMaker(report, texts, Lines(relative_files(report), texts))
    programs = report.compilation.programs
    found = {program.row: maker.tree(place, program) for place, program in enumerate(programs) if program.has_tree}
    kept: set[int] = set()
    room = MOST_PAGE_NODES
    for row in sorted(found, key=lambda row: -found[row].cycles):
        if len(found[row].nodes) <= room:
            kept.add(row)
            room -= len(found[row].nodes)
    nodes: list[TreeNode] = []
    leaves: list[StepLeaf] = []
    for row in sorted(kept):
        tree = found[row]
        nodes += (node._replace(leaf=node.leaf + len(leaves)) if node.leaf >= 0 else node for node in tree.nodes)
        leaves += tree.leaves
    return PageBlock(
        json={
            "texts": texts.all,
            "lines": maker.lines.all,
            "programs": [
                {
                    "row": program.row,
                    "label": program.label,
                    "runs": program.runs,
                    "num_ipus": program.num_ipus,
                    "left_out": ""
                    if program.row in kept
                    else f"The page holds {MOST_PAGE_NODES:,} nodes, and those of programs that took longer fill it."
                    if program.has_tree
                    else "The recording has no tree of this program.",
                }
                for program in programs
            ],
            "roofs": [{"words": words, "rate": rate} for words, rate in flop_roofs(report.target.machine.ipu)],
        },
        columns=columns_of([f"node_{name}" for name in TreeNode._fields], nodes)
        | columns_of([f"leaf_{name}" for name in StepLeaf._fields], leaves, rounded=("leaf_flops",)),
    )


class _Tree(NamedTuple):
    """Nodes and leaves of one program, and the cycles of all its runs; rows of leaves count from 0."""

    nodes: list[TreeNode]
    leaves: list[StepLeaf]
    cycles: int


class _RowMaker:
    """Makes the rows of programs."""

    def __init__(self, report: Report, texts: Texts, lines: Lines) -> None:
        self.lines = lines
        self._texts = texts
        self._ipu: IpuSpec = report.target.machine.ipu
        self._options = options_of(report.tables)

    def tree(self, place: int, program: CompiledProgram) -> _Tree:
        """The rows of a program. Args: place: of the program in the list of the block."""
        nodes: list[TreeNode] = []
        leaves: list[StepLeaf] = []
        options = self._options.get(program.key)
        total = 0
        for node, kind, depth, times, of_run, assumed in _walked(program, program.counts):
            row = -1
            if isinstance(node, ProgramLeaf):
                priced = node.cycles is not None
                executions = times if priced else 0
                total += executions * node.cycles.total if node.cycles is not None else 0
                row = len(leaves)
                leaves.append(self._leaf(node, kind, place, executions, of_run if priced else 0, options))
            nodes.append(
                TreeNode(
                    program=place,
                    depth=depth,
                    kind=kind,
                    name=self._texts.number(program.name if kind == ROOT else "arm" if kind == ARM else node.name),
                    scope=self._texts.number(node.scope),
                    line=self.lines.number(node.line),
                    leaf=row,
                    trips=node.trips if isinstance(node, Repeat) and node.trips is not None else UNKNOWN,
                    times=times,
                    of_run=of_run,
                    assumed=assumed,
                )
            )
        return _Tree(nodes, leaves, total)

    def _leaf(self, node: ProgramLeaf, kind: int, place: int, executions: int, of_run: int, options: PlanOptions | None) -> StepLeaf:
        cycles = node.cycles or BodyCycles()
        step = node.superstep if isinstance(node, OnTileExecute) else None
        collective = node.collective if isinstance(node, GlobalExchange) else None
        call = node.call if isinstance(node, HostExchange) else None
        dtype = dtype_of(step) if step else ""
        return StepLeaf(
            program=place,
            number=node.leaf,
            kind=kind,
            name=self._texts.number(node.name),
            scope=self._texts.number(node.scope),
            family=self._texts.number(node.family),
            line=self.lines.number(node.line),
            executions=executions,
            of_run=of_run,
            priced=node.cycles is not None,
            **cycles._asdict(),
            overhead=step.overhead_cycles if step else UNKNOWN if cycles.sync else 0,
            dtype=self._texts.number(dtype),
            roof=roof_of(dtype, self._ipu, options) if step and step.flops else UNKNOWN,
            flops=step.flops if step else 0,
            exchange_bytes=step.exchange_bytes if step else 0,
            temporary_tile_bytes=step.temporary_tile_bytes if step else 0,
            fallback=step.fallback if step else 0,
            codelet=self._texts.number(step.codelet if step else ""),
            codelet_bytes=step.codelet_bytes if step else 0,
            exchange_code_bytes=step.exchange_code_bytes if step else 0,
            vertex_state_bytes=step.vertex_state_bytes if step else 0,
            size_bytes=collective.size_bytes if collective else 0,
            groups=self._texts.number(_groups_text(collective.groups or collective.pairs) if collective else ""),
            to_host=call.bytes_to_host if call else 0,
            from_host=call.bytes_from_host if call else 0,
        )


def _walked(program: CompiledProgram, counts: Mapping[Site, int]) -> Iterator[tuple[ProgramNode, int, int, int, int, bool]]:
    """(node, its kind, depth, executions in all runs, in one run, whether they are assumed) of all nodes, in order."""
    ahead: list[tuple[ProgramNode, int, int, int, int, bool]] = [(program.tree, ROOT, 0, program.runs, 1, False)]
    while ahead:
        node, kind, depth, times, of_run, assumed = ahead.pop()
        if isinstance(node, ProgramSequence) and kind not in (ROOT, ARM):  # the body of a loop, or a sequence in one
            ahead += [(child, _kind(child), depth, times, of_run, False) for child in reversed(node.nodes)]
            continue
        children = list(zip(below(node, times, counts), below(node, of_run, {}), strict=True)) if node.children else []
        match node:
            case Repeat(trips=trips, site=site):
                assumed = trips is None and site is None
                [((_, times), (_, of_run))] = children
                kinds = (LOOP,)
            case Switch(site=site):
                assumed = site is None
                kinds = (ARM,) * len(children)
            case _:
                kinds = tuple(_kind(child) for (child, _), _ in children)
        yield node, kind, depth, times, of_run, assumed
        ahead += [
            (child, of_child, depth + 1, each, fixed, assumed and of_child == ARM)
            for ((child, each), (_, fixed)), of_child in reversed(list(zip(children, kinds, strict=True)))
        ]


def _kind(node: ProgramNode) -> int:
    match node:
        case Repeat() | ProgramSequence():
            return LOOP  # a sequence gives way to its nodes
        case Switch():
            return BRANCH
        case GlobalExchange():
            return COLLECTIVE
        case HostExchange():
            return HOST_CALL
        case _:
            return SUPERSTEP


def _groups_text(groups: tuple[tuple[int, ...], ...]) -> str:
    """'{0, 1} {2, 3}', the first of them if they are many."""
    most = 8
    shown = " ".join("{" + ", ".join(map(str, group[:most])) + (", …" if len(group) > most else "") + "}" for group in groups[:most])
    return shown + (f" and {len(groups) - most} more" if len(groups) > most else "")
