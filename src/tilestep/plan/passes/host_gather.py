"""Finds arrays that a loop gathers in pinned_host, slice by slice: the tiles never hold such an array."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tilestep.program.hlo import Computation, Instruction

_SAME = ("bitcast", "reshape", "copy")  # their result may stay in the memory of their operand
Users = Mapping[str, Sequence[Instruction]]


@dataclass(frozen=True, kw_only=True)
class HostGathers:
    """The arrays that the loops of one computation gather in pinned_host."""

    # elements by loop, indices of the carried elements in pinned_host, and whether the loop begins with values in them
    elements: Mapping[str, Mapping[int, bool]]
    unstored: frozenset[str]  # instructions that only fill such an element with a constant, before the loop writes every slice of it


def host_gathers(computation: Computation, computations: Mapping[str, Computation]) -> HostGathers:
    """Finds carried elements into which a loop only writes slices, if the body or the caller moves these to pinned_host."""
    users = computation.users
    elements: dict[str, dict[int, bool]] = {}
    unstored: set[str] = set()
    for loop in computation.instructions:
        if loop.opcode != "while":
            continue
        body = computations[loop.called("body")[0]]
        gathered = [
            index
            for index in range(len(body.root.operands) if body.root.opcode == "tuple" else 0)
            if _gathers(body, index, computations, any_slice=_only_moved(loop, index, users))
        ]
        for index in gathered:
            filling = _filling(loop, index, computation, users)
            elements.setdefault(loop.name, {})[index] = filling is None
            unstored.update(filling or ())
    return HostGathers(elements=elements, unstored=frozenset(unstored))


def _source(name: str, computation: Computation) -> Instruction:
    instruction = computation.by_name[name]
    while instruction.opcode in _SAME:
        instruction = computation.by_name[instruction.operands[0]]
    return instruction


def _gathers(body: Computation, index: int, computations: Mapping[str, Computation], *, any_slice: bool) -> bool:
    """Whether a body only writes slices into a carried element: slices from pinned_host, or any slices if `any_slice`."""
    users = body.users
    last = _source(body.root.operands[index], body)
    if last.opcode == "dynamic-update-slice":
        into = last.operands[0]
        moved = _source(last.operands[1], body).destination == "host"
        return (moved or any_slice) and _is_only_use(into, index, body, users)
    if last.opcode == "get-tuple-element":
        loop = body.by_name[last.operands[0]]
        if loop.opcode != "while":
            return False
        start, inner = body.by_name[loop.operands[0]], int(last.attributes["index"])
        return (
            start.opcode == "tuple"
            and _is_only_use(start.operands[inner], index, body, users)
            and _gathers(computations[loop.called("body")[0]], inner, computations, any_slice=any_slice)
        )
    return False


def _is_only_use(name: str, index: int, body: Computation, users: Users) -> bool:
    """Whether `name` is the carried element `index` and its only use."""
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
    """Whether every use of an element after the loop moves it to pinned_host."""
    using = [user for user in users[loop.name] if user.opcode == "get-tuple-element" and int(user.attributes["index"]) == index]
    if any(user.opcode != "get-tuple-element" for user in users[loop.name]):
        return False
    readers = [reader for user in using for reader in users[user.name]]
    is_read = bool(readers)
    while readers:
        user = readers.pop()
        if user.opcode in _SAME and users[user.name]:
            readers += users[user.name]
        elif user.destination != "host":
            return False
    return is_read


def _filling(loop: Instruction, index: int, computation: Computation, users: Users) -> list[str] | None:
    """Instructions that fill an element's first value with one constant and serve nothing else; None if that value is no constant."""
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
