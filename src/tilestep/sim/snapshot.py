"""The state of a simulated system as plain data, from which the simulation goes on: in this process or in another."""

from collections.abc import Mapping, MutableMapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Final, NamedTuple

from tilestep.machine.spec import MachineSpec
from tilestep.plan.steps import Program
from tilestep.sim.channel import Channel, Resource, Resources
from tilestep.sim.runs.execute import Executor
from tilestep.sim.runs.part_builder import PartBuilder
from tilestep.sim.state.ledger import ProgramLedger
from tilestep.sim.state.prepared import PreparedPrograms
from tilestep.sim.state.residency import Group, IpuState, SyncPartition, TileUse, Value

Spans = tuple[tuple[int, int], ...]  # (start, end) for which a channel is busy


@dataclass(frozen=True, kw_only=True)
class ValueState:
    """One value; the fields are those of `residency.Value`, with programs by key (0: none)."""

    number: int
    ipu: int
    size_bytes: int
    ready: int
    epoch: int
    host_ready: int
    memory_ready: int
    made_by: int
    layout: str
    made_in: int
    streamed_to: int
    streamed_in: int
    streamed_at: int
    noted: int
    written: bool


_SAME: Final = tuple(field.name for field in fields(ValueState) if field.name not in ("number", "made_by", "streamed_to"))


@dataclass(frozen=True, kw_only=True)
class GroupState:
    """The members of a program group on one IPU, the bytes that they take, and what they have left in the tiles for later entries."""

    name: str
    ipu: int
    members: tuple[tuple[int, str], ...]
    use: tuple[int, int, int, int]  # code, fixed, resident and transient bytes
    stays: tuple[ValueState, ...] = ()  # the number of a value that was forgotten is -1


@dataclass(frozen=True, kw_only=True)
class PartitionState:
    """IPUs that synchronise: of a program group, or of a program on certain IPUs."""

    group: str  # '': the IPUs have a program
    key: int  # 0: they have a group
    ipus: tuple[int, ...]  # the program's; () for a group
    members: tuple[int, ...]  # IPUs, in order of joining
    paid_entry: int


@dataclass(frozen=True, kw_only=True)
class IpuSnapshot:
    """Clocks and contents of one IPU."""

    free: int
    loaded_key: int  # 0: no program is loaded, or a group is
    loaded_group: str  # '': no group is loaded
    has_group: bool  # whether the loaded members are a group's
    epoch: int
    use: tuple[int, int, int, int]
    inputs_from: int
    io_end: int
    io: Spans


@dataclass(frozen=True, kw_only=True)
class LedgerState:
    """The sums of a program that later events may change, or depend on."""

    key: int
    runs: int
    loads: int
    refed: tuple[int, ...]
    repeated: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class ChannelState:
    """The bookings of one carrier of bytes."""

    kind: str
    source: int
    target: int
    spans: Spans


@dataclass(frozen=True, kw_only=True)
class Snapshot:
    """A simulated system between two calls."""

    host_cycle: int = 0  # the host's clock
    horizon: int = 0  # the latest end so far
    dispatches: int = 0  # so far
    epochs: int = 0  # loads of programs so far
    moments: int = 0  # so far
    ipus: tuple[IpuSnapshot, ...] = ()  # ipus by index
    partitions: tuple[PartitionState, ...] = ()  # in which IPUs synchronise
    groups: tuple[GroupState, ...] = ()  # program groups, by IPU
    ledgers: tuple[LedgerState, ...] = ()  # ledgers of the programs that were dispatched
    values: tuple[ValueState, ...] = ()  # values that exist
    channels: tuple[ChannelState, ...] = ()  # channels with bookings that may still matter


def value_state(number: int, value: Value) -> ValueState:
    """A value as plain data."""
    made_by, streamed_to = (0 if ledger is None else ledger.key for ledger in (value.made_by, value.streamed_to))
    same: dict[str, Any] = {name: getattr(value, name) for name in _SAME}
    return ValueState(number=number, made_by=made_by, streamed_to=streamed_to, **same)


def restored_value(state: ValueState, ledgers: Mapping[int, ProgramLedger]) -> Value:
    """The value of `value_state`. Raises: KeyError if a program that it names has no ledger."""
    made_by, streamed_to = (ledgers[key] if key else None for key in (state.made_by, state.streamed_to))
    same: dict[str, Any] = {name: getattr(state, name) for name in _SAME}
    return Value(made_by=made_by, streamed_to=streamed_to, **same)


def ledger_state(ledger: ProgramLedger) -> LedgerState:
    """The part of a ledger that later events may change."""
    return LedgerState(key=ledger.key, runs=ledger.runs, loads=ledger.loads, refed=tuple(ledger.refed), repeated=tuple(ledger.repeated))


