"""Programs ready to be dispatched on certain IPUs: everything that is worked out and checked once."""

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import final

from tilestep.machine.spec import MachineSpec
from tilestep.plan.steps import Counts, Program
from tilestep.sim.channel import Load
from tilestep.sim.cycles.body import BodyCost, BodyCycles, CallCycles, body_cost
from tilestep.sim.cycles.sync import sync_cycles
from tilestep.sim.state.ledger import ProgramLedger, ProgramTotals
from tilestep.sim.state.residency import IpuState, SyncPartition, Value, donated_value, existing_value, unknown_value

Input = tuple[int, bool, bool]  # bytes; whether it stays in pinned_host and never streams in whole; whether a result takes over its SRAM
Output = tuple[int, bool, bool, str]  # bytes; whether it has an argument's SRAM; whether the program writes it to pinned_host; its layout


@final
class Interface:
    """Arguments and results of one program: plain tuples, because every dispatch unpacks them.

    Attributes:
        inputs: the arguments.
        outputs: the results.
        donated: positions of arguments whose SRAM a result takes over.
        kept_bytes: of these arguments.
        vacated: positions of donated arguments in pinned_host.
        layouts: how each argument is laid out over the tiles; '' if any layout will do.
        bytes_to_host: of the results that stream out, on one IPU.
    """

    __slots__ = ("bytes_to_host", "donated", "inputs", "kept_bytes", "layouts", "outputs", "vacated")

    def __init__(self, program: Program) -> None:
        arguments, results = program.arguments, program.results
        kept = [argument.result is not None and not argument.on_host for argument in arguments]
        self.inputs: tuple[Input, ...] = tuple((a.size_bytes, a.on_host, is_kept) for a, is_kept in zip(arguments, kept, strict=True))
        self.donated = tuple(position for position, is_kept in enumerate(kept) if is_kept)
        self.kept_bytes = sum(arguments[position].size_bytes for position in self.donated)
        self.vacated = tuple(position for position, a in enumerate(arguments) if a.result is not None and a.on_host)
        self.layouts = tuple(argument.layout for argument in arguments)
        self.outputs: tuple[Output, ...] = tuple(
            (r.size_bytes, r.argument is not None and not r.on_host, r.on_host, "" if r.argument is None else self.layouts[r.argument])
            for r in results
        )
        self.bytes_to_host = sum(result.size_bytes for result in results if result.argument is None and not result.on_host)


@final
class PreparedProgram:
    """One program on certain IPUs, ready to be dispatched."""

    def __init__(self, ledger: ProgramLedger, body: BodyCost, states: Sequence[IpuState], machine: MachineSpec) -> None:
        program = ledger.program
        self.ledger = ledger
        self.body = body
        self.states = tuple(state for state in states if state.index < machine.num_simulated)
        self.others = frozenset(states).difference(self.states)
        self.interface = Interface(program)
        self.name = program.name
        self.num_io_tiles = program.num_io_tiles
        self.calls_host = body.calls_host
        self.is_special = bool(body.collective or self.calls_host or self.num_io_tiles or self.others)
        self.loads: tuple[Load, ...] | None = None  # links and gateways in one run; None: not known yet
        self.partition = SyncPartition()  # outside of groups
        self.shares = _shares(self.states, self.others, machine)

    def bodies(self, counts: Sequence[Counts]) -> list[BodyCycles]:
        """Cycles of one run's body, per device position.

        Raises: ValueError if a data-dependent part was not counted.
        """
        if not self.body.counted:
            return [self.body.fixed] * len(self.states)
        if len(counts) != len(self.states):
            raise ValueError(f"program '{self.name}' runs on {len(self.states)} IPUs, but has counts for {len(counts)}")
        return [self.body.cycles(counted) for counted in counts]

    def calls(self, counts: Sequence[Counts]) -> list[CallCycles]:
        """The needs of one run's host calls, per device position. Raises: as `bodies`, which comes first."""
        if not self.body.calls_counted:
            return [self.body.calls_fixed] * len(self.states)
        return [self.body.calls(counted) for counted in counts]

    def take(self, known: Mapping[int, Value], arguments: Sequence[Sequence[int]], results: Sequence[Sequence[int]]) -> list[list[Value]]:
        """Checks the arguments and the names of the results; returns the arguments' values, per device position.

        Raises: ValueError for an unknown, donated or misplaced argument, a result that exists, a wrong number of either.
        """
        num_ipus = len(self.states)
        if len(arguments) != num_ipus or len(results) != num_ipus:
            got = f"arguments for {len(arguments)} and results for {len(results)}"
            raise ValueError(f"program '{self.name}' runs on {num_ipus} IPUs, but was given {got}")
        inputs, outputs = self.interface.inputs, self.interface.outputs
        taken: list[list[Value]] = []  # without a call for each argument, because every dispatch comes here
        for state, ids, new in zip(self.states, arguments, results, strict=True):
            if len(ids) != len(inputs) or len(new) != len(outputs):
                wanted = f"{len(inputs)} arguments and {len(outputs)} results per IPU"
                raise ValueError(f"program '{self.name}' has {wanted}, but was given {len(ids)} and {len(new)}")
            row, ipu = list(map(known.get, ids)), state.index
            for found in row:
                if found is None or found.ipu != ipu or not (found.epoch or found.host_ready >= 0 or found.memory_ready >= 0):
                    raise self._refusal(ids[row.index(found)], found, state)
            taken.append(row)  # pyrefly: ignore[bad-argument-type]  # none of them is None
        names = set().union(*results)
        if len(names) < num_ipus * len(outputs) or not known.keys().isdisjoint(names):
            counted = Counter(chain.from_iterable(results))
            raise ValueError(existing_value(next(value for value in counted if value in known or counted[value] > 1)))
        return taken

    def _refusal(self, value: int, found: Value | None, state: IpuState) -> ValueError:
        if found is None:
            return ValueError(f"program '{self.name}': {unknown_value(value)}")
        if found.ipu != state.index:
            return ValueError(f"program '{self.name}' takes value {value} on IPU {state.index}, but it is for IPU {found.ipu}: copy it")
        return ValueError(f"program '{self.name}': {donated_value(value)}")


