"""`tensorflow.python.ipu.rnn_ops`: recurrent layers, whose steps are a loop of the program, with the cells of `tf.nn`."""

from __future__ import annotations

import warnings
from typing import Any

from tilestep.tensorflow.untyped import Tensor, tf, v1


class _Layer:
    """A layer over sequences. Args: num_units: features. name: of its variables' scope. options: no effect, but for initialisers."""

    _KIND = ""

    def __init__(
        self, num_units: int, dtype: Any = tf.float32, weights_initializer: Any = None, name: str | None = None, **options: Any
    ) -> None:
        del options
        self._units, self._dtype, self._weights, self._name = num_units, tf.as_dtype(dtype), weights_initializer, name

    def __call__(self, inputs: Tensor, initial_state: Any = None, training: bool = True) -> tuple[Tensor, Any]:
        """(outputs [steps, batch, num_units], the last state). Args: inputs: [steps, batch, features]. initial_state: None: zeros."""
        del training
        with warnings.catch_warnings(action="ignore"), v1.variable_scope(self._name or None, self._KIND, initializer=self._weights):
            return v1.nn.dynamic_rnn(
                self._cell(), tf.convert_to_tensor(inputs), initial_state=initial_state, dtype=self._dtype, time_major=True
            )

    def _cell(self) -> Any:
        raise NotImplementedError


class PopnnLSTM(_Layer):
    """A layer of LSTM cells without a bias of the forget gate. Its state is an `LSTMStateTuple` (c, h)."""

    _KIND = "popnn_lstm"

    def _cell(self) -> Any:
        return v1.nn.rnn_cell.LSTMCell(self._units, forget_bias=0.0, dtype=self._dtype)


class PopnnGRU(_Layer):
    """A layer of GRU cells. Its state is the last output."""

    _KIND = "popnn_gru"

    def _cell(self) -> Any:
        return v1.nn.rnn_cell.GRUCell(self._units, dtype=self._dtype)
