"""Copies into another layout that XLA:CPU makes for its convolutions.

XLA:CPU's convolution wants its dimensions in one order, so gradients get copies of their operands. Poplar's convolution takes any order:
it transposes groups of channels on the tiles where they lie, and brings them with its own exchange (`regroupTensor` in poplibs@7eac0f26
lib/poplin/Convolution.cpp and lib/popops/Rearrange.cpp).

A kernel that stays on the device, and that one convolution alone reads, is laid out for this convolution: it needs no copy at all
(`createWeights` there).
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from tilestep.cost.copy import REGROUPED
from tilestep.program.context import Context
from tilestep.program.hlo import Computation, Instruction

_VIEWS = frozenset({"bitcast", "reshape"})


def regrouped(computation: Computation, _: Context) -> Computation:
    """The computation in which copies that only convolutions read, directly or through views, have the attribute `REGROUPED`.

    `tilestep.cost` prices such copies as work on the tiles, without an exchange. Those of values that stay are views.
    """
    if all(instruction.opcode != "convolution" for instruction in computation.instructions):
        return computation
    users = computation.users
    instructions = tuple(
        _regrouped(instruction, computation, users)
        if instruction.opcode == "copy" and instruction is not computation.root and _only_convolved(instruction, users)
        else instruction
        for instruction in computation.instructions
    )
    return replace(computation, instructions=instructions)


def _regrouped(copy: Instruction, computation: Computation, users: Mapping[str, Sequence[Instruction]]) -> Instruction:
    """The copy as it is priced."""
    source = computation.by_name[copy.operands[0]]
    while source.opcode in _VIEWS and len(users[source.name]) == 1:
        source = computation.by_name[source.operands[0]]
    if _stays(source, computation, users):
        return replace(copy, opcode="bitcast")
    return replace(copy, attributes={**copy.attributes, REGROUPED: "true"})


def _stays(value: Instruction, computation: Computation, users: Mapping[str, Sequence[Instruction]]) -> bool:
    """Whether a value comes in and is returned as it is, and one instruction reads it besides."""
    root = computation.root
    others = [user for user in users[value.name] if user is not root]
    return (
        value.opcode in ("parameter", "get-tuple-element") and root.opcode == "tuple" and value.name in root.operands and len(others) == 1
    )


def _only_convolved(instruction: Instruction, users: Mapping[str, Sequence[Instruction]]) -> bool:
    readers = users[instruction.name]
    return bool(readers) and all(
        reader.opcode == "convolution" or (reader.opcode in _VIEWS and _only_convolved(reader, users)) for reader in readers
    )
