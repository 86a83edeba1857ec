"""What reductions do beside reducing: they scale and convert their results, and several of one shape share supersteps.

Source: poplibs@7eac0f26 include/popops/Reduce.hpp (`ReduceParams.scale`, the type of the result, `reduceMany`); lib/poplin/Norms.cpp scales
sums to means so, makes the two statistics of a norm by one `reduceMany`, and both gradients of its parameters by one joint reduction.
TensorFlow's backend combines reductions of one shape likewise.
"""

from typing import Final

from tilestep.plan.block import Scope
from tilestep.plan.passes.fuse import Unit
from tilestep.plan.passes.rematerialize import call_of
from tilestep.program.hlo import Instruction

_SCALES: Final = frozenset({"multiply", "divide", "convert", "negate"})


def is_epilogue(unit: Unit, scope: Scope) -> bool:
    """Whether a fusion only scales by constants, and converts, what one reduction gives to it alone: the reduction does so on the way."""
    inside = {member.name for member in unit.members}
    for member in unit.members:
        if member.opcode not in _SCALES:
            return False
        sources = [scope.source(name) for name in member.operands]
        if sum(source.opcode == "constant" and source.leaves[0].size == 1 for source in sources) != len(sources) - 1:
            return False
        if sources[0].opcode == "constant" and member.opcode == "divide":
            return False
        source = next(source for source in sources if source.opcode != "constant")
        if source.name not in inside and not (source.name in scope.finished and _read_by(source, scope) <= inside):
            return False
    return True


def shares_supersteps(reduction: Instruction, scope: Scope, *, apart: bool) -> bool:
    """Whether another reduction of equal shape, that does not need this one nor is needed by it, has the supersteps already.

    Args: apart: whether the front end joins only those of one call of a library.
    """
    call = call_of(reduction)
    if apart and call is None:
        return False
    operand = scope.computation.by_name[reduction.operands[0]].leaves[0]
    key = (scope.units.level[reduction.name], operand.dims, reduction.attributes.get("dimensions"), call)
    joins = key in scope.reduced
    scope.reduced.add(key)
    return joins


def _read_by(instruction: Instruction, scope: Scope) -> set[str]:
    """Names of the operations that read a value, through views."""
    found: set[str] = set()
    for user in scope.users[instruction.name]:
        transparent = user.opcode in ("bitcast", "reshape") or user.name in scope.units.absorbed
        found |= _read_by(user, scope) if transparent and user.name not in scope.units.fusible else {user.name}
    return found or {instruction.name}
