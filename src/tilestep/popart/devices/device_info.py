"""DeviceInfo: one device, the machine that is emulated for it, and the system of all devices.

Devices have one IPU, or a power of two. Those of one IPU have the numbers of their IPUs; pairs follow, then groups of four, and so on:
with 16 IPUs, device 16 is IPUs 0 and 1, device 24 is IPUs 0 to 3, and device 30 has all.
"""

from __future__ import annotations

import functools
import threading
import time
import weakref
from collections.abc import Iterator
from typing import Any, Final, final

from tilestep.errors import SpecError
from tilestep.machine import MachineSpec, changed_machine, load_machine
from tilestep.popart.devices.versions import versionString
from tilestep.popart.diagnostics.log import warn
from tilestep.popart.enums import DeviceConnectionType, DeviceType, SyncPattern
from tilestep.popart.exceptions import popart_exception, popart_runtime_error
from tilestep.settings import emulated_system

DEFAULT_SYSTEM: Final = "bow-pod16"


def system_machine() -> tuple[MachineSpec, bool]:
    """The machine whose IPUs can be acquired, and whether a setting names it."""
    return emulated_system(DEFAULT_SYSTEM)


@functools.cache
def machine_of(name: str) -> MachineSpec:
    """The machine of a name of the catalogue."""
    return load_machine(name)


def emulated_machine(base: MachineSpec, num_ipus: int, num_tiles: int, sync_pattern: str) -> MachineSpec:
    """The machine for a device.

    Args:
        base: a machine with the device's IPUs.
        num_ipus: of the device.
        num_tiles: of each IPU. A machine that a setting names keeps its own tiles.
        sync_pattern: of the device.
    Raises: SpecError if there can be no such machine.
    """
    stated, named = system_machine()
    if not named:
        return changed_machine(base, num_ipus=num_ipus, num_tiles=num_tiles, sync_pattern=sync_pattern)
    machine = changed_machine(stated, num_ipus=num_ipus, sync_pattern=sync_pattern)
    if (stated.name, stated.ipu.num_tiles) != (base.name, num_tiles):
        _say_once(stated.name, stated.ipu.num_tiles, base.name, num_tiles)
    return machine


@functools.cache
def _say_once(stated: str, stated_tiles: int, name: str, num_tiles: int) -> None:
    warn(
        f"The settings name machine {stated}: it is emulated, with {stated_tiles:,} tiles on each IPU, where the program asks for {name} "
        f"with {num_tiles:,}",
        "devicex",
    )


class DevicesInUse:
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


SYSTEM: Final = DevicesInUse()


_POLL_WALL_S: Final = 0.05  # between two tries to attach


