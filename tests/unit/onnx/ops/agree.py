"""Compares one node's outputs, in each of the three ways, with expected ones, or with those of ONNX Runtime."""

from collections.abc import Sequence
from typing import Any, Final

import jax
import numpy as np

from tests.together import compiled
from tests.unit.onnx.ops.one_node import QUICK_WAYS, by_onnxruntime, check_node, node_graph
from tilestep.onnx.interpreter.interpret import GraphRun, run_graph
from tilestep.onnx.interpreter.registry import all_operators


def agrees(
    expected: Sequence[Any],
    op_type: str,
    inputs: Sequence[Any],
    *,
    version: int,
    domain: str = "",
    rtol: float = 1e-5,
    atol: float = 1e-6,
    ways: Sequence[str] | None = None,
    **options: Any,
) -> None:
    """Holds if the outputs have the values and shapes of `expected`, and its dtypes unless 64-bit types are off.

    Args: ways: by default "known", unless the operator computes known values by JAX too, and "jit"; "wide" in its first case.
    """

    def check(way: str, outputs: list[Any]) -> None:
        for output, wanted in zip(outputs, map(np.asarray, expected), strict=True):
            assert output.shape == wanted.shape, way
            assert way == "jit" or output.dtype == wanted.dtype, way
            np.testing.assert_allclose(np.asarray(output, np.float64), wanted.astype(np.float64), rtol, atol, err_msg=way)

    ways = _ways_of(domain, op_type, len(inputs)) if ways is None else ways
    check_node(op_type, inputs, check, ways, version=version, domain=domain, outputs=len(expected), **options)


_wide: Final[set[tuple[str, str, int]]] = set()  # operators that have run with 64-bit types in this process, with their numbers of inputs


_BY_JAX: Final = (  # modules of handlers
    *("activations", "attention", "batch_norm", "beam_search", "collectives", "conv", "convolution", "ctc", "host", "losses", "norm"),
    *("normalise", "pool", "recurrent", "sample", "scattering", "softmax", "sorting", "spline"),
)


def _ways_of(domain: str, op_type: str, inputs: int) -> Sequence[str]:
    handler = all_operators()[domain, op_type][-1].handler
    ways = ("jit",) if handler.__module__.rpartition(".")[2] in _BY_JAX else QUICK_WAYS
    if (domain, op_type, inputs) in _wide:
        return ways
    _wide.add((domain, op_type, inputs))
    return (*ways, "wide")


def agrees_with_onnxruntime(
    op_type: str,
    inputs: Sequence[Any],
    *,
    version: int,
    outputs: int = 1,
    rtol: float = 1e-5,
    ways: Sequence[str] | None = None,
    **attributes: Any,
) -> None:
    """Holds if the outputs are those of ONNX Runtime."""
    given = [x if x is None else np.asarray(x) for x in inputs]
    expected = by_onnxruntime(op_type, given, version=version, outputs=outputs, **attributes)
    agrees(expected, op_type, inputs, version=version, rtol=rtol, ways=ways, **attributes)


def values(*shape: int, seed: int = 0, dtype: Any = np.float32) -> np.ndarray[Any, Any]:
    """Normal random numbers."""
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def slope_agrees(op_type: str, inputs: Sequence[Any], *, version: int, position: int = 0, rtol: float = 1e-4, **options: Any) -> None:
    """Holds if the gradient of a weighted sum of the first output is its slope, along one direction, in float64."""
    given = [np.asarray(x, np.float64) if x is not None and np.asarray(x).dtype == np.float32 else x for x in inputs]
    start = np.asarray(given[position], np.float64)
    direction, step = values(*start.shape, seed=1, dtype=np.float64), 1e-6
    graph = node_graph(op_type, given, version=version, **options)

    def loss(x: Any) -> Any:
        arrays = [x if i == position else y for i, y in enumerate(given)]
        y = run_graph(graph, arrays, GraphRun())[0]
        return (y * values(*y.shape, seed=2, dtype=np.float64)).sum()

    def slopes(x: Any) -> tuple[Any, Any]:
        return (jax.grad(loss)(x) * direction).sum(), (loss(x + step * direction) - loss(x - step * direction)) / (2 * step)

    def check(found: tuple[Any, Any]) -> None:
        np.testing.assert_allclose(found[0], found[1], rtol, 1e-6)

    compiled(slopes, start, check, wide=True)
