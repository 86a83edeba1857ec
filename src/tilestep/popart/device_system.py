"""The emulated system: which devices it has, and which of its IPUs are in use.

Devices have one IPU, or a power of two. Those of one IPU have the numbers of their IPUs; pairs follow, then groups of four, and so on:
with 16 IPUs, device 16 is IPUs 0 and 1, device 24 is IPUs 0 to 3, and device 30 has all.
"""

from __future__ import annotations

import functools
import threading
import weakref
from collections.abc import Iterator
from typing import Any, Final

from tilestep.machine import MachineSpec, changed_machine, load_machine
from tilestep.popart.log import warn
from tilestep.settings import emulated_system

DEFAULT_SYSTEM: Final = "bow-pod16"


def system_machine() -> tuple[MachineSpec, bool]:
    """The machine whose IPUs can be acquired, and whether a setting names it."""
    return emulated_system(DEFAULT_SYSTEM)


@functools.cache
def machine_of(name: str) -> MachineSpec:
    """The machine of a name of the catalogue."""
    return load_machine(name)


def emulated_machine(name: str, num_ipus: int, num_tiles: int, sync_pattern: str) -> MachineSpec:
    """The machine for a device.

    Args:
        name: of a machine with the device's IPUs.
        num_ipus: of the device.
        num_tiles: of each IPU. A machine that a setting names keeps its own tiles.
        sync_pattern: of the device.
    Raises: SpecError if there is no such machine.
    """
    stated, named = system_machine()
    if not named:
        base = stated if name == stated.name else load_machine(name)
        return changed_machine(base, num_ipus=num_ipus, num_tiles=num_tiles, sync_pattern=sync_pattern)
    machine = changed_machine(stated, num_ipus=num_ipus, sync_pattern=sync_pattern)
    if (stated.name, stated.ipu.num_tiles) != (name, num_tiles):
        _say_once(stated.name, stated.ipu.num_tiles, name, num_tiles)
    return machine


@functools.cache
def _say_once(stated: str, stated_tiles: int, name: str, num_tiles: int) -> None:
    warn(
        f"The settings name machine {stated}: it is emulated, with {stated_tiles:,} tiles on each IPU, where the program asks for {name} "
        f"with {num_tiles:,}",
        "devicex",
    )


class System:
    """Which IPUs are in use, and by which devices; a device that is gone uses none."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users: weakref.WeakKeyDictionary[Any, tuple[int, ...]] = weakref.WeakKeyDictionary()
        self.attach_timeout_wall_s = 0

    def device_ids(self, num_ipus: int) -> list[int]:
        """The numbers of the devices with that many IPUs."""
        return [identity for identity, ipus in enumerate(self._devices()) if len(ipus) == num_ipus]

    def ipus_of(self, identity: int) -> tuple[int, ...] | None:
        """The IPUs of a device; None if there is none with that number."""
        return dict(enumerate(self._devices())).get(identity)

    def num_ids(self) -> int:
        """How many devices there are."""
        return sum(1 for _ in self._devices())

    def _devices(self) -> Iterator[tuple[int, ...]]:
        total, size = system_machine()[0].num_ipus, 1
        while size <= total:
            yield from (tuple(range(start, start + size)) for start in range(0, total - size + 1, size))
            size *= 2

    def take(self, device: object, ipus: tuple[int, ...]) -> bool:
        """Gives IPUs to a device; False if another has one of them."""
        with self._lock:
            taken = {ipu for user, owned in self._users.items() if user is not device for ipu in owned}
            if taken & set(ipus):
                return False
            self._users[device] = ipus
            return True

    def let_go(self, device: object) -> None:
        """Takes a device's IPUs back."""
        with self._lock:
            self._users.pop(device, None)


SYSTEM: Final = System()
