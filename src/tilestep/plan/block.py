"""One computation while it is lowered: the value of each instruction, and the steps so far."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tilestep.cost.elementwise.expression import named_cast
from tilestep.machine.spec import IpuSpec
from tilestep.plan.mapping import MappedArray, Value
from tilestep.plan.memory.timeline import MemoryMoment
from tilestep.plan.passes.fuse import VIEWS, Units
from tilestep.plan.passes.host_gather import HostGathers
from tilestep.plan.passes.stencil import halo, starts
from tilestep.plan.price import fusion_dtype
from tilestep.plan.steps import Node
from tilestep.program.hlo import Computation, Instruction
from tilestep.program.work import ArrayShape


@dataclass(kw_only=True)
class Lowered:
    """One computation, lowered."""

    computation: Computation
    nodes: list[Node]
    moments: list[MemoryMoment]
    root: Value


@dataclass(kw_only=True)
class Scope:
    """The state of one computation while it is lowered."""

    computation: Computation
    units: Units
    users: Mapping[str, list[Instruction]]
    gathers: HostGathers
    values: dict[str, Value] = field(default_factory=dict[str, Value])
    nodes: list[Node] = field(default_factory=list[Node])
    moments: list[MemoryMoment] = field(default_factory=list[MemoryMoment])
    finished: set[str] = field(default_factory=set[str])  # reductions, and operations that they do on their results
    reduced: set[tuple[object, ...]] = field(default_factory=set[tuple[object, ...]])  # reductions that others share supersteps with
    products: dict[str, int] = field(default_factory=dict[str, int])  # home of a matmul or convolution -> elements on the fullest tile

    def reads(
        self, operations: Sequence[Instruction], inside: set[str], size: int, ipu: IpuSpec
    ) -> tuple[list[tuple[MappedArray, ArrayShape]], int, int]:
        """The arrays and slices that a fusion of `size` elements loads, each once.

        Returns: (array, shape) of each; bytes of halos; bytes of blocks that are copied with their halos.
        """
        whole: dict[int, tuple[MappedArray, ArrayShape]] = {}
        sliced: dict[int, tuple[MappedArray, dict[str, Instruction]]] = {}
        for operand in (operand for member in operations for operand in member.operands):
            source, part = self.seen(operand)
            if source.name in inside or (source.opcode == "constant" and source.leaves[0].size < size):
                continue  # each tile has its own copy of a small constant
            (leaf,) = self.values[source.name]
            if part is None:
                whole[leaf.buffer] = (leaf, source.leaves[0])
            else:
                sliced.setdefault(leaf.buffer, (leaf, {}))[1][part.name] = part
        halo_bytes = copied_bytes = 0
        loaded = list(whole.values())
        for leaf, slices in sliced.values():
            parts = list(slices.values())
            if len(parts) > 1 and len({part.leaves[0].dims for part in parts}) == 1:
                margins = halo(parts[0].leaves[0], [starts(part.attributes["slice"]) for part in parts], ipu)
                halo_bytes += margins.received_bytes
                copied_bytes += margins.copied_bytes
                home = leaf.home
            else:
                home = leaf.home and f"{leaf.home}[{parts[0].name}]"  # a part of an array has another layout than its partner
            loaded += [(MappedArray(leaf.buffer, home), part.leaves[0]) for part in parts]
        return loaded, halo_bytes, copied_bytes

    def operation(self, member: Instruction, ipu: IpuSpec) -> tuple[str, str]:
        """The name under which a fused operation is priced, and the dtype in which it computes."""
        operands = [self.computation.by_name[operand].leaves[0] for operand in member.operands]
        opcode = member.opcode
        if operands:
            opcode = named_cast(opcode, operands[0].dtype, member.leaves[0].dtype, ipu)
        return opcode, fusion_dtype(member, operands)

    def takes_over(self, member: Instruction) -> bool:
        """Whether the result of an operation can lie where an operand of its lies, because nothing else reads that."""
        return any(self._is_last_reader(operand, member) for operand in member.operands)

    def _is_last_reader(self, name: str, member: Instruction) -> bool:
        instruction = self.computation.by_name[name]
        if len(self.users[name]) != 1 or instruction is self.computation.root:
            return False
        if instruction.opcode in VIEWS:
            return self._is_last_reader(instruction.operands[0], member)
        one, other = instruction.leaves[0], member.leaves[0]
        return instruction.opcode not in ("parameter", "constant", "broadcast") and (one.size, one.dtype) == (other.size, other.dtype)

    def source(self, name: str) -> Instruction:
        """The instruction that a fused operation reads, behind views, and behind broadcasts, slices and pads that are not stored."""
        return self.seen(name)[0]

    def seen(self, name: str) -> tuple[Instruction, Instruction | None]:
        """As `source`, with the slice of it that is read, if only a slice is."""
        instruction = self.computation.by_name[name]
        part: Instruction | None = None
        while (instruction.opcode in VIEWS or instruction.name in self.units.absorbed) and instruction.name not in self.units.fusible:
            if instruction.opcode == "slice":
                part = part or instruction
            instruction = self.computation.by_name[instruction.operands[0]]
        return instruction, part

    def escapes(self, member: Instruction, inside: set[str]) -> bool:
        """Whether an instruction outside of the fusion uses a result."""
        return member is self.computation.root or any(
            user.name not in inside or (user.name not in self.units.fusible and self.escapes(user, inside))
            for user in self.users[member.name]
        )


def scope_of(instruction: Instruction) -> str:
    """The user's operation. XLA names all operations that it merged; the first stands for them."""
    return instruction.op_name.partition(";")[0]
