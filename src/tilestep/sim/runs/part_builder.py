"""Builds one IPU's part of a dispatch: the code that it loads, the values that it saves and streams in, the results that it makes."""

from collections.abc import Collection, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import replace
from typing import final

from tilestep.cost import relaid
from tilestep.machine.spec import MachineSpec
from tilestep.sim.cycles.body import BodyCycles, has_streaming_memory
from tilestep.sim.runs.lockstep import Lockstep
from tilestep.sim.runs.run import RunPart
from tilestep.sim.state.prepared import PreparedProgram
from tilestep.sim.state.residency import NOWHERE, Group, TileUse, Value


@final
class PartBuilder:
    """Builds the parts of runs, and moves values and programs to where a run needs them.

    Attributes:
        in_memory: whether pinned_host is streaming memory; else it is the host's.
        known_groups: the program groups so far, by (name, IPU).
        epochs: loads of programs so far.
    """

    def __init__(self, machine: MachineSpec, values: MutableMapping[int, Value], lockstep: Lockstep) -> None:
        self.in_memory = has_streaming_memory(machine)
        self._ipu = machine.ipu
        self._values = values
        self._lockstep = lockstep
        self.known_groups: dict[tuple[str, int], Group] = {}
        self.epochs = 0

    def groups(self) -> Mapping[tuple[str, int], Group]:
        """A copy of the program groups so far, by (name, IPU)."""
        return {
            key: Group(members=dict(each.members), use=each.use, codelets=set(each.codelets)) for key, each in self.known_groups.items()
        }

    def members(self) -> set[int]:
        """Keys of all programs that are members of a group."""
        return {key for group in self.known_groups.values() for key in group.members}

    def staying(self) -> Iterator[Value]:
        """What members of groups have left in the tiles for later entries; the host may have forgotten it."""
        return (value for group in self.known_groups.values() for value in group.stays)

    def forget_groups(self, names: Collection[str]) -> None:
        """Forgets groups that are loaded nowhere."""
        self.known_groups = {known: group for known, group in self.known_groups.items() if known[0] not in names}

    def bring_in(self, part: RunPart, prepared: PreparedProgram, identity: int | str, values: Sequence[Value], dispatch: int) -> int:
        """Notes what one IPU has to load, save and stream in for a run.

        Args:
            identity: the program's key, or the name of its group.
            values: the arguments.
            dispatch: number of the dispatch.

        Returns:
            Bytes that stream in to return to SRAM, from which they were evicted.
        """
        state, ledger, interface = part.state, prepared.ledger, prepared.interface
        restored = 0
        part.code_bytes, part.reloads = self._code_to_load(part, prepared, identity)
        if part.reloads:
            self.epochs += 1
            state.epoch = self.epochs
        epoch, inputs = state.epoch, interface.inputs
        for index, value in enumerate(values):
            if value.epoch == epoch:  # it is in the SRAM of the loaded program
                wanted = value.layout and interface.layouts[index]
                if wanted and value.layout != wanted:  # another member of the group chose its layout
                    part.body = part.body.plus(self._relaying(value.size_bytes, prepared.num_io_tiles))
                continue
            size_bytes, on_host, is_kept = inputs[index]
            if value.pending:
                if not on_host and self._lockstep.keep(value, part, ledger):
                    continue
                part.awaits.append(value)
            elif value.host_ready < 0 and value.memory_ready < 0:
                part.saved.append(value)
                value.host_ready = 0  # the cycle is known when the value has been saved
            else:
                part.await_until(value)
            if on_host:
                continue
            part.bytes_in += size_bytes
            if is_kept and value.epoch:
                restored += size_bytes
            value.streams_to(ledger, index, epoch, dispatch)
        return restored

    def bring_out(self, part: RunPart, prepared: PreparedProgram, arguments: Sequence[Value], results: Sequence[int]) -> None:
        """Makes the results of a run on one IPU, and takes the memory of donated arguments away."""
        state, known, interface = part.state, self._values, prepared.interface
        part.bytes_to_host = interface.bytes_to_host
        for index in interface.donated:
            arguments[index].epoch = 0  # its memory is the result's now
        for index in interface.vacated:
            arguments[index].memory_ready = NOWHERE
        ledger, ipu, epoch = prepared.ledger, state.index, state.epoch
        for name, (size_bytes, stays, is_written, layout) in zip(results, interface.outputs, strict=True):
            if stays:
                part.staying.append(value := Value(ipu, size_bytes, 0, epoch, NOWHERE, ledger, NOWHERE, layout))
            else:  # the cycle is known when the run is over
                to_host, to_memory = (NOWHERE, 0) if is_written and self.in_memory else (0, NOWHERE)
                part.leaving.append(value := Value(ipu, size_bytes, 0, 0, to_host, ledger, to_memory, made_in=epoch, written=is_written))
            known[name] = value

    def _code_to_load(self, part: RunPart, prepared: PreparedProgram, identity: int | str) -> tuple[int, bool]:
        """Bytes of code that one IPU has to load, and whether the code replaces a loaded program."""
        state = part.state
        program, num_tiles = prepared.ledger.program, self._ipu.num_tiles
        reloaded = state.loaded != identity
        state.loaded = identity
        if isinstance(identity, int):
            if reloaded:
                state.group, state.use = None, TileUse().with_member(program)
            return (program.memory.code_bytes * num_tiles if reloaded else 0), reloaded
        group = state.group = self.known_groups.setdefault((identity, state.index), Group())
        is_new = group.add(prepared.ledger.key, program)
        state.use = group.use
        if reloaded:
            group.stays.clear()
            return group.use.code_bytes * num_tiles, True
        return (program.memory.code_bytes * num_tiles if is_new else 0), False

    def _relaying(self, size_bytes: int, num_io_tiles: int) -> BodyCycles:
        """Cycles before the first superstep in which a value in SRAM gets the layout of another program of the group."""
        step = relaid(size_bytes, replace(self._ipu, num_tiles=self._ipu.num_tiles - num_io_tiles))
        return BodyCycles(compute=step.compute_cycles, exchange=step.exchange_cycles, sync=step.sync_cycles)
