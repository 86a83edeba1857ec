"""The arithmetic inside collectives; their time on the links is the simulator's."""

from tilestep.cost.elementwise.expression import elementwise_fusion
from tilestep.machine.spec import IpuSpec
from tilestep.program.work import DTYPE_BITS, ArrayShape
from tilestep.units import Cycles, ceil_div

_REDUCING = frozenset({"all-reduce", "reduce-scatter"})


def collective_compute_cycles(kind: str, size_bytes: int, dtype: str, group_size: int, ipu: IpuSpec) -> Cycles:
    """Cycles in which one IPU's tiles add the values that arrive from the other IPUs of the group.

    A ring of g IPUs adds a g-th of the data in each of g - 1 steps. Kinds without arithmetic take 0 cycles, as does a group of one IPU.

    Args:
        kind: opcode of the collective, for example 'all-reduce'.
        size_bytes: the larger of operand and result, on one IPU.
        dtype: of the elements, as XLA names it.
        group_size: IPUs in a group.
        ipu: the IPU.

    Returns:
        Cycles of the busiest tile, over all steps of the ring.
    """
    if kind not in _REDUCING or group_size < 2 or size_bytes == 0:
        return Cycles(0)
    elements = ceil_div(ceil_div(size_bytes * 8, max(1, DTYPE_BITS[dtype])), group_size)
    part = ArrayShape(dtype, (elements,))
    one = elementwise_fusion([("add", dtype)], size=elements, inputs=(part, part), outputs=(part,), ipu=ipu)
    return Cycles((group_size - 1) * one.compute_cycles)
