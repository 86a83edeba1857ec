"""`tensorflow.python.ipu.rnn_ops`: recurrent layers, whose steps are a loop of the program, with the cells of `tf.nn`."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, ClassVar, Final

from tilestep.errors import UnsupportedError
from tilestep.tensorflow.untyped import Tensor, tf, v1

_NO_EFFECT: Final = (
    "partials_dtype",
    "seed",
    "options",
    "options_bwd",
)  # of the library's vertices, and of random numbers that differ anyway


class _Layer:
    """A layer over sequences.

    Args:
        num_units: features.
        dtype: of weights and results.
        weights_initializer: of all weights; biases keep the cell's own.
        name: of its variables' scope.
        options: those of `_NO_EFFECT`.
    Raises: UnsupportedError for another option.
    """

    _SCOPE: ClassVar[str]
    _CELL: ClassVar[Callable[[int, Any], Any]]

    def __init__(
        self, num_units: int, dtype: Any = tf.float32, *, weights_initializer: Any = None, name: str | None = None, **options: Any
    ) -> None:
        if other := [option for option in options if option not in _NO_EFFECT]:
            raise UnsupportedError(
                f"rnn_ops.{type(self).__name__} has no {', '.join(other)} here: use tf.nn.dynamic_rnn with a cell that has it"
            )
        self._units, self._dtype, self._weights, self._name = num_units, tf.as_dtype(dtype), weights_initializer, name

    def __call__(self, inputs: Tensor, initial_state: Any = None, training: bool = True) -> tuple[Tensor, Any]:
        """(outputs [steps, batch, num_units], the last state). Args: inputs: [steps, batch, features]. initial_state: None: zeros."""
        del training
        with warnings.catch_warnings(action="ignore"), v1.variable_scope(self._name or None, self._SCOPE, initializer=self._weights):
            cell = type(self)._CELL(self._units, self._dtype)
            return v1.nn.dynamic_rnn(cell, tf.convert_to_tensor(inputs), initial_state=initial_state, dtype=self._dtype, time_major=True)


class PopnnLSTM(_Layer):
    """A layer of LSTM cells without a bias of the forget gate. Its state is an `LSTMStateTuple` (c, h)."""

    _SCOPE: ClassVar[str] = "popnn_lstm"
    _CELL: ClassVar[Callable[[int, Any], Any]] = staticmethod(
        lambda units, dtype: v1.nn.rnn_cell.LSTMCell(units, forget_bias=0.0, dtype=dtype)
    )


class PopnnGRU(_Layer):
    """A layer of GRU cells. Its state is the last output."""

    _SCOPE: ClassVar[str] = "popnn_gru"
    _CELL: ClassVar[Callable[[int, Any], Any]] = staticmethod(lambda units, dtype: v1.nn.rnn_cell.GRUCell(units, dtype=dtype))
