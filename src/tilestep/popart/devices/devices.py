"""DeviceManager: the devices that a session can be made for.

Values are computed by the process's JAX devices whatever the device. All but a Cpu device have a machine besides, on which the session's
programs are planned and played. IPUs that can be acquired are those of one emulated system: 16 Bow IPUs, unless a setting says otherwise.
"""

import random
from collections.abc import Mapping
from enum import Enum
from typing import Any, Final, TypeVar, final

from tilestep.machine import machine_names
from tilestep.messages import nearest, shown
from tilestep.popart.devices.device_info import SYSTEM, DeviceInfo, machine_of, system_machine
from tilestep.popart.enums import DeviceConnectionType, DeviceSelectionCriterion, DeviceType, SyncPattern
from tilestep.popart.exceptions import popart_exception, poplar_exception
from tilestep.popart.whole_numbers import whole

E = TypeVar("E", bound=Enum)

_MODEL_TILES: Final = 4  # unless the options of a model or simulator say otherwise
_HINT: Final = (
    "The emulated system has {} IPUs: `tilestep run --popart --ipus N`, or variable JAX_IPU_DEVICE_COUNT or TILESTEP_MACHINE, makes it "
    "another."
)
_FULL_ONLY: Final = "Only SyncPattern::Full is supported"
_NEVER: Final = "Trying to acquire a hardware device when connectionType is DeviceConnectionType::Never"
_OPTIONS: Final[Mapping[DeviceType, tuple[str, ...]]] = {
    DeviceType.IpuModel: ("numIPUs", "tilesPerIPU", "compileIPUCode", "ipuVersion"),
    DeviceType.Sim: ("numIPUs", "tilesPerIPU"),
    DeviceType.OfflineIpu: ("numIPUs", "tilesPerIPU", "ipuVersion", "syncPattern", "gatewayMode"),
}


def syncPatternFromString(text: str) -> SyncPattern:
    """The pattern of a word: full, singlePipeline or replicaAndLadder. Raises: popart_exception for another word."""
    for pattern in SyncPattern:
        if text == str(pattern):
            return pattern
    words = ", ".join(map(str, SyncPattern))
    raise popart_exception(f"Unknown syncPattern setting: {text}. It must be one of {words}.")


def syncPatternToString(pattern: SyncPattern) -> str:
    """The word of a pattern."""
    return str(_member("pattern", pattern, SyncPattern))


