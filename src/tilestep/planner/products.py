"""Multiply-adds that a traced function cannot avoid: a count from below, for any compiler."""

from math import prod
from typing import Any, Final

import numpy as np

from tilestep.machine.spec import IpuSpec
from tilestep.train.jaxprs import called, is_real, programs_of

_NARROW: Final = 2  # bytes of a half, and more than those of an 8-bit float


def least_macs(jaxpr: Any) -> int:
    """Multiply-adds of matrix products and convolutions, loops and calls included.

    A loop of unknown length counts nothing, and a branch its cheapest arm.
    """
    total = 0
    for equation in jaxpr.eqns:
        match equation.primitive.name:
            case "dot_general":
                total += _of_dot(equation)
            case "conv_general_dilated":
                total += _of_convolution(equation)
            case "scan":
                total += int(equation.params["length"]) * least_macs(_open(equation.params["jaxpr"]))
            case "cond":
                total += min(least_macs(_open(branch)) for branch in equation.params["branches"])
            case _:
                inner = called(equation)
                total += 0 if inner is None else least_macs(inner)
    return total


def macs_per_cycle(ipu: IpuSpec, *jaxprs: Any) -> int:
    """The most multiply-adds that a tile does in a cycle for functions with arrays of such dtypes."""
    if not any(_has_narrow(jaxpr) for jaxpr in jaxprs):
        return ipu.macs_per_cycle_float
    return max(ipu.macs_per_cycle_half, ipu.macs_per_cycle_half_float, ipu.macs_per_cycle_float, ipu.macs_per_cycle_float8)


def _has_narrow(jaxpr: Any) -> bool:
    """Whether any array has floats of half a word or less, which compilers may multiply as such."""
    atoms = (*jaxpr.invars, *jaxpr.constvars, *(out for equation in jaxpr.eqns for out in equation.outvars))
    if any(is_real(atom.aval) and atom.aval.dtype.itemsize <= _NARROW for atom in atoms if hasattr(atom.aval, "dtype")):
        return True
    return any(_has_narrow(_open(inner)) for equation in jaxpr.eqns for inner in programs_of(equation))


def _open(jaxpr: Any) -> Any:
    return getattr(jaxpr, "jaxpr", jaxpr)


def _of_dot(equation: Any) -> int:
    (contracted, _), _ = equation.params["dimension_numbers"]
    left = equation.invars[0].aval.shape
    return prod(equation.outvars[0].aval.shape) * prod(left[dimension] for dimension in contracted)


def _of_convolution(equation: Any) -> int:
    """Products with the padding are not counted, because nobody has to do them."""
    of = equation.params
    dims = of["dimension_numbers"]
    left, right = (operand.aval.shape for operand in equation.invars)
    out = equation.outvars[0].aval.shape
    taps = 1
    for axis, (image, kernel, result) in enumerate(zip(dims.lhs_spec[2:], dims.rhs_spec[2:], dims.out_spec[2:], strict=True)):
        steps = of["window_strides"][axis], of["rhs_dilation"][axis], of["lhs_dilation"][axis]
        taps *= _inside(out[result], right[kernel], left[image], *steps, padding=of["padding"][axis][0])
    batch, features = out[dims.out_spec[0]], out[dims.out_spec[1]]
    return batch * features * right[dims.rhs_spec[1]] * taps // max(1, int(of["batch_group_count"]))


def _inside(places: int, taps: int, length: int, stride: int, dilation: int, spread: int, *, padding: int) -> int:
    """How often a tap of a window meets an element along one axis. Args: spread: places from one element to the next."""
    meets = np.arange(places)[:, None] * stride + np.arange(taps)[None] * dilation - padding
    return int(((meets >= 0) & (meets <= (length - 1) * spread) & (meets % spread == 0)).sum())
