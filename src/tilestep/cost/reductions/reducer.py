"""The function that a reduction, a window, a scan or a scatter applies to pairs of elements."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from tilestep.cost.dtypes import dtype_assumptions
from tilestep.cost.elementwise.rates import BUNDLES, rate

# poplibs@7eac0f26 lib/popops/reduction (getReduceCycleEstimate): a vector of operands takes two bundles, load and add.
VECTOR_BUNDLES = 2


@dataclass(frozen=True, kw_only=True)
class Applied:
    """Price of applying a function to one group of elements of each array."""

    bundles: int  # per group, loads included
    elements: int  # in a group
    flops: int  # per application
    assumptions: tuple[str, ...]


def applied(opcodes: Sequence[str], dtypes: Sequence[str], *, least: int = VECTOR_BUNDLES) -> Applied:
    """Price of a function from the operations of its computation.

    Args:
        opcodes: operations of the computation; what is not elementwise (tuples, constants) costs nothing.
        dtypes: of the arrays that are reduced together; a bundle more for each beyond the first.
        least: bundles that loads and pointers take, however simple the function.
    """
    return _applied(tuple(opcodes), tuple(dtypes), least)


@cache
def _applied(opcodes: tuple[str, ...], dtypes: tuple[str, ...], least: int) -> Applied:
    widest = max(dtypes, key=lambda dtype: rate("add", dtype).bundles / rate("add", dtype).elements)
    rates = [rate(opcode, widest) for opcode in opcodes if opcode in BUNDLES]
    sentences = {sentence for each in rates for sentence in each.assumptions} | set(dtype_assumptions(*dtypes))
    return Applied(
        bundles=max(least, 1 + sum(each.bundles for each in rates)) + len(dtypes) - 1,
        elements=rate("add", widest).elements,
        flops=sum(each.flops_per_element for each in rates),
        assumptions=tuple(sorted(sentences)),
    )
