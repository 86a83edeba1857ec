"""The LSTM of ai.graphcore: weights of inputs and of the hidden state in one array, and all four gates in the order of its equations."""

from __future__ import annotations

from typing import Any, Final

import jax
import jax.numpy as jnp
from jax import lax

from tilestep.onnx.interpret import Call
from tilestep.onnx.registry import op
from tilestep.popart.exceptions import popart_exception
from tilestep.popart.ops.describing import DOMAIN, shape_text

_GATES: Final = 4  # forget, input, candidate, output


@op("LSTM", domain=DOMAIN)
def lstm(
    call: Call, x: Any, weights: Any, bias: Any = None, initial: Any = None, lengths: Any = None, *, output_full_sequence: int = 1
) -> tuple[Any, Any]:
    """Long short-term memory of x [time, batch, inputs].

    Args:
        weights: [4, inputs + hidden, hidden] of the gates forget, input, candidate and output.
        bias: [4, hidden]; zeros if it is absent.
        initial: [2, batch, hidden], the hidden state and the cell's; zeros if it is absent.
        lengths: [batch]; times beyond them leave the states as they are and give zeros.

    Returns: the hidden states [time, batch, hidden], or the last one [batch, hidden], and the last state of the cell [batch, hidden].
    """
    x, weights = jnp.asarray(x), jnp.asarray(weights)
    if x.ndim != 3 or weights.ndim != 3:
        raise popart_exception(f"Bad input shape {shape_text(x.shape)} or weights shape {shape_text(weights.shape)}, should be of rank 3")
    _, batch, inputs = x.shape
    hidden = weights.shape[2]
    _require("weights", weights, (_GATES, inputs + hidden, hidden))
    _require("bias", bias, (_GATES, hidden))
    _require("initialState", initial, (2, batch, hidden))
    offset = jnp.zeros((_GATES, hidden), x.dtype) if bias is None else jnp.asarray(bias)
    start = jnp.zeros((2, batch, hidden), x.dtype) if initial is None else jnp.asarray(initial)
    ends = None if lengths is None else jnp.asarray(lengths).reshape(-1, 1)
    of_inputs = jnp.einsum("tbi,gih->tgbh", x, weights[:, :inputs]) + offset[:, None]

    def step(states: tuple[Any, Any], now: tuple[Any, Any]) -> tuple[tuple[Any, Any], Any]:
        h, c = states
        time, part = now
        gates = part + jnp.einsum("bk,gkh->gbh", h, weights[:, inputs:])
        new_c = jax.nn.sigmoid(gates[0]) * c + jax.nn.sigmoid(gates[1]) * jnp.tanh(gates[2])
        new_h = jax.nn.sigmoid(gates[3]) * jnp.tanh(new_c)
        if ends is None:
            return (new_h, new_c), new_h
        runs = time < ends
        return (jnp.where(runs, new_h, h), jnp.where(runs, new_c, c)), jnp.where(runs, new_h, 0)

    (last, cell), every = lax.scan(step, (start[0], start[1]), (jnp.arange(x.shape[0]), of_inputs))
    return every if output_full_sequence else last, cell


def _require(what: str, value: Any, shape: tuple[int, ...]) -> None:
    if value is not None and value.shape != shape:
        raise popart_exception(f"Bad {what} shape {shape_text(value.shape)}, should be {shape_text(shape)}")
