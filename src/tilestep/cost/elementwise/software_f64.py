"""Functions of f64, which a tile computes in software on doubles that are software themselves.

A function has no instruction to be a multiple of: the price of f32's, which has one or takes half of the terms, says nothing of it. It is
counted out in additions, multiplications, divisions and roots of doubles, each at the price of that operation.
"""

from collections.abc import Mapping
from types import MappingProxyType

from tilestep.cost.dtypes import F64_EMULATION

# Bundles of an addition, subtraction or multiplication of doubles, and of a division or square root: the rates of f32 (1, and poplibs' 10)
# times the emulation.
ARITHMETIC_BUNDLES = F64_EMULATION
DIVISION_BUNDLES = 10 * F64_EMULATION

# opcode -> (additions, subtractions and multiplications; divisions and square roots) of one element. Counted while FreeBSD's msun ran
# (JuliaMath/openlibm@82e90aef src/e_exp.c, e_pow.c, ...) on 2,001 arguments: the most that any of them took, because a tile waits for its
# slowest worker. docs/reference/cost-model.md has the ranges. Comparisons, conversions and work on words of a double are not counted.
F64_FUNCTIONS: Mapping[str, tuple[int, int]] = MappingProxyType(
    {
        "exponential": (23, 1),
        "exp2": (16, 0),  # with a table
        "exponential-minus-one": (34, 1),
        "log": (27, 1),
        "log2": (37, 1),
        "log-plus-one": (30, 2),
        "tanh": (36, 2),
        "logistic": (24, 2),  # an exponential, an addition and a division
        "erf": (77, 5),
        "erfc": (77, 5),
        "erf-inv": (79, 3),  # 49 and a root in XLA's expansion (jaxlib 0.10.2), and a log-plus-one
        "power": (87, 2),
        "sine": (32, 0),
        "cosine": (32, 0),
        "tan": (51, 1),
        "asin": (33, 3),
        "acos": (28, 3),
        "atan2": (32, 2),
        "sinh": (36, 2),
        "cosh": (25, 2),
        "asinh": (34, 4),
        "acosh": (35, 3),
        "atanh": (35, 3),
        "cbrt": (19, 3),
    }
)
F64_FUNCTIONS_TEXT = (
    "functions of f64 are counted out in emulated operations: "
    f"{ARITHMETIC_BUNDLES} bundles for each sum or product, {DIVISION_BUNDLES} for each quotient or root"
)


def f64_function_bundles(opcode: str) -> int:
    """Bundles of a function of one double.

    Raises: KeyError for an opcode that is not in F64_FUNCTIONS.
    """
    arithmetic, divisions = F64_FUNCTIONS[opcode]
    return arithmetic * ARITHMETIC_BUNDLES + divisions * DIVISION_BUNDLES
