"""What is differentiated, and how: derivatives along one direction against central differences, in float64."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

import jax
import jax.numpy as jnp
import numpy as np
from onnx import helper

from tests.unit.onnx.ops.one_node import prepared
from tilestep.onnx.interpreter.graph import Graph
from tilestep.onnx.interpreter.interpret import GraphRun, run_graph
from tilestep.onnx.interpreter.values import SequenceValue

ML, TRAINING, PREVIEW = "ai.onnx.ml", "ai.onnx.preview.training", "ai.onnx.preview"
NEWEST: Final = {"": 28, ML: 5, TRAINING: 1, PREVIEW: 1}
At = Literal["smooth", "kink", "jump"]
RTOL: Final = 1e-3
_TOGETHER: Final = 24  # cases in one program
_MOST_ROWS: Final = 24  # of results whose length depends on values
_STEPS: Final = {np.dtype(np.float64): 1e-5, np.dtype(np.float32): 2.0**-7}  # by the type that an operator computes in
_ROUNDING: Final = {np.dtype(np.float64): 1e-8, np.dtype(np.float32): RTOL}  # of differences, of the largest one


@dataclass(frozen=True, kw_only=True)
class Case:
    """One node, and its inputs: floats are differentiated, others are constants. Operators without float64 get float32.

    Attributes:
        version: of the domain; None is the newest one.
        outputs: how many the node names.
        fixed: positions of the floats that are constants; those whose values must be known are so anyhow.
        attributes: of the node; graphs are taken as they are.
        graph: instead of one node of `name`.
        at: "smooth": the derivative is the slope. "kink": there are two, and it is between the slopes of both sides. "jump": it is finite.
    """

    name: str
    inputs: Sequence[Any]
    domain: str = ""
    version: int | None = None
    outputs: int = 1
    fixed: tuple[int, ...] = ()
    attributes: Mapping[str, Any] = field(default_factory=dict[str, Any])
    graph: Graph | None = None
    at: At = "smooth"

    def prepared(self) -> Graph:
        """The graph to run."""
        if self.graph is not None:
            return self.graph
        names = ["" if x is None else f"in{i}" for i, x in enumerate(self.inputs)]
        results = [f"out{i}" for i in range(self.outputs)]
        node = helper.make_node(self.name, names, results, domain=self.domain, **self.attributes)
        version = self.version or NEWEST[self.domain]
        return prepared([node], names, results, {"": version if not self.domain else NEWEST[""], self.domain: version})


def case(name: str, *inputs: Any, domain: str = "", version: int | None = None, outputs: int = 1, **options: Any) -> Case:
    """A case of one node. Args: options: `fixed`, `graph`, `at`; others are the node's attributes."""
    own = {key: options.pop(key) for key in ("fixed", "graph", "at") if key in options}
    return Case(name=name, inputs=inputs, domain=domain, version=version, outputs=outputs, attributes=options, **own)


def uniform(*shape: int, seed: int = 0, low: float = -1.0, high: float = 1.0) -> np.ndarray[Any, Any]:
    """Random numbers of float64, none of them near 0, and no two alike."""
    x = np.random.default_rng(seed).uniform(low, high, shape)
    return np.where(np.abs(x) < 0.05, x + 0.1, x)


def _is_float(x: Any) -> bool:
    return hasattr(x, "dtype") and x.dtype in _STEPS


def _floats(outputs: Sequence[Any]) -> tuple[Any, ...]:
    return tuple(leaf for leaf in jax.tree.leaves(list(outputs)) if _is_float(leaf))


def _function(given: Case) -> tuple[Callable[[list[Any]], tuple[Any, ...]], list[Any]]:
    """(floating-point outputs as a function of the inputs to differentiate, these inputs)."""
    graph = given.prepared()
    operator = graph.nodes[0].operator if given.graph is None else None
    known = {*given.fixed, *(operator.needs if operator is not None else ())}

    def moves(position: int, x: Any) -> bool:
        leaves = list(x) if isinstance(x, SequenceValue) else [x]
        return position not in known and bool(leaves) and all(isinstance(leaf, np.ndarray) and _is_float(leaf) for leaf in leaves)

    positions = [position for position, x in enumerate(given.inputs) if moves(position, x)]

    def function(some: list[Any]) -> tuple[Any, ...]:
        every = list(given.inputs)
        for position, x in zip(positions, some, strict=True):
            every[position] = x
        return _floats(run_graph(graph, every, GraphRun(key=jax.random.key(0), bounds={"out0": _MOST_ROWS})))

    return function, [jax.tree.map(jnp.asarray, given.inputs[position]) for position in positions]


