"""What a graph becomes when its weights are known: batch norms go into convolutions, and products of one array become one product."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np
from onnx import helper

from tilestep.onnx.interpreter.graph import Graph, Node, Preparation, is_constant, reads, with_ends
from tilestep.onnx.interpreter.values import Array
from tilestep.onnx.ops.math.linalg import matmul
from tilestep.onnx.ops.nn.conv import conv
from tilestep.onnx.ops.nn.norm import batch_norm, batch_norm_by_outputs

_NORMS: Final = (batch_norm, batch_norm_by_outputs)


def with_known_weights(graph: Graph, opset: Mapping[str, int]) -> tuple[Graph, dict[str, Array]]:
    """A graph that computes the same with fewer nodes, and the arrays that it reads besides its own initialisers.

    Only nodes of the graph itself change, not those of its subgraphs and functions. Values that its nodes no longer make have no names.

    Args: opset: versions of the domains.
    """
    constants = {node.outputs[0]: node.attributes["value"] for node in graph.nodes if is_constant(node)}  # as Paddle writes weights
    graph = replace(
        graph, nodes=tuple(node for node in graph.nodes if not is_constant(node)), initializers={**graph.initializers, **constants}
    )
    taken = frozenset({*graph.inputs, *graph.initializers, *(output for node in graph.nodes for output in node.outputs)})
    freezing = _Freezing(graph=graph, opset=opset, taken=taken, made=constants)
    nodes = freezing.joined(freezing.folded(graph.nodes))
    return replace(graph, nodes=with_ends(nodes, graph.outputs)), freezing.made


@dataclass
class _Freezing:
    """Attributes:
    taken: names of the graph's own values.
    made: arrays by the names that their nodes read.
    """

    graph: Graph
    opset: Mapping[str, int]
    taken: frozenset[str]
    made: dict[str, Array] = field(default_factory=dict[str, Array])

    def folded(self, nodes: Iterable[Node]) -> list[Node]:
        """The nodes with batch norms in the convolutions before them."""
        nodes = list(nodes)
        readers = Counter([*(name for node in nodes for name in reads(node)), *self.graph.outputs])
        homes = {name: position for position, node in enumerate(nodes) for name in node.outputs}
        for node in nodes.copy():
            home = homes.get(node.inputs[0]) if node.inputs else None
            if home is None or not self._is_plain_norm(node) or readers[node.inputs[0]] > 1 or not self._is_known_conv(nodes[home]):
                continue
            nodes[home] = self._folded_conv(nodes[home], node) or nodes[home]
        gone = {name for node in nodes if self._is_conv(node) for name in node.outputs}
        return [node for node in nodes if self._is_conv(node) or gone.isdisjoint(node.outputs)]

    def joined(self, nodes: Iterable[Node]) -> list[Node]:
        """The nodes with one product, and a Split, where several multiply one array by matrices."""
        nodes = list(nodes)
        groups: dict[tuple[str, int, np.dtype[Any]], list[Node]] = defaultdict(list)
        for node in nodes:
            weight = self._known(node.inputs[1]) if _handler(node) is matmul else None
            if weight is not None and weight.ndim == 2:
                groups[node.inputs[0], weight.shape[0], weight.dtype].append(node)
        first = {group[0].number: group for group in groups.values() if len(group) > 1}
        others = {node.number for group in first.values() for node in group[1:]}
        found: list[Node] = []
        for node in nodes:
            if node.number in first:
                found += self._joined_products(first[node.number])
            elif node.number not in others:
                found.append(node)
        return found

    def _known(self, name: str) -> Array | None:
        return self.made.get(name, self.graph.initializers.get(name))

    def _is_conv(self, node: Node) -> bool:
        return _handler(node) is conv

    def _is_known_conv(self, node: Node) -> bool:
        return self._is_conv(node) and all(self._known(name) is not None for name in node.inputs[1:] if name)

    def _is_plain_norm(self, node: Node) -> bool:
        """Whether a node is a batch norm for inference, of channels, whose statistics are known."""
        if _handler(node) not in _NORMS or any(node.outputs[1:]) or node.attributes.get("training_mode"):
            return False
        return bool(node.attributes.get("spatial", 1)) and all(self._known(name) is not None for name in node.inputs[1:])

    def _folded_conv(self, node: Node, norm: Node) -> Node | None:
        """The convolution with the factors and the shifts of a norm; None if its type cannot hold them."""
        x, weight_name, *more = node.inputs
        scale, shift, mean, variance = (self._float64(name) for name in norm.inputs[1:])
        with np.errstate(all="ignore"):  # a result that is not finite is not taken
            factor = scale / np.sqrt(variance + norm.attributes["epsilon"])
        weight = self._float64(weight_name)
        bias = self._float64(more[0]) if any(more) else np.zeros(len(weight))
        dtype = self.graph.initializers[weight_name].dtype
        output = norm.outputs[0]
        names = self._own(f"{output}/weight"), self._own(f"{output}/bias")
        with np.errstate(all="ignore"):
            exact = weight * factor.reshape(-1, *(1,) * (weight.ndim - 1)), (bias - mean) * factor + shift
            arrays = [array.astype(dtype) for array in exact]
        if not all(np.isfinite(array).all() for array in arrays):
            return None
        self.made.update(zip(names, arrays, strict=True))
        return replace(node, inputs=(x, *names), outputs=(output,))

    def _joined_products(self, group: list[Node]) -> list[Node]:
        """One product of an array and a Split of its result."""
        weights = [self.graph.initializers[node.inputs[1]] for node in group]
        outputs = [node.outputs[0] for node in group]
        whole, lengths, product = (self._own(f"{outputs[0]}/{what}") for what in ("weights", "lengths", "product"))
        self.made[whole] = np.concatenate(weights, axis=1)
        self.made[lengths] = np.array([weight.shape[1] for weight in weights])
        sizes = {"split": self.made[lengths].tolist()} if group[0].version < 13 else {}  # an input since
        inputs = [product] if sizes else [product, lengths]
        proto = helper.make_node("Split", inputs, outputs, name=f"{outputs[0]}/split", axis=-1, **sizes)
        split = Preparation(functions={}, left=1).node(proto, self.opset, None, 0)
        joined = replace(group[0], inputs=(group[0].inputs[0], whole), outputs=(product,))
        return [joined, replace(split, number=group[1].number)]

    def _own(self, name: str) -> str:
        """A name like this that no value of the model has."""
        while name in self.taken:
            name += "'"
        return name

    def _float64(self, name: str) -> Array:
        return self.graph.initializers[name].astype(np.float64)


def _handler(node: Node) -> Any:
    return None if node.operator is None else node.operator.handler
