"""How far operations are from what the matrix unit can do: its peaks, and which of them holds for a step."""

import re
from typing import Final

from tilestep.machine.spec import IpuSpec
from tilestep.options import PlanOptions
from tilestep.plan.steps import Superstep

FLOPS_PER_MAC: Final = 2
_OF_PASS: Final = re.compile(r"[\w-]+<(\w+)>")  # opcodes of a fused pass, as plan/memory/code.py names its codelet
_OF_STEP: Final = re.compile(r"\S+ \S+ (\S+)")  # family, opcode and dtype of any other step
FLOAT, HALF, HALF_FLOAT, FLOAT8 = range(4)
UNKNOWN: Final = -1


def flop_roofs(ipu: IpuSpec) -> tuple[tuple[str, float], ...]:
    """Operands and the flop/s of all tiles, by FLOAT, HALF, HALF_FLOAT and FLOAT8; 0 where the machine has no such unit."""
    per_mac = FLOPS_PER_MAC * ipu.num_tiles * ipu.clock_hz
    return (
        ("f32", ipu.macs_per_cycle_float * per_mac),
        ("f16, half partials", ipu.macs_per_cycle_half * per_mac),
        ("f16, float partials", ipu.macs_per_cycle_half_float * per_mac),
        ("8-bit floats", ipu.macs_per_cycle_float8 * per_mac),
    )


def dtype_of(step: Superstep) -> str:
    """The dtype that a step computes in: of its first operand, or of a fused pass whose operations have one. '' if unknown or several."""
    of_pass = set(_OF_PASS.findall(step.codelet))
    if of_pass:
        return of_pass.pop() if len(of_pass) == 1 else ""
    found = _OF_STEP.match(step.codelet)
    return found[1] if found else ""


def roof_of(dtype: str, ipu: IpuSpec, options: PlanOptions | None) -> int:
    """The roof of a dtype: FLOAT, HALF, HALF_FLOAT or FLOAT8; UNKNOWN where the matrix unit has no such operands.

    Args: options: of the program; None: unknown, and with them in what type products of halves are added up.
    """
    if dtype == "f32":
        return FLOAT
    if dtype == "f16":
        return UNKNOWN if options is None else HALF if options.partials_type == "half" else HALF_FLOAT
    return FLOAT8 if dtype.startswith("f8") and ipu.has_float8 else UNKNOWN
