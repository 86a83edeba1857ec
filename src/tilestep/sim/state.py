"""Takes the state of a simulated system as plain data, and puts it back."""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping, Sequence
from typing import NamedTuple

from tilestep.machine.spec import MachineSpec
from tilestep.plan.steps import Program
from tilestep.sim.execute import Execution
from tilestep.sim.part_builder import PartBuilder
from tilestep.sim.prepared import PreparedPrograms
from tilestep.sim.residency import IpuState, Partition, Value
from tilestep.sim.snapshot import (
    Snapshot,
    channel_states,
    group_state,
    ipu_snapshot,
    ledger_state,
    partition_states,
    require_programs,
    restore_channels,
    restore_ipu,
    restore_ledger,
    restored_group,
    restored_value,
    value_state,
)


class Parts(NamedTuple):
    """All that a system consists of, beside its counters."""

    machine: MachineSpec
    ipus: Sequence[IpuState]
    execution: Execution
    builder: PartBuilder
    programs: PreparedPrograms
    partitions: MutableMapping[str, Partition]  # by group
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
            partition = parts.partitions[part.group] = Partition()
        partition.paid_entry = part.paid_entry
        for ipu in part.members:
            parts.ipus[ipu].join(partition)
    ledgers = parts.programs.ledgers()
    for value in snapshot.values:
        parts.values[value.number] = restored_value(value, ledgers)
    for group in snapshot.groups:
        stays = (parts.values.get(value.number) or restored_value(value, ledgers) for value in group.stays)
        parts.builder.known_groups[group.name, group.ipu].stays.update(dict.fromkeys(stays))
