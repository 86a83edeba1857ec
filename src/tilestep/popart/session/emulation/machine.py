"""The machine that a session is emulated on: its device's, unless the user names another."""

from __future__ import annotations

import contextlib
import functools
import sys

from tilestep.machine.spec import MachineSpec
from tilestep.settings import stated_machine


def emulated_machine(machine: MachineSpec) -> MachineSpec:
    """The machine that figures are for. One that TILESTEP_MACHINE names goes before the device's, with as many IPUs as the device has.

    Args: machine: of the session's device.
    Raises: SettingsError for a setting that is not allowed.
    """
    stated = stated_machine(machine)
    if stated is None:
        return machine
    if stated != machine:
        _tell(stated.name)
    return stated


@functools.cache
def _tell(name: str) -> None:
    """Says once that a setting has gone before the program's devices."""
    with contextlib.suppress(OSError, ValueError, AttributeError):  # nobody reads it
        print(
            f"tilestep: sessions are emulated on machine {name}, which --machine or TILESTEP_MACHINE names, not on the machines of "
            "their devices",
            file=sys.stderr,
        )
