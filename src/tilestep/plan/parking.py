"""What loops gather slice by slice in pinned_host: such an array is there from the start, and never in the tiles."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tilestep.program.hlo import Computation, Instruction, users_of

_SAME = ("bitcast", "reshape", "copy")  # as far as it matters here where a value lies
Users = Mapping[str, Sequence[Instruction]]


@dataclass(frozen=True, kw_only=True)
class Parking:
    """Of the loops of one computation."""

    elements: Mapping[str, Mapping[int, bool]]  # by loop: carried elements that lie in pinned_host; whether something is in them before
    unstored: frozenset[str]  # instructions that only fill such an element with a constant before the loop writes all its slices


def parking(computation: Computation, computations: Mapping[str, Computation]) -> Parking:
    """Finds them: elements that the body only writes slices into, which it has moved to pinned_host, or that the caller moves there."""
    users = users_of(computation.instructions)
    elements: dict[str, dict[int, bool]] = {}
    unstored: set[str] = set()
    for loop in computation.instructions:
        if loop.opcode != "while":
            continue
        body = computations[loop.called("body")[0]]
        found = [
            index
            for index in range(len(body.root.operands) if body.root.opcode == "tuple" else 0)
            if _gathers(body, index, computations, wanted=_only_moved(loop, index, users))
        ]
        for index in found:
            filling = _filling(loop, index, computation, users)
            elements.setdefault(loop.name, {})[index] = filling is None
            unstored.update(filling or ())
    return Parking(elements=elements, unstored=frozenset(unstored))


def _source(name: str, computation: Computation) -> Instruction:
    instruction = computation.by_name[name]
    while instruction.opcode in _SAME:
        instruction = computation.by_name[instruction.operands[0]]
    return instruction


def _gathers(body: Computation, index: int, computations: Mapping[str, Computation], *, wanted: bool) -> bool:
    """Whether a body does nothing to a carried element but write slices into it that are in pinned_host, or any if `wanted`."""
    users = users_of(body.instructions)
    last = _source(body.root.operands[index], body)
    if last.opcode == "dynamic-update-slice":
        into = last.operands[0]
        moved = _source(last.operands[1], body).destination == "host"
        return (moved or wanted) and _is_only_use(into, index, body, users)
    if last.opcode == "get-tuple-element":
        loop = body.by_name[last.operands[0]]
        if loop.opcode != "while":
            return False
        start, inner = body.by_name[loop.operands[0]], int(last.attributes["index"])
        return (
            start.opcode == "tuple"
            and _is_only_use(start.operands[inner], index, body, users)
            and _gathers(computations[loop.called("body")[0]], inner, computations, wanted=wanted)
        )
    return False


def _is_only_use(name: str, index: int, body: Computation, users: Users) -> bool:
    """Whether `name` is the carried element `index`, and nothing else uses that."""
    while len(users[name]) == 1 and body.by_name[name].opcode in _SAME:
        name = body.by_name[name].operands[0]
    element = body.by_name[name]
    return (
        len(users[name]) == 1
        and element.opcode == "get-tuple-element"
        and element.operands[0] == body.parameters[0].name
        and int(element.attributes["index"]) == index
    )


def _only_moved(loop: Instruction, index: int, users: Users) -> bool:
    """Whether all that becomes of an element after the loop is that it goes to pinned_host."""
    using = [user for user in users[loop.name] if user.opcode == "get-tuple-element" and int(user.attributes["index"]) == index]
    if any(user.opcode != "get-tuple-element" for user in users[loop.name]):
        return False
    waiting = [reader for user in using for reader in users[user.name]]
    found = bool(waiting)
    while waiting:
        user = waiting.pop()
        if user.opcode in _SAME and users[user.name]:
            waiting += users[user.name]
        elif user.destination != "host":
            return False
    return found


def _filling(loop: Instruction, index: int, computation: Computation, users: Users) -> list[str] | None:
    """What only this element needs of its first value, if that is one constant everywhere; None if it is anything else."""
    start = computation.by_name[loop.operands[0]]
    if start.opcode != "tuple" or len(users[start.name]) != 1:
        return None
    source = _source(start.operands[index], computation)
    if source.opcode != "constant" and (source.opcode != "broadcast" or _source(source.operands[0], computation).opcode != "constant"):
        return None
    chain: list[str] = []
    name = start.operands[index]
    while len(users[name]) == 1 and computation.by_name[name].opcode in (*_SAME, "broadcast"):
        chain.append(name)
        name = computation.by_name[name].operands[0]
    return [link for link in chain if computation.by_name[link].leaves[0].size == source.leaves[0].size]
