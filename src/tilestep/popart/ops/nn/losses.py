"""Losses: of probabilities, of magnitudes, and of what already is a loss. Their mean divides by all elements that count."""

import functools
import math
from typing import Any, Final

import jax
import jax.numpy as jnp
import numpy as np

from tilestep.onnx.interpreter.interpret import Call
from tilestep.onnx.interpreter.registry import op
from tilestep.onnx.ops.interpolation import wide
from tilestep.popart.exceptions import popart_exception
from tilestep.popart.ops.describing import DOMAIN, info_text, op_text, shape_text
from tilestep.popart.ops.gradients import magnitude

_REDUCTIONS: Final = {"None": "None", "NoReduction": "None", "Sum": "Sum", "Mean": "Mean"}
# The least probability that a logarithm and a gradient see, of float32 and float16. Source: popart, willow/src/popx/op/nllx.cpp.
_FLOORS: Final = {np.dtype(np.float32): (1e-7, 1e-10), np.dtype(np.float16): (6.104e-05, 6.104e-05)}


def reduction_of(name: str) -> str:
    """ "None", "Sum" or "Mean". Raises: popart_exception for another."""
    if name not in _REDUCTIONS:
        raise popart_exception(f"Unexpected ReductionType string, {name}. Cannot convert to ReductionType")
    return _REDUCTIONS[name]


def reduced(loss: Any, reduction: str, factor: float = 1.0) -> Any:
    """The losses themselves, their sum or their mean, times a factor. Sums are taken in float32 at least."""
    kind = reduction_of(reduction)
    if kind == "None":
        return loss if factor == 1.0 else loss * jnp.asarray(factor, loss.dtype)
    scale = factor if kind == "Sum" else factor / loss.size if loss.size else math.inf  # the mean of nothing is no number
    return _scaled(wide(loss).sum(), scale).astype(loss.dtype)


def _scaled(total: Any, scale: float) -> Any:
    return total if scale == 1.0 else total * jnp.asarray(scale, total.dtype)


@op("IdentityLoss", domain=DOMAIN)
def identity_loss(call: Call, x: Any, *, reduction: str = "Mean") -> Any:
    """The elements, their sum or their mean."""
    return reduced(jnp.asarray(x), reduction)


@op("L1", domain=DOMAIN)
def l1_loss(call: Call, x: Any, **attributes: Any) -> Any:
    """Magnitudes times the attribute `lambda`, their sum or their mean. The gradient at 0 is 0."""
    if x.ndim == 0:
        raise popart_exception("L1Op not valid for rank-0 tensor (scalar)")
    return reduced(magnitude(jnp.asarray(x)), attributes.get("reduction", "Mean"), float(attributes["lambda"]))


@op("Nll", domain=DOMAIN)
def nll_loss(
    call: Call, probabilities: Any, labels: Any, *, reduction: str = "Mean", ignoreIndex: int | None = None, inputIsLogProbability: int = 0
) -> Any:
    """Minus the logarithm of the probability [..., C] of each label [...].

    A label that is `ignoreIndex` has loss 0 and does not count in the mean. A label outside of 0 to C - 1 has probability 0.
    """
    _check_labels(call, probabilities, labels)
    p, label = jnp.asarray(probabilities), jnp.asarray(labels).astype(np.int32)
    loss: Any = _nll(p, label, not inputIsLogProbability)
    if ignoreIndex is None:
        return reduced(loss, reduction)
    counts = label != ignoreIndex
    loss = jnp.where(counts, loss, jnp.zeros((), loss.dtype))
    if reduction_of(reduction) != "Mean":
        return reduced(loss, reduction)
    return (wide(loss).sum() / jnp.maximum(counts.sum(), 1)).astype(loss.dtype)


def _check_labels(call: Call, probabilities: Any, labels: Any) -> None:
    name = op_text(call.node)
    if probabilities.ndim == 0:
        raise popart_exception(f"Invalid shape for prob tensor ({info_text(probabilities)}) in Op {name}. ")
    if labels.shape != probabilities.shape[:-1]:
        raise popart_exception(
            f"The label tensor ({info_text(labels)}) must have shape {shape_text(probabilities.shape[:-1])} to match all but the final "
            f"dimension of the probabilities tensor ({info_text(probabilities)}) in Op {name}. "
        )
    if not jnp.issubdtype(labels.dtype, jnp.integer):
        raise popart_exception(
            f"Expected the label tensor NllOp to be an integer data type (fixed point), not the case for input with info: "
            f"{info_text(labels)}. This error for Op {name}. "
        )


@functools.partial(jax.custom_vjp, nondiff_argnums=(2,))
def _nll(p: Any, label: Any, takes_logarithm: bool) -> Any:
    """The loss of each label. The logarithm and the gradient have floors of their own."""
    chosen = _chosen(p, label)
    return -jnp.log(jnp.maximum(chosen, jnp.asarray(_floors(p)[0], p.dtype))) if takes_logarithm else -chosen


def _chosen(p: Any, label: Any) -> Any:
    index = jnp.where(label < 0, p.shape[-1], label)
    return jnp.take_along_axis(p, index[..., None], axis=-1, mode="fill", fill_value=0)[..., 0]


def _floors(p: Any) -> tuple[float, float]:
    return _FLOORS.get(np.dtype(p.dtype), _FLOORS[np.dtype(np.float32)])


def _nll_forward(p: Any, label: Any, takes_logarithm: bool) -> tuple[Any, Any]:
    return _nll(p, label, takes_logarithm), (p, label)


def _nll_backward(takes_logarithm: bool, kept: tuple[Any, Any], cotangent: Any) -> tuple[Any, Any]:
    p, label = kept
    hot = jax.nn.one_hot(label, p.shape[-1], dtype=p.dtype)
    slope = -hot / jnp.maximum(p, jnp.asarray(_floors(p)[1], p.dtype)) if takes_logarithm else -hot
    return slope * cotangent[..., None], None


_nll.defvjp(_nll_forward, _nll_backward)
