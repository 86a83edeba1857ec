"""The client: devices, topology, and the XLA:CPU client that computes values."""

import contextlib
import functools
import itertools
import threading
from collections import deque
from collections.abc import Mapping
from ctypes import addressof, c_int32
from dataclasses import replace
from importlib.metadata import version
from typing import Any, Final, final

import jax

from tilestep.engine_options import require_report_directory
from tilestep.errors import SettingsError
from tilestep.machine import MachineSpec, changed_machine, load_machine
from tilestep.messages import shown
from tilestep.pjrt import _native
from tilestep.pjrt.jax_private import compat
from tilestep.pjrt.jax_private.compat import analysis_host
from tilestep.pjrt.jax_private.versions import warn_if_untested
from tilestep.pjrt.platform import PLATFORM
from tilestep.pjrt.running import timeline
from tilestep.pjrt.running.door import Door, Reports
from tilestep.pjrt.running.dry import DryMode, current_mode
from tilestep.pjrt.running.player import Player
from tilestep.pjrt.running.wait_pool import WAIT_POOL
from tilestep.pjrt.table import capi
from tilestep.pjrt.table.device import MEMORY_KINDS, Device, device_at, make_devices, nothing_to_delete
from tilestep.pjrt.table.entry_points import (
    answers,
    entry_point,
    immortal,
    int32s,
    named_values,
    pointers,
    read_bytes,
    read_named_values,
    text,
)
from tilestep.plan.cache import PlanCache
from tilestep.settings import (
    WHEN_SET,
    Settings,
    changes_since,
    read_settings,
    stated_settings,
    warn_of_unknown_variables,
)

_MOST_IN_FLIGHT: Final = 8  # XLA allows 32, and each thread that starts programs may exceed this by one


@final
class ProgramsInFlight:
    """The programs over several devices that were started last. Safe for use by several threads.

    Attributes: add: notes that a program was started, by the token of its end. It runs no bytecode, so no interrupt can come before it.
    """

    def __init__(self) -> None:
        self._tokens: deque[Any] = deque()
        self._lock = threading.Lock()
        self.add = self._tokens.append

    def make_room(self) -> None:
        """Waits until another program may be started."""
        while len(self._tokens) >= _MOST_IN_FLIGHT:
            with contextlib.suppress(IndexError):  # another thread was faster
                token = self._tokens[0]
                with contextlib.suppress(Exception):  # reading the results says what failed
                    token.block_until_ready()
                with self._lock:
                    if self._tokens[0] is token:
                        self._tokens.popleft()


class Client:
    """The emulated machine as JAX sees it: this process's, one beside it on which all runs are dry, or one that is only compiled for."""

    def __init__(self, settings: Settings, stated: Mapping[str, object] | None, beside: DryMode | None = None) -> None:
        """Args: stated: the settings as the user stated them; None for any machine but this process's.
        beside: how runs on a machine beside the process's are dry; None: it is none.
        """
        self.settings = settings
        self._stated = stated
        self.machine = settings.machine
        self._beside = beside
        record, links = (False, False) if beside else (timeline.is_recording(), timeline.is_recording_links())
        self.player = Player(settings, record=record, links=links, looks=beside is None)
        self.devices = make_devices(settings.machine, settings.hardware_ids, self.player.journal, beside)
        self.use(self.player)
        self.plans = PlanCache()
        self.in_flight = ProgramsInFlight()
        self.program_keys = itertools.count(1)  # numbers of programs in emulated time, in the order of compilation
        self.device_addresses = pointers([device.address for device in self.devices])
        self.simulated = [device for device in self.devices if device.is_simulated]
        self.simulated_addresses = pointers([device.address for device in self.simulated])
        self.memory_addresses = pointers([memory.address for device in self.simulated for memory in device.memories])
        self.kind_ids = int32s(range(len(MEMORY_KINDS)))
        self.version = (  # a part of the keys of JAX's compilation cache: all that a plan depends on, but for program and topology
            f"tilestep {version('tilestep')}, emulating {settings.machine.name}; values by XLA:CPU; {settings.plan_options}"
        )

    @functools.cached_property
    def program_reports(self) -> Reports:
        """The reports of its programs."""
        assert _door is not None  # else the platform would not be registered
        return _door.reports(self.settings.engine)

    @functools.cached_property
    def host(self) -> compat.HostClient:
        """XLA:CPU with one device for each IPU. It is made at first use, so a program without an IPU does not pay for it."""
        if not self.is_beside:
            self.require_same_settings()
            require_report_directory(self.settings.engine.directory)
            warn_of_unknown_variables()
            warn_if_untested(jax.__version__)
        WAIT_POOL.start()
        compat.wait_in_the_callers_thread(_native.waits_in_its_thread, _native.answers_in_its_thread)
        if self.is_beside:
            return analysis_host(len(self.devices))
        host = compat.make_host_client(len(self.devices))
        for device, host_device in zip(self.devices, host.devices(), strict=True):
            device.note_put = (*self.player.journal.note_put, device.id, host_device)
        return host

    def start(self) -> compat.HostClient:
        """Starts what waits for values, if nothing has. Raises: as what a first use raises for settings that are wrong."""
        return self.host

    def use(self, player: Player) -> None:
        """Lets all that happens from now on be noted in this player's journal."""
        journal = player.journal
        self.player, journal.devices = player, self.devices
        for device in self.devices:
            device.journal, device.note_wait, device.note_read = journal, journal.note_wait, journal.note_read

    @property
    def is_beside(self) -> bool:
        """Whether it is a machine beside the process's."""
        return self._beside is not None

    @property
    def dry_mode(self) -> DryMode | None:
        """In which runs are dry now; None: they compute values."""
        return self._beside or current_mode()

    @property
    def in_use(self) -> bool:
        """Whether a value or program came to an IPU. JAX starts every platform, also for programs that use another."""
        return "host" in vars(self)

    def require_same_settings(self) -> None:
        """Raises: SettingsError naming each setting that was changed after JAX had started the platform."""
        if self._stated is None or _native.same_settings():
            return
        changes = changes_since(self._stated)
        if changes and read_settings() != self.settings:
            raise SettingsError(
                f"{changes}, changed after JAX had started its platforms, which go on with what was: set it before the first use of "
                "JAX, set it back, or call jax.extend.backend.clear_backends(), after which JAX starts them again"
            )
        _native.note_settings(True)

    @functools.cached_property
    def host_devices(self) -> list[compat.HostDevice]:
        """The XLA:CPU device that computes for each IPU."""
        return self.host.devices()

    def device_of_host(self, host_device: Any) -> Device:
        """The IPU that an XLA:CPU device computes for."""
        return self.devices[host_device.id]

    @property
    def address(self) -> int:
        """The PJRT_Client*, which is also the PJRT_TopologyDescription*."""
        return id(self)


