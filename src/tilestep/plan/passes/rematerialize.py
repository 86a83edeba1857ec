"""Operations that each reader computes again, because their results would take more memory than their operands.

A conversion to a wider type makes an array that is twice as large as its operand, for an instruction or two a vector. Poplar's programs
convert where they read: a fused expression reads halves (`popops::map`), a reduction adds halves up in float32, and it can square them on
the way (`popops::Operation::SQUARE_ADD`). XLA names each conversion once, however many operations read it.

The gradient of a rectifier asks where its operand was positive. Its result is positive at the same places, and often kept for a product's
gradient, where the operand is not. Poplar asks the result (`popnn::nonLinearityInputGradient` takes the output activations).
"""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import replace
from typing import Final

from tilestep import cost
from tilestep.cost.reductions.reduce import SQUARES
from tilestep.hints import CALL
from tilestep.program.context import Context
from tilestep.program.hlo import Computation, Instruction
from tilestep.program.work import DTYPE_BITS

AGAIN: Final = "tilestep_again"  # attribute of an operation that a fusion computes for itself alone
_HALVES: Final = ("f16", "bf16")


def call_of(instruction: Instruction) -> str | None:
    """The call of a library that an instruction belongs to, if any; '' for one whose operations are codelets of their own."""
    return instruction.frontend_attributes.get(CALL)


def is_widening(instruction: Instruction, table: Mapping[str, Instruction]) -> bool:
    """Whether an instruction makes a float of a smaller one."""
    if instruction.opcode != "convert":
        return False
    source = table[instruction.operands[0]]
    if source.is_tuple or instruction.leaves[0].dtype != "f32":
        return False
    dtype = source.leaves[0].dtype
    return dtype.startswith(("f", "bf")) and DTYPE_BITS[dtype] < DTYPE_BITS["f32"]


def is_sign(instruction: Instruction, table: Mapping[str, Instruction]) -> bool:
    """Whether an instruction asks where a rectifier's result is positive."""
    if instruction.opcode != "compare" or instruction.attributes.get("direction") != "GT":
        return False
    operand, zero = (table[name] for name in instruction.operands)
    return _is_zero(zero, table) and operand.opcode == "maximum" and any(_is_zero(table[name], table) for name in operand.operands)


def is_repeated(instruction: Instruction, table: Mapping[str, Instruction]) -> bool:
    """Whether each reader computes an instruction for itself."""
    return AGAIN in instruction.attributes or is_widening(instruction, table) or is_sign(instruction, table)


def computed_again(computation: Computation, context: Context) -> Computation:
    """The computation with a conversion of its own for each elementwise operation that reads a wider value.

    Reductions read the narrow value, and sums of squares the value that is squared. Gradients of rectifiers read the rectifiers' results.

    A codelet for one operation (`ipu_fusion` none) computes nothing again.
    """
    elementwise = cost.ELEMENTWISE if context.clusters else frozenset[str]()
    computation = _signs_of_results(_own_fills(computation))
    table = computation.by_name
    users = computation.users
    widened = {i.name for i in computation.instructions if is_widening(i, table)}
    squares = {
        i.name
        for i in computation.instructions
        if _is_square(i) and all(_is_sum(user, context.computations) and user.operands[0] == i.name for user in users[i.name])
    }
    squares.discard(computation.root.name)
    repeated = widened | {i.name for i in computation.instructions if is_sign(i, table)}
    if not repeated and not squares:
        return computation
    instructions: list[Instruction] = []
    clones: set[str] = set()
    for instruction in computation.instructions:
        if instruction.opcode == "reduce":
            instructions.append(_reduced(instruction, table, widened, squares))
        elif instruction.opcode in elementwise and call_of(instruction) != "" and not repeated.isdisjoint(instruction.operands):
            own: dict[str, str] = {}
            for operand in instruction.operands:
                if operand in repeated and len(users[operand]) > 1 and operand not in own:
                    own[operand] = f"{operand}/{instruction.name}"
                    clones.add(own[operand])
                    instructions.append(replace(table[operand], name=own[operand]))
            operands = tuple(own.get(operand, operand) for operand in instruction.operands)
            instructions.append(replace(instruction, operands=operands) if own else instruction)
        else:
            instructions.append(instruction)
    return _without_unread(computation, instructions, repeated | squares | clones)


