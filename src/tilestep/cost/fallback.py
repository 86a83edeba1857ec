"""The price of an operation that has no estimator: stated, listed, and never zero."""

from dataclasses import replace

from tilestep.cost.elementwise.expression import worker_cycles
from tilestep.cost.exchange import share
from tilestep.cost.step import StepCost, step_cost
from tilestep.machine.spec import IpuSpec
from tilestep.program.work import Work
from tilestep.units import ceil_div


def fallback(work: Work, ipu: IpuSpec) -> StepCost:
    """Cost of an operation without an estimator: all its bytes change tiles, and each element of its largest array takes one bundle.

    Args:
        work: the operation, with shapes and dtypes of its operands and results on one IPU.
        ipu: the IPU.

    Returns:
        Cycles and bytes of the busiest tile, never zero, with `fallback` set and an assumption that names the opcode.
    """
    arrays = (*work.operands, *work.results)
    received = share(sum(array.size_bytes for array in arrays), ipu)
    largest = max((array.size for array in arrays), default=0)
    cost = step_cost(
        ipu,
        family="fallback",
        compute_cycles=worker_cycles(ceil_div(share(largest, ipu), ipu.tile.worker_contexts), ipu),
        exchange_bytes=received,
        temporary_tile_bytes=received,
        assumptions=(f"'{work.opcode}' has no estimator: all its bytes change tiles, one bundle per element",),
    )
    return replace(cost, fallback=True)