WHEN_SET.append(functools.partial(_native.note_settings, False))
_client: Client | None = None
_door: Door | None = None
_BESIDE: Final = "tilestep_client"  # option of a client beside the process's: its number
_beside: dict[str, Client] = {}  # by number


def client_beside(settings: Settings, dry_mode: DryMode) -> tuple[Client, list[Any]]:
    """A client of a machine beside the process's, on which all runs are dry, and JAX's devices of it. It stays until the process ends.

    The platform must be registered, and need not be started.
    """
    number = str(len(_beside))
    client = _beside[number] = immortal(Client(settings, None, dry_mode))
    client.start()
    return client, compat.make_client(PLATFORM, {_BESIDE: number}).devices()


def the_client() -> Client:
    """The client of this process. Raises: RuntimeError if JAX has not started the platform."""
    if _client is None:
        raise RuntimeError("the ipu platform has not been started")
    return _client


def use_door(door: Door) -> None:
    """Says what is above the platform, before it starts."""
    global _door
    _door = door


def any_machine() -> MachineSpec:
    """The machine of this process; where JAX has not started the platform, the newest one beside it."""
    return (_client or list(_beside.values())[-1]).machine


def started_client() -> Client | None:
    """The client of this process, or None where JAX has not started the platform."""
    return _client


def require_same_settings() -> None:
    """Raises: SettingsError as `Client.require_same_settings`, where JAX has started the platform."""
    if _client is not None and compat.has_started():
        _client.require_same_settings()


@entry_point("PJRT_Client_Create")
def client_create(args: capi.PJRT_Client_Create_Args) -> None:
    global _client
    own = _beside.get(read_named_values(args.create_options, args.num_options).get(_BESIDE, ""))
    if own is not None:
        args.client = own.address
        return
    stated, settings = stated_settings(), read_settings()
    client = _client
    if client is None or client.settings != settings:  # JAX creates a client again after clear_backends()
        client = _client = immortal(Client(settings, stated))
        timeline.use(client.player)
    args.client = client.address


def _devices(client: Client) -> tuple[int, int]:
    return addressof(client.device_addresses), len(client.devices)


answers("PJRT_Client_PlatformName", "platform_name platform_name_size", lambda _: text(PLATFORM))
answers("PJRT_Client_PlatformVersion", "platform_version platform_version_size", lambda client: text(client.version))
answers("PJRT_Client_ProcessIndex", "process_index", lambda _: 0)
answers("PJRT_Client_TopologyDescription", "topology", lambda client: client.address)
answers("PJRT_Client_Devices", "devices num_devices", _devices)
answers(
    "PJRT_Client_AddressableDevices",
    "addressable_devices num_addressable_devices",
    lambda client: (addressof(client.simulated_addresses), len(client.simulated)),
)
answers(
    "PJRT_Client_AddressableMemories",
    "addressable_memories num_addressable_memories",
    lambda client: (addressof(client.memory_addresses), len(client.simulated) * len(MEMORY_KINDS)),
)


