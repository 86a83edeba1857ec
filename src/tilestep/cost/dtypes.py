"""How a tile computes on each dtype.

A worker's arithmetic unit takes 64 bits a bundle: two floats or four halves. Integers go one by one through the 32-bit
integer unit. What a tile has no instructions for is converted, or emulated in software at an assumed price.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Literal

VECTOR_BYTES = 8  # one register pair: the operand of an arithmetic bundle, and of one load or store

# Bundles of a double operation per bundle of the same operation on one float. Assumed: about the length of an addition or
# multiplication of doubles in software, on a core with 32-bit registers.
F64_EMULATION = 40
# The same for a 64-bit integer operation per 32-bit one. Assumed: an addition takes two and a carry, a multiplication more.
S64_EMULATION = 4

Unit = Literal["half", "float", "integer"]


@dataclass(frozen=True, kw_only=True)
class Arithmetic:
    """The unit that computes on one dtype, and its width."""

    unit: Unit
    per_vector: int  # elements that one bundle works on
    emulation: int = 1  # bundles per native bundle
    converts: bool = False  # to and from the unit's dtype, at loads and stores
    is_complex: bool = False
    float8: bool = False  # a format that a matrix unit for 8-bit floats multiplies, on machines that have one
    assumption: str = ""

    @property
    def matrix_unit(self) -> bool:
        """Whether products of this dtype can use the matrix unit."""
        return self.unit != "integer" and self.emulation == 1


_FLOAT = Arithmetic(unit="float", per_vector=2)
_HALF = Arithmetic(unit="half", per_vector=4)
_WORD = Arithmetic(unit="integer", per_vector=1)
_SMALL = Arithmetic(
    unit="integer", per_vector=1, converts=True, assumption="integers below 32 bits are widened to 32 bits, computed on, and narrowed"
)
_LONG = Arithmetic(
    unit="integer",
    per_vector=1,
    emulation=S64_EMULATION,
    assumption=f"64-bit integers are emulated: {S64_EMULATION} bundles for each 32-bit one",
)
_BF16 = Arithmetic(unit="float", per_vector=2, converts=True, assumption="bf16 is converted to f32, computed on, and converted back")
_F8 = Arithmetic(unit="half", per_vector=4, converts=True, assumption="8-bit and 4-bit floats are converted to f16, computed on, and back")
# F143 and F152 of IPU21 have no infinities and no negative zero, one exponent bias and a power of two for a scale (poplar's
# QuarterMetadata): XLA's ...fnuz formats of as many bits. The others of as many bits are taken for them.
_UNIT_F8 = replace(_F8, float8=True)
UNIT_FORMATS = ("f8e4m3fnuz", "f8e5m2fnuz")
ALIKE_TEXT = "8-bit floats of 4 and 3 or 5 and 2 bits are multiplied as the matrix unit's own formats, whatever their bias and infinities"
FLOAT8_SUMS_TEXT = "products of 8-bit floats are added up in halves: the matrix unit has no other sums for them"
_F64_TEXT = f"f64 is emulated in software: {F64_EMULATION} bundles for each f32 one"

ARITHMETIC: Mapping[str, Arithmetic] = MappingProxyType(
    {
        "pred": Arithmetic(unit="integer", per_vector=4),  # four bytes of a word at once
        "f32": _FLOAT,
        "f16": _HALF,
        "bf16": _BF16,
        "s32": _WORD,
        "u32": _WORD,
        **dict.fromkeys(("s1", "u1", "s2", "u2", "s4", "u4", "s8", "u8", "s16", "u16"), _SMALL),
        **dict.fromkeys(("f4e2m1fn", "f8e3m4", "f8e8m0fnu"), _F8),
        **dict.fromkeys((*UNIT_FORMATS, "f8e5m2", "f8e4m3", "f8e4m3fn", "f8e4m3b11fnuz"), _UNIT_F8),
        "s64": _LONG,
        "u64": _LONG,
        "f64": Arithmetic(unit="float", per_vector=1, emulation=F64_EMULATION, assumption=_F64_TEXT),
        "c64": Arithmetic(unit="float", per_vector=1, is_complex=True),
        "c128": Arithmetic(unit="float", per_vector=1, emulation=2 * F64_EMULATION, is_complex=True, assumption=_F64_TEXT),
        "token": _WORD,
        "opaque": _WORD,
    }
)


def dtype_assumptions(*dtypes: str) -> tuple[str, ...]:
    """Assumptions about these dtypes as sentences, sorted, each once."""
    return tuple(sorted({ARITHMETIC[dtype].assumption for dtype in dtypes} - {""}))


def product_assumptions(left: str, right: str, result: str, *, float8: bool, half_sums: bool) -> tuple[str, ...]:
    """As `dtype_assumptions` of a product's operands and result.

    Args:
        float8: the matrix unit multiplies the operands as they are, which are 8-bit floats.
        half_sums: it could, and so each way to multiply them adds up in halves.
    """
    found = {FLOAT8_SUMS_TEXT} if half_sums else set[str]()
    if not float8:
        return tuple(sorted(found.union(dtype_assumptions(left, right, result))))
    return tuple(sorted(found if {left, right} <= {*UNIT_FORMATS} else {ALIKE_TEXT, *found}))
