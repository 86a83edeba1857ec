"""Which initialisers are weights by default: those that a gradient reaches, and that are no part of a mask.

Exporters write the numbers of masks, comparisons and clips as initialisers too. An optimiser would change them: decay makes NaN of -inf.
"""

from collections.abc import Collection, Mapping
from typing import Final

import jax.numpy as jnp
import numpy as np
import onnx

from tilestep.onnx.interpreter.demand import names_at
from tilestep.onnx.interpreter.graph import Graph, Node, is_constant, reads
from tilestep.onnx.interpreter.values import Array
from tilestep.onnx.ops.tensor.casts import dtype_of

_MOST_INSPECTED_BYTES: Final = 1 << 28  # larger initialisers may stay in their files
_LEAST_MASK: Final = 100  # the least amount that a mask adds
_FLAT: Final = frozenset(  # operators whose results have no gradient
    {
        *("And", "Equal", "Greater", "GreaterOrEqual", "IsInf", "IsNaN", "Less", "LessOrEqual", "Not", "Or", "Xor"),
        *("ArgMax", "ArgMin", "NonMaxSuppression", "NonZero", "OneHot", "Shape", "Size"),
        *("Bernoulli", "Ceil", "DynamicQuantizeLinear", "Floor", "QuantizeLinear", "Round", "Sign"),
    }
)
_INEXACT: Final = frozenset(  # types of casts whose results have one: numbers, and in version 1 names
    key
    for name, number in onnx.TensorProto.DataType.items()
    if number and jnp.issubdtype(dtype_of(number), jnp.inexact)
    for key in (number, name, name.lower())
)
_FIRST: Final = frozenset(  # operators whose results have a gradient in their first input only
    {"Clip", "Dropout", "Gather", "GatherElements", "GatherND", "Pad", "Resize", "Slice", "TopK", "Upsample"}
)
_PRODUCTS: Final = frozenset({"Conv", "ConvTranspose", "GRU", "Gather", "Gemm", "LSTM", "MatMul", "RNN"})
_LIMITS: Final = frozenset({"Max", "Min", "Where"})  # one number among their inputs is a limit, or what masked elements become
_MASKING: Final = frozenset({"Add", "Div", "Max", "Min", "Mul", "Sub", "Sum", "Where"})


def not_finite(graph: Graph, arrays: Mapping[str, Array]) -> list[str]:
    """Names of arrays with infinities or NaN. What only products read may be large and stands in its file: it is not looked at."""
    read = {name for node in graph.nodes if node.domain or node.op_type not in _PRODUCTS for name in reads(node)}
    return [name for name, array in arrays.items() if name in read and not _has_only_numbers(array)]


def _has_only_numbers(array: Array) -> bool:
    if array.nbytes > _MOST_INSPECTED_BYTES or not jnp.issubdtype(array.dtype, jnp.inexact):
        return True
    return bool(np.isfinite(array).all())


def weights_of(graph: Graph) -> frozenset[str]:
    """Names of the graph's inputs and initialisers that are weights."""
    return _weights_of(graph, graph.outputs, {}, frozenset())


def _weights_of(graph: Graph, wanted: Collection[str], around: Mapping[str, Array], weighty_around: Collection[str]) -> frozenset[str]:
    """Names of values that gradients of the outputs `wanted` reach, those of graphs inside that the graph makes too.

    Args:
        around: values that are known outside of it.
        weighty_around: names of values outside of it that are made of arrays which may be weights.
    """
    known = {**around, **graph.initializers}
    known.update((node.outputs[0], node.attributes["value"]) for node in graph.nodes if is_constant(node))
    weighty = {*weighty_around} | {name for name, array in known.items() if array.size > 1 and jnp.issubdtype(array.dtype, jnp.inexact)}
    for node in graph.nodes:
        if not weighty.isdisjoint(reads(node)) and not _is_flat(node):
            weighty.update(node.outputs)
    reached = set(wanted)
    for node in reversed(graph.nodes):
        places = [place for place, name in enumerate(node.outputs) if name in reached]
        if not places:
            continue
        if node.function is not None:
            caller_names = dict(zip(node.function.inputs, node.inputs, strict=False))
            given = {own: known[name] for own, name in caller_names.items() if name in known}
            inner = _weights_of(
                node.function, names_at(node.function.outputs, places), given, [own for own in caller_names if caller_names[own] in weighty]
            )
            reached.update(name for own, name in caller_names.items() if own in inner)
        elif node.op_type == "If":
            for body in node.subgraphs:
                reached.update(_weights_of(body, names_at(body.outputs, places), known, weighty) & body.outer)
        elif node.subgraphs:
            reached.update(reads(node))
        else:
            reached.update(name for place, name in enumerate(node.inputs) if _is_reached(node, place, known, weighty))
    return frozenset(reached)


def _is_flat(node: Node) -> bool:
    if node.domain:
        return False
    return node.op_type in _FLAT or (node.op_type == "Cast" and node.attributes.get("to") not in _INEXACT)


def _is_reached(node: Node, place: int, known: Mapping[str, Array], weighty: set[str]) -> bool:
    """Whether a gradient of a node's result reaches an input as what may be learned."""
    if node.domain:
        return True
    if _is_flat(node) or (node.operator is not None and place in node.operator.needs) or (place and node.op_type in _FIRST):
        return False
    name = node.inputs[place]
    if node.op_type == "Where" and not place:
        return False
    if node.op_type in _LIMITS and name in known and known[name].size == 1:
        return False
    if node.op_type not in _MASKING:
        return True
    others = [other for other in node.inputs if other != name]
    if name in known and _is_mask(known[name]):
        return node.op_type in ("Div", "Mul") and not weighty.isdisjoint(others)  # a factor of what is learned is no mask's
    masks = any(other in known and _is_mask(known[other]) for other in others)
    return not masks or name in weighty


def _is_mask(array: Array) -> bool:
    """Whether an array has one large number, and nothing else but zeros; negative ones if it has several."""
    if array.size == 0 or array.nbytes > _MOST_INSPECTED_BYTES or not jnp.issubdtype(array.dtype, jnp.floating):
        return False
    least = array.min()
    amount = abs(array.reshape(())) if array.size == 1 else -least
    return bool(amount >= _LEAST_MASK) and bool(((array == 0) | (array == least)).all())
