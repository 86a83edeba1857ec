"""Copies of values from the chip or streaming memory to the host, which the host program asks for."""

from collections.abc import Sequence
from typing import final

from tilestep.machine.spec import MachineSpec
from tilestep.sim.cycles.sync import sync_cycles
from tilestep.sim.runs.execute import Executor
from tilestep.sim.runs.lockstep import Lockstep
from tilestep.sim.runs.run import RunPart
from tilestep.sim.state.residency import IpuState, Value, require_not_donated


@final
class Downloads:
    """Copies values to the host.

    Args:
        machine: that is emulated.
        ipus: all of its IPUs.
        execution: moves the bytes.
        lockstep: knows which program group has begun.
    """

    def __init__(self, machine: MachineSpec, ipus: Sequence[IpuState], execution: Executor, lockstep: Lockstep) -> None:
        self._machine, self._ipus, self._execution, self._lockstep = machine, ipus, execution, lockstep

    def bring(self, name: int, value: Value, host_cycle: int, *, alone: bool = False) -> None:
        """Copies a value to the host, unless the host has it. IPUs that sync with its own wait meanwhile, if it is on the chip only.

        Args:
            name: number of the value.
            host_cycle: at which the host asks for it.
            alone: whether it does not ask for the values of IPUs that do the same and are not simulated.

        Raises:
            ValueError: if it was donated.
        """
        if value.host_ready >= 0:
            return
        state = self._ipus[value.ipu]
        if value.memory_ready >= 0:
            self._execution.from_memory(value, state.machine, host_cycle)
        else:
            require_not_donated(name, value)
            assert value.made_by is not None  # else the host would have the value
            if self._lockstep.partition is not None and self._lockstep.partition is state.partition:
                self._lockstep.flush()
            waiting = state.waits_with(self._machine.num_simulated)
            start = max(host_cycle, *(member.free for member in waiting))
            sync = sync_cycles(self._machine, tuple(member.index for member in waiting))
            end = self._execution.download(value, RunPart(state), value.made_by, sync, start)
            for member in waiting:
                member.free = end
        if value.made_by is not None:
            value.made_by.host.read += value.size_bytes
            value.made_by.read_alone += value.size_bytes if alone else 0
