"""The emulated IPUs and their memories, as JAX sees them."""

from ctypes import addressof
from typing import Any

from tilestep.machine.spec import MachineSpec
from tilestep.pjrt import _native
from tilestep.pjrt.running.dry import DryMode, current_mode
from tilestep.pjrt.running.journal import Journal
from tilestep.pjrt.table import capi
from tilestep.pjrt.table.entry_points import answers, clear_flags, entry_point, immortal, named_values, pointers, text

# Number of the process that has the IPUs which are not simulated. It is not 1, because JAX would compare values with those of process 1.
_NOBODY = 2
MEMORY_KINDS = ("device", "pinned_host", "unpinned_host")
DEVICE_KIND = "Graphcore-IPUModel"


class Device:
    """One emulated IPU."""

    def __init__(self, *, index: int, hardware_id: int, machine: MachineSpec, journal: Journal, dry_mode: DryMode | None = None) -> None:
        """Args: dry_mode: in which all runs on it are dry; None: runs are dry where the process says so."""
        self.id = index
        self.own_dry_mode = dry_mode
        self.note_wait: tuple[Any, ...] = journal.note_wait  # C reads these three
        self.note_read: tuple[Any, ...] = journal.note_read
        self.note_put: tuple[Any, ...] | None = None  # (type of entry, function that appends it, id, XLA:CPU's device)
        self.journal = journal  # its client's; values of an older client may still exist
        self.hardware_id = hardware_id
        self.is_simulated = index < machine.num_simulated
        self.sram_bytes = machine.ipu.sram_bytes
        self.label = f"IpuDevice(id={index}, num_tiles={machine.ipu.num_tiles}, version={machine.ipu.version})"
        self.attributes, self._kept = named_values(
            {
                "num_tiles": machine.ipu.num_tiles,
                "bytes_per_tile": machine.ipu.tile.sram_bytes,
                "num_worker_contexts": machine.ipu.tile.worker_contexts,
                "tile_clock_frequency": round(machine.ipu.clock_hz),  # JAX aborts on an attribute that is a float
                "target_type": "IPU_MODEL",
            }
        )
        self.memories = tuple(
            _native.Memory(index * len(MEMORY_KINDS) + k, k, kind.encode(), f"IPU_{kind.upper()}_{index}".encode())
            for k, kind in enumerate(MEMORY_KINDS)
        )
        self.memory_addresses = pointers([memory.address for memory in self.memories])
        for memory in self.memories:
            memory.set_devices((self,))

    @property
    def dry_mode(self) -> DryMode | None:
        """In which runs on it are dry now; None: they compute values."""
        return self.own_dry_mode or current_mode()

    @property
    def address(self) -> int:
        """The PJRT_Device*, which is also the PJRT_DeviceDescription*."""
        return id(self)

    def memory(self, kind: str) -> _native.Memory:
        """The memory of one kind. Raises: KeyError if there is no such kind."""
        if kind not in MEMORY_KINDS:
            raise KeyError(f"memory kind {kind!r} is none of {', '.join(MEMORY_KINDS)}")
        return self.memories[MEMORY_KINDS.index(kind)]


def make_devices(
    machine: MachineSpec, hardware_ids: tuple[int, ...], journal: Journal, dry_mode: DryMode | None = None
) -> tuple[Device, ...]:
    """One device for each IPU, kept until the process ends."""
    return immortal(
        tuple(Device(index=i, hardware_id=h, machine=machine, journal=journal, dry_mode=dry_mode) for i, h in enumerate(hardware_ids))
    )


def device_at(address: int | None) -> Device:
    """The device behind a PJRT_Device* or PJRT_DeviceDescription*."""
    return _native.object_at(address)


def device_of_memory(memory: _native.Memory) -> Device:
    """The one IPU that a memory belongs to."""
    devices = memory.devices
    assert devices is not None
    return devices[0]


def _attributes(device: Device) -> tuple[int, int]:
    return addressof(device.attributes), len(device.attributes)


answers("PJRT_DeviceDescription_Id", "id", lambda device: device.id)
answers("PJRT_DeviceDescription_ProcessIndex", "process_index", lambda device: 0 if device.is_simulated else _NOBODY)
answers("PJRT_DeviceDescription_Attributes", "attributes num_attributes", _attributes)
answers("PJRT_DeviceDescription_Kind", "device_kind device_kind_size", lambda _: text(DEVICE_KIND))
answers("PJRT_DeviceDescription_DebugString", "debug_string debug_string_size", lambda device: text(device.label))
answers("PJRT_DeviceDescription_ToString", "to_string to_string_size", lambda device: text(device.label))
answers("PJRT_Device_GetDescription", "device_description", lambda device: device.address)
answers("PJRT_Device_IsAddressable", "is_addressable", lambda device: device.is_simulated)
answers("PJRT_Device_LocalHardwareId", "local_hardware_id", lambda device: device.hardware_id)
answers(
    "PJRT_Device_AddressableMemories",
    "memories num_memories",
    lambda device: (addressof(device.memory_addresses), len(device.memories)),
)
answers("PJRT_Device_DefaultMemory", "memory", lambda device: device.memory("device").address)


@entry_point("PJRT_Device_MemoryStats")
def device_memory_stats(args: capi.PJRT_Device_MemoryStats_Args) -> None:
    device = device_at(args.device)
    sram = device.memory("device")
    clear_flags(args)
    args.bytes_in_use = sram.live_bytes
    args.peak_bytes_in_use, args.peak_bytes_in_use_is_set = sram.peak_bytes, True
    args.num_allocs, args.num_allocs_is_set = sram.buffers_made, True
    args.bytes_limit, args.bytes_limit_is_set = device.sram_bytes, True
    args.bytes_reservable_limit, args.bytes_reservable_limit_is_set = device.sram_bytes, True


@entry_point("PJRT_Device_ClearMemoryStats")
def device_clear_memory_stats(args: capi.PJRT_Device_ClearMemoryStats_Args) -> None:
    sram = device_at(args.device).memory("device")
    sram.peak_bytes = sram.live_bytes


def nothing_to_delete() -> int:
    """Address of a C function of one pointer that does nothing, because the memory that we hand out stays."""
    return _NOTHING_ADDRESS


def _make_nothing() -> int:
    # This function of libc ignores its argument and never fails. A Python function would not do, because JAX calls deleters on any thread.
    from ctypes import CDLL, c_void_p, cast

    address = cast(CDLL(None).sched_yield, c_void_p).value
    assert address is not None
    return address


_NOTHING_ADDRESS = _make_nothing()
answers(
    "PJRT_Device_GetAttributes",
    "attributes num_attributes device_attributes attributes_deleter",
    lambda device: (*_attributes(device), 1, nothing_to_delete()),
)
