"""The state of a simulated system as plain data, from which the simulation goes on: in this process or in another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from tilestep.plan.steps import Program
from tilestep.sim.channel import Channel
from tilestep.sim.ledger import ProgramLedger
from tilestep.sim.residency import Group, IpuState, Partition, TileUse, Value
from tilestep.sim.resources import Resource, Resources

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

    group: str  # '': of a program
    key: int  # 0: of a group
    ipus: tuple[int, ...]  # of the program
    members: tuple[int, ...]  # IPUs, in order of joining
    paid_entry: int


@dataclass(frozen=True, kw_only=True)
class IpuSnapshot:
    """Clocks and contents of one IPU."""

    free: int
    loaded_key: int  # of the program that is loaded; 0: none is, or a group is
    loaded_group: str  # that is loaded; '': none is
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
    return ValueState(
        number=number,
        ipu=value.ipu,
        size_bytes=value.size_bytes,
        ready=value.ready,
        epoch=value.epoch,
        host_ready=value.host_ready,
        memory_ready=value.memory_ready,
        made_by=0 if value.made_by is None else value.made_by.key,
        layout=value.layout,
        made_in=value.made_in,
        streamed_to=0 if value.streamed_to is None else value.streamed_to.key,
        streamed_in=value.streamed_in,
        streamed_at=value.streamed_at,
        noted=value.noted,
        written=value.written,
    )


def restored_value(state: ValueState, ledgers: Mapping[int, ProgramLedger]) -> Value:
    """The value of `value_state`. Raises: KeyError if a program that it names has no ledger."""
    made_by = ledgers[state.made_by] if state.made_by else None
    value = Value(state.ipu, state.size_bytes, state.ready, state.epoch, state.host_ready, made_by)
    value.memory_ready, value.layout, value.made_in = state.memory_ready, state.layout, state.made_in
    value.streamed_to = ledgers[state.streamed_to] if state.streamed_to else None
    value.streamed_in, value.streamed_at, value.noted, value.written = state.streamed_in, state.streamed_at, state.noted, state.written
    return value


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
    groups: Mapping[str, Partition], programs: Mapping[tuple[int, tuple[int, ...]], Partition]
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
