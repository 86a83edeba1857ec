"""Copies into another layout that XLA:CPU makes for its convolutions.

XLA:CPU's convolution wants its dimensions in one order, so gradients get copies of their operands. Poplar's convolution takes any order:
it transposes groups of channels on the tiles where they lie, and brings them with its own exchange (`regroupTensor` in poplibs@7eac0f26
lib/poplin/Convolution.cpp and lib/popops/Rearrange.cpp).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from tilestep.cost.copy import REGROUPED
from tilestep.program.hlo import Computation, Instruction, users_of

_VIEWS = frozenset({"bitcast", "reshape"})


def regrouped(computation: Computation) -> Computation:
    """The computation in which copies that only convolutions read, directly or through views, have the attribute `REGROUPED`.

    `tilestep.cost` prices such copies as work on the tiles, without an exchange.
    """
    if all(instruction.opcode != "convolution" for instruction in computation.instructions):
        return computation
    users = users_of(computation.instructions)
    instructions = tuple(
        replace(instruction, attributes={**instruction.attributes, REGROUPED: "true"})
        if instruction.opcode == "copy" and instruction is not computation.root and _only_convolved(instruction, users)
        else instruction
        for instruction in computation.instructions
    )
    return replace(computation, instructions=instructions)


def _only_convolved(instruction: Instruction, users: Mapping[str, Sequence[Instruction]]) -> bool:
    readers = users[instruction.name]
    return bool(readers) and all(
        reader.opcode == "convolution" or (reader.opcode in _VIEWS and _only_convolved(reader, users)) for reader in readers
    )
