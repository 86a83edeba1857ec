"""Elementwise values that later fusions compute again from one array, where keeping them would take more memory than that array.

The gradient of an activation function such as GELU reads half a dozen functions of one array. XLA names each of them in the forward pass,
so that each would be an array of its own until the backward pass. Poplar's gradient takes the function's input alone, and computes the
rest again (`popnn::nonLinearityInputGradient`, poplibs@7eac0f26 include/popnn/NonLinearity.hpp). So does a norm's: it takes the norm's
operand, and subtracts the mean again (`popnn::bn::batchNormGradients`, include/popnn/BatchNorm.hpp).
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from typing import Final

from tilestep.plan.passes.rematerialize import AGAIN
from tilestep.program.hlo import Computation, Instruction

LONGEST_CHAIN: Final = 16  # operations in a row; the end of a longer chain is kept
_VIEWS: Final = frozenset({"bitcast", "reshape"})


def from_one_array(
    computation: Computation, leader: Mapping[str, str], *, fusible: AbstractSet[str], absorbed: AbstractSet[str]
) -> Computation:
    """The computation in which fusions compute functions of one array again, where that takes less memory than to keep them.

    Args:
        leader: of each operation of a fusion, the name of the fusion.
        fusible: names of elementwise operations.
        absorbed: operations that nobody stores.
    """
    return _Again(computation, leader, fusible, absorbed).computation()


class _Again:
    """One computation on its way."""

    def __init__(self, computation: Computation, leader: Mapping[str, str], fusible: AbstractSet[str], absorbed: AbstractSet[str]) -> None:
        self._computation, self._leader, self._fusible, self._absorbed = computation, leader, fusible, absorbed
        self._table, self._users = computation.by_name, computation.users
        self._number = {instruction.name: number for number, instruction in enumerate(computation.instructions)}
        self._source: dict[str, str] = {}  # function of one array -> the array
        self._chain: dict[str, int] = {}  # operations between the two
        self._clones: dict[str, Instruction] = {}
        self._stored: dict[str, bool] = {}
        for instruction in computation.instructions:
            if instruction.name in fusible:
                self._trace(instruction)

    def computation(self) -> Computation:
        """The computation with the values that fusions compute again."""
        wanted = self._wanted()
        if not wanted:
            return self._computation
        instructions: list[Instruction] = []
        for instruction in self._computation.instructions:
            if instruction.name in self._fusible:
                where = self._leader[instruction.name]
                operands = tuple(
                    self._again(operand, where, instructions)
                    if (value := self._behind(operand)) in wanted and self._leader[value] != where
                    else operand
                    for operand in instruction.operands
                )
                instruction = instruction if operands == instruction.operands else replace(instruction, operands=operands)
            instructions.append(instruction)
        root = next(i for i in instructions if i.name == self._computation.root.name)
        return replace(self._computation, instructions=tuple(instructions), root=root)

    def _wanted(self) -> set[str]:
        """Values that no fusion keeps for another one any more."""
        fusions: dict[str, set[str]] = {}  # value -> the fusions that read it
        kept: dict[str, list[str]] = defaultdict(list)  # array -> its functions that only other fusions read
        for name, source in self._source.items():
            away = {self._leader[reader.name] for reader in self._readers(name) if reader.name in self._fusible} - {self._leader[name]}
            if away and not self._is_stored(name):
                kept[source].append(name)
                fusions[name] = away
        wanted: set[str] = set()
        for source, names in kept.items():
            beside = {self._leader[reader.name] for reader in self._readers(source) if reader.name in self._fusible}
            is_there = any(not beside.isdisjoint(fusions[name]) for name in names)
            size_bytes = sum(map(self._size_bytes, names))
            is_less = size_bytes > (0 if is_there else self._size_bytes(source))
            if is_less or (size_bytes == self._size_bytes(source) and self._is_read_late(source, names)):
                wanted.update(names)
        return wanted

    def _is_read_late(self, source: str, names: Sequence[str]) -> bool:
        """Whether an operation outside of fusions, for which the array is kept anyway, need not come before those that read its functions.

        So it is with the result of an activation function: the product that is the gradient of the next weights reads it. The derivative
        of tanh, which JAX 0.12 computes of the result in one piece, then takes no memory.
        """
        outside = {reader.name for reader in self._readers(source) if reader.name not in self._fusible}
        if not outside:
            return False
        first = min(self._number[name] for name in outside)  # nothing that stands before it needs it
        before: set[str] = set()
        waiting = [reader.name for name in names for reader in self._readers(name)]
        while waiting:
            name = waiting.pop()
            if name not in before and self._number[name] >= first:
                before.add(name)
                waiting += self._table[name].operands
        return not outside <= before

    def _trace(self, instruction: Instruction) -> None:
        """Notes the array that an operation is a function of, if it is one array and some small values."""
        found: set[str] = set()
        length = 1
        for operand in instruction.operands:
            value = self._behind(operand)
            if value in self._absorbed and self._table[value].opcode == "broadcast":
                continue
            if value in self._source and not self._is_stored(value):
                found.add(self._source[value])
                length = max(length, self._chain[value] + 1)
            else:
                found.add(value)
        if len(found) == 1 and length <= LONGEST_CHAIN and self._elements(min(found)) == self._elements(instruction.name):
            self._source[instruction.name] = found.pop()
            self._chain[instruction.name] = length

    def _again(self, name: str, where: str, instructions: list[Instruction]) -> str:
        """The name of a function of an array, or of a view of one, as a fusion computes it for itself."""
        value = self._behind(name)
        if value not in self._source or self._is_stored(value):
            return name
        clone = f"{name}/{where}"
        if clone not in self._clones:
            instruction = self._table[name]
            operands = tuple(self._again(operand, where, instructions) for operand in instruction.operands)
            self._clones[clone] = replace(instruction, name=clone, operands=operands, attributes={**instruction.attributes, AGAIN: "true"})
            instructions.append(self._clones[clone])
        return clone

    def _behind(self, name: str) -> str:
        while self._table[name].opcode in _VIEWS:
            name = self._table[name].operands[0]
        return name

    def _readers(self, name: str) -> Iterator[Instruction]:
        for user in self._users[name]:
            if user.opcode in _VIEWS:
                yield from self._readers(user.name)
            else:
                yield user

    def _is_stored(self, name: str) -> bool:
        """Whether an operation outside of fusions reads a value."""
        if name not in self._stored:
            self._stored[name] = self._reaches_others(self._table[name])
        return self._stored[name]

    def _reaches_others(self, instruction: Instruction) -> bool:
        if instruction is self._computation.root:
            return True
        elements = self._elements(instruction.name)
        return any(
            self._reaches_others(user) if user.opcode in _VIEWS else user.name not in self._fusible or self._elements(user.name) != elements
            for user in self._users[instruction.name]
        )

    def _elements(self, name: str) -> int:
        return sum(leaf.size for leaf in self._table[name].leaves)

    def _size_bytes(self, name: str) -> int:
        return sum(leaf.size_bytes for leaf in self._table[name].leaves)
