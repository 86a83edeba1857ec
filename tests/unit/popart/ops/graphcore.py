"""Runs one node of ai.graphcore, and compares its outputs and its gradient with those of a reference."""

from collections.abc import Sequence
from typing import Any, Final

import jax
import numpy as np

import tilestep.popart.ops  # noqa: F401  # registers all
from tests.unit.onnx.ops.agree import agrees, slope_agrees
from tests.unit.onnx.ops.one_node import node_graph, run_node
from tilestep.onnx.interpreter.interpret import GraphRun, run_graph

DOMAIN: Final = "ai.graphcore"


def holds(expected: Sequence[Any], op_type: str, inputs: Sequence[Any], *, ways: Sequence[str] | None = None, **options: Any) -> None:
    """Holds if the outputs have the values, shapes and dtypes of `expected`."""
    agrees(expected, op_type, inputs, version=1, domain=DOMAIN, ways=ways, **options)


def outputs(
    op_type: str, inputs: Sequence[Any], *, way: str = "jit", count: int = 1, run: GraphRun | None = None, **attributes: Any
) -> list[Any]:
    """The outputs of one node."""
    return run_node(op_type, inputs, way, version=1, domain=DOMAIN, outputs=count, run=run, **attributes)


def gradient(
    op_type: str,
    inputs: Sequence[Any],
    *,
    position: int = 0,
    cotangent: Any = None,
    output: int = 0,
    count: int = 1,
    run: GraphRun | None = None,
    **attributes: Any,
) -> np.ndarray[Any, Any]:
    """The gradient with respect to one input. Args: cotangent: of one output; ones if not given."""
    graph = node_graph(op_type, inputs, version=1, domain=DOMAIN, outputs=count, **attributes)
    given = [x if x is None else np.asarray(x) for x in inputs]

    def forward(x: Any) -> Any:
        arrays = [x if i == position else y for i, y in enumerate(given)]
        return run_graph(graph, arrays, run or GraphRun())[output]

    def pulled(x: Any, seed: Any) -> Any:
        return jax.vjp(forward, x)[1](seed)[0]

    of = jax.eval_shape(forward, given[position])
    return np.asarray(jax.jit(pulled)(given[position], np.ones(of.shape, of.dtype) if cotangent is None else cotangent))


def slope_holds(op_type: str, inputs: Sequence[Any], *, count: int = 1, **options: Any) -> None:
    """`slope_agrees` of one node. Args: count: of its outputs."""
    slope_agrees(op_type, inputs, version=1, domain=DOMAIN, outputs=count, **options)
