"""Batch normalisation, where XLA has left it whole."""

from tilestep.cost.attributes import ints
from tilestep.cost.elementwise.expression import elementwise_fusion
from tilestep.cost.reductions.reduce import reduction
from tilestep.cost.step import StepCost, nothing, together
from tilestep.machine.spec import IpuSpec
from tilestep.program.work import ArrayShape, Work
from tilestep.units import ceil_div

FAMILY = "normalise"


def batch_norm(work: Work, ipu: IpuSpec) -> StepCost:
    """HLO `batch-norm-*`: one pass over the elements; training and gradients first make two sums per channel."""
    operand = work.operands[0]
    if operand.size == 0:
        return nothing(FAMILY)
    channels = operand.dims[ints(work.attributes, "feature_index")[0]]
    per_channel = ArrayShape(operand.dtype, (channels,))
    ops = [(opcode, operand.dtype) for opcode in ("subtract", "multiply", "multiply", "add")]
    inputs = (operand, per_channel, per_channel, per_channel)
    parts = [elementwise_fusion(ops, size=operand.size, inputs=inputs, outputs=(operand,), ipu=ipu)]
    if work.opcode != "batch-norm-inference":
        depth = ceil_div(operand.size, channels)
        function = ("multiply", "add", "add")
        parts.append(reduction(results=channels, depth=depth, dtypes=(operand.dtype, operand.dtype), function=function, ipu=ipu))
    return together(FAMILY, parts)
