"""Bytes of a program's values in the streaming memory of an IPU-Machine, and whether they fit."""

from collections import Counter
from collections.abc import Sequence

from tilestep.errors import StreamingMemoryError
from tilestep.machine.spec import MachineSpec
from tilestep.machine.topology import machine_of
from tilestep.plan.memory.liveness import LARGEST
from tilestep.plan.steps import Program


def streaming_memory_bytes(program: Program, machine: MachineSpec, ipus: Sequence[int]) -> int:
    """Bytes of all arguments, results and parked values in pinned_host, in the IPU-Machine that has most of them.

    Args:
        program: the planned program.
        machine: the machine that runs it.
        ipus: index of each IPU that runs it.
    """
    return sum(size for _, size in streaming_parts(program)) * _most(machine, ipus)[1]


def check_streaming_memory(program: Program, machine: MachineSpec, ipus: Sequence[int]) -> None:
    """Checks that a program's values in pinned_host fit into the streaming memory of each IPU-Machine.

    A machine without streaming memory keeps them in the host's memory, which has no bound here.

    Args:
        program: the planned program.
        machine: the machine that runs it.
        ipus: index of each IPU that runs it.

    Raises:
        StreamingMemoryError: if they do not fit.
    """
    available = machine.host.streaming_memory_bytes
    needed = streaming_memory_bytes(program, machine, ipus)
    if 0 < available < needed:
        index, sharers = _most(machine, ipus)
        largest = sorted(((name, size * sharers) for name, size in streaming_parts(program)), key=lambda part: (-part[1], part[0]))
        raise StreamingMemoryError(
            ipu_machine=index, num_ipus=sharers, needed_bytes=needed, available_bytes=available, largest=largest[:LARGEST]
        )


def streaming_parts(program: Program) -> list[tuple[str, int]]:
    """(name, bytes on one IPU) of the values in pinned_host. A result that takes over an argument's memory counts as the argument."""
    arguments = [(argument.name, argument.size_bytes) for argument in program.arguments if argument.on_host]
    results = [(f"result {r.index}", r.size_bytes) for r in program.results if r.on_host and r.argument is None]
    parked = [("values parked during a run", program.parked_bytes)] if program.parked_bytes else []
    return arguments + results + parked


def _most(machine: MachineSpec, ipus: Sequence[int]) -> tuple[int, int]:
    """(IPU-Machine, number of `ipus` in it) where most of them are; the first of equal ones."""
    counts = Counter(machine_of(machine, ipu) for ipu in sorted(ipus))
    return max(counts.items(), key=lambda entry: entry[1], default=(0, 0))
