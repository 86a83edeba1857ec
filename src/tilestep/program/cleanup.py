"""Undoes XLA:CPU's own rewrites of a program, so that it has the operations that its author wrote.

- wrappers of one operation, small calls, asynchronous pairs: `inline.py`;
- `erf`, `erfc` and `erf_inv`, which arrive as some eighty f32 operations;
- products whose results are 8-bit floats;
- reductions of 16-bit values that first convert the whole operand to f32: the tile reads halves and adds in f32;
- copies that only XLA:CPU's buffers need: `copies.py`;
- products that it has made anew without their frontend attributes: `product_attributes.py`.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace

from tilestep.program.copies import Origin, body_origins, entry_origins, needless_copies, reader_origins
from tilestep.program.hlo import Computation, HloModule, Instruction
from tilestep.program.inline import inline_calls
from tilestep.program.product_attributes import with_attributes
from tilestep.program.work import ArrayShape

_HALVES = ("f16", "bf16")
_COLLAPSED = re.compile(r"/(erf|erfc|erf_inv)$")
_PRODUCTS = ("dot", "convolution")
_VIEWS = ("bitcast", "reshape", "broadcast", "transpose", "copy")
_EFFECTS = frozenset({"parameter", "custom-call", "infeed", "outfeed", "send", "send-done", "recv", "recv-done", "while", "conditional",
                      "all-reduce", "all-gather", "reduce-scatter", "all-to-all", "collective-permute", "collective-broadcast",
                      "rng-get-and-update-state"})  # fmt: skip


def clean(module: HloModule) -> HloModule:
    """The module as its author wrote it, in the entry and in the bodies of all control flow.

    Raises: HloError as `inline_calls` does.
    """
    flat = inline_calls(module)
    done: dict[str, Computation] = {}

    def visit(computation: Computation, origins: Mapping[str, Origin]) -> None:
        if computation.name in done:
            return
        computation = with_attributes(computation)
        copies = needless_copies(computation, origins, computation.users)
        computation = rebuilt(computation, {}, copies) if copies else computation
        done[computation.name] = _clean(computation)
        for instruction in computation.instructions:
            if instruction.opcode == "while":
                body, condition = (flat.computations[instruction.called(key)[0]] for key in ("body", "condition"))
                visit(body, body_origins(body))
                visit(condition, reader_origins(condition))
            elif instruction.opcode == "conditional":
                for arm in (flat.computations[name] for name in instruction.calls):
                    visit(arm, reader_origins(arm))

    visit(flat.entry, entry_origins(flat.entry, flat.input_output_aliases))
    return replace(flat, entry=done[flat.entry.name], computations={**flat.computations, **done})


def _clean(computation: Computation) -> Computation:
    return _products_in_halves(_reduce_halves(_collapse_scopes(computation)))


def rebuilt(computation: Computation, changed: Mapping[str, Instruction], renamed: Mapping[str, str]) -> Computation:
    """The computation with instructions changed, values renamed, and unused instructions left out.

    Args:
        changed: by the name of the instruction that they replace, which is also their own.
        renamed: the name of an instruction that goes, and of the value that stands for it now.
    """
    instructions: list[Instruction] = []
    for original in computation.instructions:
        if original.name in renamed:
            continue
        instruction = changed.get(original.name, original)
        operands = tuple(renamed.get(operand, operand) for operand in instruction.operands)
        after = tuple(renamed.get(other, other) for other in instruction.after)
        if (operands, after) != (instruction.operands, instruction.after):
            instruction = replace(instruction, operands=operands, after=after)
        instructions.append(instruction)
    root = renamed.get(computation.root.name, computation.root.name)
    used = {root}
    kept: list[Instruction] = []
    for instruction in reversed(instructions):
        if instruction.name in used or instruction.opcode in _EFFECTS:
            kept.append(instruction)
            used.update(instruction.operands)
    kept.reverse()
    return Computation(name=computation.name, instructions=tuple(kept), root=next(i for i in kept if i.name == root))


def _collapse_scopes(computation: Computation) -> Computation:
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


def _reduce_halves(computation: Computation) -> Computation:
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


def _products_in_halves(computation: Computation) -> Computation:
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
