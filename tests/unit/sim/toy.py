"""A machine and programs of round numbers: a cycle is a microsecond, and the host link takes a byte per cycle."""

from collections.abc import Sequence
from dataclasses import replace

from tilestep.machine.fields import SyncPattern
from tilestep.machine.spec import HostSpec, IpuSpec, LinkSpec, MachineSpec, TileSpec
from tilestep.plan.steps import Argument, Collective, CollectiveKind, Node, Program, Result, Series, Superstep, TileMemory
from tilestep.sim import System
from tilestep.sim.calls import Dispatch

DISPATCH, LATENCY, LOAD = 20, 5, 100  # cycles: of the host per program, of a transfer, of a load beside its bytes
NUM_TILES = 4
CODE = 10  # bytes per tile of every toy program, so a load takes LOAD + NUM_TILES * CODE
LOADED = LOAD + NUM_TILES * CODE
ONE_HOP = 2 * 2  # of the syncs before and after an access of IPUs that are neighbours: a hop takes a cycle, there and back two

MACHINE = MachineSpec(
    name="toy",
    description="round numbers",
    num_ipus=1,
    ipus_per_machine=2,
    ipu=IpuSpec(
        generation="toy",
        version="toy1",
        num_tiles=NUM_TILES,
        clock_hz=1e6,
        tile=TileSpec(
            sram_bytes=1000,
            executable_bytes=500,
            worker_contexts=6,
            load_store_bytes_per_cycle=8,
            copy_bytes_per_cycle=8,
            exchange_bytes_per_cycle=4,
        ),
        macs_per_cycle_half=64,
        macs_per_cycle_half_float=32,
        macs_per_cycle_float=16,
        macs_per_cycle_float8=0,
        sync_cycles=10,
        superstep_overhead_cycles=0,
    ),
    link=LinkSpec(bytes_per_second=10e6, gateway_bytes_per_second=2e6, sync_seconds_per_hop=1e-6, ipus_per_rack=4),
    host=HostSpec(
        to_ipus_bytes_per_second=1e6,
        to_host_bytes_per_second=1e6,
        link_latency_seconds=5e-6,
        dispatch_seconds=20e-6,
        load_seconds=100e-6,
        streaming_memory_bytes=0,
        streaming_memory_bytes_per_second=1e6,
        remote_buffer_bytes_per_second=1e6,
    ),
)


def machine(num_ipus: int, sync_pattern: SyncPattern = "full") -> MachineSpec:
    """The toy machine with some IPUs: two share a host link, four a rack."""
    return replace(MACHINE, num_ipus=num_ipus, sync_pattern=sync_pattern)


def superstep(compute: int = 0, exchange: int = 0, sync: int = 0, *, name: str = "step", family: str = "toy") -> Superstep:
    """A superstep of so many cycles."""
    return Superstep(name=name, scope=f"jit(f)/{name}", family=family, compute_cycles=compute, exchange_cycles=exchange, sync_cycles=sync)


def collective(kind: CollectiveKind, size_bytes: int, groups: tuple[tuple[int, ...], ...] = ()) -> Collective:
    """A collective without arithmetic."""
    return Collective(name=kind, scope="", kind=kind, size_bytes=size_bytes, groups=groups)


def program(
    *nodes: Node,
    name: str = "f",
    takes: Sequence[int] = (),
    gives: Sequence[int] = (),
    donates: dict[int, int] | None = None,
    num_ipus: int = 1,
    host_arguments: Sequence[int] = (),
    host_results: Sequence[int] = (),
    resident_bytes: int = 0,
    transient_bytes: int = 0,
    num_io_tiles: int = 0,
) -> Program:
    """A program of `nodes` with arguments and results of so many bytes; `donates` maps argument to result."""
    aliases = donates or {}
    taken = {result: argument for argument, result in aliases.items()}
    return Program(
        name=name,
        num_ipus=num_ipus,
        body=Series(nodes=nodes),
        arguments=tuple(
            Argument(index=i, name=f"a{i}", shape=f"u8[{size}]", size_bytes=size, result=aliases.get(i), on_host=i in host_arguments)
            for i, size in enumerate(takes)
        ),
        results=tuple(
            Result(index=i, shape=f"u8[{size}]", size_bytes=size, argument=taken.get(i), on_host=i in host_results)
            for i, size in enumerate(gives)
        ),
        memory=TileMemory(
            peak_bytes=CODE + resident_bytes + transient_bytes,
            peak_step="step",
            code_bytes=CODE,
            resident_bytes=resident_bytes,
            transient_bytes=transient_bytes,
            always=(("code", CODE),),
        ),
        num_io_tiles=num_io_tiles,
    )


class Host:
    """A host program against a System: names values itself, keys programs by object."""

    def __init__(
        self, num_ipus: int = 1, *, sync_pattern: SyncPattern = "full", on: MachineSpec | None = None, record: bool = True
    ) -> None:
        self.system = System(machine(num_ipus, sync_pattern) if on is None else on, record=record)
        self.start = self.system.mark()
        self._next = 0
        self._keys: dict[int, int] = {}
        self._programs: list[Program] = []

    def put(self, size_bytes: int, *, ipu: int = 0, on_host: bool = False) -> int:
        value = self.name()
        self.system.put(value, ipu=ipu, size_bytes=size_bytes, on_host=on_host)
        return value

    def copy(self, source: int, *, ipu: int = 0, on_host: bool = False, group: tuple[str, int] | None = None) -> int:
        target = self.name()
        self.system.copy(source, target, ipu=ipu, on_host=on_host, group=group)
        return target

    def run(self, called: Program, *arguments: int, ipu: int = 0, group: tuple[str, int] | None = None) -> list[int]:
        """Dispatch on one IPU."""
        [results] = self.run_on((ipu,), called, [arguments], group=group)
        return results

    def run_on(
        self, ipus: tuple[int, ...], called: Program, arguments: Sequence[Sequence[int]], *, group: tuple[str, int] | None = None
    ) -> list[list[int]]:
        """Dispatch on several IPUs."""
        results = [[self.name() for _ in called.results] for _ in arguments]
        self.system.dispatch(
            called, Dispatch(key=self.key(called), ipus=ipus, arguments=arguments, results=results, counts=(), group=group)
        )
        return results

    def key(self, called: Program) -> int:
        if id(called) not in self._keys:
            self._keys[id(called)] = len(self._keys) + 1
            self._programs.append(called)  # keeps its id taken
        return self._keys[id(called)]

    def events(self) -> list[tuple[int, str, int, int]]:
        """(ipu, kind, start, end) in dispatch order."""
        return [(event.ipu, event.kind, event.start_cycle, event.end_cycle) for event in self.system.trace.events]

    def kinds(self) -> list[str]:
        return [event.kind for event in self.system.trace.events]

    def name(self) -> int:
        self._next += 1
        return self._next
