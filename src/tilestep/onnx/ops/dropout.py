"""Dropout, which is on in training only."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tilestep.onnx.interpret import Call
from tilestep.onnx.registry import op
from tilestep.onnx.values import is_traced, known_scalar

_RATIO = 0.5  # where a node has none


@op("Dropout", random=True)
def dropout_with_mask_of_numbers(call: Call, x: Any, *, consumed_inputs: Any = None, is_test: int = 0, ratio: float = _RATIO) -> Any:
    """x in inference. In training elements are 0 with probability `ratio`, and others grow by 1 / (1 - ratio).

    The mask has x's type. `is_test` of versions 1 to 6 says what the run says, and the run is asked.
    """
    y, mask = _dropped(call, x, ratio, call.run.training, None)
    return (y, mask.astype(y.dtype)) if call.wants(1) else y


@op("Dropout", since=10, random=True)
def dropout_by_attribute(call: Call, x: Any, *, ratio: float = _RATIO) -> Any:
    """The same with a mask of booleans."""
    return _dropped(call, x, ratio, call.run.training, None)


@op("Dropout", since=12, needs=(2,), random=True)
def dropout(call: Call, x: Any, ratio: Any = None, training_mode: Any = None, *, seed: int | None = None) -> Any:
    """The same with the ratio as an input. It is on in training, and if `training_mode` is true."""
    on = True if call.run.training else False if training_mode is None else training_mode
    if not is_traced(on):
        on = bool(known_scalar(on, "the mode"))
    return _dropped(call, x, _RATIO if ratio is None else ratio, on, seed)


def _dropped(call: Call, x: Any, ratio: Any, on: Any, seed: int | None) -> tuple[Any, Any]:
    """The result and the mask of what stays. Args: on: a bool, or a traced array of one."""
    if not is_traced(ratio):
        ratio = float(known_scalar(ratio, "the ratio"))
        if on is not False and not 0 <= ratio < 1:
            raise ValueError(f"ratio is {ratio}, and must be at least 0 and below 1")
    if on is False or (isinstance(ratio, float) and not ratio):
        return x, np.ones(x.shape, np.bool_)
    ratio = jnp.reshape(ratio, ()) if is_traced(ratio) else ratio
    x = jnp.asarray(x)
    stays = jax.random.bernoulli(call.key(seed), jnp.asarray(1 - ratio, np.float32), x.shape)  # one type, one draw
    factor = 1 / (1 - ratio)
    if on is not True:
        on = jnp.reshape(on, ())
        stays, factor = stays | ~on, jnp.where(on, factor, 1)
    return jnp.where(stays, x * jnp.asarray(factor, x.dtype), 0), stays
