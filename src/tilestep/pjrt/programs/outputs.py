"""A program's results: their shapes, layouts and memories."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from tilestep.pjrt import _native
from tilestep.pjrt.jax_private import compat
from tilestep.pjrt.table.buffer import TOKEN_SHAPE, shape_of
from tilestep.pjrt.table.layouts import order_in, row_major
from tilestep.plan.steps import Program
from tilestep.protobuf import bytes_field, fields, int_field

_SHAPE, _OUTPUT_SHARDING = 4, 12  # field numbers: host_program_shape, spmd_output_sharding
_TUPLE_SHARDING = 5


def program_shape(module: bytes) -> bytes:
    """The module's ProgramShapeProto."""
    return next(value for field, value in fields(module) if field == _SHAPE and isinstance(value, bytes))


def without_counter_shardings(module: bytes, num_outputs: int) -> bytes:
    """The module without the shardings of outputs behind the first `num_outputs`."""
    out = bytearray()
    for field, value in fields(module):
        if isinstance(value, int):
            out += int_field(field, value)
        elif field == _OUTPUT_SHARDING:
            parts = list(fields(value))
            outputs = [part for number, part in parts if number == _TUPLE_SHARDING][:num_outputs]
            rest = b"".join(int_field(n, v) if isinstance(v, int) else bytes_field(n, v) for n, v in parts if n != _TUPLE_SHARDING)
            out += bytes_field(field, rest + b"".join(bytes_field(_TUPLE_SHARDING, part) for part in outputs if isinstance(part, bytes)))
        else:
            out += bytes_field(field, value)
    return bytes(out)


def hlo_with_config(module: bytes, *, num_replicas: int, num_partitions: int) -> bytes:
    """The module with the part of its configuration that JAX reads (HloModuleProtoWithConfig)."""
    config = bytes_field(1, program_shape(module)) + int_field(4, num_replicas) + int_field(5, num_partitions)
    config += int_field(7, 1) + int_field(34, 1)  # Shardy or GSPMD has partitioned it already
    return bytes_field(1, module) + bytes_field(2, config)


@dataclass(frozen=True, kw_only=True)
class Outputs:
    """The results of a program on one device."""

    specs: tuple[tuple[tuple[int, ...], np.dtype[Any] | None], ...]  # dimensions and dtype of each; None for a token
    memory_kinds: tuple[str, ...]  # the memory that each comes into
    shapes: tuple[_native.Shape, ...]  # for C

    @property
    def has_tokens(self) -> bool:
        """Whether a result is a token."""
        return any(dtype is None for _, dtype in self.specs)


def outputs_of(hlo: bytes, program: Program, host_executable: Any) -> Outputs:
    """Results of a program.

    Args: hlo: as it was planned. host_executable: XLA:CPU's; None in a dry run.
    """
    results = list(compat.program_results(program_shape(hlo)))
    specs = tuple((dims, dtype) for dims, dtype, _ in results)
    kinds = ["pinned_host" if result.on_host else "device" for result in program.results]
    orders = [order for _, _, order in results]
    if host_executable is not None:
        host_kinds = list(host_executable.get_output_memory_kinds()[0])[: len(results)]
        kinds = host_kinds if len(host_kinds) == len(results) else kinds
        if all(dtype is not None for _, dtype in specs):  # XLA tells no layouts beside a token
            orders = [order_in(form) for form in output_layouts(specs, host_executable)]  # the program may leave a layout open
    shapes = (TOKEN_SHAPE if dtype is None else shape_of(dims, dtype, order) for (dims, dtype), order in zip(specs, orders, strict=True))
    return Outputs(specs=specs, memory_kinds=tuple(kinds), shapes=tuple(shapes))


def output_layouts(specs: tuple[tuple[tuple[int, ...], Any], ...], host_executable: Any) -> list[str]:
    """Layouts of the results as text. In a dry run every array is row-major."""
    if host_executable is None:
        return [row_major(len(dims)) for dims, _ in specs]
    return [str(form) for form in host_executable.get_output_layouts()[: len(specs)]]


def parameter_layouts(hlo: bytes, host_executable: Any) -> list[str]:
    """Layouts of the arguments as text. In a dry run every array is row-major."""
    if host_executable is None:
        return [row_major(len(dims)) for dims in compat.program_arguments(program_shape(hlo))]
    return [str(form) for form in host_executable.get_parameter_layouts()]