def restore_ledger(ledger: ProgramLedger, state: LedgerState) -> None:
    """Raises: ValueError if the program has another number of arguments."""
    if len(state.refed) != len(ledger.refed) or len(state.repeated) != len(ledger.repeated):
        raise ValueError(f"program {state.key} has {len(ledger.refed)} arguments, but its sums are of {len(state.refed)}")
    ledger.runs, ledger.loads = state.runs, state.loads
    ledger.refed, ledger.repeated = list(state.refed), list(state.repeated)


def group_state(name: str, ipu: int, group: Group, numbers: Mapping[Value, int]) -> GroupState:
    """A group as plain data. Args: numbers: of the values that are not forgotten."""
    stays = tuple(value_state(numbers.get(value, -1), value) for value in group.stays)
    return GroupState(name=name, ipu=ipu, members=tuple(group.members.items()), use=_bytes_of(group.use), stays=stays)


def restored_group(state: GroupState, programs: Mapping[int, Program]) -> Group:
    """The group of `group_state`. Raises: KeyError if a member is missing."""
    group = Group(members=dict(state.members))
    shared_bytes = sum(group.note(programs[key]) for key in group.members)
    group.use = replace(_use(state.use), shared_bytes=shared_bytes)
    return group


def ipu_snapshot(state: IpuState) -> IpuSnapshot:
    """An IPU as plain data."""
    loaded = state.loaded
    return IpuSnapshot(
        free=state.free,
        loaded_key=loaded if isinstance(loaded, int) else 0,
        loaded_group=loaded if isinstance(loaded, str) else "",
        has_group=state.group is not None,
        epoch=state.epoch,
        use=_bytes_of(state.use),
        inputs_from=state.inputs_from,
        io_end=state.io_end,
        io=state.io.busy_spans(),
    )


def restore_ipu(state: IpuState, snapshot: IpuSnapshot, groups: Mapping[tuple[str, int], Group]) -> None:
    """Raises: KeyError if the group that is loaded has no members."""
    state.free, state.epoch = snapshot.free, snapshot.epoch
    state.loaded = snapshot.loaded_group or snapshot.loaded_key or None
    state.group = groups[snapshot.loaded_group, state.index] if snapshot.has_group else None
    state.use = _use(snapshot.use) if state.group is None else state.group.use
    state.inputs_from, state.io_end = snapshot.inputs_from, snapshot.io_end
    state.io = Channel(snapshot.io)


def partition_states(
    groups: Mapping[str, SyncPartition], programs: Mapping[tuple[int, tuple[int, ...]], SyncPartition]
) -> tuple[PartitionState, ...]:
    """The partitions that have members, or a paid entry, as plain data."""
    of_groups = [
        PartitionState(group=name, key=0, ipus=(), members=tuple(partition.members), paid_entry=partition.paid_entry)
        for name, partition in groups.items()
    ]
    of_programs = [
        PartitionState(group="", key=key, ipus=ipus, members=tuple(partition.members), paid_entry=partition.paid_entry)
        for (key, ipus), partition in programs.items()
        if partition.members
    ]
    return (*of_groups, *of_programs)


def channel_states(resources: Resources) -> tuple[ChannelState, ...]:
    """The bookings of all carriers, as plain data."""
    named: list[tuple[str, int, int, Channel]] = []
    for kind, channels in (("to-ipus", resources.to_ipus), ("to-host", resources.to_host), ("memory", resources.memories)):
        named += [(kind, index, -1, channel) for index, channel in enumerate(channels)]
    named += [(resource.kind, resource.source, resource.target, channel) for resource, channel in resources.between_ipus.items()]
    return tuple(
        ChannelState(kind=kind, source=source, target=target, spans=channel.busy_spans())
        for kind, source, target, channel in named
        if channel.busy_spans()
    )


def restore_channels(resources: Resources, states: Sequence[ChannelState]) -> None:
    """Raises: ValueError, IndexError for a carrier that the machine does not have."""
    shared = {"to-ipus": resources.to_ipus, "to-host": resources.to_host, "memory": resources.memories}
    for state in states:
        if state.kind in shared:
            shared[state.kind][state.source].restore(state.spans)
        elif state.kind == "gateway" or state.kind == "link":
            resources.between_ipus[Resource(state.kind, state.source, state.target)] = Channel(state.spans)
        else:
            raise ValueError(f"no carrier of bytes is a {state.kind!r}")


