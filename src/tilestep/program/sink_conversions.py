"""Moves conversions to wider types back into loops, because XLA:CPU has moved them in front of the loops.

XLA:CPU multiplies halves in f32. If a loop multiplies by a constant value, XLA converts this value once in front of the loop, and the
loop carries it in f32. Inside the loop, the product then looks like one of floats.
"""

from collections import Counter, defaultdict
from dataclasses import replace

from tilestep.program.cleanup import HALVES, is_inserted
from tilestep.program.hlo import Computation, HloModule, Instruction
from tilestep.program.shapes import Shape

_PRODUCTS = ("dot", "convolution")
_VIEWS = ("bitcast", "reshape", "transpose")  # XLA:CPU multiplies a kernel of one element, for example, as a matrix

_MOVES = (*_VIEWS, "copy")


def sink_converts(module: HloModule) -> HloModule:
    """The module with such conversions inside the loops, in front of the products that read them.

    A conversion moves only if the loop does not change the value, only products read it or views of it, and nothing uses its last value.
    Copies and views between a conversion and its loop then move halves.
    """
    table = {**module.computations, module.entry.name: module.entry}
    callers = Counter(
        name
        for computation in table.values()
        for instruction in computation.instructions
        if instruction.opcode == "while"
        for name in (*instruction.called("body"), *instruction.called("condition"))
    )

    def visit(name: str) -> None:
        for loop in [instruction for instruction in table[name].instructions if instruction.opcode == "while"]:
            body = loop.called("body")[0]
            if callers[body] == 1 and callers[loop.called("condition")[0]] == 1:
                for index in range(len(loop.shape.elements or ())):
                    while _sink(table, name, loop.name, index):
                        pass  # one conversion after the other
            visit(body)

    visit(module.entry.name)
    return replace(module, entry=table[module.entry.name], computations={name: table[name] for name in module.computations})


def _sink(table: dict[str, Computation], outer: str, loop_name: str, index: int) -> bool:
    """Moves the conversion of one carried element into the loop's body, if possible; returns whether it was."""
    computation = table[outer]
    loop = computation.by_name[loop_name]
    initial = computation.by_name[loop.operands[0]]
    if initial.opcode != "tuple" or _element_users(computation, loop.name, index):
        return False
    tuples = [i for i in computation.instructions if initial.name in i.operands]
    moves, convert = _behind_moves(computation, initial.operands[index])
    if len(tuples) > 1 or convert.opcode != "convert" or convert.is_tuple:
        return False
    source = computation.by_name[convert.operands[0]]
    narrow, wide = source.leaves[0].dtype, convert.leaves[0].dtype
    if narrow not in HALVES or wide != "f32" or not is_inserted(convert, narrow, wide, computation):
        return False
    body, condition = (table[loop.called(key)[0]] for key in ("body", "condition"))
    if body.root.opcode != "tuple" or _element_users(condition, condition.parameters[0].name, index):
        return False
    elements = [i for i in _elements(body, body.parameters[0].name) if int(i.attributes["index"]) == index]
    if len(elements) != 1 or body.root.operands[index] != elements[0].name:
        return False
    element = elements[0]
    users = [i for i in body.instructions if element.name in i.operands]
    readers = [i for i in users if i is not body.root]
    if not readers or body.root.operands.count(element.name) != 1:
        return False
    if any(not _goes_on(i, body) for i in readers):
        return False
    moved = {i.name: replace(i, shape=_of_dtype(i.shape, narrow)) for i in moves}
    if moves:
        moved[moves[-1].name] = replace(moved[moves[-1].name], operands=(source.name,))
    carried = moved[moves[0].name] if moves else source
    whole = _changed(loop.shape, index, carried.shape)
    idle = convert is not computation.root and sum(i.operands.count(convert.name) for i in computation.instructions) == 1
    table[outer] = _replaced(
        replace(computation, instructions=tuple(i for i in computation.instructions if i is not convert)) if idle else computation,
        {
            **moved,
            initial.name: replace(initial, shape=whole, operands=_put(initial.operands, index, carried.name)),
            loop.name: replace(loop, shape=whole),
        },
    )
    inside = replace(convert, name=f"{element.name}.{convert.name}", shape=element.shape, operands=(element.name,))
    names = {element.name: inside.name}
    changed = {i.name: replace(i, operands=tuple(names.get(o, o) for o in i.operands)) for i in readers}
    changed[element.name] = replace(element, shape=carried.shape)
    changed[body.parameters[0].name] = replace(body.parameters[0], shape=whole)
    changed[body.root.name] = replace(body.root, shape=whole)
    table[body.name] = _replaced(body, changed, after={element.name: inside})
    table[condition.name] = _replaced(condition, {condition.parameters[0].name: replace(condition.parameters[0], shape=whole)})
    return True


