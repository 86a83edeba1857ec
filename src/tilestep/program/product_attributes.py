"""Frontend attributes of products that XLA:CPU has rewritten.

XLA:CPU's convolution wants its dimensions in one order, so it makes others anew, with copies and views around them. What it makes has no
name of the author's, but the last instruction of it: this one gets the name and the frontend attributes of what stood there.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from tilestep.program.context import Context
from tilestep.program.hlo import Computation, Instruction

FRONTEND: Final = "frontend_attributes"
_PRODUCTS: Final = frozenset({"dot", "convolution"})
_BEHIND_PRODUCTS: Final = frozenset({"bitcast", "reshape", "transpose", "copy", "convert", "reverse", "select"})


def with_attributes(computation: Computation, _: Context) -> Computation:
    """The computation in which a product that XLA made has the attributes of the operation that it made it for."""
    lost = [instruction for instruction in computation.instructions if _is_made(instruction) and instruction.opcode in _PRODUCTS]
    if not lost or not any(FRONTEND in instruction.attributes for instruction in computation.instructions):
        return computation
    users = computation.users
    found = {instruction.name: text for instruction in lost if (text := _behind(instruction, users))}
    if not found:
        return computation
    instructions = tuple(
        replace(instruction, attributes={**instruction.attributes, FRONTEND: found[instruction.name]})
        if instruction.name in found
        else instruction
        for instruction in computation.instructions
    )
    root = next(instruction for instruction in instructions if instruction.name == computation.root.name)
    return replace(computation, instructions=instructions, root=root)


def _behind(instruction: Instruction, users: Mapping[str, Sequence[Instruction]]) -> str:
    """The attributes of the instruction that ends what XLA made; '' if it has none, or is not found."""
    while len(readers := users.get(instruction.name, ())) == 1:
        instruction = readers[0]
        if not _is_made(instruction):
            return instruction.attributes.get(FRONTEND, "")
        if instruction.opcode not in _BEHIND_PRODUCTS:
            break
    return ""


def _is_made(instruction: Instruction) -> bool:
    """Whether XLA has made the instruction, so that it has neither a name of the author's nor attributes."""
    return not instruction.op_name and FRONTEND not in instruction.attributes
