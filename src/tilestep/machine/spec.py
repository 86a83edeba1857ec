"""What is emulated: tiles, IPUs, links, host. Frozen data, checked once when made."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields

from tilestep.errors import SpecError
from tilestep.machine.fields import QUANTITIES, FieldSource, SyncPattern, Topology
from tilestep.messages import shown
from tilestep.units import ceil_div


def _require_positive(owner: object, *, zero_allowed: tuple[str, ...] = ()) -> None:
    for spec_field in fields(owner):  # type: ignore[arg-type]  # every caller is a dataclass
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
    """One tile: a core with private SRAM and six hardware threads (workers)."""

    sram_bytes: int
    executable_bytes: int  # the only part that can hold code
    worker_contexts: int
    load_store_bytes_per_cycle: int
    copy_bytes_per_cycle: int  # on-tile copies
    exchange_bytes_per_cycle: int  # received by one tile
    stack_bytes: int = 0  # of the supervisor and all workers
    reserved_bytes: int = 0  # that no program can use

    def __post_init__(self) -> None:
        _require_positive(self, zero_allowed=("stack_bytes", "reserved_bytes"))
        if self.executable_bytes > self.sram_bytes:
            raise SpecError(f"TileSpec.executable_bytes is {self.executable_bytes:,}: it must be at most sram_bytes ({self.sram_bytes:,})")


@dataclass(frozen=True, kw_only=True)
class IpuSpec:
    """One IPU: tiles around an exchange."""

    generation: str  # 'Mk1 GC2', 'Mk2 GC200', 'Bow', 'C600 (IPU21)'
    version: str  # what device reprs show: 'ipu1', 'ipu2', 'ipu21'
    num_tiles: int
    clock_hz: float
    tile: TileSpec
    macs_per_cycle_half: int  # of one tile's matrix unit: half operands, half partials
    macs_per_cycle_half_float: int  # half operands, float partials
    macs_per_cycle_float: int
    macs_per_cycle_float8: int  # 8-bit floats, half partials; 0: the unit has none
    sync_cycles: int  # of all tiles of one IPU, per exchange
    superstep_overhead_cycles: int  # control code, exchange set-up and supervisor launch, per superstep

    def __post_init__(self) -> None:
        _require_positive(self, zero_allowed=("macs_per_cycle_float8", "sync_cycles", "superstep_overhead_cycles"))

    @property
    def has_float8(self) -> bool:
        """Whether the matrix unit multiplies 8-bit floats, and workers convert them by an instruction."""
        return self.macs_per_cycle_float8 > 0

    @property
    def sram_bytes(self) -> int:
        """All tiles' memory."""
        return self.num_tiles * self.tile.sram_bytes


@dataclass(frozen=True, kw_only=True)
class LinkSpec:
    """IPU-Links: what one IPU sends to its neighbours, and the network between machines."""

    bytes_per_second: float  # of one IPU to another of the same IPU-Machine or over a ladder's rung, each direction
    gateway_bytes_per_second: float  # of one IPU-Machine to another over its gateway, each direction
    sync_seconds_per_hop: float
    ipus_per_rack: int = 64  # that IPU-Links connect; racks are joined by gateways
    topology: Topology = "ladder"  # of a rack all of whose IPUs are there; a part of one is a ladder in any case

    def __post_init__(self) -> None:
        _require_positive(self, zero_allowed=("sync_seconds_per_hop",))
        _require_choice("LinkSpec.topology", self.topology, "link.topology")
        if self.topology == "torus" and self.ipus_per_rack % 2:
            raise SpecError(f"LinkSpec.ipus_per_rack is {self.ipus_per_rack}: it must be even, two IPUs to a rung, for a torus")


@dataclass(frozen=True, kw_only=True)
class HostSpec:
    """The host and its link to one IPU-Machine (shared by the IPUs of that machine)."""

    link_bytes_per_second: float  # each direction
    link_latency_seconds: float  # of one transfer
    dispatch_seconds: float  # the host's own time to dispatch one program
    load_seconds: float  # fixed part of loading a program, beside its bytes over the link
    streaming_memory_bytes: int  # per IPU-Machine
    streaming_memory_bytes_per_second: float  # per IPU-Machine

    def __post_init__(self) -> None:
        _require_positive(self, zero_allowed=("link_latency_seconds", "dispatch_seconds", "load_seconds", "streaming_memory_bytes"))


@dataclass(frozen=True, kw_only=True)
class MachineSpec:
    """A whole system, as the catalogue or a TOML file names it."""

    name: str
    description: str
    num_ipus: int
    ipus_per_machine: int  # that share one host link, one gateway and one streaming memory
    ipu: IpuSpec
    link: LinkSpec
    host: HostSpec
    sync_pattern: SyncPattern = "full"  # which IPUs of a program wait for each other when one accesses the host
    sources: tuple[FieldSource, ...] = field(default=(), compare=False, repr=False)  # where the numbers come from; see describe()

    def __post_init__(self) -> None:
        _require_positive(self)
        _require_choice("MachineSpec.sync_pattern", self.sync_pattern, "sync_pattern")
        if self.num_ipus > 256:
            raise SpecError(f"MachineSpec.num_ipus is {shown(self.num_ipus)}: it must be 1 to 256")
        if self.link.ipus_per_rack % self.ipus_per_machine:
            raise SpecError(
                f"LinkSpec.ipus_per_rack is {self.link.ipus_per_rack}: it must be a multiple of ipus_per_machine ({self.ipus_per_machine})"
            )

    @property
    def num_machines(self) -> int:
        """IPU-Machines (or cards) that the IPUs take; the last may be in use in part only."""
        return ceil_div(self.num_ipus, self.ipus_per_machine)
