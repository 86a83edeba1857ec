"""One node as a function of one of its inputs: to differentiate it, and to look at its program."""

from collections.abc import Callable, Sequence
from typing import Any

import jax
from onnx import helper

from tests.unit.onnx.ops.one_node import prepared
from tilestep.onnx.interpreter.interpret import GraphRun, run_graph


def function_of(
    op_type: str, inputs: Sequence[Any], *, version: int, position: int = 0, run: GraphRun | None = None, **attributes: Any
) -> Callable[[Any], Any]:
    """The first output as a function of the input at `position`; the others keep the values of `inputs`."""
    names = ["" if x is None else f"in{i}" for i, x in enumerate(inputs)]
    graph = prepared([helper.make_node(op_type, names, ["out"], name="the_node", **attributes)], names, ["out"], {"": version})
    return lambda x: run_graph(graph, [x if i == position else given for i, given in enumerate(inputs)], run or GraphRun())[0]


def primitives(function: Callable[[Any], Any], x: Any) -> list[str]:
    """The names of JAX's operations in a function's program, those of nested programs too."""

    def names(jaxpr: Any) -> list[str]:
        found: list[str] = []
        for equation in jaxpr.eqns:
            inner = [value.jaxpr for value in equation.params.values() if hasattr(value, "jaxpr")]
            found += [name for nested in inner for name in names(nested)] if inner else [str(equation.primitive)]
        return found

    return names(jax.make_jaxpr(function)(x).jaxpr)
