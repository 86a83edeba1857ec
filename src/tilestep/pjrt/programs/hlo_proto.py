"""Fields of a serialised HloModuleProto."""

from __future__ import annotations

from tilestep.protobuf import bytes_field, fields, int_field

_SHAPE, _OUTPUT_SHARDING = 4, 12  # field numbers: host_program_shape, spmd_output_sharding
_PARTS = 5  # of a sharding that is a tuple


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
            outputs = [part for number, part in parts if number == _PARTS][:num_outputs]
            rest = b"".join(int_field(n, v) if isinstance(v, int) else bytes_field(n, v) for n, v in parts if n != _PARTS)
            out += bytes_field(field, rest + b"".join(bytes_field(_PARTS, part) for part in outputs if isinstance(part, bytes)))
        else:
            out += bytes_field(field, value)
    return bytes(out)


def hlo_with_config(module: bytes, *, num_replicas: int, num_partitions: int) -> bytes:
    """The module with the part of its configuration that JAX reads (HloModuleProtoWithConfig)."""
    config = bytes_field(1, program_shape(module)) + int_field(4, num_replicas) + int_field(5, num_partitions)
    config += int_field(7, 1) + int_field(34, 1)  # Shardy or GSPMD has partitioned it already
    return bytes_field(1, module) + bytes_field(2, config)
