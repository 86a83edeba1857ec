"""The machine that the command line gave: it wins over the devices that a PopART program asks for."""

from __future__ import annotations

from dataclasses import dataclass

from tilestep.machine.catalog import DEFAULT_MACHINE
from tilestep.machine.spec import MachineSpec
from tilestep.machine.toml import load_machine


@dataclass(frozen=True, kw_only=True)
class GivenMachine:
    """What `tilestep run` was told of the machine; None is the machine's own, and for IPUs the device's."""

    name_or_path: str | None = None
    num_ipus: int | None = None
    num_tiles: int | None = None
    sync_pattern: str | None = None

    def for_device(self, num_ipus: int) -> MachineSpec:
        """The machine for a device of so many IPUs.

        Raises: SpecError if the machine can't be read or made.
        """
        return load_machine(
            DEFAULT_MACHINE if self.name_or_path is None else self.name_or_path,
            num_ipus=num_ipus if self.num_ipus is None else max(self.num_ipus, num_ipus),
            num_tiles=self.num_tiles,
            sync_pattern=self.sync_pattern,
        )


_given: list[GivenMachine] = []  # none or one


def give_machine(machine: GivenMachine | None) -> None:
    """From now on all sessions of this process are emulated on that machine; None: each on its device's again."""
    _given[:] = [] if machine is None else [machine]


def machine_for(num_ipus: int, own: MachineSpec | None) -> MachineSpec | None:
    """The machine on which a session is emulated, None for no emulation: the given one, or else its device's `own`.

    Args:
        num_ipus: of the session's device, at least 1.
        own: the device's machine; None for a device that isn't emulated (Cpu).

    Raises: SpecError if the given machine can't be read or made.
    """
    return _given[0].for_device(num_ipus) if _given else own
