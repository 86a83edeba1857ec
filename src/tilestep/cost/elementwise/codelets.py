"""Codelets of the library for one elementwise operation.

Each has a loop whose turn loads, computes, stores and closes the loop. The figures are poplibs@7eac0f26
lib/popops/popopsCycleEstimators.hpp, whose header calls those of transcendental functions unverified. Where an entry there is of
a whole vector, popopsCycleEstimators.cpp adds the loads, the store and the loop: 2 cycles to a sum or product (1 against a scalar), 4 to
a function of one operand. Select and clamp are from the same file (selectCycles, clampCycles), convert from PerformanceEstimation.cpp
(castWorkerCycles).
"""

from collections.abc import Mapping
from types import MappingProxyType

from tilestep.cost.dtypes import ARITHMETIC

Turn = tuple[int, int]  # cycles of a turn, and the elements that it works on
Turns = tuple[Turn | None, Turn | None, Turn | None]  # floats, halves, 32-bit integers; None: the library has none, or a placeholder

_BIT = (None, None, (7, 1))
_BIT_OF_SCALAR = (None, None, (6, 1))
_SUM: Turns = ((3, 2), (3, 4), (7, 1))
_SUM_OF_SCALAR: Turns = ((2, 2), (2, 4), (6, 1))
_ROUND: Turns = ((6, 2), (6, 4), None)

CODELETS: Mapping[str, Turns] = MappingProxyType(
    {
        "add": _SUM,
        "subtract": _SUM,
        "multiply": _SUM,
        "divide": ((10, 2), (21, 4), (277, 1)),
        "remainder": ((133, 2), (300, 4), (292, 1)),
        "power": ((312, 1), (325, 1), (32, 1)),
        "atan2": ((272, 2), (578, 4), None),
        "maximum": ((3, 2), (4, 4), (7, 1)),
        "minimum": ((3, 2), (4, 4), (7, 1)),
        "compare": ((14, 4), (9, 4), (22, 4)),  # EQUAL, which most others equal
        **dict.fromkeys(("and", "or", "xor", "shift-left", "shift-right-arithmetic", "shift-right-logical"), _BIT),
        "not": (None, None, (5, 2)),
        "negate": ((2, 2), (2, 4), (6, 1)),
        "abs": ((5, 1), (5, 1), (6, 1)),
        "sign": ((9, 2), (9, 4), (9, 1)),
        "is-finite": ((9, 2), (9, 4), None),
        **dict.fromkeys(("floor", "ceil", "round-nearest-even", "round-nearest-afz"), _ROUND),
        "popcnt": (None, None, (5, 1)),
        "count-leading-zeros": (None, None, (5, 1)),
        "exponential": ((6, 2), (4, 4), None),
        "exp2": ((6, 2), (4, 4), None),
        "exponential-minus-one": ((8, 1), (9, 4), None),
        "log": ((12, 2), (4, 4), None),
        "log-plus-one": ((22, 2), (22, 4), None),
        "tanh": ((12, 2), (4, 4), None),
        "logistic": ((12, 2), (6, 4), None),
        "sqrt": ((10, 2), (23, 4), (110, 1)),
        "rsqrt": ((8, 2), (19, 4), None),
        "cbrt": ((31, 2), (21, 4), None),
        "erf": ((41, 1), (13, 1), None),
        "asin": ((106, 1), (106, 1), None),
        "sine": (None, (25, 1), None),
        "cosine": (None, (25, 1), None),
        "select": ((5, 1), (5, 1), (5, 1)),
        "clamp": ((2, 2), (2, 4), (7, 1)),
        "convert": ((2, 4), (2, 4), None),
    }
)
# Where one operand is a scalar or a row, which stays in a register.
WITH_SCALAR: Mapping[str, Turns] = MappingProxyType(
    {
        "add": _SUM_OF_SCALAR,
        "subtract": _SUM_OF_SCALAR,
        "multiply": _SUM_OF_SCALAR,
        "divide": ((6, 2), (8, 2), (277, 1)),
        "remainder": ((93, 2), (225, 4), (280, 1)),
        "power": ((312, 1), (325, 1), (23, 1)),
        "maximum": ((3, 2), (3, 4), (6, 1)),
        "minimum": ((3, 2), (3, 4), (6, 1)),
        "compare": ((12, 4), (8, 4), (16, 4)),
        **dict.fromkeys(("and", "or", "xor", "shift-left", "shift-right-arithmetic", "shift-right-logical"), _BIT_OF_SCALAR),
    }
)
# Where the result takes over the memory of an operand, as far as it takes another time. A maximum with a scalar is a rectifier there.
IN_PLACE: Mapping[str, Turns] = MappingProxyType(
    {
        "tanh": ((10, 2), (2, 4), None),
        "logistic": ((10, 2), (4, 4), None),
        "log": ((14, 2), (6, 4), None),
        "log-plus-one": ((22, 2), (21, 4), None),
        "negate": ((3, 2), (3, 4), (6, 1)),
        "abs": ((5, 2), (5, 4), (6, 1)),
        "maximum": ((4, 2), (4, 4), (7, 1)),
        "minimum": ((4, 2), (4, 4), (7, 1)),
    }
)
IN_PLACE_WITH_SCALAR: Mapping[str, Turns] = MappingProxyType({**WITH_SCALAR, "maximum": ((2, 2), (2, 4), (6, 1))})
_COLUMNS: Mapping[str, int] = MappingProxyType({"f32": 0, "f16": 1})


def turn(opcode: str, dtype: str, *, with_scalar: bool = False, in_place: bool = False) -> Turn | None:
    """A turn of the codelet for an operation on one dtype; None if the library has none, or only for other dtypes.

    Integers of other widths are computed on as 32-bit ones.
    """
    scalar, alone = (IN_PLACE_WITH_SCALAR, IN_PLACE) if in_place else (WITH_SCALAR, CODELETS)
    turns = (scalar.get(opcode) if with_scalar else None) or alone.get(opcode) or CODELETS.get(opcode)
    how = ARITHMETIC[dtype]
    column = 2 if how.unit == "integer" and how.per_vector == 1 else _COLUMNS.get(dtype)
    found = None if turns is None or column is None else turns[column]
    return found and (found[0] * how.emulation, found[1])