def _own_fills(computation: Computation) -> Computation:
    """The computation in which a copy of one number everywhere is filled with it: nothing has to be kept for the copy."""
    table, filled = computation.by_name, dict[str, Instruction]()
    for instruction in computation.instructions:
        source = table[instruction.operands[0]] if instruction.opcode == "copy" else instruction
        if source.opcode != "broadcast" or source is instruction or source.shape.spaces != instruction.shape.spaces:
            continue
        if table[source.operands[0]].opcode == "constant":
            filled[instruction.name] = replace(source, name=instruction.name, shape=instruction.shape)
    if not filled:
        return computation
    instructions = [filled.get(i.name, i) for i in computation.instructions]
    copied = {table[name].operands[0] for name in filled}
    return _without_unread(computation, instructions, copied)


def _signs_of_results(computation: Computation) -> Computation:
    """The computation in which comparisons with zero read a rectifier's result instead of its operand."""
    table = computation.by_name
    rectified = {
        operand: instruction
        for instruction in computation.instructions
        if instruction.opcode == "maximum" and not instruction.is_tuple
        for operand, other in (instruction.operands, instruction.operands[::-1])
        if _is_zero(table[other], table)
    }
    if not rectified:
        return computation
    instructions: dict[str, Instruction] = {}
    for instruction in computation.instructions:
        result = rectified.get(instruction.operands[0]) if instruction.opcode == "compare" else None
        if result is not None and instructions.keys() >= set(result.operands):  # else the result comes too late
            asked = replace(instruction, operands=(result.name, instruction.operands[1]))
            if is_sign(asked, table):
                instructions.setdefault(result.name, result)
                instruction = asked
        instructions.setdefault(instruction.name, instruction)
    return replace(computation, instructions=tuple(instructions.values()), root=instructions[computation.root.name])


def _is_zero(instruction: Instruction, table: Mapping[str, Instruction]) -> bool:
    """Whether every element is the number zero."""
    while instruction.opcode in ("broadcast", "bitcast", "reshape"):
        instruction = table[instruction.operands[0]]
    return instruction.opcode == "constant" and instruction.literal.strip() in ("0", "-0")


def _is_square(instruction: Instruction) -> bool:
    return instruction.opcode == "multiply" and instruction.operands[0] == instruction.operands[1] and not instruction.is_tuple


def _is_sum(instruction: Instruction, computations: Mapping[str, Computation]) -> bool:
    """Whether it is a reduction that adds up the elements of one value."""
    if instruction.opcode != "reduce" or len(instruction.operands) != 2:
        return False
    return [i.opcode for i in computations[instruction.called("to_apply")[0]].instructions if i.opcode != "parameter"] == ["add"]


def _reduced(
    instruction: Instruction, table: Mapping[str, Instruction], widened: AbstractSet[str], squares: AbstractSet[str]
) -> Instruction:
    operands, attributes = list(instruction.operands), instruction.attributes
    for index, operand in enumerate(operands[: len(operands) // 2]):
        if operand in squares:
            operand = table[operand].operands[0]
            attributes = {**attributes, SQUARES: "true"}
        if operand in widened and table[table[operand].operands[0]].leaves[0].dtype in _HALVES:
            operand = table[operand].operands[0]
        operands[index] = operand
    return replace(instruction, operands=tuple(operands), attributes=attributes)


def _without_unread(computation: Computation, instructions: list[Instruction], names: AbstractSet[str]) -> Computation:
    """The computation of these instructions, without those of `names` that nothing reads any more."""
    kept: list[Instruction] = []
    read = {computation.root.name}
    for instruction in reversed(instructions):
        if instruction.name in read or instruction.name not in names:
            kept.append(instruction)
            read.update(instruction.operands)
    kept.reverse()
    return replace(computation, instructions=tuple(kept), root=next(i for i in kept if i.name == computation.root.name))
