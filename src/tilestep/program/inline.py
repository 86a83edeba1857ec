"""Inlines calls: replaces fusions, calls and asynchronous wrappers by the operations inside them.

XLA wraps operations in fusions, puts small loops into calls, and orders values by optimisation barriers. None is a step of
the program, so all go; what remains calls computations only where they are control flow (while, conditional) or describe
one operation (reduce, sort, scatter, ...).
"""

from collections.abc import Mapping
from dataclasses import replace

from tilestep.errors import HloError
from tilestep.program.hlo import Computation, HloModule, Instruction

_WRAPPERS = {"fusion": "calls", "call": "to_apply", "async-start": "calls"}
_ASYNC_COLLECTIVES = ("all-reduce", "all-gather", "reduce-scatter", "all-to-all", "collective-permute", "collective-broadcast", "copy")


def inline_calls(module: HloModule) -> HloModule:
    """The module with every wrapper replaced by its contents, in the entry and in all control flow.

    Raises: HloError if computations call each other in a circle, or an asynchronous operation is never finished.
    """
    done: dict[str, Computation] = {}

    def flat(name: str, callers: tuple[str, ...]) -> Computation:
        if name in callers:
            raise HloError(f"computation {name!r} calls itself by way of {', '.join(callers)}")
        if name not in done:
            computation = module.computations[name]
            inner: dict[str, Computation] = {}
            for instruction in computation.instructions:
                if instruction.opcode in _WRAPPERS or instruction.opcode in ("while", "conditional"):
                    inner.update((called, flat(called, (*callers, name))) for called in instruction.calls)
            done[name] = _flatten(computation, inner)
        return done[name]

    entry = flat(module.entry.name, ())
    return replace(module, entry=entry, computations={**module.computations, **done})


def _flatten(computation: Computation, inner: Mapping[str, Computation]) -> Computation:
    """One computation without wrappers; `inner` holds the flat form of the computations that it calls."""
    result: list[Instruction] = []
    renamed: dict[str, str] = {}  # name -> the name that stands for it now
    finished = {operand: instruction for instruction in computation.instructions for operand in instruction.operands[:1]
                if instruction.opcode.endswith("-done")}  # fmt: skip
    barred = _barred(computation)
    behind: dict[str, tuple[str, ...]] = {}  # name of a value behind a barrier -> the names of all values that the barrier waits for
    for original in computation.instructions:
        operands = tuple(renamed.get(operand, operand) for operand in original.operands)
        instruction = original if operands == original.operands else replace(original, operands=operands)
        if behind and (after := {name for operand in original.operands for name in behind.get(operand, ())}):
            instruction = replace(instruction, after=tuple(sorted(after)))
        opcode = instruction.opcode
        base = opcode.removesuffix("-start")
        if opcode in _WRAPPERS:
            called = instruction.called(_WRAPPERS[opcode]) or instruction.calls
            if len(called) != 1:
                raise HloError(f"line {instruction.line}: {opcode} {instruction.name!r} should call one computation, calls {len(called)}")
            body = _body(instruction, inner[called[0]])
            if isinstance(body, str):
                renamed[instruction.name] = body
            else:
                result += body
        elif (
            opcode == "async-update"
            or (opcode.endswith("-done") and opcode.removesuffix("-done") in (*_ASYNC_COLLECTIVES, "async"))
            or opcode == "opt-barrier"
        ):
            renamed[instruction.name] = instruction.operands[0]
        elif instruction.name in barred:
            barred[instruction.name] = operands
        elif opcode == "get-tuple-element" and instruction.operands[0] in barred:
            renamed[instruction.name] = barred[instruction.operands[0]][int(instruction.attributes["index"])]
            behind[instruction.name] = barred[instruction.operands[0]]
        elif opcode.endswith("-start") and base in _ASYNC_COLLECTIVES:
            end = finished.get(instruction.name)
            if end is None:
                raise HloError(f"line {instruction.line}: {opcode} {instruction.name!r} has no {base}-done")
            result.append(replace(instruction, opcode=base, shape=end.shape, frame=instruction.frame or end.frame))
        else:
            result.append(instruction)
    by_name = {instruction.name: instruction for instruction in result}
    root = by_name[renamed.get(computation.root.name, computation.root.name)]
    return Computation(name=computation.name, instructions=tuple(result), root=root)


def _barred(computation: Computation) -> dict[str, tuple[str, ...]]:
    """Tuples made only to be held back by a barrier and taken apart behind it, without their elements as yet."""
    barriers = {i.name: i.operands[0] for i in computation.instructions if i.opcode == "opt-barrier"}
    if not barriers:
        return {}
    held = set(barriers.values())
    found: dict[str, tuple[str, ...]] = {i.name: () for i in computation.instructions if i.opcode == "tuple" and i.name in held}
    uses = [(user.opcode, operand) for user in computation.instructions for operand in user.operands]
    for opcode, operand in (*uses, ("root", computation.root.name)):
        if opcode != ("get-tuple-element" if operand in barriers else "opt-barrier"):
            found.pop(barriers.get(operand, operand), None)
    return found


def _body(caller: Instruction, body: Computation) -> tuple[Instruction, ...] | str:
    """The operations of `body` under names of the caller, or the one name that the caller's result already has."""
    if len(body.parameters) != len(caller.operands):
        raise HloError(
            f"line {caller.line}: {caller.name!r} gives {len(caller.operands)} operands to {body.name!r} of {len(body.parameters)}"
        )
    names = {parameter.name: operand for parameter, operand in zip(body.parameters, caller.operands, strict=True)}
    if body.root.opcode == "parameter":
        return names[body.root.name]
    result: list[Instruction] = []
    for instruction in body.instructions:
        if instruction.opcode == "parameter":
            continue
        name = caller.name if instruction is body.root else f"{caller.name}/{instruction.name}"
        names[instruction.name] = name
        operands = tuple(names[operand] for operand in instruction.operands)
        after = (*(names.get(other, other) for other in instruction.after), *caller.after)
        op_name, frame = instruction.op_name or caller.op_name, instruction.frame or caller.frame
        result.append(replace(instruction, name=name, operands=operands, after=after, op_name=op_name, frame=frame))
    return tuple(result)
