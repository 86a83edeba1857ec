"""Loop counters that nothing but the loop itself reads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace

from tilestep.program.cleanup import rebuilt
from tilestep.program.hlo import Computation, Instruction, users_of


def without_counters(body: Computation, elementwise: AbstractSet[str]) -> Computation:
    """The body of a counted loop without the scalars that only count its trips.

    Control code counts the trips of such a loop. A carried scalar goes if its next value is made of nothing but itself
    and constants, and nothing else in the body reads it; its value after the last trip is known without computing it.
    """
    if len(body.parameters) != 1 or body.root.opcode != "tuple":
        return body
    table = body.by_name
    users = users_of(body.instructions)
    carried = body.parameters[0].name
    operands = list(body.root.operands)
    for instruction in body.instructions:
        if instruction.opcode != "get-tuple-element" or instruction.operands[0] != carried or instruction.leaves[0].dims:
            continue
        index = int(instruction.attributes["index"])
        if operands[index] != instruction.name and _counts(instruction, table[operands[index]], users, table, body.root, elementwise):
            operands[index] = instruction.name
    if tuple(operands) == body.root.operands:
        return body
    return rebuilt(body, {body.root.name: replace(body.root, operands=tuple(operands))}, {})


def _counts(
    counter: Instruction,
    following: Instruction,
    users: Mapping[str, Sequence[Instruction]],
    table: Mapping[str, Instruction],
    root: Instruction,
    elementwise: AbstractSet[str],
) -> bool:
    """Whether every use of the counter leads to its own next value, which needs nothing else."""
    reached = {counter.name}
    waiting = [counter]
    while waiting:
        for user in users[waiting.pop().name]:
            if user is root or user.name in reached:
                continue
            if user.opcode not in elementwise or user.leaves[0].dims:
                return False
            if not all(operand in reached or table[operand].opcode == "constant" for operand in user.operands):
                return False
            reached.add(user.name)
            waiting.append(user)
    uses_of_root = sum(operand in reached for operand in root.operands)
    return following.name in reached and uses_of_root == 1
