"""Several convolutions in one operator, which the original computes side by side."""

from collections.abc import Sequence
from typing import Any

from tilestep.onnx.interpreter.interpret import Call
from tilestep.onnx.interpreter.registry import op
from tilestep.onnx.ops.nn.conv import convolution
from tilestep.onnx.ops.nn.windows import windows
from tilestep.popart.exceptions import popart_exception
from tilestep.popart.ops.describing import DOMAIN

_INPUTS_PER_CONVOLUTION = 3  # data, weights, and a bias that may be absent


@op("MultiConv", domain=DOMAIN)
def multi_conv(
    call: Call,
    *inputs: Any,
    numConvs: int = 1,
    strides: Sequence[int] = (),
    pads: Sequence[int] = (),
    dilations: Sequence[int] = (),
    outPads: Sequence[int] = (),
    inDilations: Sequence[int] = (),
    planType: str = "",
    perConvReservedTiles: int = 0,
    cycleBackOff: float = 0.0,
) -> tuple[Any, ...]:
    """The convolutions of data [N, C, D1, ...], weights [M, C / group, k1, ...] and biases [M], three inputs for each.

    Args:
        strides, pads, dilations: those of all convolutions, one after the other; each has the usual ones if there are none.
        planType, perConvReservedTiles, cycleBackOff: how the original places them; they change no value.

    Raises: popart_exception for lengths that don't fit, and for `outPads` and `inDilations`, which the original reads nowhere.
    """
    if any(outPads) or any(value != 1 for value in inDilations):
        raise popart_exception("MultiConv takes no outPads other than 0 and no inDilations other than 1: leave them away")
    results: list[Any] = []
    at = 0
    for number in range(numConvs):
        x, w = inputs[_INPUTS_PER_CONVOLUTION * number], inputs[_INPUTS_PER_CONVOLUTION * number + 1]
        b = inputs[_INPUTS_PER_CONVOLUTION * number + 2] if len(inputs) > _INPUTS_PER_CONVOLUTION * number + 2 else None
        axes = x.ndim - 2
        own = [values[at * times : (at + axes) * times] or None for values, times in ((strides, 1), (pads, 2), (dilations, 1))]
        at += axes
        if x.shape[1] % w.shape[1]:
            raise popart_exception(f"convolution {number} has {x.shape[1]} channels, and weights for {w.shape[1]}")
        windowed = windows(x.shape[2:], w.shape[2:], strides=own[0], pads=own[1], dilations=own[2])
        y = convolution(x, w, windowed, x.shape[1] // w.shape[1])
        results.append(y if b is None else y + b.reshape(1, -1, *(1,) * axes))
    return tuple(results)
