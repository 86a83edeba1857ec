"""The emulated hardware: tiles, IPUs, links, host. Frozen data, checked once when made."""

import math
from dataclasses import dataclass, field, fields

from tilestep.errors import SpecError
from tilestep.machine.fields import QUANTITIES, FieldSource, SyncPattern, Topology
from tilestep.messages import shown
from tilestep.units import ceil_div, cycles_from_bytes


def _require_positive(owner: object, *, zero_allowed: tuple[str, ...] = ()) -> None:
    for spec_field in fields(owner):  # pyrefly: ignore[bad-argument-type]  # every caller is a dataclass
        value = getattr(owner, spec_field.name)
        if isinstance(value, bool) or not isinstance(value, int | float):
            continue
        lowest = 0 if spec_field.name in zero_allowed else None
        bad = not 0 <= value < math.inf or (value == 0 and lowest is None)
        if bad:
            bound = "0 or more" if lowest == 0 else "more than 0"
            raise SpecError(f"{type(owner).__name__}.{spec_field.name} is {shown(value)}: it must be {bound}")


def _require_choice(what: str, value: str, path: str) -> None:
    choices = QUANTITIES[path].choices
    if value not in choices:
        raise SpecError(f"{what} is {shown(value)}: it must be one of {', '.join(choices)}")


@dataclass(frozen=True, kw_only=True)
class TileSpec:
    """One tile: a core with private SRAM and six hardware threads (workers).

    Attributes:
        sram_bytes: memory of the tile.
        executable_bytes: the part of it that can hold code.
        worker_contexts: workers that take turns, one instruction a cycle.
        load_store_bytes_per_cycle: between SRAM and registers.
        copy_bytes_per_cycle: of a copy within the tile.
        exchange_bytes_per_cycle: that the tile receives.
        stack_bytes: of the supervisor and all workers.
        reserved_bytes: that no program can use.

    Raises:
        SpecError: for a value that is not positive, or more executable than SRAM bytes.
    """

    sram_bytes: int
    executable_bytes: int
    worker_contexts: int
    load_store_bytes_per_cycle: int
    copy_bytes_per_cycle: int
    exchange_bytes_per_cycle: int
    stack_bytes: int = 0
    reserved_bytes: int = 0

    def __post_init__(self) -> None:
        _require_positive(self, zero_allowed=("stack_bytes", "reserved_bytes"))
        if self.executable_bytes > self.sram_bytes:
            raise SpecError(f"TileSpec.executable_bytes is {self.executable_bytes:,}: it must be at most sram_bytes ({self.sram_bytes:,})")


@dataclass(frozen=True, kw_only=True)
class IpuSpec:
    """One IPU: tiles around an exchange.

    Attributes:
        generation: 'Mk1 GC2', 'Mk2 GC200', 'Bow' or 'C600 (IPU21)'.
        version: as the repr of a device shows it: 'ipu1', 'ipu2', 'ipu21'.
        num_tiles: tiles of the IPU.
        clock_hz: cycles a second of all tiles.
        tile: one of them.
        macs_per_cycle_half: multiply-adds a cycle of one tile's matrix unit, with half operands and half partials.
        macs_per_cycle_half_float: the same, with half operands and float partials.
        macs_per_cycle_float: the same, with float operands and partials.
        macs_per_cycle_float8: the same, with 8-bit float operands and half partials; 0: the unit has none.
        sync_cycles: of a barrier of all tiles of one IPU and the start of the exchange behind it.
        superstep_overhead_cycles: of control code and the launch of vertices, per superstep.

    Raises:
        SpecError: for a value that is not positive.
    """

    generation: str
    version: str
    num_tiles: int
    clock_hz: float
    tile: TileSpec
    macs_per_cycle_half: int
    macs_per_cycle_half_float: int
    macs_per_cycle_float: int
    macs_per_cycle_float8: int
    sync_cycles: int
    superstep_overhead_cycles: int

    def __post_init__(self) -> None:
        _require_positive(self, zero_allowed=("macs_per_cycle_float8", "sync_cycles", "superstep_overhead_cycles"))

    @property
    def has_float8(self) -> bool:
        """Whether the matrix unit multiplies 8-bit floats, and workers have instructions that convert them."""
        return self.macs_per_cycle_float8 > 0

    @property
    def sram_bytes(self) -> int:
        """Memory of all tiles."""
        return self.num_tiles * self.tile.sram_bytes


@dataclass(frozen=True, kw_only=True)
class LinkSpec:
    """The links of one IPU to its neighbours, and the network between machines.

    Attributes:
        bytes_per_second: between two IPUs of an IPU-Machine, or over a ladder's rung; each direction.
        gateway_bytes_per_second: between two IPU-Machines over their gateways; each direction.
        sync_seconds_per_hop: of a sync between IPUs.
        ipus_per_rack: IPUs that IPU-Links connect; gateways join racks.
        topology: of a full rack; a part of a rack is always a ladder.

    Raises:
        SpecError: for a value that is not positive, an unknown topology, or a torus of an odd number of IPUs.
    """

    bytes_per_second: float
    gateway_bytes_per_second: float
    sync_seconds_per_hop: float
    ipus_per_rack: int = 64
    topology: Topology = "ladder"

    def __post_init__(self) -> None:
        _require_positive(self, zero_allowed=("sync_seconds_per_hop",))
        _require_choice("LinkSpec.topology", self.topology, "link.topology")
        if self.topology == "torus" and self.ipus_per_rack % 2:
            raise SpecError(f"LinkSpec.ipus_per_rack is {self.ipus_per_rack}: it must be even, two IPUs to a rung, for a torus")


