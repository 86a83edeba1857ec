"""Passes that undo XLA:CPU's own rewrites of operations, so that a program has those that its author wrote."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import replace

from tilestep.program.context import Context
from tilestep.program.hlo import Computation, Instruction, rebuilt
from tilestep.program.work import ArrayShape

_HALVES = ("f16", "bf16")
_COLLAPSED = re.compile(r"/(erf|erfc|erf_inv)$")
_PRODUCTS = ("dot", "convolution")
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


def reduce_halves(computation: Computation, _: Context) -> Computation:
    """Lets reductions read 16-bit values whose conversion to f32 has no other user."""
    users = computation.users
    table = computation.by_name

    def folds(name: str) -> bool:
        convert = table[name]
        return (
            convert.opcode == "convert"
            and convert.leaves[0].dtype == "f32"
            and table[convert.operands[0]].leaves[0].dtype in _HALVES
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
    for instruction in computation.instructions:
        if instruction.opcode in _PRODUCTS and instruction.leaves[0].dtype.startswith("f8"):
            (leaf,) = instruction.leaves
            halves = replace(instruction.shape, leaves=(ArrayShape("f16", leaf.dims, leaf.minor_to_major),))
            product = replace(instruction, name=f"{instruction.name}.halves", shape=halves)
            instructions.append(product)
            instruction = replace(instruction, opcode="convert", operands=(product.name,), attributes={}, calls=())
        instructions.append(instruction)
    if len(instructions) == len(computation.instructions):
        return computation
    root = next(i for i in instructions if i.name == computation.root.name)
    return Computation(name=computation.name, instructions=tuple(instructions), root=root)
