"""Options of a plan: the choices that IPU users have for matmuls, convolutions, I/O tiles and memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Literal

from tilestep.errors import SettingsError
from tilestep.messages import nearest, shown

PartialsType = Literal["float", "half"]
Fusion = Literal["clusters", "none"]
MAX_TILES = 100_000  # as in machine/fields.py
PREFIX = "ipu_"  # begins an option's name in compiler_options, and in the metadata of an operation
OF_ONE_OPERATION = ("ipu_available_memory_proportion", "ipu_partials_type")  # options that one operation may have for itself


@dataclass(frozen=True, kw_only=True)
class PlanOptions:
    """Options of one program's plan. Defaults and meaning are PopLibs' (poplibs@7eac0f26, MatMul.hpp, Convolution.hpp).

    Attributes:
        partials_type: type in which products of half operands are added up.
        available_memory_proportion: share of a tile's memory that the temporaries of one matmul, convolution or look-up may take.
        num_io_tiles: tiles that only transfer, while the others compute.
        weight_load_bits: a cycle, into the matrix unit.
        allow_out_of_memory: whether a program that does not fit is compiled nevertheless; its profile says so.
        fusion: which elementwise operations share a pass. 'clusters': those of equal size that use each other, as XLA for IPU made them;
            'none': those of one call of a library, as with PopART and PopTorch, which launch one `popops::map` for each other operation
            (graphcore/popart@d0ce16e0 willow/src/popx/op/expx.cpp).

    Raises:
        SettingsError: for a value that is not allowed.
    """

    partials_type: PartialsType = "float"
    available_memory_proportion: float = 0.6
    num_io_tiles: int = 0
    weight_load_bits: Literal[64, 128] = 64
    allow_out_of_memory: bool = False
    fusion: Fusion = "clusters"

    def __post_init__(self) -> None:
        if self.partials_type not in ("float", "half"):
            raise SettingsError(f"ipu_partials_type is {shown(self.partials_type)}: it must be 'float' or 'half'")
        if self.fusion not in ("clusters", "none"):
            raise SettingsError(f"ipu_fusion is {shown(self.fusion)}: it must be 'clusters' or 'none'")
        if not 0 < self.available_memory_proportion <= 1:
            raise SettingsError(
                f"ipu_available_memory_proportion is {shown(self.available_memory_proportion)}: it must be more than 0 and at most 1"
            )
        if not 0 <= self.num_io_tiles < MAX_TILES:
            raise SettingsError(f"ipu_num_io_tiles is {shown(self.num_io_tiles)}: it must be 0 to {MAX_TILES - 1:,}")
        if int(self.weight_load_bits) not in (64, 128):
            raise SettingsError(f"ipu_weight_load_bits is {shown(self.weight_load_bits)}: it must be 64 or 128")

    def require_tiles_left(self, num_tiles: int) -> None:
        """Raises: SettingsError if the I/O tiles leave none of an IPU's `num_tiles` to compute on."""
        if self.num_io_tiles >= num_tiles:
            raise SettingsError(f"ipu_num_io_tiles is {self.num_io_tiles:,}: it must be less than the {num_tiles:,} tiles of an IPU")

    def changed(self, given: Mapping[str, object]) -> PlanOptions:
        """These options with some of them changed.

        Args: given: option -> value, a string or number; the name begins with `ipu_`.
        Raises: SettingsError for an unknown name, or a value that is not allowed.
        """
        known = {PREFIX + field.name for field in fields(self)}
        for name in given:
            if name not in known:
                near = nearest(name, known)
                hint = f"; the nearest that does is {near!r}" if near else ""
                raise SettingsError(f"option {shown(name)} does not exist{hint} (all: {', '.join(sorted(known))})")
        return self._with(given)

    def of_operation(self, given: Mapping[str, object]) -> PlanOptions:
        """These options for one operation that has some of its own.

        Args: given: as for `changed`.
        Raises: SettingsError for an option that no single operation has, or a value that is not allowed.
        """
        for name in given:
            if name not in OF_ONE_OPERATION:
                near = nearest(name, OF_ONE_OPERATION)
                hint = f"; the nearest is {near!r}" if near else ""
                raise SettingsError(f"an operation has no option {shown(name)} of its own: it may have {', '.join(OF_ONE_OPERATION)}{hint}")
        return self._with(given)

    def _with(self, given: Mapping[str, object]) -> PlanOptions:
        values = {name.removeprefix(PREFIX): _value(name, value) for name, value in given.items()}
        return replace(self, **values)  # __post_init__ checks what the fields allow


def _value(name: str, value: object) -> object:
    if name == "ipu_allow_out_of_memory":
        return _flag(name, value)
    words = {"ipu_partials_type": "'float' or 'half'", "ipu_fusion": "'clusters' or 'none'"}.get(name)
    kind = str if words else float if name == "ipu_available_memory_proportion" else int
    what = words or ("a whole number" if kind is int else "a number")
    if isinstance(value, bool):
        raise SettingsError(f"{name} is {shown(value)}: it must be {what}")
    try:
        if kind is int and isinstance(value, float) and not value.is_integer():
            raise ValueError
        return kind(value)  # pyrefly: ignore[bad-argument-type]  # a value of another type is what the except is for
    except (TypeError, ValueError, OverflowError):
        raise SettingsError(f"{name} is {shown(value)}: it must be {what}") from None


def _flag(name: str, value: object) -> bool:
    text = value.strip().lower() if isinstance(value, str) else value
    if text in (True, "true", "1"):
        return True
    if text in (False, "false", "0"):
        return False
    raise SettingsError(f"{name} is {shown(value)}: it must be true or false")
