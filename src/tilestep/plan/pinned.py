"""Values in pinned_host, and the steps that move them: a step brings the values that it reads just before it runs."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from tilestep.plan import steps
from tilestep.plan.block import Lowered, Scope, scope_of
from tilestep.plan.frames import Frames
from tilestep.plan.mapping import ANYWHERE, MappedArray, Value
from tilestep.plan.memory.timeline import Buffers, MemoryMoment
from tilestep.plan.passes.fuse import VIEWS, Unit
from tilestep.plan.steps import HostCall, Node
from tilestep.program.hlo import Instruction
from tilestep.program.work import ArrayShape

PARTIAL_READS = frozenset({"dynamic-slice", "slice", "gather"})


class Pinned:
    """A program's values in pinned_host, while it is lowered.

    Attributes:
        host: buffers in pinned_host.
        merged: those of them that are parts of another buffer.
    """

    def __init__(self, buffers: Buffers, frames: Frames) -> None:
        self.buffers = buffers
        self.frames = frames
        self.host: set[int] = set()
        self.merged: set[int] = set()
        self._mergeable: set[int] = set()  # buffers that the program has just written, and that may still become a part of another
        self._awaited: dict[int, tuple[Instruction, MappedArray]] = {}  # buffers that come from pinned_host at their first read

    def moved(self, instruction: Instruction, value: Value, scope: Scope) -> Value:
        """Moves a value: to pinned_host at once, from there at its first read. A value that is there already stays as it is."""
        (leaf,) = value
        size_bytes = self.buffers.sizes[leaf.buffer]
        if instruction.destination == "host":
            if leaf.buffer in self._awaited:
                return (self._awaited[leaf.buffer][1],)
            if leaf.buffer in self.host:
                return value
            pinned = MappedArray(self.new(instruction, instruction.leaves[0].size_bytes), ANYWHERE)
            self._mergeable.add(pinned.buffer)
            self.access(instruction, value, (), to_memory=instruction.leaves[0].size_bytes, scope=scope)
            return (pinned,)
        if leaf.buffer not in self.host:
            return value
        arriving = MappedArray(self.buffers.new(self.buffers.names[leaf.buffer], size_bytes, frame=instruction.frame), ANYWHERE)
        self._awaited[arriving.buffer] = (instruction, leaf)
        return (arriving,)

    def without_copies(self, unit: Unit, scope: Scope) -> Unit:
        """A unit without its copies within pinned_host, because XLA:CPU makes these for its own buffers.

        A copy becomes another name of its operand. A value that is needed twice in pinned_host is delivered twice.
        """
        others: list[Instruction] = []
        for member in unit.members:
            value = scope.values.get(member.operands[0], ()) if member.opcode in ("copy", *VIEWS) else ()
            if value and value[0].buffer in self.host:
                scope.values[member.name] = value
            else:
                others.append(member)
        return replace(unit, members=tuple(others))

    def new(self, instruction: Instruction, size_bytes: int) -> int:
        """A new buffer in pinned_host."""
        buffer = self.buffers.new(scope_of(instruction) or instruction.name, size_bytes, frame=instruction.frame)
        self.host.add(buffer)
        return buffer

    def keep(self, buffers: Iterable[int]) -> None:
        """Says that these buffers do not become parts of another."""
        self._mergeable.difference_update(buffers)

    def bring(self, leaves: Value, scope: Scope | Lowered) -> None:
        """Brings those of `leaves` that have not come from pinned_host yet."""
        for leaf in leaves:
            if leaf.buffer in self._awaited:
                instruction, _ = self._awaited.pop(leaf.buffer)
                self.access(instruction, (), (leaf,), from_memory=self.buffers.sizes[leaf.buffer], scope=scope)

    def merge(self, leaf: MappedArray) -> bool:
        """Makes a value a part of another buffer, if it has just been written to pinned_host; returns whether it has."""
        if leaf.buffer not in self._mergeable:
            return False
        self._mergeable.remove(leaf.buffer)
        self.merged.add(leaf.buffer)
        return True

    def streamed(
        self, instruction: Instruction, operands: Sequence[Value], shapes: Sequence[Sequence[ArrayShape]], scope: Scope
    ) -> list[Value]:
        """The operands, with those in pinned_host brought into the tiles for this one use; for a slice only the bytes that it takes."""
        result: list[Value] = []
        for value, leaves in zip(operands, shapes, strict=True):
            moved: list[MappedArray] = []
            for leaf, shape in zip(value, leaves, strict=True):
                if leaf.buffer not in self.host:
                    moved.append(leaf)
                    continue
                size_bytes = instruction.leaves[0].size_bytes if instruction.opcode in PARTIAL_READS else shape.size_bytes
                arrived = MappedArray(self.buffers.new(self.buffers.names[leaf.buffer], size_bytes, frame=instruction.frame), ANYWHERE)
                self.access(instruction, (), (arrived,), from_memory=size_bytes, scope=scope)
                moved.append(arrived)
            result.append(tuple(moved))
        return result

    def access(
        self, instruction: Instruction, reads: Value, writes: Value, *, to_memory: int = 0, from_memory: int = 0, scope: Scope | Lowered
    ) -> None:
        """Adds a step in which the program itself reads or writes bytes in pinned_host. No host program answers."""
        node = HostCall(
            name=instruction.name,
            scope=scope_of(instruction),
            bytes_to_host=to_memory,
            bytes_from_host=from_memory,
            in_memory=True,
            frame=self.frames.number(instruction.frame),
        )
        self.emit(node, [reads], writes, scope)

    def emit(
        self,
        node: Node,
        reads: Sequence[Value],
        writes: Value,
        scope: Scope | Lowered,
        *,
        temporary_tile_bytes: int = 0,
        in_place: bool = False,
    ) -> None:
        """Adds a step, after the steps that bring its operands from pinned_host."""
        assert not isinstance(node, steps.Series)  # a series has no name and no moment of its own
        for value in reads:
            self.bring(value, scope)
        scope.nodes.append(node)
        scope.moments.append(
            MemoryMoment(
                step=node.name,
                reads=tuple(leaf.buffer for value in reads for leaf in value),
                writes=tuple(leaf.buffer for leaf in writes),
                temporary_tile_bytes=temporary_tile_bytes,
                in_place=in_place,
            )
        )
