"""Which inputs and initialisers of a graph must be known when a program is made, because shapes depend on their values.

It goes backwards from the inputs that operators need the values of, and stops where a value depends on shapes alone.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from tilestep.onnx.errors import OnnxError
from tilestep.onnx.interpreter.bodies import body_of
from tilestep.onnx.interpreter.graph import Graph, Node, schema_of

_OF_SHAPES: Final = frozenset({"Shape", "Size", "SequenceLength", "OptionalHasElement"})  # operators that read no values
_MOST_VISITS: Final = 1_000_000
_RATIO: Final = frozenset({1})  # the input of Dropout that is one, from version 12 on


def demanded(graph: Graph, *, bounds: Collection[str] = (), besides: tuple[Node, Sequence[int]] | None = None) -> frozenset[str]:
    """Names of inputs and initialisers whose values must be known.

    Args:
        bounds: names of nodes and outputs for which the caller has given a bound, so that they need no known length.
        besides: a node, wherever it is, and positions of inputs that it needs the values of; no positions: its results must be known.
    """
    return _Search(bounds=frozenset(bounds), besides=besides).outside(graph)


def statistics(graph: Graph) -> frozenset[str]:
    """Names of inputs, initialisers and values around the graph to which operators give new values, as batch norms to running means."""
    return _read_by(graph, lambda node: frozenset() if node.operator is None else node.operator.state)


def ratios(graph: Graph) -> frozenset[str]:
    """Names of inputs, initialisers and values around the graph that dropouts read as their ratios: no optimiser should change them."""
    return _read_by(graph, lambda node: _RATIO if (node.domain, node.op_type) == ("", "Dropout") else frozenset())


def _read_by(graph: Graph, positions: Callable[[Node], Collection[int]]) -> frozenset[str]:
    """Names that the graph does not make, and that nodes read at those positions, in functions and subgraphs too."""
    found: set[str] = set()
    for node in graph.nodes:
        if node.function is not None:
            inner = _read_by(node.function, positions)
            found.update(names_at(node.inputs, (position for position, name in enumerate(node.function.inputs) if name in inner)))
        else:
            found.update(names_at(node.inputs, positions(node)))
        for inner in node.subgraphs:
            found.update(_read_by(inner, positions) & inner.outer)
    return frozenset(found - {""})


def draws(graph: Graph) -> bool:
    """Whether a node of the graph may draw random numbers."""
    return any(
        (node.operator is not None and node.operator.random)
        or any(map(draws, node.subgraphs))
        or (node.function is not None and draws(node.function))
        for node in graph.nodes
    )


@dataclass
class _Search:
    """Attributes: left: nodes that are looked at, those of loops again and again. Beyond them all values count as demanded."""

    bounds: frozenset[str]
    besides: tuple[Node, Sequence[int]] | None = None
    left: int = _MOST_VISITS

    def outside(self, graph: Graph, wanted: Collection[str] = ()) -> frozenset[str]:
        """Names that the graph does not make, and whose values must be known. Args: wanted: values that must be known besides."""
        known = set(wanted)
        made: set[str] = set()
        for node in reversed(graph.nodes):
            made.update(node.outputs)
            self.left -= 1
            known.update(node.inputs if self.left < 0 else self.of_node(node, known))
        return frozenset(known - made - {""})

    def of_node(self, node: Node, known: Collection[str]) -> Iterator[str]:
        """Names that must be known because of a node. Args: known: names that must be because of the nodes after it."""
        wanted = {position for position, name in enumerate(node.outputs) if name in known}
        if self.besides is not None and self.besides[0].proto is node.proto and self.besides[0].number == node.number:
            yield from names_at(node.inputs, self.besides[1])
            wanted = wanted if self.besides[1] else set(range(len(node.outputs)))
        function = node.function or _plain_body(node)
        if function is not None:
            inner = self.outside(function, names_at(function.outputs, wanted))
            yield from names_at(node.inputs, (position for position, name in enumerate(function.inputs) if name in inner))
            return
        if node.domain == "" and node.op_type in ("Loop", "Scan"):
            yield from (self.of_loop if node.op_type == "Loop" else self.of_scan)(node, wanted)
            return
        if node.operator is not None:
            yield from names_at(node.inputs, node.operator.needs)
        if node.domain == "" and node.op_type in _OF_SHAPES:
            return
        if wanted:
            yield from node.inputs
        for graph in node.subgraphs:  # If has some, and so may operators that are not known here
            yield from self.outside(graph, names_at(graph.outputs, wanted))

    def of_loop(self, node: Node, wanted: set[int]) -> Iterator[str]:
        """Names that must be known because of a Loop. Its inputs are trips, condition, state; its outputs are state, rows."""
        body = _body_of_turns(node)
        carried = len(body.inputs) - 2
        state = {position for position in wanted if position < carried}
        while True:
            inner = self.outside(body, names_at(body.outputs, [*(1 + position for position in state | wanted)]))
            reads = {position for position, name in enumerate(body.inputs) if name in inner}
            more = {position - 2 for position in reads if position >= 2} - state
            if not more:
                break
            state |= more
        has_bound = not self.bounds.isdisjoint({node.name, *node.outputs})
        if state or wanted or reads & {0, 1} or (any(node.outputs[carried:]) and not has_bound):
            yield from node.inputs[:2]
        yield from names_at(node.inputs, (2 + position for position in state))
        yield from inner - set(body.inputs)

    def of_scan(self, node: Node, wanted: set[int]) -> Iterator[str]:
        """Names that must be known because of a Scan. Its inputs are, after lengths in version 8, those of its body."""
        body = _body_of_turns(node)
        inner = self.outside(body, names_at(body.outputs, wanted))
        first = len(node.inputs) - len(body.inputs)
        yield from node.inputs if wanted else names_at(node.inputs, (first + k for k, name in enumerate(body.inputs) if name in inner))
        yield from inner - set(body.inputs)


def _body_of_turns(node: Node) -> Graph:
    if len(node.subgraphs) != 1:
        raise OnnxError(f"{node.place} has {len(node.subgraphs)} graphs, and takes one, its body")
    return node.subgraphs[0]


def names_at(names: tuple[str, ...], positions: Iterable[int]) -> list[str]:
    """Names at these positions, as far as there are any."""
    return [names[position] for position in positions if 0 <= position < len(names)]


def _plain_body(node: Node) -> Graph | None:
    """The body of an operator that ONNX defines by others for all types alike, if it has no implementation here."""
    if node.operator is not None:
        return None
    schema: Any = schema_of(node.domain, node.op_type, node.version)
    return body_of(node, ()) if schema is not None and schema.has_function else None
