"""Program trees of recordings: read within bounds, priced, and made nodes to walk."""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from typing import Any, Final

from tilestep.errors import RecordingError, StoredError
from tilestep.figures.reader.programs.lines import SourceLine, lines_of_frames
from tilestep.figures.reader.programs.nodes import (
    GlobalExchange,
    HostExchange,
    OnTileExecute,
    ProgramNode,
    ProgramSequence,
    Repeat,
    Switch,
)
from tilestep.figures.records import PINNED_HOST
from tilestep.machine.spec import MachineSpec
from tilestep.messages import plain, shown
from tilestep.plan.serialized import program_of
from tilestep.plan.steps import Branch, Collective, HostCall, Loop, Node, Program, Series, Superstep, leaves
from tilestep.sim.cycles.body import BodyCost, BodyCycles, Leaf, body_cost

MOST_NODES: Final = 100_000
MOST_CYCLES: Final = 2**62  # bytes and flops of a run have the same bound


def program_from_tree(record: Any, machine: MachineSpec, *, name: str) -> Program:
    """The program of one record of text `trees`.

    Args: name: of the program, for messages.
    Raises: RecordingError if it is no program, does not fit the machine, or passes a bound.
    """
    where = f"the tree of program '{plain(name)}'"
    try:
        program = program_of(record)
    except (StoredError, RecursionError) as error:
        raise RecordingError(f"{where} is damaged: {plain(error)}") from None
    if not 1 <= program.num_ipus <= machine.num_ipus:
        raise RecordingError(f"{where} is for {shown(program.num_ipus)} IPUs: {plain(machine.name)} has {machine.num_ipus}")
    if not 0 <= program.num_io_tiles < machine.ipu.num_tiles:
        raise RecordingError(f"{where} has {shown(program.num_io_tiles)} I/O tiles: an IPU has {machine.ipu.num_tiles:,} tiles")
    for count, node in enumerate(_nodes(program.body)):
        if count >= MOST_NODES:
            raise RecordingError(f"{where} has more than {MOST_NODES:,} nodes, and at most that many are read")
        _require_sane(node, program.num_ipus, where)
    return program


def priced(program: Program, machine: MachineSpec, ipus: tuple[int, ...]) -> BodyCost:
    """The cost of a program that `program_from_tree` gave. Raises: RecordingError if it passes a bound."""
    where = f"the tree of program '{plain(program.name)}'"
    try:
        cost = body_cost(program, machine, ipus)
    except (ValueError, ArithmeticError, LookupError) as error:
        raise RecordingError(f"{where} cannot run on {plain(machine.name)}: {plain(error)}") from None
    total = sum(use.times * use.cycles.total for use in cost.uses)
    if total > MOST_CYCLES:
        raise RecordingError(f"{where} takes a number of cycles with {total.bit_length()} bits: a run takes at most 2**62")
    return cost


def cycles_of_leaves(program: Program, cost: BodyCost) -> tuple[BodyCycles | None, ...]:
    """Cycles of one execution of each leaf; None for those in arms that never run."""
    known = {id(use.leaf): use.cycles for use in cost.uses}
    return tuple(known.get(id(leaf)) for leaf in leaves(program.body))


def nodes_of(program: Program, cycles: Sequence[BodyCycles | None]) -> ProgramSequence:
    """The tree as nodes to walk."""
    return _NodeMaker(lines_of_frames(program.frames), cycles).series(program.body)


class _NodeMaker:
    """Makes nodes; leaves are numbered as they come."""

    def __init__(self, lines: Sequence[SourceLine | None], cycles: Sequence[BodyCycles | None]) -> None:
        self._lines, self._cycles = lines, cycles
        self._number = itertools.count()

    def series(self, series: Series) -> ProgramSequence:
        return ProgramSequence(name="sequence", nodes=tuple(self.node(node) for node in series.nodes))

    def node(self, node: Node) -> ProgramNode:
        if isinstance(node, Series):
            return self.series(node)
        line = self._lines[node.frame]
        match node:
            case Loop():
                return Repeat(name=node.name, scope=node.scope, line=line, body=self.series(node.body), trips=node.trips, site=node.site)
            case Branch():
                arms = tuple(self.series(arm) for arm in node.arms)
                return Switch(name=node.name, scope=node.scope, line=line, arms=arms, site=node.site)
            case _:
                pass
        number = next(self._number)
        shared: Mapping[str, Any] = {
            "name": node.name,
            "scope": node.scope,
            "line": line,
            "leaf": number,
            "cycles": self._cycles[number],
            "family": family_of(node),
        }
        match node:
            case Superstep():
                return OnTileExecute(superstep=node, **shared)
            case Collective():
                return GlobalExchange(collective=node, **shared)
            case HostCall():
                return HostExchange(call=node, **shared)


def family_of(leaf: Leaf) -> str:
    """The family of operations of a leaf, as profiles name it."""
    match leaf:
        case Superstep():
            return leaf.family
        case Collective():
            return leaf.kind
        case HostCall():
            return PINNED_HOST if leaf.in_memory else "host call"


def _nodes(node: Node) -> Iterator[Node]:
    """A node and all below it, in order, whatever the depth."""
    ahead = [node]
    while ahead:
        here = ahead.pop()
        yield here
        match here:
            case Series(nodes=nodes):
                ahead += reversed(nodes)
            case Loop(body=body):
                ahead.append(body)
            case Branch(arms=arms):
                ahead += reversed(arms)
            case _:
                pass


def _require_sane(node: Node, num_ipus: int, where: str) -> None:
    """Raises: RecordingError for a number that no program has."""
    for field in fields(node):
        value: object = getattr(node, field.name)
        if isinstance(value, int) and not 0 <= value <= MOST_CYCLES:
            raise RecordingError(f"{where} has {shown(value)} as {field.name} of {shown(getattr(node, 'name', ''))}: it must be 0 to 2**62")
    if isinstance(node, Collective):
        members = {*itertools.chain.from_iterable(node.groups), *itertools.chain.from_iterable(node.pairs)}
        outside = next((member for member in members if not 0 <= member < num_ipus), None)
        if outside is not None:
            raise RecordingError(f"{where} has position {shown(outside)} in {shown(node.name)}: it runs on {num_ipus} IPUs")
        if any(len(set(group)) < len(group) for group in node.groups) or len(node.groups) > num_ipus or len(node.pairs) > num_ipus**2:
            raise RecordingError(f"{where} has a position twice in the groups of {shown(node.name)}: each may be there once")
