"""Operators that run a graph among their attributes: calls, and a function of sequences that lie in one array."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from tilestep.onnx.interpreter.graph import Graph
from tilestep.onnx.interpreter.interpret import Call, run_graph
from tilestep.onnx.interpreter.registry import op
from tilestep.popart.exceptions import popart_exception
from tilestep.popart.ops.checks import DIALECT
from tilestep.popart.ops.describing import DOMAIN
from tilestep.popart.ops.gradients import without_gradient


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


_ARRAYS_PER_INPUT = 3  # data, offsets, lengths


@op("Call", domain=DOMAIN)
def call_graph(call: Call, *inputs: Any, callee: Graph, num_outputs: int = 1, modifiedInputs: Sequence[int] = ()) -> tuple[Any, ...]:
    """The outputs of the graph `callee`, which sees the values around the call. Its random numbers differ from call to call."""
    if len(inputs) != len(callee.inputs):
        raise popart_exception(
            f"For CallOp '{call.node.name}', number of inputs ({len(inputs)}) does not match that of the callee subgraph "
            f"({len(callee.inputs)})"
        )
    run = replace(call.run, folds=(*call.run.folds, call.node.number), state={})
    outputs = run_graph(callee, inputs, run, outer=call.scope)
    caller_names = dict(zip(callee.inputs, call.node.inputs, strict=False))
    call.run.state.update({caller_names.get(name, name): value for name, value in run.state.items()})
    return tuple(outputs)


@op("PackedDataBlock", domain=DOMAIN)
def packed_data_block(
    call: Call, *inputs: Any, callback: Graph, maxSequenceLengths: Sequence[int], resultSize: int, callbackBatchSize: int
) -> Any:
    """A function of batches of sequences, whose rows lie one after the other in arrays.

    Inputs are data [rows, ...], offsets [sequences] and lengths [sequences] for each input of the function, then offsets and lengths of
    the results. The function gets [callbackBatchSize, longest, ...], with zeros behind each sequence. It has no gradient.

    Args: resultSize: rows of the result; those that no sequence fills are 0.
    """
    arrays, (offsets, lengths) = inputs[:-2], inputs[-2:]
    if len(arrays) % _ARRAYS_PER_INPUT or len(maxSequenceLengths) != len(arrays) // _ARRAYS_PER_INPUT:
        raise popart_exception(f"PackedDataBlock has {len(arrays)} inputs, and {len(maxSequenceLengths)} lengths of sequences")
    count = offsets.shape[0]
    if count % callbackBatchSize:
        raise popart_exception(f"PackedDataBlock has {count} sequences, which don't make up batches of {callbackBatchSize}")
    unpacked = [
        _unpacked(*arrays[_ARRAYS_PER_INPUT * number : _ARRAYS_PER_INPUT * (number + 1)], longest=longest)
        for number, longest in enumerate(maxSequenceLengths)
    ]
    batches = [values.reshape(-1, callbackBatchSize, *values.shape[1:]) for values in unpacked]

    def turn(number: Any, given: Any) -> tuple[Any, Any]:
        (result,) = call.subgraph(callback, given, fold_in=(number,))
        return number + 1, result

    _, results = lax.scan(turn, jnp.zeros((), np.int32), batches)
    rows = results.reshape(count, *results.shape[2:])
    return _packed(rows, offsets, lengths, resultSize)


def _unpacked(data: Any, offsets: Any, lengths: Any, *, longest: int) -> Any:
    """[sequences, longest, ...] of data [rows, ...]."""
    data = without_gradient(jnp.asarray(data))
    places = jnp.arange(longest, dtype=np.int32)
    rows = jnp.take(data, jnp.asarray(offsets).astype(np.int32)[:, None] + places, axis=0, mode="clip")
    inside = (places < jnp.asarray(lengths).astype(np.int32)[:, None]).reshape(*rows.shape[:2], *(1,) * (data.ndim - 1))
    return jnp.where(inside, rows, jnp.zeros((), data.dtype))


def _packed(rows: Any, offsets: Any, lengths: Any, size: int) -> Any:
    """[size, ...] of sequences [sequences, longest, ...]."""
    places = jnp.arange(rows.shape[1], dtype=np.int32)
    inside = places < jnp.asarray(lengths).astype(np.int32)[:, None]
    target = jnp.where(inside, jnp.asarray(offsets).astype(np.int32)[:, None] + places, size)
    return jnp.zeros((size, *rows.shape[2:]), rows.dtype).at[target].set(rows, mode="drop", wrap_negative_indices=False)