@final
class DeviceManager:
    """Makes devices. Each DeviceManager of a process gives the same ones."""

    # --- Devices of the emulated system ---

    def enumerateDevices(
        self,
        pattern: SyncPattern = SyncPattern.Full,
        numIpus: int = 1,
        deviceType: DeviceType = DeviceType.Ipu,
        connectionType: DeviceConnectionType = DeviceConnectionType.Always,
        tilesPerIPU: int = 0,
    ) -> list[DeviceInfo]:
        """The devices of that many IPUs, free or not; none if no device has so many.

        Args:
            pattern: of each device. A Cpu device and a model have SyncPattern.Full only.
            connectionType: of devices of the system.
            tilesPerIPU: of each IPU; 0: all that it has; of a model: 4.
        Raises: popart_exception for another pattern of a Cpu device or a model, and for kinds that cannot be listed.
        """
        numIpus, tilesPerIPU = whole("numIpus", numIpus), whole("tilesPerIPU", tilesPerIPU)
        _member("connectionType", connectionType, DeviceConnectionType)
        _member("pattern", pattern, SyncPattern)
        match _member("deviceType", deviceType, DeviceType):
            case DeviceType.Ipu:
                ids = SYSTEM.device_ids(numIpus)
                return [self._of_system(identity, pattern, connectionType, tilesPerIPU) for identity in ids]
            case DeviceType.Cpu | DeviceType.IpuModel if pattern is not SyncPattern.Full:
                raise popart_exception(f"{_FULL_ONLY} by a device of type {deviceType}. Acquire a device, or make an offline one.")
            case DeviceType.Cpu:
                return [self.createCpuDevice()] if numIpus == 1 else []
            case DeviceType.IpuModel:
                return [self.createIpuModelDevice({"numIPUs": numIpus, "tilesPerIPU": tilesPerIPU or _MODEL_TILES})]
            case DeviceType.Sim | DeviceType.OfflineIpu:
                raise popart_exception(f"Devices of type {deviceType} cannot be listed: make one by create...Device")

    def tryAcquireAvailableDevice(
        self,
        numIpus: int = 1,
        tilesPerIpu: int = 0,
        pattern: SyncPattern = SyncPattern.Full,
        connectionType: DeviceConnectionType = DeviceConnectionType.Always,
        selectionCriterion: DeviceSelectionCriterion = DeviceSelectionCriterion.First,
    ) -> DeviceInfo | None:
        """A free device of that many IPUs; None if there is none.

        Raises: popart_exception if the number is no power of two, or the connection type is Never; TypeError for what is no whole number.
        """
        numIpus, tilesPerIpu = whole("numIpus", numIpus), whole("tilesPerIpu", tilesPerIpu)
        if numIpus > 0 and numIpus & (numIpus - 1):
            raise popart_exception(
                f"You have attempted to acquire {numIpus} IPUs. The number of IPUs requested must be a power of two. "
                "createIpuModelDevice takes any number up to 256."
            )
        if connectionType is DeviceConnectionType.Never:
            raise popart_exception(_NEVER)
        devices = self.enumerateDevices(pattern, numIpus, DeviceType.Ipu, connectionType, tilesPerIpu)
        if _member("selectionCriterion", selectionCriterion, DeviceSelectionCriterion) is DeviceSelectionCriterion.Random:
            random.Random(1).shuffle(devices)
        if connectionType is DeviceConnectionType.OnDemand:
            return devices[0] if devices else None
        return next((device for device in devices if device.attach()), None)

    def acquireAvailableDevice(
        self,
        numIpus: int = 1,
        tilesPerIpu: int = 0,
        pattern: SyncPattern = SyncPattern.Full,
        connectionType: DeviceConnectionType = DeviceConnectionType.Always,
        selectionCriterion: DeviceSelectionCriterion = DeviceSelectionCriterion.First,
    ) -> DeviceInfo:
        """A free device of that many IPUs. Raises: popart_exception as tryAcquireAvailableDevice, and if there is none."""
        device = self.tryAcquireAvailableDevice(numIpus, tilesPerIpu, pattern, connectionType, selectionCriterion)
        if device is None:
            raise popart_exception(
                f"Failed to acquire device with {numIpus} IPUs. Ensure that there are sufficient IPUs available. "
                + _HINT.format(system_machine()[0].num_ipus)
            )
        return device

    def tryAcquireDeviceById(
        self, id: int, pattern: SyncPattern = SyncPattern.Full, connectionType: DeviceConnectionType = DeviceConnectionType.Always
    ) -> DeviceInfo | None:
        """The device with that number; None if one of its IPUs is in use.

        Raises: poplar_exception if there is none; popart_exception if the connection type is Never.
        """
        if connectionType is DeviceConnectionType.Never:
            raise popart_exception(f"{_NEVER}. For offline compilation, use createOfflineIPUDevice")
        device = self._of_system(id, pattern, connectionType, 0)
        return device if connectionType is DeviceConnectionType.OnDemand or device.attach() else None

    def acquireDeviceById(
        self, id: int, pattern: SyncPattern = SyncPattern.Full, connectionType: DeviceConnectionType = DeviceConnectionType.Always
    ) -> DeviceInfo:
        """The device with that number. Raises: as tryAcquireDeviceById; popart_exception if one of its IPUs is in use."""
        device = self.tryAcquireDeviceById(id, pattern, connectionType)
        if device is None:
            raise popart_exception(f"Failed to acquire device with id '{id}'. Ensure it is available: another device has its IPUs.")
        return device

    def setOnDemandAttachTimeout(self, attachTimeout: int) -> None:
        """Sets how many seconds a device that attaches on demand waits for its IPUs. It counts for devices that are made later.

        Raises: TypeError for what is no whole number from 0.
        """
        seconds = whole("attachTimeout", attachTimeout)
        if seconds < 0:
            raise TypeError(f"attachTimeout is {seconds}: it must be a whole number of seconds, 0 or more")
        SYSTEM.attach_timeout_wall_s = seconds

    def _of_system(self, identity: int, pattern: SyncPattern, connection: DeviceConnectionType, tiles: int) -> DeviceInfo:
        ipus = SYSTEM.ipus_of(identity)
        if ipus is None:
            raise poplar_exception(f"No such device set id: '{identity}'. The emulated system has 0 to {SYSTEM.num_ids() - 1}.")
        machine, _ = system_machine()
        if not 0 <= tiles <= machine.ipu.num_tiles:
            raise poplar_exception(
                f"tilesPerIpu is {tiles}: an IPU of {machine.name} has {machine.ipu.num_tiles:,} tiles, and 0 stands for all"
            )
        _member("pattern", pattern, SyncPattern)
        return DeviceInfo(
            DeviceType.Ipu, machine, num_ipus=len(ipus), tiles=tiles, pattern=pattern, connection=connection, identity=identity, ipus=ipus
        )

    # --- Devices that are made as they are asked for ---

    def createCpuDevice(self) -> DeviceInfo:
        """A device without a machine: nothing is emulated."""
        return DeviceInfo(DeviceType.Cpu)

    def createIpuModelDevice(self, options: Mapping[str, object]) -> DeviceInfo:
        """A model of any number of IPUs, up to 256.

        Args: options: numIPUs (1), tilesPerIPU (4), ipuVersion ("ipu2"), compileIPUCode (no effect: no code is generated).
        Raises: popart_exception for an option that does not exist or a value that is not allowed.
        """
        return self._created(DeviceType.IpuModel, options, few=True)

    def createSimDevice(self, options: Mapping[str, object]) -> DeviceInfo:
        """A simulator of any number of IPUs: here the same as a model.

        Args: options: numIPUs (1), tilesPerIPU (4).
        Raises: popart_exception for an option that does not exist or a value that is not allowed.
        """
        return self._created(DeviceType.Sim, options, few=True)

    def createOfflineIPUDevice(self, opts: Mapping[str, object]) -> DeviceInfo:
        """A device to compile for, which cannot be attached to.

        Args: opts: numIPUs (1), tilesPerIPU (all), ipuVersion ("ipu2"), syncPattern ("full"), gatewayMode ("false"; no effect:
                the emulated network between machines has one way to send).
        Raises: popart_exception for an option that does not exist or a value that is not allowed.
        """
        return self._created(DeviceType.OfflineIpu, opts, few=False)

    def createOfflineIpuFromDeviceInfo(self, deviceInfo: DeviceInfo) -> DeviceInfo:
        """A device to compile for that is like another one. Raises: popart_exception for a Cpu device."""
        base, never = deviceInfo.base, DeviceConnectionType.Never
        if base is None:
            raise popart_exception("A Cpu device has no IPU to compile for: give a device with IPUs")
        num_ipus, tiles = deviceInfo.num_ipus, deviceInfo.tiles_per_ipu
        return DeviceInfo(DeviceType.OfflineIpu, base, num_ipus=num_ipus, tiles=tiles, pattern=deviceInfo.sync_pattern, connection=never)

    def createOfflineIpuFromSystemString(self, system: str, numIpus: int) -> DeviceInfo:
        """A device to compile for: some IPUs of a machine.

        Args:
            system: a name of `tilestep machines`, as "bow-pod16", or a version, as "ipu2"; in any case, "_" counts as "-".
            numIpus: 0: all of the machine.
        Raises: popart_exception if no machine is called so.
        """
        name = system.lower().replace("_", "-").removeprefix("ipu-")
        known = {**{machine: machine for machine in machine_names()}, **_BY_VERSION}
        if name not in known:
            near = nearest(name, known)
            hint = f" The nearest is {near}." if near else ""
            raise popart_exception(f"Unknown system {shown(system)}: it must be one of {', '.join(known)}.{hint}")
        whole = machine_of(known[name])
        return DeviceInfo(DeviceType.OfflineIpu, whole, num_ipus=numIpus or whole.num_ipus, connection=DeviceConnectionType.Never)

    def _created(self, kind: DeviceType, options: Mapping[str, object], *, few: bool) -> DeviceInfo:
        if not isinstance(options, Mapping):
            raise TypeError(
                f"options of a device must be a dict, such as {{'numIPUs': 1}}, not {shown(options)} ({type(options).__name__})"
            )
        given = {str(key): str(value) for key, value in options.items()}
        valid = _OPTIONS[kind]
        for key in given:
            if key not in valid:
                raise popart_exception(
                    f"Invalid option `{key}' passed to DevicexManager::createHostDevice for device type {kind}. "
                    f"Valid options are {', '.join(valid)}"
                )
        arch = given.get("ipuVersion", "ipu2")
        if arch not in _BY_VERSION:
            raise popart_exception(
                f"Unknown ipuVersion {shown(arch)}: it must be one of {', '.join(_BY_VERSION)}. "
                "A machine of your own is named by TILESTEP_MACHINE, as the path of a TOML file."
            )
        base = machine_of(_BY_VERSION[arch])
        tiles = _whole("tilesPerIPU", given.get("tilesPerIPU", str(_MODEL_TILES if few else base.ipu.num_tiles)))
        num_ipus = _whole("numIPUs", given.get("numIPUs", "1"))
        pattern = syncPatternFromString(given.get("syncPattern", "full"))
        if given.get("gatewayMode", "false").lower() not in ("true", "false"):
            raise popart_exception(f"Option gatewayMode is {shown(given['gatewayMode'])}: it must be true or false")
        connection = DeviceConnectionType.Never if kind is DeviceType.OfflineIpu else DeviceConnectionType.Always
        device = DeviceInfo(kind, base, num_ipus=num_ipus, tiles=tiles, pattern=pattern, connection=connection)
        device.machine()  # so that a number that no machine can have is an error here
        return device


_BY_VERSION: Final[Mapping[str, str]] = {"ipu2": "m2000", "ipu21": "c600", "ipu1": "c2-card"}  # version -> the nearest machine


def _whole(name: str, text: str) -> int:
    try:
        number = int(text)
    except ValueError:
        number = 0
    if number < 1:
        raise popart_exception(f"Option {name} is {shown(text)}: it must be a whole number from 1")
    return number


def _member(name: str, value: Any, kind: type[E]) -> E:
    if not isinstance(value, kind):
        raise TypeError(f"{name} must be a member of {kind.__name__}, not {shown(value)}")
    return value
