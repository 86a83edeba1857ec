"""The units of a computation as tasks that make and read values, for `order.py`."""

import heapq
from collections import defaultdict
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace

from tilestep.plan.passes.order import MemoryTask, Tasks, smallest_peak
from tilestep.program.hlo import Computation, Instruction

_VIEWS = frozenset({"bitcast", "reshape"})
_NAMES = _VIEWS | {"get-tuple-element", "tuple"}  # other names of values
_UPDATES = frozenset({"dynamic-update-slice", "scatter"})  # write into their first operands, behind all that read them before


def ordered(
    computation: Computation,
    members: Mapping[str, Sequence[Instruction]],
    leader: Mapping[str, str],
    absorbed: AbstractSet[str],
    *,
    enough_bytes: int,
    taken_over: Mapping[int, tuple[int, int]],
) -> list[str]:
    """The units' names in an order with a small peak.

    Args:
        members: of each unit, by its name.
        leader: of each instruction of a fused unit, the unit's name.
        absorbed: instructions that nobody stores.
        enough_bytes: with a peak of no more than that, in values of all tiles, the program's order stays.
        taken_over: of results, by their numbers, the parameter and its leaf whose memory they take over.
    """
    unit_of = {instruction.name: leader.get(instruction.name, instruction.name) for instruction in computation.instructions}
    needs = {
        unit: {
            unit_of[name]
            for instruction in instructions
            for name in (*instruction.operands, *instruction.after)
            if name in unit_of and unit_of[name] != unit
        }
        for unit, instructions in members.items()
    }
    names = _in_program_order(needs)
    numbers = {unit: number for number, unit in enumerate(names)}
    values = _Values(computation, absorbed)
    tasks: list[MemoryTask] = []
    readers: dict[int, list[int]] = defaultdict(list)
    for number, unit in enumerate(names):
        instructions = [instruction for instruction in members[unit] if instruction.opcode not in _NAMES]
        makes = [value for instruction in instructions for value in values.made_by(instruction.name)]
        reads = dict.fromkeys(value for instruction in instructions for operand in instruction.operands for value in values.of(operand))
        for value in makes:
            reads.pop(value, None)
        before = {numbers[other] for other in needs[unit]}
        for instruction in instructions:
            if instruction.opcode in _UPDATES:
                before.update(reader for value in values.of(instruction.name) for reader in readers[value])
        for value in reads:
            readers[value].append(number)
        tasks.append(MemoryTask(reads=tuple(reads), makes=tuple(makes), after=tuple(sorted(before)), in_place=unit in leader))
    results = values.of(computation.root.name)
    root, sizes, made = frozenset(results), values.sizes, [value for task in tasks for value in task.makes]
    read = {value for task in tasks for value in task.reads}
    inside = frozenset(value for value in made if value not in read and value not in root)
    for value in inside:
        sizes[value] = 0
    pairs = {results[result]: values.of_parameter(*parameter) for result, parameter in taken_over.items()}
    _take_over(tasks, sizes, readers, pairs)
    return [names[number] for number in smallest_peak(Tasks(tasks=tuple(tasks), sizes=tuple(sizes), kept=root), enough_bytes=enough_bytes)]


def _take_over(tasks: list[MemoryTask], sizes: list[int], readers: Mapping[int, Sequence[int]], pairs: Mapping[int, int]) -> None:
    """Has results written where a parameter lies: behind all tasks that read the parameter, and in no memory of their own.

    A result stays as it is if the program's order reads the parameter later.

    Args: readers: of each value, the tasks that read it; pairs: of each such result the parameter.
    """
    makers = {value: number for number, task in enumerate(tasks) for value in task.makes if value in pairs}
    for value, maker in makers.items():
        before = readers.get(pairs[value], ())
        if all(number <= maker for number in before):
            sizes[value] = 0
            task = tasks[maker]
            tasks[maker] = replace(task, after=tuple(sorted({*task.after, *before} - {maker})))


def _in_program_order(needs: Mapping[str, AbstractSet[str]]) -> list[str]:
    """Units behind those that they need, otherwise as the program has them. Args: needs: of each unit, in the program's order."""
    ranks = {unit: rank for rank, unit in enumerate(needs)}
    users: dict[str, list[str]] = defaultdict(list)
    for unit, others in needs.items():
        for other in others:
            users[other].append(unit)
    waits = {unit: len(others) for unit, others in needs.items()}
    ready = [(ranks[unit], unit) for unit, count in waits.items() if not count]
    heapq.heapify(ready)
    order: list[str] = []
    while ready:
        _, unit = heapq.heappop(ready)
        order.append(unit)
        for user in users[unit]:
            waits[user] -= 1
            if not waits[user]:
                heapq.heappush(ready, (ranks[user], user))
    assert len(order) == len(needs), "units need each other in a circle"
    return order


class _Values:
    """Which arrays each instruction stands for. Views, tuples and updates stand for arrays of others."""

    def __init__(self, computation: Computation, absorbed: AbstractSet[str]) -> None:
        self.sizes: list[int] = []
        self._of: dict[str, tuple[int, ...]] = {}
        self._made: dict[str, tuple[int, ...]] = {}
        self._parameters: dict[int, tuple[int, ...]] = {}
        table = computation.by_name
        for instruction in computation.instructions:
            name, opcode, operands = instruction.name, instruction.opcode, instruction.operands
            if opcode in ("constant", "iota"):
                self._of[name] = tuple(self._new(0) for _ in instruction.leaves)
            elif opcode == "parameter":  # there from the start; the plan keeps them whatever the order
                self._of[name] = self._parameters[int(instruction.literal)] = tuple(self._new(0) for _ in instruction.leaves)
            elif opcode in _VIEWS or name in absorbed:
                self._of[name] = self._of[operands[0]]
            elif opcode == "tuple":
                self._of[name] = tuple(value for operand in operands for value in self._of[operand])
            elif opcode == "get-tuple-element":
                source = table[operands[0]]
                start, end = source.shape.span(int(instruction.attributes["index"]))
                self._of[name] = self._of[source.name][start:end]
            elif opcode in _UPDATES:
                self._of[name] = self._of[operands[0]]
            else:
                host = instruction.destination == "host"
                self._of[name] = self._made[name] = tuple(self._new(0 if host else leaf.size_bytes) for leaf in instruction.leaves)

    def _new(self, size_bytes: int) -> int:
        self.sizes.append(size_bytes)
        return len(self.sizes) - 1

    def of_parameter(self, number: int, leaf: int) -> int:
        """The value that a leaf of a parameter stands for."""
        return self._parameters[number][leaf]

    def of(self, name: str) -> tuple[int, ...]:
        """The values that an instruction stands for."""
        return self._of[name]

    def made_by(self, name: str) -> tuple[int, ...]:
        """Those of them that it makes."""
        return self._made.get(name, ())
