"""A program on certain IPUs, ready to be dispatched: all that can be worked out and checked beforehand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import final

from tilestep.machine.spec import MachineSpec
from tilestep.plan.steps import Counts
from tilestep.sim.body import BodyCost, BodyCycles, Calls
from tilestep.sim.ledger import ProgramLedger
from tilestep.sim.residency import IpuState, Partition, Value
from tilestep.sim.resources import Load
from tilestep.sim.sync import sync_cycles


@final
class Prepared:
    """What dispatching one program on certain IPUs needs, worked out once."""

    __slots__ = (
        "body",
        "bytes_to_host",
        "calls_host",
        "donated",
        "inputs",
        "is_special",
        "kept_layouts",
        "layouts",
        "ledger",
        "loads",
        "name",
        "num_io_tiles",
        "outputs",
        "partition",
        "shares",
        "states",
        "vacated",
    )

    def __init__(self, ledger: ProgramLedger, body: BodyCost, states: tuple[IpuState, ...], machine: MachineSpec) -> None:
        program = ledger.program
        self.ledger = ledger
        self.body = body
        self.states = states
        self.name = program.name
        self.num_io_tiles = program.num_io_tiles
        self.calls_host = body.calls_host
        self.is_special = body.collective or self.calls_host or self.num_io_tiles > 0
        self.loads: tuple[Load, ...] | None = None  # of links and gateways in one run, once known
        self.partition = Partition()  # outside of groups
        # (bytes, whether it lies in the host's memory, whether a result takes over its SRAM)
        self.inputs = tuple(
            (argument.size_bytes, argument.on_host, argument.result is not None and not argument.on_host) for argument in program.arguments
        )
        self.donated = tuple(
            position for position, argument in enumerate(program.arguments) if argument.result is not None and not argument.on_host
        )
        # donated arguments in streaming memory or the host's
        self.vacated = tuple(
            position for position, argument in enumerate(program.arguments) if argument.result is not None and argument.on_host
        )
        self.layouts = tuple(argument.layout for argument in program.arguments)
        self.kept_layouts = tuple("" if result.argument is None else self.layouts[result.argument] for result in program.results)
        # (bytes, whether it takes over an argument's SRAM and so stays there, whether the program itself writes it to pinned_host)
        self.outputs = tuple(
            (result.size_bytes, result.argument is not None and not result.on_host, result.on_host) for result in program.results
        )
        leaving = [result for result in program.results if result.argument is None and not result.on_host]
        self.bytes_to_host = sum(result.size_bytes for result in leaving)  # per IPU
        self.shares = _shares(states, machine)

    def bodies(self, counts: Sequence[Counts]) -> list[BodyCycles]:
        """Cycles of one run's body per position.

        Raises: ValueError if something that depends on data was not counted.
        """
        if not self.body.counted:
            return [self.body.fixed] * len(self.states)
        if len(counts) != len(self.states):
            raise ValueError(f"program '{self.name}' runs on {len(self.states)} IPUs, but has counts for {len(counts)}")
        return [self.body.cycles(counted) for counted in counts]

    def calls(self, counts: Sequence[Counts]) -> list[Calls]:
        """What one run's host calls need per position. Raises as `bodies`, which comes first."""
        if not self.body.calls_counted:
            return [self.body.calls_fixed] * len(self.states)
        return [self.body.calls(counted) for counted in counts]

    def take(self, known: Mapping[int, Value], arguments: Sequence[Sequence[int]], results: Sequence[Sequence[int]]) -> list[list[Value]]:
        """The argument values per position, all checked; the results' names are checked too.

        Raises: ValueError for unknown, donated or misplaced arguments, results that exist, wrong numbers of either.
        """
        num_ipus = len(self.states)
        if len(arguments) != num_ipus or len(results) != num_ipus:
            given = f"arguments for {len(arguments)} and results for {len(results)}"
            raise ValueError(f"program '{self.name}' runs on {num_ipus} IPUs, but was given {given}")
        taken: list[list[Value]] = []  # no call for each argument: this is on the way of every dispatch
        made: set[int] = set()
        for state, ids, new in zip(self.states, arguments, results, strict=True):
            if len(ids) != len(self.inputs) or len(new) != len(self.outputs):
                wanted = f"{len(self.inputs)} arguments and {len(self.outputs)} results per IPU"
                raise ValueError(f"program '{self.name}' has {wanted}, but was given {len(ids)} and {len(new)}")
            row: list[Value] = []
            for value in ids:
                found = known.get(value)
                if found is None or found.ipu != state.index or (found.host_ready < 0 and not found.epoch and found.memory_ready < 0):
                    raise self._refusal(value, found, state)
                row.append(found)
            taken.append(row)
            for value in new:
                if value in known or value in made:
                    raise ValueError(existing_value(value))
                made.add(value)
        return taken

    def _refusal(self, value: int, found: Value | None, state: IpuState) -> ValueError:
        if found is None:
            return ValueError(f"program '{self.name}': {unknown_value(value)}")
        if found.ipu != state.index:
            return ValueError(f"program '{self.name}' takes value {value} on IPU {state.index}, but it is for IPU {found.ipu}: copy it")
        return ValueError(f"program '{self.name}': {donated_value(value)}")


def _shares(states: Sequence[IpuState], machine: MachineSpec) -> tuple[tuple[tuple[int, ...], int], ...]:
    """(positions that wait for each other when one of them accesses the host, cycles of a sync of them), in order."""
    sets: dict[int, list[int]] = {}
    for position, state in enumerate(states):
        sets.setdefault(state.host_set, []).append(position)
    return tuple((tuple(positions), sync_cycles(machine, tuple(states[k].index for k in positions))) for positions in sets.values())


def unknown_value(value: int) -> str:
    """Message."""
    return f"value {value} is unknown: it was never made, or it was forgotten"


def existing_value(value: int) -> str:
    """Message."""
    return f"value {value} exists already: every value needs a number of its own"


def donated_value(value: int) -> str:
    """Message."""
    return f"value {value} was donated and the host has no copy of it: nobody can use it any more"
