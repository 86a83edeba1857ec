"""Gradients that end: operators whose result has none with respect to an input.

PopART's operators name the inputs that have a gradient. Through all others no gradient goes, whatever the derivative would be.
"""

from __future__ import annotations

from typing import Any, Final

import jax.numpy as jnp
from jax import lax

from tilestep.onnx.values import is_traced

ALL: Final = None  # inputs
NO_GRADIENT: Final[dict[str, frozenset[int] | None]] = {  # operator -> positions of inputs through which no gradient goes
    "Abort": ALL,
    "BitwiseAnd": ALL,
    "BitwiseNot": ALL,
    "BitwiseOr": ALL,
    "BitwiseXnor": ALL,
    "BitwiseXor": ALL,
    "Bucketize": ALL,
    "CopyVarUpdate": ALL,
    "CtcBeamSearchDecoder": ALL,
    "Detach": ALL,
    "Fmod": frozenset({1}),
    "IncrementMod": ALL,
    "Init": ALL,
    "Nop": ALL,
    "NormalizeImage": ALL,
    "PackedDataBlock": ALL,
    "Remainder": frozenset({1}),
    "ScaledAdd": ALL,
    "SequenceSlice": ALL,
    "Sort": ALL,
    "SplineBasis": ALL,
    "SplineWeighting": ALL,
}


def without_gradient(x: Any) -> Any:
    """`x`, through which no gradient goes."""
    return lax.stop_gradient(x) if is_traced(x) and jnp.issubdtype(x.dtype, jnp.inexact) else x
