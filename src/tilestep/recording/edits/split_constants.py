"""Arrays of one number: XLA makes one of several that have equal shapes, also by chance. They come apart before a shape changes."""

from collections.abc import Callable, Hashable, Mapping
from dataclasses import replace
from typing import Final

from tilestep.program.hlo import Computation, HloModule, Instruction

_MARK: Final = "~"  # between a name and the number of its use; HLO's names don't have it


def apart(module: HloModule) -> HloModule:
    """The module in which each use of an array of one number has an array of its own."""
    return _with_computations(module, {name: _apart(computation) for name, computation in module.computations.items()})


def together(module: HloModule, kind: Callable[[str, str], Hashable]) -> HloModule:
    """The module of `apart` in which arrays that came apart are one again if they are of one kind.

    Args:
        module: whose arrays came apart.
        kind: of an instruction, by the names of its computation and of itself.
    """
    return _with_computations(module, {name: _together(computation, kind) for name, computation in module.computations.items()})


def _with_computations(module: HloModule, computations: Mapping[str, Computation]) -> HloModule:
    return replace(module, entry=computations[module.entry.name], computations=computations)


def _apart(computation: Computation) -> Computation:
    splats: set[str] = set()
    for instruction in computation.instructions:
        operands = [computation.by_name[name] for name in instruction.operands]
        is_splat = instruction.opcode == "broadcast" and operands[0].leaves[0].dims == ()
        if is_splat or (instruction.opcode == "copy" and operands[0].name in splats):
            splats.add(instruction.name)
    uses = dict.fromkeys(splats, 0)
    backwards: list[Instruction] = []
    root = computation.root

    def using(instruction: Instruction) -> Instruction:
        """The instruction with operands of its own."""
        operands: list[str] = []
        for name in instruction.operands:
            if name in uses:
                operands.append(f"{name}{_MARK}{uses[name]}")
                uses[name] += 1
            else:
                operands.append(name)
        return replace(instruction, operands=tuple(operands))

    for instruction in reversed(computation.instructions):
        if instruction.name in splats:
            copies = [using(replace(instruction, name=f"{instruction.name}{_MARK}{k}")) for k in range(uses[instruction.name])]
            backwards += copies
        if instruction.name not in splats or instruction is computation.root:
            backwards.append(using(instruction))
            if instruction is computation.root:
                root = backwards[-1]
    return replace(computation, instructions=tuple(reversed(backwards)), root=root)


def _together(computation: Computation, kind: Callable[[str, str], Hashable]) -> Computation:
    names: dict[str, str] = {}
    first: dict[tuple[str, Hashable], str] = {}
    instructions: list[Instruction] = []
    root = computation.root
    for instruction in computation.instructions:
        name, mark, _ = instruction.name.partition(_MARK)
        if mark:
            key = name, kind(computation.name, instruction.name)
            names[instruction.name] = first.setdefault(key, instruction.name)
            if first[key] != instruction.name:
                continue
        changed = replace(instruction, operands=tuple(names.get(operand, operand) for operand in instruction.operands))
        root = changed if instruction is computation.root else root
        instructions.append(changed)
    return replace(computation, instructions=tuple(instructions), root=root)