@dataclass(frozen=True, kw_only=True)
class HostSpec:
    """The host and its link to one IPU-Machine, which the IPUs of that machine share.

    Attributes:
        to_ipus_bytes_per_second: over the link from the host.
        to_host_bytes_per_second: over the link to the host.
        link_latency_seconds: of one transfer.
        dispatch_seconds: of the host, for one dispatch.
        load_seconds: to load a program, beside the transfer of its bytes.
        streaming_memory_bytes: of one IPU-Machine; 0: pinned_host is the host's memory.
        streaming_memory_bytes_per_second: of one IPU-Machine, for data that the host feeds through it.
        remote_buffer_bytes_per_second: of one IPU-Machine, for arrays that programs keep in streaming memory.

    Raises:
        SpecError: for a value that is negative, or zero where that is impossible.
    """

    to_ipus_bytes_per_second: float
    to_host_bytes_per_second: float
    link_latency_seconds: float
    dispatch_seconds: float
    load_seconds: float
    streaming_memory_bytes: int
    streaming_memory_bytes_per_second: float
    remote_buffer_bytes_per_second: float

    def __post_init__(self) -> None:
        _require_positive(self, zero_allowed=("link_latency_seconds", "dispatch_seconds", "load_seconds", "streaming_memory_bytes"))


@dataclass(frozen=True, kw_only=True)
class MachineSpec:
    """A whole system, as the catalogue or a TOML file describes it.

    Attributes:
        name: of the machine.
        description: one line about it.
        num_ipus: IPUs in all, 1 to 256.
        ipus_per_machine: IPUs that share one host link, one gateway and one streaming memory.
        ipu: one IPU.
        link: the network between IPUs.
        host: the host and its link.
        sync_pattern: which IPUs of a program wait for each other when one accesses the host.
        simulated_ipus: IPUs that are simulated: IPU k does what IPU k modulo this number does. 0: all are.
        sources: the origin of each value; `describe` lists them.

    Raises:
        SpecError: for a value outside of its bounds.
    """

    name: str
    description: str
    num_ipus: int
    ipus_per_machine: int
    ipu: IpuSpec
    link: LinkSpec
    host: HostSpec
    sync_pattern: SyncPattern = "full"
    simulated_ipus: int = 0
    sources: tuple[FieldSource, ...] = field(default=(), compare=False, repr=False)

    def __post_init__(self) -> None:
        _require_positive(self, zero_allowed=("simulated_ipus",))
        _require_choice("MachineSpec.sync_pattern", self.sync_pattern, "sync_pattern")
        if self.num_ipus > 256:
            raise SpecError(f"MachineSpec.num_ipus is {shown(self.num_ipus)}: it must be 1 to 256")
        if self.link.ipus_per_rack % self.ipus_per_machine:
            raise SpecError(
                f"LinkSpec.ipus_per_rack is {self.link.ipus_per_rack}: it must be a multiple of ipus_per_machine ({self.ipus_per_machine})"
            )

        part, unit = self.simulated_ipus, self.simulated_unit
        if part and (self.num_ipus % part or (part % unit and part != self.num_ipus)):
            raise SpecError(
                f"MachineSpec.simulated_ipus is {shown(part)}: it must divide the number of IPUs of {self.name} ({self.num_ipus}), and be "
                f"a multiple of those that share a host link or a rung ({unit})"
            )

    @property
    def simulated_unit(self) -> int:
        """`simulated_ipus` must be a multiple of this, if not all are simulated: of the IPUs that share a host link or a rung."""
        return math.lcm(self.ipus_per_machine, 2 if self.sync_pattern == "replicaAndLadder" else 1)

    @property
    def num_simulated(self) -> int:
        """IPUs that are simulated: the first of the machine. IPU k does what IPU k modulo this number does."""
        return self.simulated_ipus or self.num_ipus

    @property
    def num_machines(self) -> int:
        """IPU-Machines (or cards) that hold the IPUs; the last may be in use in part only."""
        return ceil_div(self.num_ipus, self.ipus_per_machine)

    def host_cycles(self, *, to_ipus: int = 0, to_host: int = 0) -> int:
        """Cycles that bytes take over a host link of their own, those of each direction by themselves; latencies aside."""
        there = cycles_from_bytes(to_ipus, self.host.to_ipus_bytes_per_second, self.ipu.clock_hz)
        return there + cycles_from_bytes(to_host, self.host.to_host_bytes_per_second, self.ipu.clock_hz)
