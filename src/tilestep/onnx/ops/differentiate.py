"""Gradients that a model itself asks for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp

from tilestep.onnx.graph import Graph
from tilestep.onnx.interpret import Call
from tilestep.onnx.registry import op


@op("Gradient", domain="ai.onnx.preview.training")
def gradient(call: Call, *values: Any, xs: Sequence[str], y: str, graph: Graph, zs: Sequence[str] = ()) -> Any:
    """The gradient of the sum of `y` with respect to each of `xs`, at the values that the node gets for `xs` and `zs`.

    Args: graph: what leads from `xs` and `zs` to `y`.
    """
    if len(values) != len(xs) + len(zs):
        raise ValueError(f"it gets {len(values)} values for {len(xs) + len(zs)} names in xs and zs")

    def total(some: Sequence[Any]) -> Any:
        (result,) = call.subgraph(graph, [*some, *values[len(xs) :]], once=True)
        return jnp.sum(result)

    return tuple(jax.grad(total)([jnp.asarray(value) for value in values[: len(xs)]]))
