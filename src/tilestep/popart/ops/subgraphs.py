"""Operators that run a graph among their attributes: calls, and a function of sequences that lie in one array."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from tilestep.onnx.graph import Graph
from tilestep.onnx.interpret import Call, run_graph
from tilestep.onnx.registry import op
from tilestep.popart.exceptions import popart_exception
from tilestep.popart.ops.describing import DOMAIN
from tilestep.popart.ops.gradients import without_gradient

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
    names = dict(zip(callee.inputs, call.node.inputs, strict=False))  # of the callee, and of its caller
    call.run.state.update({names.get(name, name): value for name, value in run.state.items()})
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
