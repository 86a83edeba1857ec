"""Where values lie, which program each IPU has loaded, and how much of a tile that takes."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Final, final

from tilestep.plan.steps import Program
from tilestep.sim.channel import Channel
from tilestep.sim.ledger import ProgramLedger
from tilestep.units import ceil_div

NOWHERE: Final = -1  # in place of a cycle: there is no copy


@final
class Value:
    """One device array as it lies on one IPU. Mutable: System moves it."""

    __slots__ = (
        "_noted",
        "epoch",
        "host_ready",
        "ipu",
        "layout",
        "made_by",
        "made_in",
        "memory_ready",
        "pending",
        "ready",
        "size_bytes",
        "streamed_at",
        "streamed_in",
        "streamed_to",
        "written",
    )

    def __init__(self, ipu: int, size_bytes: int, ready: int, epoch: int, host_ready: int, made_by: ProgramLedger | None) -> None:
        self.ipu = ipu
        self.size_bytes = size_bytes
        self.ready = ready  # cycle at which it has been computed
        self.epoch = epoch  # the load of a program in whose SRAM it lies, 0 if in none
        self.host_ready = host_ready  # cycle from which the host's memory has a copy, or NOWHERE
        self.memory_ready = NOWHERE  # cycle from which streaming memory has it, or NOWHERE
        self.made_by = made_by  # the program whose result it is
        self.layout = ""  # over the tiles, as that program's plan wants it; '' if it lies as any reader wants it
        self.made_in = 0  # the load of that program which has made it, 0 if none has made it on this IPU
        self.streamed_to: ProgramLedger | None = None  # the latest program that it streamed in to
        self.streamed_in = 0  # the load of that program
        self.streamed_at = 0  # the dispatch
        self._noted = 0  # of a needless transfer the argument, from 1: of an own result, or (negative) of the same value; 0: of none
        self.written = False  # to pinned_host, by the program whose result it is
        self.pending = False  # it will be had outside of SRAM from a cycle that is not known yet

    @property
    def off_chip_ready(self) -> int:
        """Cycle from which it can be had outside of SRAM, or NOWHERE."""
        return self.host_ready if self.host_ready >= 0 else self.memory_ready

    def streams_to(self, ledger: ProgramLedger, index: int, epoch: int, dispatch: int) -> None:
        """It streams in as an argument. Counts that as needless if it would lie in SRAM had it been donated.

        It would if the program has been loaded since it made the value, or since the value streamed in to it before: a program that has
        been evicted in between finds nothing there. Nobody can donate what goes to two arguments of one call.
        """
        if self.streamed_at == dispatch:
            self._withdraw()
            return
        if self._noted > 0:
            self._withdraw()
        self.streamed_at = dispatch
        if self.streamed_to is ledger and self.streamed_in == epoch:
            ledger.repeated[index] += 1
            self._noted = -1 - index
            return
        self.streamed_to, self.streamed_in = ledger, epoch
        if self.made_in == epoch and self.made_by is ledger:
            ledger.refed[index] += 1
            self._noted = 1 + index
        else:
            self._noted = 0

    def use(self) -> None:
        """The host program uses it: so it could not have been donated to a run before."""
        if self._noted > 0:
            self._withdraw()

    def _withdraw(self) -> None:
        ledger = self.streamed_to
        if self._noted and ledger is not None:
            counts = ledger.refed if self._noted > 0 else ledger.repeated
            counts[abs(self._noted) - 1] -= 1
            self._noted = 0


@dataclass(frozen=True, kw_only=True)
class TileUse:
    """Bytes on the fullest tile of one IPU that its loaded program, or group of programs, takes."""

    code_bytes: int = 0  # of all members
    fixed_bytes: int = 0  # stacks and the like, which they share
    resident_bytes: int = 0  # of the member that keeps most between runs: members share what they keep
    transient_bytes: int = 0  # of the member that needs most while it runs

    @property
    def peak_bytes(self) -> int:
        """The most that is in use at once."""
        return self.code_bytes + self.fixed_bytes + self.resident_bytes + self.transient_bytes

    def with_member(self, program: Program) -> TileUse:
        """Also `program`, in one group with the others."""
        memory = program.memory
        return TileUse(
            code_bytes=self.code_bytes + memory.code_bytes,
            fixed_bytes=max(self.fixed_bytes, memory.fixed_bytes),
            resident_bytes=max(self.resident_bytes, memory.resident_bytes),
            transient_bytes=max(self.transient_bytes, memory.transient_bytes),
        )


@dataclass(kw_only=True)
class Group:
    """The programs that one IPU has seen in one program group; they count as one program."""

    members: dict[int, str] = field(default_factory=dict[int, str])  # key -> name, in order of their first dispatch
    use: TileUse = TileUse()

    def hold(self, program: Program, size_bytes: int, num_tiles: int) -> None:
        """While `program` ran there were also `size_bytes` on the IPU that one member has made and another takes later."""
        tile_bytes = ceil_div(size_bytes, num_tiles - program.num_io_tiles)
        self.use = replace(self.use, transient_bytes=max(self.use.transient_bytes, program.memory.transient_bytes + tile_bytes))

    def add(self, key: int, program: Program) -> bool:
        """Returns: whether it is new."""
        if key in self.members:
            return False
        self.members[key] = program.name
        self.use = self.use.with_member(program)
        return True


@final
class IpuState:
    """Clocks and contents of one IPU."""

    __slots__ = ("epoch", "free", "host_set", "index", "inputs_from", "io", "io_end", "loaded", "machine", "partition", "use")

    def __init__(self, *, index: int, machine: int, host_set: int) -> None:
        self.index = index
        self.machine = machine  # the IPU-Machine whose host link it shares
        self.host_set = host_set  # equal: IPUs of one program that wait for each other at an access to the host
        self.free = 0  # cycle from which it can take the next step
        self.loaded: int | str | None = None  # key of the program, or name of the group, that is loaded
        self.epoch = 0  # number of the load that put it there; 0 before the first
        self.use = TileUse()
        self.partition: Partition | None = None
        self.io = Channel()  # its I/O tiles
        self.inputs_from = 0  # cycle from which the I/O tiles have room for the next run's arguments
        self.io_end = 0  # cycle at which the I/O tiles have sent all results so far

    def join(self, partition: Partition) -> None:
        """From now on it runs the program, or group of programs, of `partition`."""
        if self.partition is not None:
            del self.partition.members[self.index]
        partition.members[self.index] = self
        self.partition = partition

    def waits_with(self) -> list[IpuState]:
        """The IPUs, itself among them, that wait for each other when it accesses the host between two runs."""
        if self.partition is None:
            return [self]
        return [member for member in self.partition.members.values() if member.host_set == self.host_set]


@final
class Partition:
    """The IPUs that have one program, or one group of programs, loaded together: what synchronises."""

    __slots__ = ("members",)

    def __init__(self) -> None:
        self.members: dict[int, IpuState] = {}  # by number, in order of joining