def _behind_moves(computation: Computation, name: str) -> tuple[list[Instruction], Instruction]:
    """(copies and views that only each other and `name`'s reader read, the last first, what they move)."""
    moves: list[Instruction] = []
    found = computation.by_name[name]
    while found.opcode in _MOVES and not found.is_tuple and found.leaves[0].dtype == "f32" and found is not computation.root:
        if sum(i.operands.count(found.name) for i in computation.instructions) > 1:
            break
        moves.append(found)
        found = computation.by_name[found.operands[0]]
    return moves, found


def _goes_on(reader: Instruction, body: Computation) -> bool:
    """Whether a conversion right in front of `reader` can be undone there, or behind the views that it is."""
    if reader.opcode in _PRODUCTS:
        return True
    if reader.opcode in _VIEWS:
        users = [i for i in body.instructions if reader.name in i.operands]
        return reader is not body.root and bool(users) and all(_goes_on(i, body) for i in users)
    return False


def _elements(computation: Computation, name: str) -> list[Instruction]:
    return [i for i in computation.instructions if i.opcode == "get-tuple-element" and i.operands[0] == name]


def _element_users(computation: Computation, name: str, index: int) -> bool:
    """Whether anything reads element `index` of a tuple, or the tuple as a whole."""
    readers: dict[str, list[Instruction]] = defaultdict(list)
    for instruction in computation.instructions:
        for operand in instruction.operands:
            readers[operand].append(instruction)
    if computation.root.name == name or any(reader.opcode != "get-tuple-element" for reader in readers[name]):
        return True
    return any(int(i.attributes["index"]) == index and (readers[i.name] or i is computation.root) for i in _elements(computation, name))


def _changed(shape: Shape, index: int, element: Shape) -> Shape:
    """A tuple's shape with another element."""
    assert shape.elements is not None  # loops carry tuples
    elements = (*shape.elements[:index], element, *shape.elements[index + 1 :])
    return Shape(
        leaves=tuple(leaf for each in elements for leaf in each.leaves),
        elements=elements,
        spaces=tuple(space for each in elements for space in each.spaces),
    )


def _of_dtype(shape: Shape, dtype: str) -> Shape:
    """An array's shape with another dtype."""
    return replace(shape, leaves=(replace(shape.leaves[0], dtype=dtype),))


def _put(names: tuple[str, ...], index: int, name: str) -> tuple[str, ...]:
    return (*names[:index], name, *names[index + 1 :])


def _replaced(computation: Computation, changed: dict[str, Instruction], *, after: dict[str, Instruction] | None = None) -> Computation:
    """The computation with instructions changed, and one put behind each that `after` names."""
    instructions: list[Instruction] = []
    for instruction in computation.instructions:
        instructions.append(changed.get(instruction.name, instruction))
        if after and instruction.name in after:
            instructions.append(after[instruction.name])
    root = changed.get(computation.root.name, computation.root)
    return Computation(name=computation.name, instructions=tuple(instructions), root=root)
