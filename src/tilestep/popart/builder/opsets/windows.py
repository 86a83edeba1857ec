"""Windows of convolutions and pools: the shape that they give, and the checks of their parameters."""

import math
from collections.abc import Mapping, Sequence
from typing import cast

from tilestep.popart.builder.graph.model import AttributeValue, GraphModel
from tilestep.popart.exceptions import popart_exception


def spatial_shape(
    data: Sequence[int],
    kernel: Sequence[int],
    *,
    pads: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
    in_dilations: Sequence[int],
    out_pads: Sequence[int],
    ceil_mode: bool = False,
) -> list[int]:
    """The sizes after a window has passed over the data's spatial axes. Pads are those before each axis, then those after each."""
    sizes: list[int] = []
    rank = len(data)
    for axis in range(rank):
        size = in_dilations[axis] * (data[axis] - 1) + 1 + pads[axis] + pads[rank + axis] - 1 - dilations[axis] * (kernel[axis] - 1)
        turns = math.ceil(size / strides[axis]) if ceil_mode else size // strides[axis]
        sizes.append(turns + 1 + out_pads[axis] + out_pads[rank + axis])
    return sizes


def check_conv(model: GraphModel, inputs: Sequence[str], attributes: Mapping[str, AttributeValue]) -> None:
    """Checks a convolution. Raises: popart_exception naming the parameter that doesn't fit the data or the weights."""
    if len(inputs) < 2:
        raise popart_exception(f"Conv requires at least two inputs: data, and weights. {len(inputs)} inputs provided.")
    weights = model.shape_of(inputs[1])
    kernel: list[int] = []
    if weights:
        kernel = weights[2:]
        given = _ints(attributes, "kernel_shape")
        if given and given != kernel:
            raise popart_exception(
                f"kernel_shape, {_shown(given)}, does not match inferred shape from weight input '{inputs[1]}', {_shown(kernel)}"
            )
    _check_window(model, inputs[0], attributes, kernel)


def check_pool(model: GraphModel, inputs: Sequence[str], attributes: Mapping[str, AttributeValue]) -> None:
    """Checks a pool. Raises: popart_exception naming the parameter that doesn't fit the data."""
    _check_window(model, inputs[0], attributes, _ints(attributes, "kernel_shape"), ceil_mode=bool(attributes.get("ceil_mode", 0)))


def check_pad(model: GraphModel, inputs: Sequence[str], attributes: Mapping[str, AttributeValue]) -> None:
    """Checks a Pad with its pads as an attribute. Raises: popart_exception if there are not two for each dimension."""
    shape, pads = model.shape_of(inputs[0]), _ints(attributes, "pads")
    if shape and len(pads) != 2 * len(shape):
        raise popart_exception(f"Padding vector (length {len(pads)}) doesn't contain 2 entries per input dimension {len(shape)}")


def _check_window(
    model: GraphModel, data: str, attributes: Mapping[str, AttributeValue], kernel: Sequence[int], *, ceil_mode: bool = False
) -> None:
    shape = model.shape_of(data)
    if not shape:
        return
    rank = len(shape) - 2
    if rank < 1:
        raise popart_exception("Input tensor has no spatial dimensions")
    strides, pads, dilations, in_dilations, out_pads = (
        _ints(attributes, name) for name in ("strides", "pads", "dilations", "inDilations", "outPads")
    )
    for name, values in (("strides", strides), ("dilations", dilations), ("inDilations", in_dilations)):
        if values and len(values) != rank:
            raise popart_exception(f"Length of {name} vector {len(values)} != number of spatial dimensions {rank}")
    if pads and len(pads) != 2 * rank:
        raise popart_exception(f"Padding vector (length {len(pads)}) does not have 2 values for each spatial dimension {rank}")
    if 0 in strides:
        raise popart_exception(f"Strides {_shown(strides)} contain 0")
    if len(kernel) != rank:
        return
    sizes = spatial_shape(
        shape[2:],
        kernel,
        pads=pads or [0] * (2 * rank),
        out_pads=out_pads or [0] * (2 * rank),
        strides=strides or [1] * rank,
        dilations=dilations or [1] * rank,
        in_dilations=in_dilations or [1] * rank,
        ceil_mode=ceil_mode,
    )
    if any(size < 0 for size in sizes):
        raise popart_exception(f"Window parameter values combine to give invalid spatial output shape: {_shown(sizes)}")


def _ints(attributes: Mapping[str, AttributeValue], name: str) -> list[int]:
    return list(cast("Sequence[int]", attributes.get(name, ())))


def _shown(values: Sequence[int]) -> str:
    return f"[{' '.join(map(str, values))}]"
