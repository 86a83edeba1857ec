"""Passes that undo XLA:CPU's own rewrites of operations, so that a program has those that its author wrote."""

import re
from collections import defaultdict
from dataclasses import replace

from tilestep.program.context import Context
from tilestep.program.hlo import Computation, Instruction, rebuilt
from tilestep.program.shapes import Shape
from tilestep.program.work import ArrayShape

HALVES = ("f16", "bf16")
_COLLAPSED = re.compile(r"/(erf|erfc|erf_inv)$")
_PRODUCTS = ("dot", "convolution")
# Moves that XLA does in a wider type.
_MOVES = frozenset({"bitcast", "reshape", "transpose", "copy", "broadcast", "slice", "dynamic-slice", "dynamic-update-slice",
                    "concatenate", "pad", "reverse", "gather", "select", "all-gather", "all-to-all", "collective-permute",
                    "collective-broadcast"})  # fmt: skip
# Of these the result's dtype is not ours to choose, or says something about other instructions.
_FIXED = frozenset({"parameter", "constant", "convert", "custom-call", "get-tuple-element", "tuple", "while", "conditional",
                    "iota", "infeed", "outfeed", "send", "recv", "bitcast-convert", "rng", "optimization-barrier"})  # fmt: skip
_VIEWS = ("bitcast", "reshape", "broadcast", "transpose", "copy")


def collapse_scopes(computation: Computation, _: Context) -> Computation:
    """Each erf, erfc and erf_inv as one operation, found by the user's name for it in the metadata.

    Only where the scope has one full-size input and one output: others stay as they are, and are priced part by part.
    """
    scopes: dict[tuple[str, tuple[int, ...]], set[str]] = defaultdict(set)
    for instruction in computation.instructions:
        if _COLLAPSED.search(instruction.op_name) and not instruction.is_tuple and instruction.opcode not in ("broadcast", "constant"):
            scopes[instruction.op_name, instruction.leaves[0].dims].add(instruction.name)
    if not scopes:
        return computation
    users = computation.users
    changed: dict[str, Instruction] = {}
    for (scope, dims), names in scopes.items():
        found = _COLLAPSED.search(scope)
        assert found is not None  # only such scopes are in the table
        for members in _connected(computation, names):
            inputs = {
                operand
                for name in members
                for operand in computation.by_name[name].operands
                if operand not in members and not _is_constant(computation, operand)
            }
            outputs = [name for name in members if name == computation.root.name or any(user.name not in members for user in users[name])]
            if len(members) < 2 or len(inputs) != 1 or len(outputs) != 1:
                continue
            source = inputs.pop()
            if computation.by_name[source].is_tuple or computation.by_name[source].leaves[0].dims != dims:
                continue
            last = computation.by_name[outputs[0]]
            changed[last.name] = replace(last, opcode=found.group(1).replace("_", "-"), operands=(source,), attributes={}, calls=())
    return rebuilt(computation, changed, {}) if changed else computation


def _connected(computation: Computation, names: set[str]) -> list[set[str]]:
    """`names` parted into sets whose members use each other."""
    leader = {name: name for name in names}

    def find(name: str) -> str:
        while leader[name] != name:
            leader[name] = leader[leader[name]]
            name = leader[name]
        return name

    for name in names:
        for operand in computation.by_name[name].operands:
            if operand in names:
                leader[find(operand)] = find(name)
    parts: dict[str, set[str]] = defaultdict(set)
    for name in names:
        parts[find(name)].add(name)
    return [parts[name] for name in sorted(parts)]


def _is_constant(computation: Computation, name: str) -> bool:
    """Whether a value is a constant seen through views and conversions."""
    instruction = computation.by_name[name]
    while instruction.opcode in (*_VIEWS, "convert") and instruction.operands:
        instruction = computation.by_name[instruction.operands[0]]
    return instruction.opcode == "constant"


def restore_halves(computation: Computation, _: Context) -> Computation:
    """Gives products that XLA:CPU computes in f32 between converts of its own, and moves between, their 16-bit type back."""
    dtypes = {leaf.dtype for instruction in computation.instructions for leaf in instruction.leaves}
    for dtype in HALVES:
        if dtype in dtypes:
            computation = _restored(computation, dtype)
    return computation


def is_inserted(instruction: Instruction, source: str, target: str, computation: Computation) -> bool:
    """Whether XLA put this convert there: the author's own ones are called 'convert_element_type'."""
    return _is_convert(instruction, source, target, computation) and not any(
        part.endswith("convert_element_type") for part in instruction.op_name.split(";")
    )


def _is_convert(instruction: Instruction, source: str, target: str, computation: Computation) -> bool:
    return (
        instruction.opcode == "convert"
        and instruction.leaves[0].dtype == target
        and computation.by_name[instruction.operands[0]].leaves[0].dtype == source
    )


