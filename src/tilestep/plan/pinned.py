"""What lies in pinned_host, and the steps that bring it or send it: each step first brings what it reads of it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from tilestep.plan import steps
from tilestep.plan.block import Block, Scope, scope_of
from tilestep.plan.fuse import VIEWS, Unit
from tilestep.plan.liveness import Buffers, Moment
from tilestep.plan.mapping import ANYWHERE, Leaf, Value
from tilestep.plan.steps import HostCall, Node
from tilestep.program.hlo import Instruction
from tilestep.program.work import ArrayShape

PARTIAL_READS = frozenset({"dynamic-slice", "slice", "gather"})


class Pinned:
    """A program's values in pinned_host, while it is walked.

    Attributes:
        host: buffers there.
        merged: those of them that the program has made as a part of another.
    """

    def __init__(self, buffers: Buffers) -> None:
        self.buffers = buffers
        self.host: set[int] = set()
        self.merged: set[int] = set()
        self._parked: set[int] = set()  # those that the program has just made: they are free to become a part of another
        self._awaited: dict[int, tuple[Instruction, Leaf]] = {}  # buffers that come from pinned_host when something first reads them

    def moved(self, instruction: Instruction, value: Value, scope: Scope) -> Value:
        """A value written to pinned_host at once, or read from there when it is needed; where it is there already, the same."""
        (leaf,) = value
        size_bytes = self.buffers.sizes[leaf.buffer]
        if instruction.destination == "host":
            if leaf.buffer in self._awaited:
                return (self._awaited[leaf.buffer][1],)
            if leaf.buffer in self.host:
                return value
            place = Leaf(self.new(instruction, instruction.leaves[0].size_bytes), ANYWHERE)
            self._parked.add(place.buffer)
            self.access(instruction, value, (), to_memory=instruction.leaves[0].size_bytes, scope=scope)
            return (place,)
        if leaf.buffer not in self.host:
            return value
        arriving = Leaf(self.buffers.new(self.buffers.names[leaf.buffer], size_bytes), ANYWHERE)
        self._awaited[arriving.buffer] = (instruction, leaf)
        return (arriving,)

    def without_copies(self, unit: Unit, scope: Scope) -> Unit:
        """A unit without its copies within pinned_host, which XLA:CPU makes for its own buffers.

        They are other names for what they copy: a value that has to lie in two places there is delivered twice.
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
        buffer = self.buffers.new(scope_of(instruction) or instruction.name, size_bytes)
        self.host.add(buffer)
        return buffer

    def keep(self, buffers: Iterable[int]) -> None:
        """They become a part of no other."""
        self._parked.difference_update(buffers)

    def bring(self, leaves: Value, scope: Scope | Block) -> None:
        """Brings what is awaited of `leaves` from pinned_host."""
        for leaf in leaves:
            if leaf.buffer in self._awaited:
                instruction, _ = self._awaited.pop(leaf.buffer)
                self.access(instruction, (), (leaf,), from_memory=self.buffers.sizes[leaf.buffer], scope=scope)

    def merge(self, leaf: Leaf) -> bool:
        """Whether a value was only just written to pinned_host, so that it may have been written into another's place at once."""
        if leaf.buffer not in self._parked:
            return False
        self._parked.remove(leaf.buffer)
        self.merged.add(leaf.buffer)
        return True

    def streamed(
        self, instruction: Instruction, operands: Sequence[Value], shapes: Sequence[Sequence[ArrayShape]], scope: Scope
    ) -> list[Value]:
        """Operands with those in the host's memory brought into the tiles, for this one use; of a slice only what it takes."""
        result: list[Value] = []
        for value, leaves in zip(operands, shapes, strict=True):
            moved: list[Leaf] = []
            for leaf, shape in zip(value, leaves, strict=True):
                if leaf.buffer not in self.host:
                    moved.append(leaf)
                    continue
                size_bytes = instruction.leaves[0].size_bytes if instruction.opcode in PARTIAL_READS else shape.size_bytes
                arrived = Leaf(self.buffers.new(self.buffers.names[leaf.buffer], size_bytes), ANYWHERE)
                self.access(instruction, (), (arrived,), from_memory=size_bytes, scope=scope)
                moved.append(arrived)
            result.append(tuple(moved))
        return result

    def access(
        self, instruction: Instruction, reads: Value, writes: Value, *, to_memory: int = 0, from_memory: int = 0, scope: Scope | Block
    ) -> None:
        """Bytes of a value in pinned_host that the program itself reads or writes: no host program answers."""
        node = HostCall(
            name=instruction.name, scope=scope_of(instruction), bytes_to_host=to_memory, bytes_from_host=from_memory, in_memory=True
        )
        self.emit(node, [reads], writes, scope)

    def emit(
        self,
        node: Node,
        reads: Sequence[Value],
        writes: Value,
        scope: Scope | Block,
        *,
        temporary_tile_bytes: int = 0,
        in_place: bool = False,
    ) -> None:
        """Adds a step, after those that bring what it reads and is awaited."""
        assert not isinstance(node, steps.Sequence)  # a sequence has no name and no moment of its own
        for value in reads:
            self.bring(value, scope)
        scope.nodes.append(node)
        scope.moments.append(
            Moment(
                step=node.name,
                reads=tuple(leaf.buffer for value in reads for leaf in value),
                writes=tuple(leaf.buffer for leaf in writes),
                temporary_tile_bytes=temporary_tile_bytes,
                in_place=in_place,
            )
        )
