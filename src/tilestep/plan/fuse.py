"""Which operations run in one pass, and in which order the passes run.

Poplar fuses elementwise expressions into one compute set: each tile reads the inputs once, computes the whole
expression in registers and writes what others need. So elementwise operations of equal size that use each other are
one unit here; everything else is a unit of its own.

Units must not need their own result by a detour. They cannot, because fusion keeps to one *depth*: the most operations
that are not elementwise on any path from the start. A path that leaves a unit through such an operation arrives deeper.
A path that leaves through a broadcast stays at its depth but arrives at a larger size, and only deeper operations
(reductions, slices) lead back to a smaller one. So no path joins two units of equal depth and size, and small copies
that XLA put in for the sake of loops (one for each carried scalar) share a pass without using each other.

An operation on what comes from the host's memory is as deep as the least deep of the operations that use its result, if they are
elementwise and of its size: it is computed with them, and not before. No operation is deeper than one that uses it, so the
argument holds.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from tilestep.program.hlo import Computation, Instruction, users_of

VIEWS = frozenset({"bitcast", "reshape"})
SMALL_COPY = 1024  # elements; copies up to this size at one depth go together
_SOURCES = frozenset({"parameter", "constant"})


@dataclass(frozen=True, kw_only=True)
class Unit:
    """Instructions that run in one pass: elementwise ones if `fused`, else a single one."""

    members: tuple[Instruction, ...]  # in the order of the program; of a fused unit also the views between its operations
    fused: bool


@dataclass(frozen=True, kw_only=True)
class Units:
    """A computation's units in an order in which each follows its operands."""

    order: tuple[Unit, ...]
    fusible: frozenset[str]  # names of elementwise instructions
    absorbed: frozenset[str]  # not stored: broadcasts, slices and pads that are read through, iotas that reductions count


def fuse(computation: Computation, *, elementwise: AbstractSet[str]) -> Units:
    """Groups and orders a computation's instructions.

    Args: elementwise: the opcodes that may share a pass.
    """
    users = users_of(computation.instructions)
    table = computation.by_name
    counted = {i.name for i in computation.instructions if i.opcode == "iota" and _only_reduced(i, computation, users)}
    fusible = {i.name for i in computation.instructions if is_fusible(i, table, elementwise)} - counted
    absorbed = frozenset(_absorbed(computation, users, fusible) | counted)
    leader = _leaders(computation, fusible, absorbed, users)
    members: dict[str, list[Instruction]] = defaultdict(list)
    for instruction in computation.instructions:
        members[leader.get(instruction.name, instruction.name)].append(instruction)
    order = _ordered(members, leader)
    return Units(
        order=tuple(Unit(members=tuple(members[name]), fused=name in leader) for name in order),
        fusible=frozenset(fusible),
        absorbed=absorbed,
    )


def is_fusible(instruction: Instruction, table: Mapping[str, Instruction], elementwise: AbstractSet[str]) -> bool:
    """Whether an instruction can be part of a pass: elementwise, one result; a copy only if it keeps the layout."""
    if instruction.opcode not in elementwise or instruction.is_tuple:
        return False
    if instruction.opcode != "copy":
        return True
    source = table[instruction.operands[0]]
    return not source.is_tuple and source.leaves[0].minor_to_major == instruction.leaves[0].minor_to_major


def _only_reduced(iota: Instruction, computation: Computation, users: Mapping[str, list[Instruction]]) -> bool:
    """Whether only reductions read an iota, as an argmax does: they know where they are."""
    return iota is not computation.root and bool(users[iota.name]) and all(user.opcode == "reduce" for user in users[iota.name])