def _restored(computation: Computation, dtype: str) -> Computation:
    """Gives operations that XLA:CPU computes in f32 between converts of its own their 16-bit type back.

    A product whose result stays in f32 reads halves, also where they are moved between their conversion and it. A conversion that the
    author wrote and XLA has found equal to its own, as of a weight whose update is worked out in f32, belongs to the product as well, if
    XLA has converted the result.

    Collect first, change afterwards: a convert may serve several operations, not all of them restored.
    """
    users = computation.users
    table = computation.by_name
    up = {i.name for i in computation.instructions if is_inserted(i, dtype, "f32", computation)}
    down = {i.name for i in computation.instructions if is_inserted(i, "f32", dtype, computation)}
    if not up and not down:
        return computation
    shared = {i.name for i in computation.instructions if _is_convert(i, dtype, "f32", computation)} - up

    def is_f32(name: str) -> bool:
        return not table[name].is_tuple and table[name].leaves[0].dtype == "f32"

    restored = {i.name for i in computation.instructions if i.opcode not in _FIXED and is_f32(i.name) and i is not computation.root}
    products = {i.name for i in computation.instructions if i.opcode in _PRODUCTS}  # whose result may stay in f32

    def is_half(name: str) -> bool:
        return name in up or (name in restored and table[name].opcode in _MOVES)

    def reads_halves(product: str) -> bool:
        """Whether XLA has converted what a product reads, or has found an equal conversion there."""
        return all(is_half(o) or (product in restored and o in shared) for o in table[product].operands)

    def may_read(name: str, operand: str) -> bool:
        if operand in up or operand in restored or not is_f32(operand) or _is_constant(computation, operand):
            return True
        return name in products and operand in shared and reads_halves(name)

    while True:
        wrong = {
            name
            for name in restored
            if not all(may_read(name, o) for o in table[name].operands)
            or not all(
                user.name in down or user.name in restored or (user.name in products and table[name].opcode in _MOVES)
                for user in users[name]
            )
        }
        wrong_products = {name for name in products if not reads_halves(name)}
        if not wrong and not wrong_products:
            break
        restored -= wrong
        products -= wrong_products
    changed: dict[str, Instruction] = {}
    for name in (*restored, *products):
        instruction = table[name]
        own = up | shared if name in products else up
        operands = tuple(table[o].operands[0] if o in own else o for o in instruction.operands)
        shape = _with_dtype(instruction.shape, dtype) if name in restored else instruction.shape
        changed[name] = replace(instruction, shape=shape, operands=operands)
    renamed = {name: table[name].operands[0] for name in down if table[name].operands[0] in restored}
    return rebuilt(computation, changed, renamed) if changed or renamed else computation


def reduce_halves(computation: Computation, _: Context) -> Computation:
    """Lets reductions read 16-bit values whose conversion to f32 has no other user."""
    users = computation.users
    table = computation.by_name

    def folds(name: str) -> bool:
        convert = table[name]
        return (
            convert.opcode == "convert"
            and convert.leaves[0].dtype == "f32"
            and table[convert.operands[0]].leaves[0].dtype in HALVES
            and convert is not computation.root
            and all(user.opcode == "reduce" for user in users[name])
        )

    changed = {
        i.name: replace(i, operands=tuple(table[o].operands[0] if folds(o) else o for o in i.operands))
        for i in computation.instructions
        if i.opcode == "reduce" and any(folds(o) for o in i.operands)
    }
    return rebuilt(computation, changed, {}) if changed else computation


def products_in_halves(computation: Computation, _: Context) -> Computation:
    """Has products whose results are 8-bit floats write halves, and a conversion behind each: the matrix unit adds them up in halves."""
    instructions: list[Instruction] = []
    converted: dict[str, str] = {}
    for instruction in computation.instructions:
        instruction = replace(instruction, operands=tuple(converted.get(name, name) for name in instruction.operands))
        if instruction.opcode in _PRODUCTS and instruction.leaves[0].dtype.startswith("f8"):
            name = converted[instruction.name] = f"{instruction.name}.convert"
            instructions.append(replace(instruction, shape=_with_dtype(instruction.shape, "f16")))
            instruction = replace(instruction, name=name, opcode="convert", operands=(instruction.name,), attributes={}, calls=())
        instructions.append(instruction)
    if not converted:
        return computation
    root = converted.get(computation.root.name, computation.root.name)
    return Computation(
        name=computation.name, instructions=tuple(instructions), root=next(each for each in instructions if each.name == root)
    )


def _with_dtype(shape: Shape, dtype: str) -> Shape:
    (leaf,) = shape.leaves
    return replace(shape, leaves=(ArrayShape(dtype, leaf.dims, leaf.minor_to_major),))
