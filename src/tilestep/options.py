"""How a program may be planned: the options that users of IPUs had for matmuls and convolutions."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Literal

from tilestep.errors import SettingsError

PartialsType = Literal["float", "half"]
PREFIX = "ipu_"  # of an option's name in compiler_options


@dataclass(frozen=True, kw_only=True)
class PlanOptions:
    """Options of one program's plan. Defaults and meaning are PopLibs' (poplibs@7eac0f26, MatMul.hpp, Convolution.hpp)."""

    partials_type: PartialsType = "float"  # in which products of half operands are added up
    available_memory_proportion: float = 0.6  # of a tile's memory that the temporaries of one matmul, convolution or look-up may take
    num_io_tiles: int = 0  # set aside for transfers, which then overlap with compute on the others
    weight_load_bits: Literal[64, 128] = 64  # per cycle, into the matrix unit
    allow_out_of_memory: bool = False  # a program that does not fit is compiled all the same, and its profile says so

    def __post_init__(self) -> None:
        if self.partials_type not in ("float", "half"):
            raise SettingsError(f"ipu_partials_type is {self.partials_type!r}: it must be 'float' or 'half'")
        if not 0 < self.available_memory_proportion <= 1:
            raise SettingsError(
                f"ipu_available_memory_proportion is {self.available_memory_proportion!r}: it must be more than 0 and at most 1"
            )
        if self.num_io_tiles < 0:
            raise SettingsError(f"ipu_num_io_tiles is {self.num_io_tiles!r}: it must be 0 or more")
        if int(self.weight_load_bits) not in (64, 128):
            raise SettingsError(f"ipu_weight_load_bits is {self.weight_load_bits!r}: it must be 64 or 128")

    def changed(self, given: Mapping[str, object]) -> PlanOptions:
        """These options with those of `given` in their place.

        Args: given: by name, `ipu_` before it; strings or numbers.
        Raises: SettingsError for an unknown name, or a value that is not allowed.
        """
        known = {PREFIX + field.name for field in fields(self)}
        for name in given:
            if name not in known:
                nearest = difflib.get_close_matches(name, known, 1, 0.0)[0]
                raise SettingsError(
                    f"option {name!r} does not exist; the nearest that does is {nearest!r} (all: {', '.join(sorted(known))})"
                )
        values = {name.removeprefix(PREFIX): _value(name, value) for name, value in given.items()}
        return replace(self, **values)  # type: ignore[arg-type]  # __post_init__ checks what the fields allow


def _value(name: str, value: object) -> object:
    if name == "ipu_allow_out_of_memory":
        return _flag(name, value)
    kind = {"ipu_partials_type": str, "ipu_available_memory_proportion": float}.get(name, int)
    what = {str: "'float' or 'half'", float: "a number", int: "a whole number"}[kind]
    if isinstance(value, bool):
        raise SettingsError(f"{name} is {value!r}: it must be {what}")
    try:
        if kind is int and isinstance(value, float) and not value.is_integer():
            raise ValueError
        return kind(value)  # type: ignore[call-overload]  # a value of another type is what the except is for
    except (TypeError, ValueError):
        raise SettingsError(f"{name} is {value!r}: it must be {what}") from None


def _flag(name: str, value: object) -> bool:
    text = value.strip().lower() if isinstance(value, str) else value
    if text in (True, "true", "1"):
        return True
    if text in (False, "false", "0"):
        return False
    raise SettingsError(f"{name} is {value!r}: it must be true or false")
