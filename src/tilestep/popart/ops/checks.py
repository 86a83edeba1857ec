"""Checks that PopART makes before ONNX's operators run: a session refuses what the importer would broadcast or promote."""

import functools
import itertools
from collections.abc import Callable, Sequence
from typing import Any, Final

import jax.numpy as jnp
import numpy as np
import onnx

import tilestep.onnx.ops as _onnx_ops  # registers ONNX's operators  # noqa: F401
from tilestep.onnx.interpreter.convert import operands
from tilestep.onnx.interpreter.interpret import Call
from tilestep.onnx.interpreter.registry import Operator, all_operators, op
from tilestep.onnx.interpreter.values import is_traced
from tilestep.onnx.ops.nn.windows import windows
from tilestep.popart.exceptions import popart_exception
from tilestep.popart.ops.describing import info_text, kind_text, op_text, shape_text, type_text
from tilestep.popart.ops.nn.dropout import require_ratio

DIALECT: Final = "popart"
Check = Callable[..., None]  # it gets the call, the inputs and the attributes


def checked(*names: str, first: int = 1) -> Callable[[Check], Check]:
    """Has the decorated function see the inputs and the attributes of ONNX's operators before these run.

    Args: first: the version since which it does.
    """

    def decorator(check: Check) -> Check:
        for name in names:
            for operator in all_operators()["", name]:
                _wrap(operator, check, max(operator.since, first))
        return check

    return decorator


def _wrap(operator: Operator, check: Check, since: int) -> None:
    @op(operator.name, since=since, needs=operator.needs, random=operator.random, state=operator.state, dialect=DIALECT)
    @functools.wraps(operator.handler)
    def handler(call: Call, *inputs: Any, **attributes: Any) -> Any:
        check(call, *inputs, **attributes)
        return operator.handler(call, *inputs, **attributes)


_BROADCAST_SINCE: Final = 8  # the version since which all operators of several operands broadcast
_VARIADIC: Final = ("Max", "Min", "Mean", "Sum")
_NARROW: Final = {"INT64": "INT32", "UINT64": "UINT32"}


@checked("And", "Or", "Xor", "Equal", "Greater", "Less")
def frames(call: Call, *inputs: Any, **attributes: Any) -> None:
    """Operands have shapes that broadcast."""
    for a, b in itertools.pairwise(inputs) if call.version >= _BROADCAST_SINCE else ():
        try:
            np.broadcast_shapes(a.shape, b.shape)
        except ValueError:
            raise popart_exception(
                f"np broadcasting failed on '{op_text(call.node)}', frames {list(a.shape)} and {list(b.shape)} are not aligned"
            ) from None


@checked("Add", "Sub", "Div", "Mod", "Max", "Min", "Mean", "Sum")
def types_and_frames(call: Call, *inputs: Any, **attributes: Any) -> None:
    """Operands have one type, and shapes that broadcast. A 64-bit integer counts as one of 32 bits, as on an IPU."""
    if call.node.op_type in _VARIADIC and call.version < _BROADCAST_SINCE:
        for other in inputs[1:]:
            if other.shape != inputs[0].shape or _type(other) != _type(inputs[0]):
                raise popart_exception(
                    f"Inputs to {kind_text(call.node)} do not all the same type & shape, with inputs {info_text(inputs[0])} and "
                    f"{info_text(other)}"
                )
    for a, b in itertools.pairwise(inputs):
        if _type(a) != _type(b):
            raise popart_exception(
                f"np broadcasting failed on {op_text(call.node)}, incompatible types {_type(a)} and {_type(b)} (shapes "
                f"{shape_text(a.shape)} and {shape_text(b.shape)})"
            )
    frames(call, *inputs)


def _type(x: Any) -> str:
    name = type_text(x.dtype)
    return _NARROW.get(name, name)


@op("Mul", since=7, dialect=DIALECT)
def multiply(call: Call, a: Any, b: Any) -> Any:
    """a * b of one type. A float16 may be multiplied with a float32 of one element, which gives a float16."""
    if {str(a.dtype), str(b.dtype)} == {"float16", "float32"} and (a if a.dtype == np.float32 else b).size == 1:
        return (jnp.asarray(a).astype(np.float32) * jnp.asarray(b).astype(np.float32)).astype(np.float16)
    types_and_frames(call, a, b)
    xp, a, b = operands(a, b)
    return xp.multiply(a, b)


@checked("MatMul")
def product(call: Call, a: Any, b: Any) -> None:
    """Operands of a matrix product have axes, and the inner ones have one length."""
    name = op_text(call.node)
    for side, x, tensor in (("lhs", a, call.node.inputs[0]), ("rhs", b, call.node.inputs[1])):
        if not x.ndim:
            raise popart_exception(f"{name} doesn't support scalar tensor {tensor} as the {side} input")
    if a.shape[-1] != b.shape[-2 if b.ndim > 1 else 0]:
        lhs, rhs = call.node.inputs
        raise popart_exception(
            f"{name} contracting dimensions unequal: lhs '{lhs}' {shape_text(a.shape)}, rhs '{rhs}' {shape_text(b.shape)}"
        )


@checked("Clip", first=11)
def bounds(call: Call, x: Any, low: Any = None, high: Any = None) -> None:
    """Bounds are known when the program is made."""
    for name, value, position in (("min", low, 1), ("max", high, 2)):
        if is_traced(value):
            raise popart_exception(
                f"Op {call.node.name}({kind_text(call.node)}), inputs=[{call.node.inputs[0]}] currently only supports constant min/max "
                f"parameters. Input '{name}' ({call.node.inputs[position]}) has no data."
            )


