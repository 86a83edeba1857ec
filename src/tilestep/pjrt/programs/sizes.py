"""Arrays of 2^63 bytes and more, at which XLA ends the process: the program is refused before XLA sees it."""

import re
from math import prod
from typing import Any

import jax

from tilestep.errors import TileMemoryError
from tilestep.machine.spec import IpuSpec
from tilestep.pjrt.jax_private.mlir import ir, walk
from tilestep.units import ceil_div

_BOUND_BYTES = 1 << 63


def refuse_too_large(module: Any, num_ipus: int, ipu: IpuSpec) -> None:
    """The same for a caller inside of JAX. Raises: JaxRuntimeError with the text of the TileMemoryError."""
    try:
        require_countable(module, num_ipus, ipu)
    except TileMemoryError as error:
        raise jax.errors.JaxRuntimeError(f"RESOURCE_EXHAUSTED: TileMemoryError: {error}") from None


def require_countable(module: Any, num_ipus: int, ipu: IpuSpec) -> None:
    """Looks at each array of a StableHLO module, before it is divided among so many IPUs.

    Raises: TileMemoryError of any tile if an array has 2^63 bytes or more.
    """
    found: list[tuple[int, str, str]] = []
    small: set[Any] = set()  # types

    def visit(operation: Any) -> None:
        begins = operation.name == "func.func"
        for value in operation.regions[0].blocks[0].arguments if begins else operation.results:
            if value.type in small:
                continue
            size_bytes = _size_bytes(value.type)
            if size_bytes < _BOUND_BYTES:
                small.add(value.type)
            else:
                found.append((size_bytes, "program start" if begins else operation.name.removeprefix("stablehlo."), str(value.type)))

    walk(module, visit)
    if not found:
        return
    size_bytes, superstep, array = max(found)
    needed = ceil_div(size_bytes, ipu.num_tiles * num_ipus)
    available = ipu.tile.sram_bytes
    raise TileMemoryError(tile=0, superstep=superstep, needed_bytes=needed, available_bytes=available, largest=[(array, needed)])


def _size_bytes(array: Any) -> int:
    """As XLA counts: no element has less than a byte. 0 for what is no array of known size."""
    if not isinstance(array, ir.RankedTensorType):
        return 0
    elements = prod(array.shape) if array.has_static_shape else 0
    if elements < _BOUND_BYTES // 16:
        return elements
    element = str(array.element_type)  # f32, bf16, ui8, f8E4M3FN, complex<f64>
    bits = int(re.findall(r"\d+", element)[0]) * (2 if element.startswith("complex") else 1)
    return elements * max(1, bits // 8)
