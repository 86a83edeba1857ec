"""Where values lie: which of them have to move to other tiles before an operation can use them.

The first model is coarse on purpose. A *home* names the operation that laid a value out over the tiles; values of equal
home lie together. The home ANYWHERE means that the value can be laid out as its reader wants it, once, before the
program starts: arguments, constants, and what a loop carries and only updates elementwise (weights in a training loop).
"""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import NamedTuple

from tilestep.program.hlo import Computation, Instruction
from tilestep.program.work import ArrayShape

ANYWHERE = ""
# The result lies where the first operand lies.
_STAYS = frozenset({"all-reduce", "dynamic-update-slice", "scatter"})


class Leaf(NamedTuple):
    """One array of a value: the buffer that holds it, and where it lies."""

    buffer: int
    home: str


Value = tuple[Leaf, ...]


@dataclass(frozen=True, kw_only=True)
class Placed:
    """Home of a fused pass, and bytes of operands that come from elsewhere (on all tiles together)."""

    home: str
    moved_bytes: int


def home_of(instruction: Instruction, operands: Sequence[Value], leaf: int) -> str:
    """Home of one leaf of the result of an operation that is not part of a fused pass."""
    if instruction.opcode in _STAYS and leaf < len(operands) and operands[leaf]:
        return operands[leaf][0].home
    return instruction.name


def place_pass(name: str, inputs: Sequence[tuple[Leaf, ArrayShape]], size: int, products: AbstractSet[str]) -> Placed:
    """A fused pass runs where its operands lie; those that lie elsewhere move.

    Args:
        name: of the pass; its home if no operand decides.
        inputs: what it reads.
        size: elements of one full operand; smaller ones are broadcast, which the estimator prices.
        products: homes laid out by a matmul or convolution; such an operand stays where it is, others come to it.
    """
    full = [(leaf.home, shape) for leaf, shape in inputs if shape.size == size]
    fixed = [home for home, _ in full if home != ANYWHERE]
    home = next((home for home in fixed if home in products), fixed[0] if fixed else name)
    moved = sum(shape.size_bytes for other, shape in full if other not in (home, ANYWHERE))
    return Placed(home=home, moved_bytes=moved)


def settled(body: Computation, fused: AbstractSet[str]) -> frozenset[int]:
    """Elements of a loop's carried tuple that come back as they were or only updated elementwise: they keep their layout.

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