@checked("Transpose")
def permutation(call: Call, x: Any, *, perm: Sequence[int] | None = None) -> None:
    """A permutation has all axes of its input."""
    if perm is not None and len(perm) != x.ndim:
        raise popart_exception(
            f"Rank of permutation tensor {shape_text(perm)}, rank {len(perm)} must be equal to rank of input tensor, shape "
            f"{shape_text(x.shape)}, rank {x.ndim}."
        )


@checked("Dropout")
def ratio_of_dropout(call: Call, *inputs: Any, ratio: float = 0.5, **attributes: Any) -> None:
    """The ratio is a probability below 1."""
    require_ratio(call, ratio)


@checked("AveragePool")
def average(call: Call, x: Any, *, kernel_shape: Sequence[int], count_include_pad: int = 0, **attributes: Any) -> None:
    """An average does not count the padding, where there is some."""
    if count_include_pad:
        pads = windows(x.shape[2:], kernel_shape, **attributes).pads
        if any(map(any, pads)):
            raise popart_exception(
                f"`count_include_pad` is not supported where there is padding, which is {shape_text(itertools.chain(*pads))}, before and "
                "behind each axis: put a Pad before the AveragePool, and leave out its pads"
            )


@checked("MaxPool")
def maximum(call: Call, x: Any, *, dilations: Sequence[int] | None = None, **attributes: Any) -> None:
    """The windows of a maximum have no gaps."""
    if any(dilation != 1 for dilation in dilations or ()):
        raise popart_exception("Dilations of value other than 1 are currently not supported.")


@checked("RandomNormal", "RandomUniform", "RandomNormalLike", "RandomUniformLike")
def draw(call: Call, *inputs: Any, seed: float | None = None, dtype: int | None = None, **attributes: Any) -> None:
    """Random numbers come from the session's seed, and an IPU has no doubles."""
    if seed is not None:
        raise popart_exception(f"{kind_text(call.node)}: Optional seed attribute is not supported. Use session::setRandomSeed instead.")
    if dtype == onnx.TensorProto.DOUBLE:
        raise popart_exception("The data type DOUBLE is not supported in Poplar")


@checked("Expand")
def expansion(call: Call, x: Any, shape: Any) -> None:
    """The two shapes broadcast."""
    lengths = () if is_traced(shape) else tuple(map(int, np.asarray(shape).ravel()))
    for own, other in zip(reversed(x.shape), reversed(lengths), strict=False):
        if 1 not in (own, other) and own != other:
            raise popart_exception(
                "Expand shape constraint: corresponding dimensions must have the same value or one of them must be 1, and they are "
                f"{shape_text(x.shape)} and {shape_text(lengths)}"
            )


def require_axes(x: Any, axes: Sequence[int]) -> None:
    """Raises: popart_exception for an axis that `x` does not have."""
    for axis in axes:
        if not -x.ndim <= axis < x.ndim:
            raise popart_exception(f"Axis {axis} is out of acceptable range [{-x.ndim}, {x.ndim - 1}]")


@checked("Reshape", first=5)
def one_unknown_length(call: Call, x: Any, shape: Any, **attributes: Any) -> None:
    """At most one length follows from the others."""
    if not is_traced(shape) and (np.asarray(shape) == -1).sum() > 1:
        raise popart_exception("shape input to ReshapeOp can only use -1 to specify one unknown dimension")


_ACTIVATIONS: Final = ("relu", "sigmoid", "tanh")


@checked("RNN", "GRU", "LSTM")
def recurrent_attributes(call: Call, x: Any, w: Any, r: Any, *others: Any, **attributes: Any) -> None:
    """Networks go forward, with activations that take no numbers, and clip nothing."""
    name, given = op_text(call.node), call.node.given
    for attribute in ("activation_alpha", "activation_beta", "clip"):
        if attribute in given:
            raise popart_exception(f"Attribute `{attribute}' of {name} is not supported")
    if attributes.get("direction", "forward") not in ("forward", "foward"):  # the default of version 1 has no r
        raise popart_exception(f"{name} only supports `forward' direction")
    if attributes.get("input_forget", 0):
        raise popart_exception(f"{name} attribute `input_forget' must be set to 0")
    functions = attributes.get("activations", ()) if "activations" in given else None
    if functions is not None and call.node.op_type == "RNN" and len(functions) != 1:
        raise popart_exception(f"{name} only supports 1 activation, {len(functions)} were specified")
    for function in functions or ():
        if function.lower() not in _ACTIVATIONS:
            raise popart_exception(f"Activation type '{function}' is not supported for {name}")
    size = attributes.get("hidden_size")
    if size is not None and size != r.shape[-1]:
        raise popart_exception(f"hidden_size {size} of {name} does not match that of its weights, which is {r.shape[-1]}")


@checked("Tile", first=6)
def repeats_of_tile(call: Call, x: Any, repeats: Any) -> None:
    """There is a number of repeats for each axis, and none is below 0."""
    numbers = () if is_traced(repeats) else tuple(map(int, np.asarray(repeats).ravel()))
    if any(number < 0 for number in numbers):
        raise popart_exception(
            f"Invalid repeats {shape_text(numbers)} of {op_text(call.node)}. Values must be non-negative in each shape dimension"
        )
    if not is_traced(repeats) and len(numbers) != x.ndim:
        raise popart_exception(
            f"Invalid repeats {shape_text(numbers)} of {op_text(call.node)}: they should have one element for each dimension of the data "
            "tensor"
        )