@final
class DeviceInfo:
    """One device. DeviceManager makes them; as a context manager it is detached at the end.

    Args:
        type: of the device.
        base: a machine with such IPUs; None for a Cpu device.
        num_ipus: how many it has.
        tiles: of each IPU; 0: all that they have.
        pattern: which IPUs wait for each other.
        connection: when it is attached to.
        identity: its number among the devices of the system.
        ipus: the system's IPUs that it has; none: it needs none to be free.
    """

    def __init__(
        self,
        type: DeviceType,
        base: MachineSpec | None = None,
        *,
        num_ipus: int = 1,
        tiles: int = 0,
        pattern: SyncPattern = SyncPattern.Full,
        connection: DeviceConnectionType = DeviceConnectionType.Always,
        identity: int = 0,
        ipus: tuple[int, ...] = (),
    ) -> None:
        self.type: Final = type
        self.base: Final = base
        self.num_ipus: Final = num_ipus
        self.tiles_per_ipu: Final = tiles or (1 if base is None else base.ipu.num_tiles)
        self.sync_pattern: Final = pattern
        self._connection, self._id, self._ipus = connection, identity, ipus
        self._timeout_wall_s = SYSTEM.attach_timeout_wall_s
        self._machine: MachineSpec | None = None
        self._attached = False

    # --- What it is ---

    @property
    def connectionType(self) -> DeviceConnectionType:
        """When it is attached to."""
        return self._connection

    @property
    def id(self) -> int:
        """Its number among the devices of the system; 0 for one that was made."""
        return self._id

    @property
    def numIpus(self) -> int:
        """How many IPUs it has."""
        return self.num_ipus

    @property
    def tilesPerIPU(self) -> int:
        """Tiles of each IPU, as the program asked for them."""
        return self.tiles_per_ipu

    tilesPerIpu = tilesPerIPU

    @property
    def ipuVersion(self) -> str:
        """The version of its IPUs, as "ipu2". Raises: popart_exception for a Cpu device."""
        if self.base is None:
            raise popart_exception("A Cpu device has no IPU, so no ipuVersion: ask `version`")
        return self.base.ipu.version

    @property
    def version(self) -> str:
        """A model's IPU version; the version of the driver, which is PopART's here, of an attached device; else a word about its kind."""
        match self.type:
            case DeviceType.IpuModel:
                return self.ipuVersion
            case DeviceType.Ipu:
                return versionString() if self._attached else "<unknown-ipu-unattached>"
            case DeviceType.Cpu:
                return "<unknown-cpu>"
            case DeviceType.Sim:
                return "<unknown-sim>"
            case DeviceType.OfflineIpu:
                return "<offline-ipu>"

    @property
    def driverIds(self) -> list[int]:
        """The system's IPUs that it has; [0] for a device that was made."""
        return list(self._ipus) or [0]

    @property
    def numWorkerContexts(self) -> int:
        """Workers of each tile; 1 for a Cpu device."""
        machine = self.machine()
        return 1 if machine is None else machine.ipu.tile.worker_contexts

    def machine(self) -> MachineSpec | None:
        """The machine that is emulated for it; None for a Cpu device.

        A machine that a setting names goes before the device's version and tiles.
        Raises: popart_exception if there is no machine of so many IPUs or tiles.
        """
        if self._machine is None and self.base is not None:
            try:
                self._machine = emulated_machine(self.base, self.num_ipus, self.tiles_per_ipu, str(self.sync_pattern))
            except SpecError as error:
                raise popart_exception(f"No {self.type} device with {self.num_ipus} IPUs of {self.tiles_per_ipu} tiles: {error}") from error
        return self._machine

    # --- Whether it is in use ---

    @property
    def isAttached(self) -> bool:
        """Whether the program has it."""
        return self._attached

    def attach(self) -> bool:
        """Takes its IPUs; False if another device has one of them. Raises: popart_exception for an offline device."""
        if self.type is DeviceType.OfflineIpu:
            raise popart_exception("Cannot attach to offline device: acquire one, or compile with compileAndExport")
        self._attached = self._attached or SYSTEM.take(self, self._ipus)
        return self._attached

    def detach(self) -> None:
        """Lets its IPUs go. Raises: popart_exception for an offline device."""
        if self.type is DeviceType.OfflineIpu:
            raise popart_exception("Cannot detach from offline device: it is never attached to")
        SYSTEM.let_go(self)
        self._attached = False

    def tryAttachUntilTimeout(self) -> bool:
        """Takes its IPUs, and waits for them as long as setOnDemandAttachTimeout says; False if they did not become free."""
        end = time.monotonic() + self._timeout_wall_s
        while not self.attach():
            if time.monotonic() >= end:
                return False
            time.sleep(_POLL_WALL_S)
        return True

    def require_attached(self) -> None:
        """Attaches it if it is not yet. Raises: popart_runtime_error if it cannot be."""
        if not self._attached and not self.tryAttachUntilTimeout():
            raise popart_runtime_error(f"Failed to attach to device: others have its IPUs after {self._timeout_wall_s} s. {self!r}")

    def __enter__(self) -> DeviceInfo:
        return self

    def __exit__(self, *_: object) -> None:
        if self.type is not DeviceType.OfflineIpu:
            self.detach()

    def __repr__(self) -> str:
        connection = {"OnDemand": "on-demand"}.get(self._connection.name, self._connection.name.lower())
        ids = ",".join(map(str, self.driverIds))
        return (
            f"Device Type:{self.type} Connection Type:{connection} Id:{self.id} Version:{self.version} NumIPUs:{self.numIpus} "
            f"NumTilesPerIPU:{self.tilesPerIPU} DeviceIds: {{{ids}}}"
        )
