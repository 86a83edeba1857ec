"""Takes away the transpositions that XLA:CPU puts in front of convolutions, so that each reads its operands as its author gave them.

XLA:CPU's convolutions want the batch first and the features last. It transposes operands of others, such as those of a gradient by the
weights. On an IPU a convolution's plan takes dimensions in any order.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tilestep.program.hlo import Computation, Instruction


def read_through_transpositions(computation: Computation) -> dict[str, Instruction]:
    """Convolutions that read what XLA:CPU's transpositions read, with other dimension labels; by name."""
    table = computation.by_name
    changed: dict[str, Instruction] = {}
    for convolution in computation.instructions:
        if convolution.opcode != "convolution" or "dim_labels" not in convolution.attributes:
            continue
        operands, arrow, result = convolution.attributes["dim_labels"].partition("->")
        labels, sources = operands.split("_"), list(convolution.operands)
        for side in (0, 1):
            found = _transposed(table[sources[side]], table)
            if found is not None:
                sources[side], order = found
                labels[side] = "".join(labels[side][order.index(dim)] for dim in range(len(order)))
        if sources != list(convolution.operands):
            attributes = {**convolution.attributes, "dim_labels": "_".join(labels) + arrow + result}
            changed[convolution.name] = replace(convolution, operands=tuple(sources), attributes=attributes)
    return changed


def _transposed(copy: Instruction, table: Mapping[str, Instruction]) -> tuple[str, tuple[int, ...]] | None:
    """(name of what a copy transposes, its dimension that each of the copy's is); None if XLA:CPU has not put the copy there."""
    if copy.opcode != "copy" or copy.op_name or copy.is_tuple:
        return None
    view = table[copy.operands[0]]
    if view.opcode != "bitcast":
        return None
    (after,), (before,) = view.leaves, table[view.operands[0]].leaves
    if not after.minor_to_major or not before.minor_to_major or sorted(after.dims) != sorted(before.dims):
        return None
    order = dict(zip(after.minor_to_major, before.minor_to_major, strict=True))  # both name the same bytes, from the minor dimension on
    if any(after.dims[dim] != before.dims[of] for dim, of in order.items()):
        return None
    return view.operands[0], tuple(order[dim] for dim in range(len(order)))