@entry_point("PJRT_Client_LookupDevice")
def client_lookup_device(args: capi.PJRT_Client_LookupDevice_Args) -> None:
    args.device = _lookup(_native.object_at(args.client), "id", args.id)


@entry_point("PJRT_Client_LookupAddressableDevice")
def client_lookup_addressable_device(args: capi.PJRT_Client_LookupAddressableDevice_Args) -> None:
    args.addressable_device = _lookup(_native.object_at(args.client), "hardware_id", args.local_hardware_id)


def _lookup(client: Client, attribute: str, value: int) -> int:
    for device in client.devices:
        if getattr(device, attribute) == value:
            return device.address
    known = ", ".join(str(getattr(device, attribute)) for device in client.devices)
    raise ValueError(f"no IPU has {attribute} {value}; known are {known}")


@entry_point("PJRT_Client_DefaultDeviceAssignment")
def client_default_assignment(args: capi.PJRT_Client_DefaultDeviceAssignment_Args) -> None:
    client: Client = _native.object_at(args.client)
    num_ipus = args.num_replicas * args.num_partitions
    if num_ipus > len(client.devices):
        raise ValueError(
            f"{args.num_replicas} replicas x {args.num_partitions} partitions need {num_ipus} IPUs; "
            f"{client.machine.name} has {len(client.devices)}"
        )
    (c_int32 * num_ipus).from_address(args.default_assignment)[:] = range(num_ipus)  # pyrefly: ignore[bad-argument-type]  # a C array of that length


_TOPOLOGY_OPTIONS = ("num_ipus", "num_tiles", "sync_pattern")


@functools.cache
def _absent(settings: Settings) -> Client:
    return immortal(Client(settings, None))


@entry_point("PJRT_TopologyDescription_Create")
def topology_create(args: capi.PJRT_TopologyDescription_Create_Args) -> None:
    """Makes a topology of the machine that `topology_name` names, as TILESTEP_MACHINE does ('': the process's own), with its options."""
    name = read_bytes(args.topology_name, args.topology_name_size).decode()
    options = read_named_values(args.create_options, args.num_options)
    for key in options:
        if key not in _TOPOLOGY_OPTIONS:
            raise SettingsError(f"option {shown(key)} of a topology does not exist: it may have {', '.join(_TOPOLOGY_OPTIONS)}")
    settings = read_settings()
    if name or options:
        machine = load_machine(name, **options) if name else changed_machine(settings.machine, **options)
        settings = replace(settings, machine=machine, hardware_ids=tuple(range(machine.num_ipus)))
    args.topology = _absent(settings).address


_NO_ATTRIBUTES = immortal(named_values({}))
_PLUGIN_ATTRIBUTES = immortal(
    named_values({"xla_version": 2, "stablehlo_current_version": compat.stablehlo_version(), "stablehlo_minimum_version": [0, 9, 0]})
)


def _topology_text(client: Client) -> str:
    return f"{client.machine!r} {tuple(device.hardware_id for device in client.devices)}"


def _fingerprint(value: str) -> int:
    """64-bit FNV-1a: equal topologies have equal fingerprints in every process."""
    result = 0xCBF29CE484222325
    for byte in value.encode():
        result = (result ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return result


answers("PJRT_TopologyDescription_PlatformName", "platform_name platform_name_size", lambda _: text(PLATFORM))
answers("PJRT_TopologyDescription_PlatformVersion", "platform_version platform_version_size", lambda client: text(client.version))
answers("PJRT_TopologyDescription_GetDeviceDescriptions", "descriptions num_descriptions", _devices)
answers("PJRT_TopologyDescription_Attributes", "attributes num_attributes", lambda _: (addressof(_NO_ATTRIBUTES[0]), 0))
answers("PJRT_TopologyDescription_Fingerprint", "fingerprint", lambda client: _fingerprint(_topology_text(client)))
answers(
    "PJRT_TopologyDescription_Serialize",
    "serialized_bytes serialized_bytes_size serialized_topology serialized_topology_deleter",
    lambda client: (*text(_topology_text(client)), 1, nothing_to_delete()),
)
answers(
    "PJRT_TopologyDescription_GetMemorySpaceKindIds",
    "memory_space_kind_ids num_memory_space_kind_ids",
    lambda client: (addressof(client.kind_ids), len(MEMORY_KINDS)),
)


@entry_point("PJRT_Plugin_Initialize")
def plugin_initialize(args: capi.PJRT_Plugin_Initialize_Args) -> None:
    """Does nothing, because the platform starts with its client."""


@entry_point("PJRT_Plugin_Attributes")
def plugin_attributes(args: capi.PJRT_Plugin_Attributes_Args) -> None:
    args.attributes, args.num_attributes = addressof(_PLUGIN_ATTRIBUTES[0]), len(_PLUGIN_ATTRIBUTES[0])


__all__ = ["Client", "device_at", "started_client", "the_client"]
