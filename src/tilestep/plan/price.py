"""The cost of one unit of a program, from the estimators and planners."""

from collections.abc import Mapping, Sequence

from tilestep import cost
from tilestep.cost import StepCost
from tilestep.machine.spec import IpuSpec
from tilestep.options import PlanOptions
from tilestep.plan.memory.code import StepCode
from tilestep.plan.products.conv import plan_convolution
from tilestep.plan.products.matmul import plan_dot
from tilestep.plan.steps import Superstep
from tilestep.program.hlo import Computation, Instruction
from tilestep.program.work import ArrayShape, Work

# Opcodes of a called computation that are not operations of their own.
_SILENT = frozenset({"parameter", "constant", "tuple", "get-tuple-element"})
_READS_OTHER_DTYPE = frozenset({"compare", "is-finite", "convert", "stochastic-convert", "bitcast-convert", "real", "imag"})


def work_of(
    instruction: Instruction,
    operands: Sequence[Sequence[ArrayShape]],
    resident: Sequence[Sequence[bool]],
    computations: Mapping[str, Computation],
) -> Work:
    """One instruction free of names; tokens left out, tuples flattened.

    Args: operands, resident: of each operand the shape of each leaf, and whether it can be laid out once for this reader.
    """
    pairs = [
        pair
        for shapes, flags in zip(operands, resident, strict=True)
        for pair in zip(shapes, flags, strict=True)
        if pair[0].dtype != "token"
    ]
    return Work(
        opcode=priced_as(instruction),
        operands=tuple(shape for shape, _ in pairs),
        results=tuple(leaf for leaf in instruction.leaves if leaf.dtype != "token"),
        attributes=instruction.attributes,
        body_opcodes=tuple(
            inner.opcode for name in instruction.calls for inner in computations[name].instructions if inner.opcode not in _SILENT
        ),
        resident=tuple(flag for _, flag in pairs),
    )


def priced_as(instruction: Instruction) -> str:
    """Under which name the estimators know an operation: its opcode, a custom call's with its target."""
    if instruction.opcode == "custom-call":
        return f"custom-call:{instruction.attributes.get('custom_call_target', '')}"
    return instruction.opcode


def price(work: Work, ipu: IpuSpec, options: PlanOptions) -> StepCost:
    """Cost of one operation; `StepCost.fallback` says that it has no estimator."""
    if work.opcode == "convolution":
        return plan_convolution(work, ipu, options)
    if work.opcode in cost.PLANNED:
        return plan_dot(work, ipu, options)
    return cost.estimate(work, ipu, options.available_memory_proportion)


def superstep(name: str, scope: str, step: StepCost, code: StepCode, *, frame: int = 0) -> Superstep:
    """A node of the program's tree."""
    return Superstep(
        name=name,
        scope=scope,
        family=step.family,
        compute_cycles=step.compute_cycles,
        exchange_cycles=step.exchange_cycles,
        sync_cycles=step.sync_cycles,
        flops=step.flops,
        exchange_bytes=step.exchange_bytes,
        temporary_tile_bytes=step.temporary_tile_bytes,
        fallback=step.fallback,
        codelet=code.codelet,
        codelet_bytes=code.codelet_bytes,
        exchange_code_bytes=code.exchange_bytes,
        vertex_state_bytes=code.state_bytes,
        compute_sets=step.compute_sets,
        overhead_cycles=step.overhead_cycles,
        frame=frame,
    )


def fusion_dtype(instruction: Instruction, operands: Sequence[ArrayShape]) -> str:
    """Dtype that an elementwise operation computes in: the result's, but the operand's where the operation changes it."""
    return operands[0].dtype if instruction.opcode in _READS_OTHER_DTYPE else instruction.leaves[0].dtype