def _shares(
    states: Sequence[IpuState], others: Collection[IpuState], machine: MachineSpec
) -> tuple[tuple[tuple[int, ...], int, bool], ...]:
    """(positions that wait for each other when one accesses the host, cycles of a sync of them, whether it is one IPU), in order."""
    sets: dict[int, list[int]] = {}
    for position, state in enumerate(states):
        sets.setdefault(state.host_set, []).append(position)
    waiting = {number: [state.index for state in (*states, *others) if state.host_set == number] for number in sets}
    return tuple(
        (tuple(positions), sync_cycles(machine, tuple(waiting[number])), len(waiting[number]) == 1) for number, positions in sets.items()
    )


@final
class PreparedPrograms:
    """All programs that were dispatched on one machine and not forgotten, by key and IPUs.

    Args: state_of: gives the state of an IPU.
    """

    def __init__(self, machine: MachineSpec, state_of: Callable[[int], IpuState]) -> None:
        self._machine = machine
        self._state_of = state_of
        self._ledgers: dict[int, ProgramLedger] = {}
        self._prepared: dict[tuple[int, tuple[int, ...]], PreparedProgram] = {}

    def get(self, program: Program, key: int, ipus: tuple[int, ...]) -> PreparedProgram:
        """The program with this key, ready to be dispatched on these IPUs.

        Raises: ValueError if the key is another program's, or the IPUs are not as many different ones as the program needs.
        """
        prepared = self._prepared.get((key, ipus))
        if prepared is None or prepared.ledger.program is not program:
            prepared = self._prepare(program, key, ipus)
        return prepared

    def ledger(self, program: Program, key: int) -> ProgramLedger:
        """The sums of the program with this key, which need not be ready to be dispatched.

        Raises: ValueError if the key is another program's, or the program needs more IPUs than there are.
        """
        ledger = self._known(program, key)
        if ledger is None:
            if program.num_ipus > self._machine.num_ipus:
                raise ValueError(
                    f"program '{program.name}' runs on {program.num_ipus} IPUs, which machine '{self._machine.name}' does not have"
                )
            ledger = self._ledgers[key] = ProgramLedger(program, key, partial(body_cost, program, self._machine, range(program.num_ipus)))
        return ledger

    def totals(self) -> dict[int, ProgramTotals]:
        """The sums of each program by key, in order of first dispatch."""
        return {key: ledger.totals() for key, ledger in self._ledgers.items()}

    def loads(self) -> dict[int, int]:
        """How often each program was loaded, by key."""
        return {key: ledger.loads for key, ledger in self._ledgers.items()}

    def ledgers(self) -> Mapping[int, ProgramLedger]:
        """The running sums of each program by key, in order of first dispatch."""
        return self._ledgers

    def partitions(self) -> dict[tuple[int, tuple[int, ...]], SyncPartition]:
        """The partition of each program on certain IPUs, outside of groups."""
        return {known: prepared.partition for known, prepared in self._prepared.items()}

    def forget(self, keys: Collection[int]) -> set[int]:
        """Forgets programs, but for those that an IPU has loaded. Returns: keys of those that are forgotten."""
        gone = set(keys) - {key for (key, _), prepared in self._prepared.items() if prepared.partition.members}
        self._prepared = {known: prepared for known, prepared in self._prepared.items() if known[0] not in gone}
        for key in gone:
            self._ledgers.pop(key, None)  # it may never have been dispatched
        return gone

    def _prepare(self, program: Program, key: int, ipus: tuple[int, ...]) -> PreparedProgram:
        ledger = self._known(program, key)
        if len(ipus) != program.num_ipus or len(set(ipus)) != len(ipus):
            raise ValueError(f"program '{program.name}' runs on {program.num_ipus} different IPUs, but was dispatched on {ipus}")
        states = [self._state_of(ipu) for ipu in ipus]
        body = body_cost(program, self._machine, ipus)
        if ledger is None:
            ledger = self._ledgers[key] = ProgramLedger(program, key, lambda: body)
        prepared = self._prepared[key, ipus] = PreparedProgram(ledger, body, states, self._machine)
        ledger.alike.update({state.index: state.index % self._machine.num_simulated for state in prepared.others})
        return prepared

    def _known(self, program: Program, key: int) -> ProgramLedger | None:
        """The sums of this key, if there are any. Raises: ValueError if they are another program's."""
        ledger = self._ledgers.get(key)
        if ledger is not None and ledger.program != program:
            raise ValueError(f"key {key} is program '{ledger.program.name}': it cannot also be program '{program.name}'")
        return ledger
