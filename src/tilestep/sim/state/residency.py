"""Which memories hold each value, which program each IPU has loaded, and how many bytes of a tile that takes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, final

from tilestep.plan.memory.code import codelets_of
from tilestep.plan.steps import Program
from tilestep.sim.channel import Channel
from tilestep.sim.state.ledger import ProgramLedger
from tilestep.units import ceil_div

NOWHERE: Final = -1  # in place of a cycle: there is no copy


@final
@dataclass(slots=True, eq=False)
class Value:
    """One device array on one IPU. Mutable, because the system moves it."""

    ipu: int
    size_bytes: int
    ready: int  # cycle at which it has been computed
    epoch: int  # number of the load of the program in whose SRAM it is; 0: it is in no SRAM
    host_ready: int  # cycle from which the host's memory has a copy, or NOWHERE
    made_by: ProgramLedger | None  # the program whose result it is
    memory_ready: int = NOWHERE  # cycle from which streaming memory has it, or NOWHERE
    layout: str = ""  # over the tiles, chosen by that program's plan; '' if its reader chooses
    made_in: int = 0  # number of the load of that program which has made it; 0: none has made it on this IPU
    streamed_to: ProgramLedger | None = None  # the latest program that it streamed in to
    streamed_in: int = 0  # number of the load of that program
    streamed_at: int = 0  # number of the dispatch
    noted: int = 0  # a needless transfer: 1 + argument for an own result, -1 - argument for the same value; 0: none
    written: bool = False  # to pinned_host, by the program whose result it is
    event: int = -1  # the event that has made it available off the chip, as far as events are kept
    pending: bool = False  # it will be available outside of SRAM, from a cycle that is not known yet

    @property
    def off_chip_ready(self) -> int:
        """Cycle from which it is available outside of SRAM, or NOWHERE."""
        return self.host_ready if self.host_ready >= 0 else self.memory_ready

    def streams_to(self, ledger: ProgramLedger, index: int, epoch: int, dispatch: int) -> None:
        """Notes that it streams in as an argument. The transfer counts as needless if donation would have kept the value in SRAM.

        Donation would have, if the program has stayed loaded since it made the value, or since the value streamed in to it before: an
        evicted program finds nothing in SRAM. A value that goes to two arguments of one call cannot be donated.
        """
        if self.streamed_at == dispatch:
            self._withdraw()
            return
        if self.noted > 0:
            self._withdraw()
        self.streamed_at = dispatch
        if self.streamed_to is ledger and self.streamed_in == epoch:
            ledger.repeated[index] += 1
            self.noted = -1 - index
            return
        self.streamed_to, self.streamed_in = ledger, epoch
        if self.made_in == epoch and self.made_by is ledger:
            ledger.refed[index] += 1
            self.noted = 1 + index
        else:
            self.noted = 0

    def use(self) -> None:
        """Notes that the host program uses it, so it could not have been donated to an earlier run."""
        if self.noted > 0:
            self._withdraw()

    def _withdraw(self) -> None:
        ledger = self.streamed_to
        if self.noted and ledger is not None:
            counts = ledger.refed if self.noted > 0 else ledger.repeated
            counts[abs(self.noted) - 1] -= 1
            self.noted = 0


@dataclass(frozen=True, kw_only=True)
class TileUse:
    """Bytes that the loaded program, or group of programs, takes on the fullest tile of one IPU."""

    code_bytes: int = 0  # for all members, each with its codelets: so much is loaded
    fixed_bytes: int = 0  # stacks and the like, which the members share
    resident_bytes: int = 0  # resident bytes that the member keeps which needs most while it runs
    transient_bytes: int = 0  # transient bytes of its other values, and of all that others have made or keep meanwhile
    shared_bytes: int = 0  # the part of it that is codelets of an earlier member, which a tile has once

    @property
    def peak_bytes(self) -> int:
        """The most bytes that are in use at once."""
        return self.code_bytes - self.shared_bytes + self.fixed_bytes + self.resident_bytes + self.transient_bytes

    def waiting_bytes(self, members: Iterable[Program]) -> int:
        """Of the transient bytes those of values that wait for other members, beyond what the largest of `members` needs by itself."""
        alone = max((member.memory.resident_bytes + member.memory.transient_bytes for member in members), default=0)
        return max(0, self.resident_bytes + self.transient_bytes - alone)

    def with_member(self, program: Program, shared_bytes: int = 0) -> TileUse:
        """The same with `program` as another member, so many bytes of whose codelets are there already."""
        memory = program.memory
        return replace(
            self.with_values(memory.resident_bytes, memory.transient_bytes),
            code_bytes=self.code_bytes + memory.code_bytes,
            fixed_bytes=max(self.fixed_bytes, memory.fixed_bytes),
            shared_bytes=self.shared_bytes + shared_bytes,
        )

    def with_values(self, resident_bytes: int, transient_bytes: int) -> TileUse:
        """The same where at some time there are so many bytes of values."""
        if resident_bytes + transient_bytes <= self.resident_bytes + self.transient_bytes:
            return self
        return replace(self, resident_bytes=resident_bytes, transient_bytes=transient_bytes)


@dataclass(kw_only=True)
class Group:
    """The programs of one program group on one IPU, which count as one program."""

    members: dict[int, str] = field(default_factory=dict[int, str])  # key -> name of each program, in order of first dispatch
    use: TileUse = TileUse()  # bytes that they take on the fullest tile
    codelets: set[str] = field(default_factory=set[str])  # names of those that they run
    stays: dict[Value, None] = field(default_factory=dict[Value, None])  # left in the tiles by members, for later entries

    def hold(self, program: Program, size_bytes: int, num_tiles: int) -> None:
        """Counts `size_bytes` on the IPU while `program` ran, beside its own: values that others have made or kept, and take later."""
        memory = program.memory
        beside = ceil_div(size_bytes, num_tiles - program.num_io_tiles)
        self.use = self.use.with_values(memory.resident_bytes, memory.transient_bytes + beside)

    def add(self, key: int, program: Program) -> bool:
        """Adds a member. Returns: whether it is new."""
        if key in self.members:
            return False
        self.members[key] = program.name
        self.use = self.use.with_member(program, self.note(program))
        return True

    def note(self, program: Program) -> int:
        """Notes the codelets of a member; returns bytes of those that are there already."""
        own = codelets_of(program)
        shared = sum(size for name, size in own.items() if name in self.codelets)
        self.codelets.update(own)
        return shared


@final
@dataclass(slots=True, eq=False, kw_only=True)
class IpuState:
    """Clocks and contents of one IPU."""

    index: int
    machine: int  # the IPU-Machine whose host link it shares
    host_set: int  # IPUs of one program with equal numbers wait for each other at an access to the host
    free: int = 0  # cycle from which it can take the next step
    event: int = -1  # its latest, as far as events are kept
    event_end: int = 0  # the cycle behind it
    loaded: int | str | None = None  # key of the program, or name of the group, that is loaded
    epoch: int = 0  # number of the load that put it there; 0 before the first
    group: Group | None = None  # whose members are loaded; None: a single program is
    use: TileUse = field(default_factory=TileUse)
    partition: SyncPartition | None = None
    io: Channel = field(default_factory=Channel)  # its I/O tiles
    inputs_from: int = 0  # cycle from which the I/O tiles have room for the next run's arguments
    io_end: int = 0  # cycle at which the I/O tiles have sent all results so far

    def join(self, partition: SyncPartition) -> None:
        """Moves the IPU to `partition`, because it runs that program, or group of programs, from now on."""
        if self.partition is not None:
            del self.partition.members[self.index]
        partition.members[self.index] = self
        self.partition = partition

    def waits_with(self, num_simulated: int) -> list[IpuState]:
        """This IPU and those that wait with it, when it accesses the host between two runs."""
        if self.partition is None:
            return [self]
        return [member for member in self.partition.together(num_simulated) if member.host_set == self.host_set]


@final
class SyncPartition:
    """The IPUs that synchronise, because they have one program, or one group of programs, loaded together."""

    __slots__ = ("members", "others", "paid_entry")

    def __init__(self) -> None:
        self.members: dict[int, IpuState] = {}  # by number, in order of joining
        self.others: frozenset[IpuState] = frozenset()  # IPUs of its programs that are not simulated
        self.paid_entry = 0  # the latest entry into a group whose dispatch the host has paid

    def together(self, num_simulated: int) -> list[IpuState]:
        """Its IPUs, with those that are not simulated."""
        return [*self.members.values(), *(state for state in self.others if state.index % num_simulated in self.members)]


def require_value(values: Mapping[int, Value], number: int) -> Value:
    """The value of a number. Raises: ValueError if there is none."""
    found = values.get(number)
    if found is None:
        raise ValueError(unknown_value(number))
    return found


def require_new(values: Mapping[int, Value], number: int) -> None:
    """Raises: ValueError if a number names a value already."""
    if number in values:
        raise ValueError(existing_value(number))


def require_not_donated(number: int, value: Value) -> None:
    """Raises: ValueError if no memory holds the value any more."""
    if value.host_ready < 0 and value.memory_ready < 0 and (not value.epoch or value.made_by is None):
        raise ValueError(donated_value(number))


def unknown_value(value: int) -> str:
    """Text of the error."""
    return f"value {value} is unknown: it was never made, or it was forgotten"


def existing_value(value: int) -> str:
    """Text of the error."""
    return f"value {value} exists already: every value needs a number of its own"


def donated_value(value: int) -> str:
    """Text of the error."""
    return f"value {value} was donated and the host has no copy of it: nobody can use it any more"
