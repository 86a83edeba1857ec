"""Layouts of values over the tiles: which values have to move to other tiles before an operation can use them.

The model is coarse on purpose. A *home* names the operation that laid a value out over the tiles, and values of equal home
have equal layouts. The home ANYWHERE says that the first reader chooses the layout, once, before the program starts. This
holds for arguments, for constants, and for what a loop carries and only updates elementwise (weights in a training loop).
"""

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import NamedTuple

from tilestep.program.hlo import Computation, Instruction
from tilestep.program.work import ArrayShape

ANYWHERE = ""
# The result has the layout of the operand.
_STAYS = frozenset({"all-reduce", "dynamic-update-slice", "scatter"})


class MappedArray(NamedTuple):
    """One array of a value: the buffer that holds it, and its home."""

    buffer: int
    home: str


Value = tuple[MappedArray, ...]


@dataclass(frozen=True, kw_only=True)
class Placed:
    """Home of a fusion, and bytes of the operands that have another home (on all tiles together)."""

    home: str
    moved_bytes: int


def home_of(instruction: Instruction, operands: Sequence[Value], leaf: int) -> str:
    """Home of one leaf of the result of an operation that is not part of a fusion."""
    if instruction.opcode in _STAYS and leaf < len(operands) and operands[leaf]:
        return operands[leaf][0].home
    return instruction.name


def place_fusion(name: str, inputs: Sequence[tuple[MappedArray, ArrayShape]], size: int, products: AbstractSet[str]) -> Placed:
    """A fusion runs in the layout of an operand; operands of another layout move.

    Args:
        name: of the fusion; its home if no operand has one.
        inputs: the arrays that it reads, and their shapes.
        size: elements of one full operand; smaller ones are broadcast, which the estimator prices.
        products: homes of matmuls and convolutions; such an operand stays, and the others come to it.
    """
    full = [(leaf.home, shape) for leaf, shape in inputs if shape.size == size]
    fixed = [home for home, _ in full if home != ANYWHERE]
    home = next((home for home in fixed if home in products), fixed[0] if fixed else name)
    moved = sum(shape.size_bytes for other, shape in full if other not in (home, ANYWHERE))
    return Placed(home=home, moved_bytes=moved)


def keeping_layout(body: Computation, fused: AbstractSet[str]) -> frozenset[int]:
    """Indices of a loop's carried elements that keep their layout, because the body at most updates them elementwise.

    Args: fused: names of the body's elementwise instructions.
    """
    if len(body.parameters) != 1 or body.root.opcode != "tuple":
        return frozenset()
    reached: dict[str, int] = {}  # name -> the carried elements that it is an elementwise function of, one bit each
    for instruction in body.instructions:
        if instruction.opcode == "get-tuple-element" and instruction.operands[0] == body.parameters[0].name:
            reached[instruction.name] = 1 << int(instruction.attributes["index"])
        elif instruction.opcode == "dynamic-update-slice":
            reached[instruction.name] = reached.get(instruction.operands[0], 0)
        elif instruction.name in fused or instruction.opcode in ("bitcast", "reshape"):
            bits = 0
            for operand in instruction.operands:
                bits |= reached.get(operand, 0)
            reached[instruction.name] = bits
    return frozenset(index for index, operand in enumerate(body.root.operands) if reached.get(operand, 0) >> index & 1)
