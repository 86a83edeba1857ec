"""The emulated machine as a recording keeps it."""

from __future__ import annotations

from tilestep.machine.assemble import describe
from tilestep.machine.fields import Value
from tilestep.machine.spec import MachineSpec


def machine_fields(machine: MachineSpec) -> dict[str, Value]:
    """Every field of a machine by its path, such as 'ipu.tile.sram_bytes', with its name and description: the text `machine`."""
    return {"name": machine.name, "description": machine.description, **{entry.path: entry.value for entry in describe(machine)}}
