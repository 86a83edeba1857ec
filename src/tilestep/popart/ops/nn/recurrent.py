"""The LSTM of ai.graphcore: weights of inputs and of the hidden state in one array, and all four gates in the order of its equations."""

from typing import Any, Final

import jax.numpy as jnp
import numpy as np

from tilestep.onnx.interpreter.interpret import Call
from tilestep.onnx.interpreter.registry import op
from tilestep.onnx.ops.nn.recurrent import lstm as onnx_lstm
from tilestep.popart.exceptions import popart_exception
from tilestep.popart.ops.describing import DOMAIN, shape_text

_GATES: Final = 4  # forget, input, candidate, output
_ORDER: Final = np.array([1, 3, 0, 2], np.int32)  # in which ONNX has them: input, output, forget, candidate; 32 bits in every mode of JAX


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
    every, last, cell = onnx_lstm(
        call,
        x,
        _of_onnx(weights[:, :inputs]),
        _of_onnx(weights[:, inputs:]),
        jnp.pad(offset[_ORDER, :].reshape(1, -1), ((0, 0), (0, _GATES * hidden))),
        lengths,
        start[:1],
        start[1:],
    )
    return every[:, 0] if output_full_sequence else last[0], cell[0]


def _of_onnx(weights: Any) -> Any:
    """Weights [4, from, hidden] as ONNX's [1, 4 * hidden, from]."""
    return jnp.swapaxes(weights[_ORDER, :], 1, 2).reshape(1, -1, weights.shape[1])


def _require(what: str, value: Any, shape: tuple[int, ...]) -> None:
    if value is not None and value.shape != shape:
        raise popart_exception(f"Bad {what} shape {shape_text(value.shape)}, should be {shape_text(shape)}")