def _directions(like: Any, seed: int) -> Any:
    rng = np.random.default_rng(seed)
    return jax.tree.map(lambda leaf: jnp.asarray(rng.choice([-1.0, 1.0], leaf.shape) * rng.uniform(0.5, 1, leaf.shape), leaf.dtype), like)


def _dot(a: Any, b: Any) -> float:
    return float(sum(np.vdot(x, y) for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True)))


def require_slopes(cases: Sequence[Case]) -> None:
    """Compiles the derivatives of so many cases as one program.

    Raises: AssertionError unless forward and backward derivatives are finite, alike, and the differences' along one direction.
    """
    for first in range(0, len(cases), _TOGETHER):
        _require_slopes(cases[first : first + _TOGETHER])


def _require_slopes(cases: Sequence[Case]) -> None:
    with jax.enable_x64(True):
        functions, starts = zip(*map(_function, cases), strict=True)
        alongs = [_directions(start, 1) for start in starts]
        weights = [_directions(jax.eval_shape(function, start), 2) for function, start in zip(functions, starts, strict=True)]

        @jax.jit
        def everything(every: list[Any]) -> list[tuple[Any, Any, Any]]:
            found: list[tuple[Any, Any, Any]] = []
            for function, x, along, weight in zip(functions, every, alongs, weights, strict=True):
                values, linear = jax.linearize(function, x)
                found.append((values, linear(along), jax.linear_transpose(linear, x)(weight)[0]))
            return found

        steps = [_STEPS[np.dtype(*{leaf.dtype for leaf in weight})] for weight in weights]
        here = everything(list(starts))
        up, down = (
            everything(
                [
                    jax.tree.map(lambda x, d, move=sign * step: x + move * d, *pair)
                    for *pair, step in zip(starts, alongs, steps, strict=True)
                ]
            )
            for sign in (1, -1)
        )
    for number, given in enumerate(cases):
        values, forward, backward = here[number]
        try:
            _require_alike(given, forward, backward, alongs[number], weights[number])
            for slope, *around in zip(forward, values, up[number][0], down[number][0], strict=True):
                _require_slope(np.asarray(slope), *map(np.asarray, around), step=steps[number], at=given.at)
        except AssertionError as error:
            error.add_note(f"in the case {given}"[:1000])
            raise


def _require_alike(given: Case, forward: Any, backward: Any, along: Any, weight: Any) -> None:
    for gradient in backward:
        leaves = [np.asarray(leaf) for leaf in jax.tree.leaves(gradient)]
        assert all(np.isfinite(leaf).all() for leaf in leaves)
        assert given.at != "smooth" or any(map(np.any, leaves)), "no output depends on an input"
    magnitude = _dot(jax.tree.map(np.abs, weight), jax.tree.map(np.abs, forward))
    rounding = _ROUNDING[np.dtype(*{leaf.dtype for leaf in weight})]
    np.testing.assert_allclose(_dot(backward, along), _dot(weight, forward), RTOL, rounding * magnitude)


def _require_slope(slope: Any, here: Any, up: Any, down: Any, *, step: float, at: At) -> None:
    if at == "jump":
        assert np.isfinite(slope).all()
    elif at == "kink":
        sides = np.stack([(up - here) / step, (here - down) / step])
        slack = RTOL * np.abs(sides).max(0) + RTOL
        assert (slope >= sides.min(0) - slack).all()
        assert (slope <= sides.max(0) + slack).all()
    else:
        slopes = (up - down) / (2 * step)
        np.testing.assert_allclose(slope, slopes, RTOL, _ROUNDING[slope.dtype] * max(np.abs(slopes).max(initial=0.0), 1.0))
