"""The fields of a machine: their units, plausible ranges, and the origin of a value."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal, get_args

Basis = Literal["documented", "measured", "derived", "assumed"]
Value = int | float | str

SyncPattern = Literal["full", "singlePipeline", "replicaAndLadder"]
"""Which IPUs of a program wait for each other when one of them accesses the host (docs/explanation/synchronisation.md)."""
Topology = Literal["ladder", "torus"]
"""How the IPU-Links of a full rack run: up two sides, or up two sides and from their top back to their bottom."""
SYNC_PATTERNS: tuple[str, ...] = get_args(SyncPattern)
"""The names of all sync patterns."""


@dataclass(frozen=True, kw_only=True)
class FieldSource:
    """The origin of the value of one field of a machine.

    Attributes:
        path: of the field, for example 'ipu.tile.sram_bytes'.
        value: of the field.
        unit: of the value; '' for names.
        source: public text: a datasheet, a paper, a file of repository@commit; or the user's own file.
        basis: 'documented', 'measured', 'derived' or 'assumed'.
        uncertainty: how far the machine's own may be from it, either way, as a part of it: eight times of ten it is nearer.
        doubt: why as far as that.
    """

    path: str
    value: Value
    unit: str
    source: str
    basis: Basis
    uncertainty: float = 0.0
    doubt: str = "the machine is what its author says"


@dataclass(frozen=True, kw_only=True)
class Quantity:
    """Unit of a field, and the range outside of which a value is a slip of unit rather than a machine."""

    unit: str  # unit of the value
    lowest: float = 0  # allowed value
    highest: float = float("inf")  # allowed value
    choices: tuple[str, ...] = ()  # the words that a field of words allows; (): any text


QUANTITIES: Mapping[str, Quantity] = MappingProxyType(
    {
        "num_ipus": Quantity(unit="IPUs", lowest=1, highest=256),
        "ipus_per_machine": Quantity(unit="IPUs", lowest=1, highest=64),
        "sync_pattern": Quantity(unit="", choices=SYNC_PATTERNS),
        "simulated_ipus": Quantity(unit="IPUs", highest=256),
        "ipu.generation": Quantity(unit=""),
        "ipu.version": Quantity(unit=""),
        "ipu.num_tiles": Quantity(unit="tiles", lowest=1, highest=100_000),
        "ipu.clock_hz": Quantity(unit="Hz", lowest=1e6, highest=1e11),
        "ipu.macs_per_cycle_half": Quantity(unit="MAC/cycle/tile", lowest=1, highest=1e6),
        "ipu.macs_per_cycle_half_float": Quantity(unit="MAC/cycle/tile", lowest=1, highest=1e6),
        "ipu.macs_per_cycle_float": Quantity(unit="MAC/cycle/tile", lowest=1, highest=1e6),
        "ipu.macs_per_cycle_float8": Quantity(unit="MAC/cycle/tile", highest=1e6),
        "ipu.sync_cycles": Quantity(unit="cycles", highest=1e6),
        "ipu.superstep_overhead_cycles": Quantity(unit="cycles", highest=1e6),
        "ipu.tile.sram_bytes": Quantity(unit="B", lowest=1024, highest=1e9),
        "ipu.tile.executable_bytes": Quantity(unit="B", lowest=1024, highest=1e9),
        "ipu.tile.worker_contexts": Quantity(unit="threads", lowest=1, highest=64),
        "ipu.tile.load_store_bytes_per_cycle": Quantity(unit="B/cycle", lowest=1, highest=4096),
        "ipu.tile.copy_bytes_per_cycle": Quantity(unit="B/cycle", lowest=1, highest=4096),
        "ipu.tile.exchange_bytes_per_cycle": Quantity(unit="B/cycle", lowest=1, highest=4096),
        "ipu.tile.stack_bytes": Quantity(unit="B", highest=1e9),
        "ipu.tile.reserved_bytes": Quantity(unit="B", highest=1e9),
        "link.bytes_per_second": Quantity(unit="B/s", lowest=1e6, highest=1e15),
        "link.gateway_bytes_per_second": Quantity(unit="B/s", lowest=1e6, highest=1e15),
        "link.sync_seconds_per_hop": Quantity(unit="s", highest=1e-3),
        "link.ipus_per_rack": Quantity(unit="IPUs", lowest=1, highest=256),
        "link.topology": Quantity(unit="", choices=get_args(Topology)),
        "host.to_ipus_bytes_per_second": Quantity(unit="B/s", lowest=1e6, highest=1e15),
        "host.to_host_bytes_per_second": Quantity(unit="B/s", lowest=1e6, highest=1e15),
        "host.link_latency_seconds": Quantity(unit="s", highest=1),
        "host.dispatch_seconds": Quantity(unit="s", highest=1),
        "host.load_seconds": Quantity(unit="s", highest=60),
        "host.streaming_memory_bytes": Quantity(unit="B", highest=1e15),
        "host.streaming_memory_bytes_per_second": Quantity(unit="B/s", lowest=1e6, highest=1e15),
        "host.remote_buffer_bytes_per_second": Quantity(unit="B/s", lowest=1e6, highest=1e15),
    }
)
"""Every field of a machine but its name and description, in the order of the report."""
