"""Scan as PopART has it: what a turn reads and gives keeps the scanned axis, and the turns' results stand one after the other on it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from tilestep.onnx.graph import Graph
from tilestep.onnx.interpret import Call
from tilestep.onnx.registry import op
from tilestep.popart.exceptions import popart_exception
from tilestep.popart.ops.checks import DIALECT


@op("Scan", since=9, dialect=DIALECT)
def scan(
    call: Call,
    *inputs: Any,
    body: Graph,
    num_scan_inputs: int,
    scan_input_axes: Sequence[int] = (),
    scan_input_directions: Sequence[int] = (),
    scan_output_axes: Sequence[int] = (),
    scan_output_directions: Sequence[int] = (),
) -> tuple[Any, ...]:
    """Runs a graph for each element along an axis of the last inputs. It gives what the last turn carries on, then all that turns gave.

    Each input to scan has length 1 on its axis in a turn.

    Raises: popart_exception for axes of several lengths, or other numbers of inputs than those of the graph.
    """
    carried = len(inputs) - num_scan_inputs
    if len(inputs) != len(body.inputs) or num_scan_inputs < 1 or carried < 0:
        raise popart_exception(f"Scan has {len(inputs)} inputs, {num_scan_inputs} of them to scan, and its body takes {len(body.inputs)}")
    state, scanned = [jnp.asarray(x) for x in inputs[:carried]], [jnp.asarray(x) for x in inputs[carried:]]
    axes = [_of(scan_input_axes, i) % max(x.ndim, 1) for i, x in enumerate(scanned)]
    if len({x.shape[axis] for x, axis in zip(scanned, axes, strict=True)}) != 1:
        raise popart_exception(f"Scan's axes have lengths {[x.shape[axis] for x, axis in zip(scanned, axes, strict=True)]}, and need one")
    columns = [_column(x, axis, _of(scan_input_directions, i)) for i, (x, axis) in enumerate(zip(scanned, axes, strict=True))]

    def turn(now: tuple[Any, tuple[Any, ...]], elements: tuple[Any, ...]) -> tuple[tuple[Any, tuple[Any, ...]], list[Any]]:
        number, before = now
        parts = [jnp.expand_dims(element, axis) for element, axis in zip(elements, axes, strict=True)]
        results = [jnp.asarray(result) for result in call.subgraph(body, [*before, *parts], fold_in=(number,))]
        return (number + 1, tuple(results[:carried])), results[carried:]

    (_, last), rows = lax.scan(turn, (jnp.zeros((), np.int32), tuple(state)), tuple(columns))
    joined = [_joined(row, _of(scan_output_axes, i), _of(scan_output_directions, i)) for i, row in enumerate(rows)]
    return (*last, *joined)


def _of(flags: Sequence[int], position: int) -> int:
    return flags[position] if position < len(flags) else 0


def _column(x: Any, axis: int, backwards: int) -> Any:
    """The elements in the order of the turns, on the first axis."""
    moved = jnp.moveaxis(x, axis, 0)
    return moved[::-1] if backwards else moved


def _joined(rows: Any, axis: int, backwards: int) -> Any:
    """[turns, ...] as one array that has the turns' results one after the other on an axis of theirs."""
    if rows.ndim < 2:
        raise popart_exception("a turn of Scan gives a scalar, and must give an array with the axis that is scanned")
    axis %= rows.ndim - 1
    moved = jnp.moveaxis(rows[::-1] if backwards else rows, 0, axis)
    return moved.reshape(*moved.shape[:axis], moved.shape[axis] * moved.shape[axis + 1], *moved.shape[axis + 2 :])
