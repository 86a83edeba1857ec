"""Undoes XLA:CPU's own rewrites of a program, so that it has the operations that its author wrote.

- wrappers of one operation, small calls, asynchronous pairs: `inline.py`;
- 16-bit operations computed in f32 between converts (all bf16 ones; f16 dots, convolutions, collectives), and 8-bit floats that are
  multiplied, moved or sent as wider ones;
- `erf`, `erfc` and `erf_inv`, which arrive as some eighty f32 operations;
- conversions of such operands in front of a loop that only reads them: `sink_conversions.py`;
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
from tilestep.program.shapes import Shape
from tilestep.program.sink_conversions import sink_converts
from tilestep.program.work import ArrayShape

HALVES = ("f16", "bf16")
FLOAT8 = ("f8e4m3", "f8e4m3b11fnuz", "f8e4m3fn", "f8e4m3fnuz", "f8e5m2", "f8e5m2fnuz", "f8e3m4")
_WIDER = (*HALVES, "f32")  # types to which XLA widens 8-bit floats: that of a product's result, f16 elsewhere
_COLLAPSED = re.compile(r"/(erf|erfc|erf_inv)$")
_PRODUCTS = ("dot", "convolution")
_VIEWS = ("bitcast", "reshape", "broadcast", "transpose", "copy")
# Moves that XLA does in a wider type, although they compute nothing. Arithmetic on 8-bit floats stays between its conversions.
_MOVES = frozenset({"bitcast", "reshape", "transpose", "copy", "broadcast", "slice", "dynamic-slice", "dynamic-update-slice",
                    "concatenate", "pad", "reverse", "gather", "select", "all-gather", "all-to-all", "collective-permute",
                    "collective-broadcast"})  # fmt: skip
# Of these the result's dtype is not ours to choose, or says something about other instructions.
_FIXED = frozenset({"parameter", "constant", "convert", "custom-call", "get-tuple-element", "tuple", "while", "conditional",
                    "iota", "infeed", "outfeed", "send", "recv", "bitcast-convert", "rng", "optimization-barrier"})  # fmt: skip
_EFFECTS = frozenset({"parameter", "custom-call", "infeed", "outfeed", "send", "send-done", "recv", "recv-done", "while", "conditional",
                      "all-reduce", "all-gather", "reduce-scatter", "all-to-all", "collective-permute", "collective-broadcast",
                      "rng-get-and-update-state"})  # fmt: skip


def clean(module: HloModule) -> HloModule:
    """The module as its author wrote it, in the entry and in the bodies of all control flow.

    Raises: HloError as `inline_calls` does.
    """
    flat = sink_converts(inline_calls(module), HALVES, FLOAT8, _inserted)
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
    computation = _collapse_scopes(computation)
    dtypes = {leaf.dtype for instruction in computation.instructions for leaf in instruction.leaves}
    if not dtypes.isdisjoint(HALVES):
        for dtype in (half for half in HALVES if half in dtypes):
            computation = _restore_halves(computation, dtype)
        computation = _reduce_halves(computation)
    if not dtypes.isdisjoint(FLOAT8):
        for wide in _WIDER:
            computation = _restore_float8(computation, wide)
    return computation


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


def _inserted(instruction: Instruction, source: str, target: str, computation: Computation) -> bool:
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


def _restore_halves(computation: Computation, dtype: str) -> Computation:
    """Gives operations that XLA:CPU computes in f32 between converts of its own their 16-bit type back.

    A product whose result stays in f32 reads halves, also where they are moved between their conversion and it. A conversion that the
    author wrote and XLA has found equal to its own, as of a weight whose update is worked out in f32, belongs to the product as well, if
    XLA has converted the result.

    Collect first, change afterwards: a convert may serve several operations, not all of them restored.
    """
    users = computation.users
    table = computation.by_name
    up = {i.name for i in computation.instructions if _inserted(i, dtype, "f32", computation)}
    down = {i.name for i in computation.instructions if _inserted(i, "f32", dtype, computation)}
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


def _restore_float8(computation: Computation, wide: str) -> Computation:
    """Lets products and moves work on 8-bit floats that XLA has converted to a wider type for them.

    A product's result keeps its type, and its operands may be of two 8-bit formats, as JAX allows. A conversion that the author wrote
    and XLA has found equal to its own belongs to the product if the other operand's does: JAX multiplies no 8-bit floats with others.
    """
    users = computation.users
    table = computation.by_name
    up: dict[str, str] = {}  # conversion, and the 8-bit type that it is of
    inserted: set[str] = set()
    down: dict[str, str] = {}
    for i in computation.instructions:
        if i.opcode != "convert":
            continue
        source, target = table[i.operands[0]].leaves[0].dtype, i.leaves[0].dtype
        if source in FLOAT8 and target == wide:
            up[i.name] = source
            if _inserted(i, source, wide, computation):
                inserted.add(i.name)
        elif target in FLOAT8 and _inserted(i, wide, target, computation):
            down[i.name] = target
    if not inserted:
        return computation

    def is_wide(name: str) -> bool:
        return not table[name].is_tuple and table[name].leaves[0].dtype == wide

    moved = {i.name for i in computation.instructions if i.opcode in _MOVES and is_wide(i.name) and i is not computation.root}
    products = {i.name for i in computation.instructions if i.opcode in _PRODUCTS and any(is_wide(o) for o in i.operands)}
    while True:
        types: dict[str, str] = {}  # 8-bit type of each value that has one
        by_xla: set[str] = set()
        for instruction in computation.instructions:
            name = instruction.name
            if name in up:
                types[name] = up[name]
            elif name in moved:
                found = {types.get(o, wide) for o in instruction.operands if is_wide(o) and not _is_constant(computation, o)}
                if len(found) == 1:
                    types[name] = found.pop()
            if name in inserted or (name in moved and any(o in by_xla for o in instruction.operands)):
                by_xla.add(name)
        wrong = {
            name
            for name in moved
            if types.get(name, wide) == wide
            or name not in by_xla
            or not all(down.get(user.name) == types[name] or user.name in moved or user.name in products for user in users[name])
        }
        wrong |= {
            name
            for name in products
            if not all(types.get(o, wide) != wide for o in table[name].operands) or not any(o in by_xla for o in table[name].operands)
        }
        if not wrong:
            break
        moved -= wrong
        products -= wrong
    changed: dict[str, Instruction] = {}
    for name in (*moved, *products):
        instruction = table[name]
        operands = tuple(table[o].operands[0] if o in up else o for o in instruction.operands)
        shape = _with_dtype(instruction.shape, types[name]) if name in moved else instruction.shape
        changed[name] = replace(instruction, shape=shape, operands=operands)
    renamed = {name: table[name].operands[0] for name in down if table[name].operands[0] in moved}
    return rebuilt(computation, changed, renamed) if changed or renamed else computation


def _reduce_halves(computation: Computation) -> Computation:
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


def _with_dtype(shape: Shape, dtype: str) -> Shape:
    (leaf,) = shape.leaves
    return replace(shape, leaves=(ArrayShape(dtype, leaf.dims, leaf.minor_to_major),))
