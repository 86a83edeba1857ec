"""Finds copies that only XLA:CPU's buffers need, because an IPU orders its own steps.

XLA copies an argument before a result takes over its memory, and a carried value before the loop writes the next one. Such a copy is
needed only if an instruction reads the old value after the new one is written, or if an instruction writes into the copy while the
original must survive.
"""

from collections.abc import Mapping, Sequence

from tilestep.program.context import Context, Origin
from tilestep.program.hlo import Computation, Instruction, rebuilt

_WRITES_INTO_OPERANDS = frozenset({"tuple", "while", "conditional", "dynamic-update-slice", "scatter", "custom-call"})


def entry_origins(entry: Computation, aliases: Mapping[int, int]) -> dict[str, Origin]:
    """Arguments: one that is not donated streams in anew at each run, so that it may be overwritten."""
    results = {argument: result for result, argument in aliases.items()}
    found: dict[str, Origin] = {}
    for parameter in entry.parameters:
        result = results.get(int(parameter.literal))
        found[parameter.name] = Origin(writer=None if result is None else _operand_of_root(entry, result), survives=False)
    return found


def body_origins(body: Computation) -> dict[str, Origin]:
    """The carried elements of a loop. An element that comes back unchanged must survive the trip."""
    found: dict[str, Origin] = {}
    for instruction in _elements(body):
        writer = _operand_of_root(body, int(instruction.attributes["index"]))
        same = writer == instruction.name
        found[instruction.name] = Origin(writer=None if same else writer, survives=same)
    return found


def reader_origins(computation: Computation) -> dict[str, Origin]:
    """The values of a branch's arm or a loop's condition, which belong to the caller."""
    names = [*(parameter.name for parameter in computation.parameters), *(element.name for element in _elements(computation))]
    return {name: Origin(writer=None, survives=True) for name in names}


def without_needless_copies(computation: Computation, context: Context) -> Computation:
    """The computation without copies that may go."""
    copies = _needless(computation, context.origins)
    return rebuilt(computation, {}, copies) if copies else computation


def _needless(computation: Computation, origins: Mapping[str, Origin]) -> dict[str, str]:
    """Copies that may go: their name, and the name of the value that they copy."""
    users = computation.users
    found: dict[str, str] = {}
    for name, origin in origins.items():
        shape = computation.by_name[name].shape
        copies = [user for user in users[name] if user.opcode == "copy" and user.shape == shape]
        if not copies:
            continue
        readers = [*users[name], *(reader for copy in copies for reader in users[copy.name])]
        if origin.writer is not None:
            late = _descendants(origin.writer, users)
            if any(reader.name in late for reader in readers):
                continue
        for copy in copies:
            using = users[copy.name]
            if copy is computation.root or any(user is computation.root for user in using):
                continue
            written_into = any(user.opcode in _WRITES_INTO_OPERANDS and not user.destination for user in using)
            if not written_into or (len(users[name]) == 1 and not origin.survives):
                found[copy.name] = name
    for copy in computation.instructions:  # XLA does not know that a move between memories needs no copy
        if copy.opcode == "copy" and len(users[copy.operands[0]]) == 1:
            source = computation.by_name[copy.operands[0]]
            if source.destination and source.shape == copy.shape:
                found[copy.name] = source.name
    return found


def _elements(computation: Computation) -> list[Instruction]:
    """The elements that a computation takes out of its one tuple parameter."""
    names = {parameter.name for parameter in computation.parameters if parameter.is_tuple}
    return [i for i in computation.instructions if i.opcode == "get-tuple-element" and i.operands[0] in names]


def _operand_of_root(computation: Computation, index: int) -> str | None:
    root = computation.root
    if root.opcode == "tuple":
        return root.operands[index]
    return root.name


def _descendants(name: str, users: Mapping[str, Sequence[Instruction]]) -> set[str]:
    """Everything that needs a value, directly or not; not the value itself."""
    reached: set[str] = set()
    waiting = [name]
    while waiting:
        for user in users[waiting.pop()]:
            if user.name not in reached:
                reached.add(user.name)
                waiting.append(user.name)
    return reached
