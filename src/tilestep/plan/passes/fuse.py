"""Which operations run in one fusion, and in which order the fusions run.

Poplar fuses elementwise expressions into one compute set: each tile reads the inputs once, computes the whole
expression in registers and writes what others need. So elementwise operations of equal size that use each other are
one unit here; everything else is a unit of its own.

Units must not need their own result by a detour. They cannot, because fusion keeps to one *depth*: the most operations
that are not elementwise on any path from the start. A path that leaves a unit through such an operation arrives deeper.
A path that leaves through a broadcast stays at its depth but arrives at a larger size, and only deeper operations
(reductions, slices) lead back to a smaller one. So no path joins two units of equal depth and size, and small copies
that XLA put in for the sake of loops (one for each carried scalar) share a fusion without using each other.

An operation on what comes from the host's memory is as deep as the least deep of the operations that use its result, if they are
elementwise and of its size: it is computed with them, and not before. No operation is deeper than one that uses it, so the
argument holds. A step from one call of a library to another operation counts like one that is not elementwise.

Where a front end launches one codelet for each operation (`ipu_fusion` none), only operations of one call of a library are a unit.
"""

from collections import defaultdict
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from types import MappingProxyType

from tilestep import cost
from tilestep.plan.passes.clone_elementwise import from_one_array
from tilestep.plan.passes.order_units import ordered
from tilestep.plan.passes.rematerialize import call_of, is_repeated
from tilestep.program.context import Context
from tilestep.program.hlo import Computation, Instruction

VIEWS = frozenset({"bitcast", "reshape"})
SMALL_COPY = 1024  # elements; copies up to this size at one depth go together
_SOURCES = frozenset({"parameter", "constant"})


@dataclass(frozen=True, kw_only=True)
class Unit:
    """Instructions that run in one fusion: elementwise ones if `fused`, else a single one."""

    members: tuple[Instruction, ...]  # in the order of the program; of a fused unit also the views between its operations
    fused: bool


@dataclass(frozen=True, kw_only=True)
class Units:
    """A computation's units in an order in which each follows its operands."""

    order: tuple[Unit, ...]
    fusible: frozenset[str]  # names of elementwise instructions
    absorbed: frozenset[str]  # not stored: broadcasts, slices, pads and reversals that are read through, iotas that reductions count
    level: Mapping[str, int]  # name -> the most operations before it that are not elementwise


def fuse(
    computation: Computation,
    *,
    elementwise: AbstractSet[str],
    enough_bytes: int = 0,
    taken_over: Mapping[int, tuple[int, int]] = MappingProxyType({}),
    apart: bool = False,
) -> Units:
    """Groups and orders a computation's instructions.

    Args:
        elementwise: the opcodes that may share a fusion.
        enough_bytes: with a peak of no more than that the units stay in the program's order.
        taken_over: of results, by their numbers, the parameter and its leaf whose memory they take over.
        apart: whether operations share a fusion only within one call of a library.
    """
    fusible, absorbed, leader, level = _fusions(computation, elementwise, apart)
    members: dict[str, list[Instruction]] = defaultdict(list)
    for instruction in computation.instructions:
        members[leader.get(instruction.name, instruction.name)].append(instruction)
    order = ordered(computation, members, leader, absorbed, enough_bytes=enough_bytes, taken_over=taken_over)
    return Units(
        order=tuple(Unit(members=tuple(members[name]), fused=name in leader) for name in order),
        fusible=fusible,
        absorbed=absorbed,
        level=level,
    )


def with_less_kept(computation: Computation, context: Context) -> Computation:
    """The computation in which fusions compute functions of one array again, where that takes less memory than to keep them."""
    if not context.clusters:
        return computation
    fusible, absorbed, leader, _ = _fusions(computation, cost.ELEMENTWISE, False)
    again = frozenset(name for name in fusible if call_of(computation.by_name[name]) != "")
    return from_one_array(computation, leader, fusible=again, absorbed=absorbed)


def _fusions(
    computation: Computation, elementwise: AbstractSet[str], apart: bool
) -> tuple[frozenset[str], frozenset[str], dict[str, str], dict[str, int]]:
    """Names of elementwise operations, of operations that nobody stores, of each operation of a fusion the fusion, and levels."""
    users = computation.users
    fusible = fusible_in(computation, elementwise)
    counted = {i.name for i in computation.instructions if _only_reduced(i, computation)}
    absorbed = frozenset(_absorbed(computation, users, fusible) | counted)
    return fusible, absorbed, *_leaders(computation, fusible, absorbed, users, apart)


def fusible_in(computation: Computation, elementwise: AbstractSet[str]) -> frozenset[str]:
    """Names of the operations that can be part of a fusion."""
    table = computation.by_name
    return frozenset(i.name for i in computation.instructions if is_fusible(i, table, elementwise) and not _only_reduced(i, computation))


def is_fusible(instruction: Instruction, table: Mapping[str, Instruction], elementwise: AbstractSet[str]) -> bool:
    """Whether an instruction can be part of a fusion: elementwise, one result; a copy only if it keeps the layout."""
    if instruction.opcode not in elementwise or instruction.is_tuple:
        return False
    if instruction.opcode != "copy":
        return True
    source = table[instruction.operands[0]]
    return not source.is_tuple and source.leaves[0].minor_to_major == instruction.leaves[0].minor_to_major


