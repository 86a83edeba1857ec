"""How far operations are from what the machine can do: the roofs that its fields give, and which of them holds for a step."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from tilestep.cost.exchange import TILES_PER_BUS
from tilestep.machine.assemble import describe
from tilestep.machine.spec import IpuSpec, MachineSpec
from tilestep.options import PlanOptions
from tilestep.plan.steps import Superstep

FLOPS_PER_MAC: Final = 2
_OF_PASS: Final = re.compile(r"[\w-]+<(\w+)>")  # opcodes of a fused pass, as plan/code.py names its codelet
_OF_STEP: Final = re.compile(r"\S+ \S+ (\S+)")  # family, opcode and dtype of any other step
_FIELDS: Final = ("ipu.macs_per_cycle_float", "ipu.macs_per_cycle_half", "ipu.macs_per_cycle_half_float", "ipu.macs_per_cycle_float8")
_WORDS: Final = ("f32", "f16, half partials", "f16, float partials", "8-bit floats")
FLOAT, HALF, HALF_FLOAT, FLOAT8 = range(len(_FIELDS))
UNKNOWN: Final = -1


@dataclass(frozen=True, kw_only=True)
class Roof:
    """The most that one IPU reaches.

    Attributes:
        words: for which operands.
        rate: flop/s of the matrix units of all tiles; or bytes a second that one tile receives.
        field: of the machine that it comes from.
        source: of that field's value.
        basis: 'documented', 'measured', 'derived' or 'assumed'.
    """

    words: str
    rate: float
    field: str
    source: str
    basis: str


def flop_roofs(machine: MachineSpec) -> tuple[Roof, ...]:
    """By FLOAT, HALF, HALF_FLOAT and FLOAT8; the rate is 0 where the machine has no such unit."""
    ipu = machine.ipu
    per_mac = FLOPS_PER_MAC * ipu.num_tiles * ipu.clock_hz
    macs = (ipu.macs_per_cycle_float, ipu.macs_per_cycle_half, ipu.macs_per_cycle_half_float, ipu.macs_per_cycle_float8)
    return tuple(_roof(machine, words, rate * per_mac, field) for words, rate, field in zip(_WORDS, macs, _FIELDS, strict=True))


def exchange_roofs(machine: MachineSpec) -> tuple[Roof, ...]:
    """What one tile receives a second: alone, and of bytes that both tiles of its bus receive."""
    rate = machine.ipu.tile.exchange_bytes_per_cycle * machine.ipu.clock_hz
    field = "ipu.tile.exchange_bytes_per_cycle"
    return (
        _roof(machine, "exchange", rate, field),
        _roof(machine, "exchange of bytes that both tiles of a bus receive", TILES_PER_BUS * rate, field),
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


def _roof(machine: MachineSpec, words: str, rate: float, field: str) -> Roof:
    entry = next(entry for entry in describe(machine) if entry.path == field)
    return Roof(words=words, rate=rate, field=field, source=entry.source, basis=entry.basis)