def _absorbed(computation: Computation, users: Mapping[str, list[Instruction]], fusible: AbstractSet[str]) -> set[str]:
    """Broadcasts and slices that only elementwise operations read, directly or through views; pads that only such slices read."""
    found: set[str] = set()
    readable: set[str] = set(fusible)  # instructions that can take a broadcast or slice unstored, views of it included
    for instruction in reversed(computation.instructions):
        opcode, readers = instruction.opcode, users[instruction.name]
        if instruction is computation.root or not readers:
            continue
        if opcode == "pad" and all(user.opcode == "slice" and user.name in found for user in readers):
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
    computation: Computation, fusible: AbstractSet[str], absorbed: AbstractSet[str], users: Mapping[str, list[Instruction]]
) -> dict[str, str]:
    """For each fusible instruction, and each view between two of a group, the name that stands for the group."""
    table = computation.by_name
    depth: dict[str, int] = {}
    leader: dict[str, str] = {}

    def size(name: str) -> int:
        return table[name].leaves[0].size

    def transparent(name: str) -> bool:
        instruction = table[name]
        return (instruction.opcode in VIEWS or (name in absorbed and instruction.opcode == "broadcast")) and size(name) == size(
            instruction.operands[0]
        )

    def barrier(name: str) -> bool:
        opcode = table[name].opcode
        if opcode == "get-tuple-element":
            return table[table[name].operands[0]].opcode != "parameter"
        return not (name in fusible or (name in absorbed and opcode == "broadcast") or opcode in _SOURCES or transparent(name))

    def find(name: str) -> str:
        while leader[name] != name:
            leader[name] = leader[leader[name]]
            name = leader[name]
        return name

    def stored(name: str) -> str:
        while transparent(name):
            name = table[name].operands[0]
        return name

    arriving: set[str] = set()  # operations on values from the host's memory, or on their results
    for instruction in computation.instructions:
        name = instruction.name
        depth[name] = max((depth[operand] + barrier(operand) for operand in instruction.operands), default=0)
        sources = [stored(operand) for operand in instruction.operands] if name in fusible else []
        if any(table[source].destination == "device" or source in arriving for source in sources):
            arriving.add(name)
    for instruction in reversed(computation.instructions):  # they wait for their other operands; until then their operands need no tiles
        name, using = instruction.name, users[instruction.name]
        if name in arriving and using and all(user.name in fusible and size(user.name) == size(name) for user in using):
            depth[name] = min(depth[user.name] for user in using)
    for instruction in computation.instructions:
        name = instruction.name
        if name not in fusible:
            continue
        leader[name] = name
        for operand in instruction.operands:
            root = stored(operand)
            if root in leader and depth[root] == depth[name] and size(root) == size(name):
                leader[find(root)] = find(name)
    copies: dict[tuple[int, int], str] = {}
    busy = {find(name) for name in leader if table[name].opcode != "copy"}
    for name in leader:
        if find(name) not in busy and size(name) <= SMALL_COPY:
            first = copies.setdefault((depth[name], size(name)), name)
            leader[find(name)] = find(first)
    groups = {name: find(name) for name in leader}
    for instruction in reversed(computation.instructions):
        if transparent(instruction.name):
            root = instruction.name
            while transparent(root):
                root = table[root].operands[0]
            if root in leader and any(groups.get(user.name) == groups[root] for user in users[instruction.name]):
                groups[instruction.name] = groups[root]
    return groups


def _ordered(members: Mapping[str, list[Instruction]], leader: Mapping[str, str]) -> list[str]:
    """Units in topological order, otherwise as the program has them."""
    needs: dict[str, set[str]] = {unit: set() for unit in members}
    users: dict[str, set[str]] = defaultdict(set)
    for unit, instructions in members.items():
        for instruction in instructions:
            for operand in instruction.operands:
                other = leader.get(operand, operand)
                if other != unit:
                    needs[unit].add(other)
                    users[other].add(unit)
    rank = {unit: number for number, unit in enumerate(members)}
    ready = [(rank[unit], unit) for unit in members if not needs[unit]]
    heapq.heapify(ready)
    order: list[str] = []
    while ready:
        _, unit = heapq.heappop(ready)
        order.append(unit)
        for user in users[unit]:
            needs[user].discard(unit)
            if not needs[user]:
                heapq.heappush(ready, (rank[user], user))
    assert len(order) == len(members), "units need each other in a circle"
    return order
