"""Bundles of each elementwise operation within an expression, without loads and stores.

A worker issues one bundle every `worker_contexts` cycles. Figures marked P follow from poplibs@7eac0f26
lib/popops/popopsCycleEstimators.hpp, which calls those of transcendental functions unverified: of a vector, or of a turn of the quickest
codelet of that operation, which loads and stores while it computes. The others are assumed to equal the most similar of these.
`codelets.py` has the codelets for one operation alone.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType

from tilestep.cost.dtypes import ARITHMETIC, F64_EMULATION, Arithmetic
from tilestep.cost.elementwise.codelets import CODELETS
from tilestep.cost.elementwise.software_f64 import DIVISION_BUNDLES, F64_FUNCTIONS, F64_FUNCTIONS_TEXT, f64_function_bundles

# Bundles per element of a function that has no instruction and no vector routine: a scalar one in f32. Assumed; poplibs'
# own entry for sine, 2,300, is a placeholder.
SOFTWARE_FUNCTION = 100
_SOFTWARE = (2 * SOFTWARE_FUNCTION, 4 * SOFTWARE_FUNCTION, SOFTWARE_FUNCTION)

# opcode -> bundles per (2 floats, 4 halves, 1 integer)
BUNDLES: Mapping[str, tuple[int, int, int]] = MappingProxyType(
    {
        "add": (1, 1, 1),  # P
        "subtract": (1, 1, 1),  # P
        "multiply": (1, 1, 1),  # P
        "negate": (1, 1, 1),  # P
        "abs": (1, 1, 2),  # P
        "maximum": (1, 1, 2),  # an instruction a vector: f32v2max, f16v4max
        "minimum": (1, 1, 2),
        "divide": (6, 16, 271),  # P: by a scalar; integers without the 6 bundles that a sum takes beside its own
        "remainder": (93, 225, 286),  # P, as divide
        "exponential": (6, 4, SOFTWARE_FUNCTION),  # P
        "exp2": (6, 4, SOFTWARE_FUNCTION),
        "exponential-minus-one": (8, 5, SOFTWARE_FUNCTION),  # P
        "log": (12, 4, SOFTWARE_FUNCTION),  # P
        "log2": (12, 4, SOFTWARE_FUNCTION),
        "log-plus-one": (18, 18, SOFTWARE_FUNCTION),  # P
        "tanh": (10, 2, SOFTWARE_FUNCTION),  # P: in place
        "logistic": (10, 4, SOFTWARE_FUNCTION),  # P: in place
        "sqrt": (10, 23, 104),  # P
        "rsqrt": (8, 19, SOFTWARE_FUNCTION),  # P
        "erf": (82, 52, SOFTWARE_FUNCTION),  # P
        "erfc": (82, 52, SOFTWARE_FUNCTION),
        "erf-inv": (82, 164, SOFTWARE_FUNCTION),
        "power": (624, 1300, 26),  # P: 312 and 325 an element; integers to the power of 9
        "floor": (2, 2, 1),  # P
        "ceil": (2, 2, 1),  # P
        "round-nearest-even": (2, 2, 1),  # P
        "round-nearest-afz": (2, 2, 1),  # P
        "sign": (5, 5, 5),  # P
        "is-finite": (5, 5, 1),  # P
        "compare": (3, 3, 1),
        "select": (4, 4, 2),
        "clamp": (2, 2, 4),
        "and": (2, 2, 1),
        "or": (2, 2, 1),
        "xor": (2, 2, 1),
        "not": (1, 1, 1),
        "shift-left": (2, 4, 1),
        "shift-right-arithmetic": (2, 4, 1),
        "shift-right-logical": (2, 4, 1),
        "popcnt": (2, 4, 1),
        "count-leading-zeros": (2, 4, 1),
        "mulhi": (8, 16, 4),
        "convert": (1, 2, 2),  # a bundle per vector of floats, as poplibs' cast (lib/popops/PerformanceEstimation.cpp)
        "stochastic-convert": (4, 4, 4),
        "reduce-precision": (4, 4, 4),
        "bitcast-convert": (0, 0, 0),
        "complex": (1, 1, 1),
        "real": (1, 1, 1),
        "imag": (1, 1, 1),
        "iota": (1, 1, 1),
        "copy": (0, 0, 0),
        **dict.fromkeys(
            ("tan", "acos", "sinh", "cosh", "asinh", "acosh", "atanh"), _SOFTWARE
        ),
        **dict.fromkeys(("sine", "cosine"), (2 * SOFTWARE_FUNCTION, 100, SOFTWARE_FUNCTION)),  # P for half: 25 an element
        "asin": (204, 408, SOFTWARE_FUNCTION),  # P
        "atan2": (272, 578, SOFTWARE_FUNCTION),  # P
        "cbrt": (27, 17, SOFTWARE_FUNCTION),  # P
    }
)  # fmt: skip
# Conversions that machines with 8-bit floats have instructions for, which take 8 halves or 4 8-bit floats; floats go through halves.
# (bundles, elements) by name: poplibs@7eac0f26 lib/popops/codelets/inlineAssemblerCast.hpp (f16v8tof8, f8v4tof16, f32v4tof16, f16v2tof32).
_FLOAT8_CASTS: Mapping[str, tuple[int, int]] = MappingProxyType(
    {"float8-of-half": (1, 8), "float8-of-float": (3, 8), "half-of-float8": (1, 4), "float-of-float8": (3, 4)}
)
FLOAT8_AS_IT_IS = frozenset({*_FLOAT8_CASTS, "copy", "bitcast-convert", "select"})  # operations that do not compute on 8-bit floats
# Of these the library has only codelets by themselves: within an expression their price is assumed.
_ALONE = frozenset({"compare", "select", "clamp"})
# Moves of a value or of its parts: as cheap as on the components, and no arithmetic.
_MOVES = frozenset({"convert", "bitcast-convert", "complex", "real", "imag", "iota", "copy", "select", "compare"})
# Bundles on complex values per bundle on the same number of real components: assumed, the number of real operations.
_COMPLEX = MappingProxyType({"multiply": 3, "divide": 6, "add": 1, "subtract": 1, "negate": 1})
_COMPLEX_FUNCTION = 4
_UNITS = ("float", "half", "integer")

_ASSUMED_RATES = "elementwise rates without a published figure are taken from similar operations"
_SOFTWARE_TEXT = f"trigonometric and other functions without a vector routine take {SOFTWARE_FUNCTION} bundles an element"
_COMPLEX_TEXT = "complex operations are priced as their real ones: a product as 3, a quotient as 6, a function as 4 of its two parts"


@dataclass(frozen=True, kw_only=True)
class Rate:
    """`bundles` for every `elements` (the last group counts whole)."""

    bundles: int
    elements: int
    flops_per_element: int
    assumptions: tuple[str, ...] = ()


@cache
def rate(opcode: str, dtype: str) -> Rate:
    """Price of an elementwise operation on one dtype.

    Raises: KeyError for an opcode that is not elementwise, or an unknown dtype.
    """
    if opcode in _FLOAT8_CASTS:
        bundles, elements = _FLOAT8_CASTS[opcode]
        return Rate(bundles=bundles, elements=elements, flops_per_element=0)
    how = ARITHMETIC[dtype]
    if _is_f64_function(opcode, how):
        bundles = f64_function_bundles(opcode) * (how.emulation // F64_EMULATION)  # a complex number has two components
    else:
        bundles = BUNDLES[opcode][_UNITS.index(how.unit)] * how.emulation
    if opcode == "divide" and _is_f64(how):
        bundles = DIVISION_BUNDLES * (how.emulation // F64_EMULATION)
    if how.is_complex and opcode not in _MOVES:
        bundles *= _COMPLEX.get(opcode, _COMPLEX_FUNCTION)
    counts = how.unit != "integer" and opcode not in _MOVES
    return Rate(
        bundles=bundles,
        elements=how.per_vector,
        flops_per_element=int(counts) * (_complex_flops(opcode) if how.is_complex else 1),
        assumptions=_assumptions(opcode, how),
    )


def float8_cast(source: str, target: str) -> str | None:
    """The name under which a conversion is priced if machines with 8-bit floats have instructions for it, else None."""
    units = {dtype: "float8" if ARITHMETIC[dtype].float8 else {"f16": "half", "f32": "float"}.get(dtype) for dtype in (source, target)}
    name = f"{units[target]}-of-{units[source]}"
    return name if name in _FLOAT8_CASTS else None


def _is_f64(how: Arithmetic) -> bool:
    return how.unit == "float" and how.emulation > 1


def _is_f64_function(opcode: str, how: Arithmetic) -> bool:
    return _is_f64(how) and opcode in F64_FUNCTIONS


def _complex_flops(opcode: str) -> int:
    """Real operations of one complex one: 2 for a sum, 6 for a product."""
    return 2 * _COMPLEX.get(opcode, _COMPLEX_FUNCTION)


def _assumptions(opcode: str, how: Arithmetic) -> tuple[str, ...]:
    column = _UNITS.index(how.unit)
    found: list[str] = []
    if how.assumption:
        found.append(how.assumption)
    if how.is_complex and opcode not in _MOVES:
        found.append(_COMPLEX_TEXT)
    if _is_f64_function(opcode, how):
        found.append(F64_FUNCTIONS_TEXT)
    elif BUNDLES[opcode][column] == _SOFTWARE[column]:
        found.append(_SOFTWARE_TEXT)
    elif (opcode in _ALONE or opcode not in CODELETS or CODELETS[opcode][column] is None) and BUNDLES[opcode] != (0, 0, 0):
        found.append(_ASSUMED_RATES)
    return tuple(found)
