"""Runs one node of ai.graphcore, and compares its outputs and its gradient with those of a reference."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import jax
import jax.numpy as jnp
import numpy as np

import tilestep.popart.ops  # noqa: F401  # registers all
from tests.unit.onnx.ops.agree import agrees, values
from tests.unit.onnx.ops.one_node import node_graph, run_node
from tilestep.onnx.interpret import Run, run_graph

DOMAIN: Final = "ai.graphcore"
QUICK: Final = ("known", "jit")


def holds(expected: Sequence[Any], op_type: str, inputs: Sequence[Any], *, ways: Sequence[str] = QUICK, **options: Any) -> None:
    """Holds if the outputs have the values, shapes and dtypes of `expected`."""
    agrees(expected, op_type, inputs, version=1, domain=DOMAIN, ways=ways, **options)


def outputs(
    op_type: str, inputs: Sequence[Any], *, way: str = "jit", count: int = 1, run: Run | None = None, **attributes: Any
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
    run: Run | None = None,
    **attributes: Any,
) -> np.ndarray[Any, Any]:
    """The gradient with respect to one input. Args: cotangent: of one output; ones if not given."""
    graph = node_graph(op_type, inputs, version=1, domain=DOMAIN, outputs=count, **attributes)
    given = [x if x is None else jnp.asarray(x) for x in inputs]

    def forward(x: Any) -> Any:
        arrays = [x if i == position else y for i, y in enumerate(given)]
        return run_graph(graph, arrays, run or Run())[output]

    def pulled(x: Any, seed: Any) -> Any:
        return jax.vjp(forward, x)[1](seed)[0]

    seed = jnp.ones_like(forward(given[position])) if cotangent is None else jnp.asarray(cotangent)
    return np.asarray(jax.jit(pulled)(given[position], seed))


def slope_holds(op_type: str, inputs: Sequence[Any], *, position: int = 0, rtol: float = 1e-4, count: int = 1, **attributes: Any) -> None:
    """Holds if the gradient of a weighted sum of the first output is its slope along one direction, in float64."""
    graph = node_graph(op_type, inputs, version=1, domain=DOMAIN, outputs=count, **attributes)
    with jax.enable_x64(True):
        given = [np.asarray(x, np.float64) if x is not None and np.asarray(x).dtype == np.float32 else x for x in inputs]
        start = jnp.asarray(given[position])
        direction = values(*start.shape, seed=1, dtype=np.float64)

        def loss(x: Any) -> Any:
            y = run_graph(graph, [x if i == position else z for i, z in enumerate(given)], Run())[0]
            return (y * values(*y.shape, seed=2, dtype=np.float64)).sum()

        found = (np.asarray(jax.jit(jax.grad(loss))(start)) * direction).sum()
        of, step = jax.jit(loss), 1e-6
        slope = (of(start + step * direction) - of(start - step * direction)) / (2 * step)
    np.testing.assert_allclose(found, slope, rtol, 1e-6)
