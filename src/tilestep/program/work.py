"""One operation as the cost model sees it: shapes of operands and results, attributes."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from math import prod
from types import MappingProxyType

from tilestep.errors import HloError

# Bits of one element; XLA's names. Sub-byte types are packed in memory.
DTYPE_BITS: Mapping[str, int] = MappingProxyType(
    {
        "pred": 8, "token": 0, "opaque": 0,
        "s1": 1, "u1": 1, "s2": 2, "u2": 2, "s4": 4, "u4": 4, "f4e2m1fn": 4,
        "s8": 8, "u8": 8, "f8e5m2": 8, "f8e4m3": 8, "f8e4m3fn": 8, "f8e4m3b11fnuz": 8, "f8e5m2fnuz": 8,
        "f8e4m3fnuz": 8, "f8e3m4": 8, "f8e8m0fnu": 8,
        "s16": 16, "u16": 16, "f16": 16, "bf16": 16,
        "s32": 32, "u32": 32, "f32": 32,
        "s64": 64, "u64": 64, "f64": 64, "c64": 64,
        "c128": 128,
    }
)  # fmt: skip


@dataclass(frozen=True)
class ArrayShape:
    """Dtype, dimensions and layout of one array.

    Raises:
        HloError: for an unknown dtype.
    """

    dtype: str  # as XLA names it, for example 'f32'
    dims: tuple[int, ...] = ()  # elements of each dimension
    minor_to_major: tuple[int, ...] = ()  # order of the dimensions in memory; () where the text names none

    def __post_init__(self) -> None:
        if self.dtype not in DTYPE_BITS:
            raise HloError(f"dtype {self.dtype!r} is unknown; known are {', '.join(DTYPE_BITS)}")

    @cached_property
    def size(self) -> int:
        """Number of elements."""
        return prod(self.dims)

    @cached_property
    def size_bytes(self) -> int:
        """Bytes in memory, sub-byte elements packed, rounded up."""
        return -(-self.size * DTYPE_BITS[self.dtype] // 8)

    def __str__(self) -> str:
        return f"{self.dtype}[{','.join(map(str, self.dims))}]"


@dataclass(frozen=True, kw_only=True)
class Work:
    """One HLO operation without names: equal work costs the same."""

    opcode: str  # HLO opcode, or 'custom-call:<target>'
    operands: tuple[ArrayShape, ...]  # shapes on one IPU
    results: tuple[ArrayShape, ...]  # shapes of the result's leaves on one IPU, without tokens
    attributes: Mapping[str, str] = field(default_factory=dict[str, str])  # as printed, for example {'window': '{size=3x3 pad=1_1x1_1}'}
    body_opcodes: tuple[str, ...] = ()  # operations of the called computation (of a reduce, scatter, sort, map), without parameters
    resident: tuple[bool, ...] = ()  # for each operand, whether it is a weight whose layout this operation may choose, once
