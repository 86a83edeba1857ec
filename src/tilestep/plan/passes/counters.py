"""Loop counters that nothing but the loop itself reads."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from tilestep.program.hlo import Computation, Instruction, rebuilt

_COUNTING = ("add", "subtract")


def without_counters(body: Computation) -> Computation:
    """The body of a loop with a known number of trips, without the scalars that only count those.

    Control code counts the trips of such a loop. A carried integer goes if its next value is itself plus or minus a constant, and
    nothing else in the body reads it: its value after the last trip is known without computing it. Any other scalar has to be
    computed trip by trip, also one that depends on nothing but itself, and a float, because each sum rounds.
    """
    if len(body.parameters) != 1 or body.root.opcode != "tuple":
        return body
    table = body.by_name
    users = body.users
    carried = body.parameters[0].name
    operands = list(body.root.operands)
    for instruction in body.instructions:
        if instruction.opcode != "get-tuple-element" or instruction.operands[0] != carried:
            continue
        if instruction.leaves[0].dims or instruction.leaves[0].dtype[0] not in "su":  # s32, u32, ...
            continue
        index = int(instruction.attributes["index"])
        if _counts(instruction, operands[index], users, table):
            operands[index] = instruction.name
    if tuple(operands) == body.root.operands:
        return body
    return rebuilt(body, {body.root.name: replace(body.root, operands=tuple(operands))}, {})


def _counts(counter: Instruction, following: str, users: Mapping[str, Sequence[Instruction]], table: Mapping[str, Instruction]) -> bool:
    """Whether a counter leads to its next value, `following`, through sums with constants, and to nothing else."""
    name = counter.name
    while name != following:
        (user, *others) = users[name] or (counter,)
        if others or user.opcode not in _COUNTING or user.operands.count(name) != 1:
            return False
        other = next(operand for operand in user.operands if operand != name)
        if table[other].opcode != "constant" or (user.opcode == "subtract" and user.operands[1] == name):
            return False
        name = user.name
    return name != counter.name and len(users[name]) == 1