def programs_of(snapshot: Snapshot) -> frozenset[int]:
    """Keys of the programs that a snapshot needs."""
    return frozenset(ledger.key for ledger in snapshot.ledgers)


def require_programs(snapshot: Snapshot, programs: Mapping[int, Program]) -> None:
    """Raises: ValueError if a program of the snapshot is missing."""
    missing = sorted(programs_of(snapshot) - programs.keys())
    if missing:
        raise ValueError(f"the snapshot needs program {missing[0]}, which is not there")


def _bytes_of(use: TileUse) -> tuple[int, int, int, int]:
    return use.code_bytes, use.fixed_bytes, use.resident_bytes, use.transient_bytes


def _use(sizes: tuple[int, int, int, int]) -> TileUse:
    code, fixed, resident, transient = sizes
    return TileUse(code_bytes=code, fixed_bytes=fixed, resident_bytes=resident, transient_bytes=transient)


class Parts(NamedTuple):
    """All that a system consists of, beside its counters."""

    machine: MachineSpec
    ipus: Sequence[IpuState]
    execution: Executor
    builder: PartBuilder
    programs: PreparedPrograms
    partitions: MutableMapping[str, SyncPartition]  # by group
    values: MutableMapping[int, Value]


def take_snapshot(parts: Parts, *, host_cycle: int, dispatches: int, moments: int) -> Snapshot:
    """The state of a system in which no group's work waits to be played."""
    numbers = {value: number for number, value in parts.values.items()}
    return Snapshot(
        host_cycle=host_cycle,
        horizon=parts.execution.horizon,
        dispatches=dispatches,
        epochs=parts.builder.epochs,
        moments=moments,
        ipus=tuple(map(ipu_snapshot, parts.ipus)),
        partitions=partition_states(parts.partitions, parts.programs.partitions()),
        groups=tuple(group_state(name, ipu, group, numbers) for (name, ipu), group in parts.builder.known_groups.items()),
        ledgers=tuple(map(ledger_state, parts.programs.ledgers().values())),
        values=tuple(value_state(number, value) for number, value in parts.values.items()),
        channels=channel_states(parts.execution.resources),
    )


def restore(parts: Parts, snapshot: Snapshot, programs: Mapping[int, Program]) -> None:
    """Puts a new system into a state.

    Raises: ValueError if the state is of more IPUs, or names what is not there.
    """
    require_programs(snapshot, programs)
    machine = parts.machine
    if len(snapshot.ipus) > machine.num_ipus:
        raise ValueError(f"the snapshot is of {len(snapshot.ipus)} IPUs, but machine '{machine.name}' has {machine.num_ipus}")
    if any(not 0 <= ipu < machine.num_ipus for ipu in _ipus_of(snapshot)):
        raise ValueError(f"the snapshot names an IPU that machine '{machine.name}' does not have: it has 0 to {machine.num_ipus - 1}")
    try:
        _restore(parts, snapshot, programs)
    except (KeyError, IndexError) as error:
        raise ValueError(f"the snapshot names {error}, which it does not have") from None


def _ipus_of(snapshot: Snapshot) -> list[int]:
    return [
        *(value.ipu for value in snapshot.values),
        *(ipu for partition in snapshot.partitions for ipu in (*partition.members, *partition.ipus)),
        *(group.ipu for group in snapshot.groups),
    ]


def _restore(parts: Parts, snapshot: Snapshot, programs: Mapping[int, Program]) -> None:
    parts.execution.horizon, parts.builder.epochs = snapshot.horizon, snapshot.epochs
    for group in snapshot.groups:
        parts.builder.known_groups[group.name, group.ipu] = restored_group(group, programs)
    for state, of_ipu in zip(parts.ipus, snapshot.ipus, strict=False):
        restore_ipu(state, of_ipu, parts.builder.known_groups)
    restore_channels(parts.execution.resources, snapshot.channels)
    for of_program in snapshot.ledgers:
        restore_ledger(parts.programs.ledger(programs[of_program.key], of_program.key), of_program)
    for part in snapshot.partitions:
        if part.key:
            partition = parts.programs.get(programs[part.key], part.key, part.ipus).partition
        else:
            partition = parts.partitions[part.group] = SyncPartition()
        partition.paid_entry = part.paid_entry
        for ipu in part.members:
            parts.ipus[ipu].join(partition)
    ledgers = parts.programs.ledgers()
    for value in snapshot.values:
        parts.values[value.number] = restored_value(value, ledgers)
    for group in snapshot.groups:
        stays = (parts.values.get(value.number) or restored_value(value, ledgers) for value in group.stays)
        parts.builder.known_groups[group.name, group.ipu].stays.update(dict.fromkeys(stays))
