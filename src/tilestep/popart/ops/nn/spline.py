"""B-splines of SplineCNN: the basis of pseudo-coordinates, and the sum of weights with it.

Source: Fey et al. 2018, "SplineCNN", section 3.
"""

from typing import Any, Final

import jax.numpy as jnp
import numpy as np

from tilestep.onnx.interpreter.interpret import Call
from tilestep.onnx.interpreter.registry import op
from tilestep.onnx.ops.interpolation import wide
from tilestep.popart.exceptions import popart_exception
from tilestep.popart.ops.describing import DOMAIN, type_text
from tilestep.popart.ops.gradients import without_gradient

_DEGREES: Final = 4
# Coefficients of the pieces of B-splines on one interval, of the powers 0, 1, 2 and 3, by degree.
_PIECES: Final = (
    ((1.0,),),
    ((1.0, -1.0), (0.0, 1.0)),
    ((0.5, -1.0, 0.5), (0.5, 1.0, -1.0), (0.0, 0.0, 0.5)),
    ((1 / 6, -0.5, 0.5, -1 / 6), (4 / 6, 0.0, -1.0, 0.5), (1 / 6, 0.5, 0.5, -0.5), (0.0, 0.0, 0.0, 1 / 6)),
)


@op("SplineBasis", domain=DOMAIN)
def spline_basis(call: Call, pseudo: Any, kernel_size: Any, is_open: Any, *, degree: int = 0) -> tuple[Any, Any]:
    """Products of B-splines [E, S] at coordinates in [0, 1] [E, D], and the weight [E, S] that each belongs to; S = (degree + 1) ** D.

    Args:
        kernel_size: [D], weights along each dimension.
        is_open: [D], whether a dimension has ends; others are closed to a ring.
    """
    if not 0 <= degree < _DEGREES:
        raise popart_exception(f"SplineBasisOp degree = {degree} is not valid: must be between 0 and 3.")
    for what, name, value, rank in (
        ("pseudo", "Pseudo", pseudo, 2),
        ("kernelSize", "KernelSize", kernel_size, 1),
        ("isOpenSpline", "isOpenSpline", is_open, 1),
    ):
        if value.ndim != rank:
            raise popart_exception(f"SplineBasisOp::setup: {what} tensor is not a {rank}-D tensor. {name} tensor rank = {value.ndim}.")
    points = wide(without_gradient(jnp.asarray(pseudo)))
    sizes, opened = jnp.asarray(kernel_size).astype(np.int32), jnp.asarray(is_open).astype(np.int32)
    scaled = points * (sizes - degree * opened)
    base = jnp.floor(scaled)
    fraction = scaled - base
    steps = np.indices((degree + 1,) * pseudo.shape[1]).reshape(pseudo.shape[1], -1)[::-1]  # the first dimension changes fastest
    powers = jnp.stack([fraction**power for power in range(degree + 1)])
    pieces = jnp.einsum("kp,ped->ked", jnp.asarray(_PIECES[degree], points.dtype), powers)
    basis = jnp.ones((pseudo.shape[0], steps.shape[1]), points.dtype)
    index = jnp.zeros(basis.shape, np.int32)
    stride = jnp.ones((), np.int32)
    for dimension in range(pseudo.shape[1]):
        basis = basis * pieces[steps[dimension], :, dimension].T
        index = index + (base[:, dimension, None].astype(np.int32) + steps[dimension].astype(np.int32)) % sizes[dimension] * stride
        stride = stride * sizes[dimension]
    return basis.astype(pseudo.dtype), index


@op("SplineWeighting", domain=DOMAIN)
def spline_weighting(call: Call, x: Any, weight: Any, basis: Any, index: Any) -> Any:
    """x [E, I] times the weights [K, I, O] of indices [E, S], which the basis [E, S] weighs. It has no gradient."""
    for name, value, rank in (("input", x, 2), ("weight", weight, 3), ("basis", basis, 2), ("weightIndex", index, 2)):
        if value.ndim != rank:
            raise popart_exception(
                f"SplineWeightingOp::setup: {name} tensor is not a {rank}-D tensor. {name[0].upper()}{name[1:]} tensor rank = {value.ndim}."
            )
    for name, value in (("weight", weight), ("basis", basis)):
        if value.dtype != x.dtype:
            raise popart_exception(
                f"SplineWeightingOp::setup: The input and {name} tensors have different data types. The input tensor data type = "
                f"{type_text(x.dtype).lower()}. The {name} tensor data type = {type_text(value.dtype).lower()}."
            )
    x, weight, basis = (without_gradient(jnp.asarray(value)) for value in (x, weight, basis))
    chosen = wide(weight)[jnp.asarray(index).astype(np.int32)]
    return jnp.einsum("ei,es,esio->eo", wide(x), wide(basis), chosen).astype(x.dtype)