def _only_reduced(instruction: Instruction, computation: Computation) -> bool:
    """Whether it is an iota that only reductions read, as an argmax does: they know where they are."""
    if instruction.opcode != "iota" or instruction is computation.root:
        return False
    users = computation.users[instruction.name]
    return bool(users) and all(user.opcode == "reduce" for user in users)


def _absorbed(computation: Computation, users: Mapping[str, list[Instruction]], fusible: AbstractSet[str]) -> set[str]:
    """Broadcasts and slices that only elementwise operations read, directly or through views; pads that only such slices read.

    And reversals that only convolutions read, which turn kernels round as they bring them into their order.
    """
    found: set[str] = set()
    readable: set[str] = set(fusible)  # instructions that can take a broadcast or slice unstored, views of it included
    for instruction in reversed(computation.instructions):
        opcode, readers = instruction.opcode, users[instruction.name]
        if instruction is computation.root or not readers:
            continue
        cut = opcode == "pad" and all(user.opcode == "slice" and user.name in found for user in readers)
        if cut or (opcode == "reverse" and all(user.opcode == "convolution" for user in readers)):
            found.add(instruction.name)
        elif opcode in VIEWS or opcode in ("broadcast", "slice"):
            if not all(user.name in readable for user in readers):
                continue
            if opcode != "slice":  # a slice of a view is one of the stored value, a view of a slice is read as the slice
                readable.add(instruction.name)
            if opcode not in VIEWS:
                found.add(instruction.name)
    return found


def _leaders(
    computation: Computation, fusible: AbstractSet[str], absorbed: AbstractSet[str], users: Mapping[str, list[Instruction]], apart: bool
) -> tuple[dict[str, str], dict[str, int]]:
    """For each fusible instruction, and each view between two of a group, the name that stands for the group; levels."""
    table = computation.by_name
    depth: dict[str, int] = {}
    level: dict[str, int] = {}  # depth without the steps between calls
    leader: dict[str, str] = {}
    size: dict[str, int] = {}
    stored: dict[str, str] = {}  # view -> the value that it is a view of; another value -> itself
    barrier: dict[str, bool] = {}  # whether what reads it is deeper
    call = {name: call_of(table[name]) for name in fusible}

    def find(name: str) -> str:
        while leader[name] != name:
            leader[name] = leader[leader[name]]
            name = leader[name]
        return name

    def together(one: str, other: str) -> bool:
        if call[one] == "" or call[other] == "":
            return False
        return not apart or (call[one] is not None and call[one] == call[other])

    def parted(operand: str, name: str) -> bool:
        operand = stored[operand]
        return operand in fusible and name in fusible and not together(operand, name)

    arriving: set[str] = set()  # operations on values from the host's memory, or on their results
    awaited: set[str] = set()  # operations behind which others have to run
    for instruction in computation.instructions:
        name, opcode, operands = instruction.name, instruction.opcode, instruction.operands
        size[name] = instruction.leaves[0].size if instruction.leaves else 0
        spread = opcode == "broadcast" and name in absorbed
        stored[name] = stored[operands[0]] if (spread or opcode in VIEWS) and size[name] == size[operands[0]] else name
        if opcode == "get-tuple-element":
            barrier[name] = table[operands[0]].opcode != "parameter"
        else:
            barrier[name] = not (name in fusible or spread or opcode in _SOURCES or stored[name] != name)
        level[name] = max((level[operand] + barrier[operand] for operand in operands), default=0)
        depth[name] = max((depth[operand] + (barrier[operand] or parted(operand, name)) for operand in operands), default=0)
        if instruction.after:
            depth[name] = max([depth[name], *(depth[other] + 1 for other in instruction.after if other in depth)])
            awaited.update(instruction.after)
        if name in fusible and any(table[stored[operand]].destination == "device" or stored[operand] in arriving for operand in operands):
            arriving.add(name)
    for instruction in reversed(computation.instructions):  # they wait for their other operands; until then their operands need no tiles
        name, using = instruction.name, users[instruction.name]
        if (
            (name in arriving or (name in fusible and is_repeated(table[name], table)))
            and name not in awaited
            and using
            and all(user.name in fusible and size[user.name] == size[name] for user in using)
        ):
            depth[name] = min(depth[user.name] for user in using)
    for instruction in computation.instructions:
        name = instruction.name
        if name not in fusible:
            continue
        leader[name] = name
        for operand in instruction.operands:
            root = stored[operand]
            if root in leader and depth[root] == depth[name] and size[root] == size[name] and together(root, name):
                leader[find(root)] = find(name)
    copies: dict[tuple[int, int], str] = {}
    busy = {find(name) for name in leader if table[name].opcode != "copy"}
    for name in leader:
        if find(name) not in busy and size[name] <= SMALL_COPY:
            first = copies.setdefault((depth[name], size[name]), name)
            leader[find(name)] = find(first)
    groups = {name: find(name) for name in leader}
    for instruction in reversed(computation.instructions):
        name, root = instruction.name, stored[instruction.name]
        if root != name and root in leader and any(groups.get(user.name) == groups[root] for user in users[name]):
            groups[name] = groups[root]
    return groups, level
