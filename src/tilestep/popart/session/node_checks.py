"""Attributes of nodes that have no effect, but must have a meaning: patterns that are left out, matrix products in parts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import jax
import onnx
from onnx import helper

from tilestep.popart.builder import attribute_names as names
from tilestep.popart.exceptions import popart_exception
from tilestep.popart.patterns import require_pattern_name

_CHECKED: Final = frozenset({names.EXCLUDE_PATTERNS, names.SERIALIZE_MATMUL_MODE, names.SERIALIZE_MATMUL_FACTOR})
_DIMENSIONS: Final = {  # mode -> (input, its dimension from the end, words of the original)
    "input_channels": (0, 2, "input channels dim"),
    "reducing_dim": (0, 1, "reducing dimension"),
    "output_channels": (1, 1, "output channels dim"),
}


def require_node_attributes(graph: onnx.GraphProto, type_of: Callable[[str], jax.ShapeDtypeStruct | None]) -> None:
    """Args: type_of: shapes of tensors. Raises: popart_exception for a pattern that does not exist, or a factor that does not divide."""
    for node in graph.node:
        stated: dict[str, Any] = {
            attribute.name: helper.get_attribute_value(attribute) for attribute in node.attribute if attribute.name in _CHECKED
        }
        for pattern in stated.get(names.EXCLUDE_PATTERNS, ()):
            require_pattern_name(pattern.decode(errors="replace"))
        if names.SERIALIZE_MATMUL_MODE in stated:
            _require_factor(node, stated, type_of)


def _require_factor(node: onnx.NodeProto, stated: Mapping[str, Any], type_of: Callable[[str], jax.ShapeDtypeStruct | None]) -> None:
    mode = stated[names.SERIALIZE_MATMUL_MODE].decode(errors="replace")
    factor = int(stated.get(names.SERIALIZE_MATMUL_FACTOR, 0))
    if mode not in _DIMENSIONS:
        return
    if factor <= 0:
        raise popart_exception(f"Invalid serialisation factor {factor}. Serialisation factor must be a non-zero positive integer.")
    position, from_end, words = _DIMENSIONS[mode]
    kind = type_of(node.input[position])
    if kind is not None and len(kind.shape) >= from_end and kind.shape[-from_end] % factor:
        raise popart_exception(
            f"Invalid serialisation factor {factor} for {words} {kind.shape[-from_end]}. {mode} dim should be a multiple of the "
            "serialisation factor "
        )
