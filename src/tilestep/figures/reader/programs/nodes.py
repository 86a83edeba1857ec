"""What a program became: a tree of nodes that visitors walk."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import final

from tilestep.figures.reader.programs.lines import SourceLine
from tilestep.plan.steps import Collective, HostCall, Superstep
from tilestep.sim.cycles.body import BodyCycles


@dataclass(frozen=True, kw_only=True, eq=False)
class ProgramNode(ABC):
    """One node of a program.

    Attributes:
        name: of the HLO instruction; of a stream copy its kind.
        scope: the user's operation, for example 'jit(step)/encoder/dot_general'; '' if unknown.
        line: that the user wrote; None: unknown.
    """

    name: str
    scope: str = ""
    line: SourceLine | None = None

    @property
    def children(self) -> tuple[ProgramNode, ...]:
        """The nodes directly below, in the order in which they run."""
        return ()

    @abstractmethod
    def accept(self, visitor: ProgramVisitor) -> None:
        """Calls the visitor's method of this kind of node."""

    @final
    def walk(self) -> Iterator[ProgramNode]:
        """This node and all below it, in order."""
        yield self
        for child in self.children:
            yield from child.walk()


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class ProgramSequence(ProgramNode):
    """Nodes one after the other."""

    nodes: tuple[ProgramNode, ...]

    @property
    def children(self) -> tuple[ProgramNode, ...]:
        return self.nodes

    def accept(self, visitor: ProgramVisitor) -> None:
        visitor.visit_sequence(self)


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class Repeat(ProgramNode):
    """A loop.

    Attributes:
        body: the nodes of one trip.
        trips: None: they depend on data.
        site: number under which table `trips` counts them; None: they are not counted.
    """

    body: ProgramSequence
    trips: int | None
    site: int | None

    @property
    def children(self) -> tuple[ProgramNode, ...]:
        return (self.body,)

    def accept(self, visitor: ProgramVisitor) -> None:
        visitor.visit_repeat(self)


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class Switch(ProgramNode):
    """One of several arms runs.

    Attributes:
        arms: the nodes of each.
        site: number under which table `trips` counts them; None: they are not counted, and the dearest arm is assumed.
    """

    arms: tuple[ProgramSequence, ...]
    site: int | None

    @property
    def children(self) -> tuple[ProgramNode, ...]:
        return self.arms

    def accept(self, visitor: ProgramVisitor) -> None:
        visitor.visit_switch(self)


@dataclass(frozen=True, kw_only=True, eq=False)
class ProgramLeaf(ProgramNode):
    """A node that takes time itself.

    Attributes:
        leaf: its position among the leaves of its program, in order.
        cycles: of one execution, by kind; None: it is in an arm that never runs.
        family: of operations, for example 'matmul', 'all-reduce' or 'host call'.
    """

    leaf: int
    cycles: BodyCycles | None
    family: str


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class OnTileExecute(ProgramLeaf):
    """A superstep: exchange between tiles, then compute on them.

    Attributes:
        superstep: its figures: flops, exchange_bytes, temporary_tile_bytes, codelet and the like.
    """

    superstep: Superstep

    def accept(self, visitor: ProgramVisitor) -> None:
        visitor.visit_on_tile_execute(self)


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class GlobalExchange(ProgramLeaf):
    """An exchange between IPUs.

    Attributes:
        collective: its figures: kind, size_bytes, groups.
    """

    collective: Collective

    def accept(self, visitor: ProgramVisitor) -> None:
        visitor.visit_global_exchange(self)


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class HostExchange(ProgramLeaf):
    """A callback, infeed, outfeed or access to pinned_host within the program.

    Attributes:
        call: its figures: bytes_to_host, bytes_from_host, in_memory, is_feed.
    """

    call: HostCall

    def accept(self, visitor: ProgramVisitor) -> None:
        visitor.visit_host_exchange(self)


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class StreamCopy(ProgramNode):
    """What happens around a program's steps in a run: loading it, arguments in, results out. `name` is the kind of event."""

    def accept(self, visitor: ProgramVisitor) -> None:
        visitor.visit_stream_copy(self)


class ProgramVisitor:
    """Base of visitors: override the methods of the nodes that you are after.

    Those of sequences, loops and branches visit what is in them, once; call `super()` to keep that. The others do nothing.
    """

    def visit_sequence(self, node: ProgramSequence) -> None:
        """Nodes one after the other."""
        self.visit_children(node)

    def visit_repeat(self, node: Repeat) -> None:
        """A loop."""
        self.visit_children(node)

    def visit_switch(self, node: Switch) -> None:
        """A branch."""
        self.visit_children(node)

    def visit_on_tile_execute(self, node: OnTileExecute) -> None:
        """A superstep."""

    def visit_global_exchange(self, node: GlobalExchange) -> None:
        """An exchange between IPUs."""

    def visit_host_exchange(self, node: HostExchange) -> None:
        """A callback, infeed, outfeed or access to pinned_host."""

    def visit_stream_copy(self, node: StreamCopy) -> None:
        """Loading, arguments in, results out. Only steps of an execution have such programs."""

    @final
    def visit_children(self, node: ProgramNode) -> None:
        """Visits the nodes directly below."""
        for child in node.children:
            child.accept(self)
