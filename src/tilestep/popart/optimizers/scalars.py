"""Compound scalars: what an optimizer's values and a session's factors come to, computed once on the host; and arithmetic with them.

PopART names each for all tensors of a type (`scaledLearningRate0___default___FLOAT`) or for the one tensor that has values of its own
(`scaledLearningRate0___specific___w`). A scalar is constant if all values in it are; else it is an array of the state that
`updateOptimizerFromHost` replaces. Source: PopART's compoundscalarhelper.hpp.
A float16 tensor that something is added to keeps its type, and the sum is made in float32, as poplibs' scaledAddTo does.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np

from tilestep.popart.enums import DataType
from tilestep.popart.exceptions import popart_exception
from tilestep.popart.optimizers.values import OptimizerValue

Number = float | jax.Array
Arrays = dict[str, jax.Array]  # by tensor id


def scaled_add(target: jax.Array, addend: jax.Array, scale: Number = 1.0, *, keep: Number = 1.0) -> jax.Array:
    """`keep * target + scale * addend`, in the type of `target`."""
    left, right = target.astype(jnp.float32), addend.astype(jnp.float32)
    if not _is_one(keep):
        left = left * keep
    if not _is_one(scale):
        right = right * scale
    return (left + right).astype(target.dtype)


def scaled(array: jax.Array, scale: Number) -> jax.Array:
    """`scale * array`, in the array's type; the scale is rounded to it first."""
    if _is_one(scale):
        return array
    return array * as_type(scale, array)


def as_type(number: Number, array: jax.Array) -> Number:
    """A number for arithmetic in the type of `array`: one that is part of the program is rounded to it anyway."""
    return number.astype(array.dtype) if isinstance(number, jax.Array) else number


def _is_one(number: Number) -> bool:
    return isinstance(number, float) and number == 1.0


def moving_average(average: jax.Array, value: jax.Array, keep: Number) -> jax.Array:
    """`keep * average + (1 - keep) * value`, in the type of `average`."""
    return scaled(average, keep) + scaled(value.astype(average.dtype), 1.0 - keep)


def moving_average_of_squares(average: jax.Array, value: jax.Array, keep: Number) -> jax.Array:
    """`keep * average + (1 - keep) * value ** 2`, in the type of `average`."""
    cast = value.astype(average.dtype)
    return scaled(average, keep) + scaled(cast, 1.0 - keep) * cast


FLOAT32 = np.dtype(np.float32)
FLOAT16 = np.dtype(np.float16)
TYPE_NAMES: dict[np.dtype[np.generic], str] = {FLOAT32: "FLOAT", FLOAT16: "FLOAT16"}  # as DataType calls them


@dataclass(frozen=True, kw_only=True)
class Weight:
    """A parameter that an optimizer changes.

    Args:
        id: its tensor's name.
        shape: its shape.
        dtype: float32 or float16.
        specific: whether the optimizer has values of its own for it.
    """

    id: str
    shape: tuple[int, ...]
    dtype: np.dtype[np.generic]
    specific: bool


@dataclass(frozen=True, kw_only=True)
class Scalar:
    """One compound scalar.

    Args:
        name: its tensor's name.
        value: its value: float32, or float16 where the original streams it in the type of a float16 tensor.
        const: whether it is part of the program.
        inverse_loss_scale: whether it has the loss scaling in its denominator, so that automatic loss scaling divides it.
    """

    name: str
    value: np.floating
    const: bool
    inverse_loss_scale: bool = False


@dataclass(frozen=True, kw_only=True)
class Hyper:
    """The numbers of some scalars in one state of a rule.

    Args:
        scalars: the scalars, by what they are to their rule.
        arrays: the values that aren't constant, by name.
        factor: what automatic loss scaling has multiplied the loss scaling with; None without it.
    """

    scalars: Mapping[str, Scalar]
    arrays: Mapping[str, jax.Array]
    factor: jax.Array | None = None

    def __getitem__(self, role: str) -> Number:
        """A Python number for a constant, which a program holds, and else an array."""
        scalar = self.scalars[role]
        value = float(scalar.value) if scalar.const else self.arrays[scalar.name]
        if scalar.inverse_loss_scale and self.factor is not None:
            return value / self.factor.astype(np.float32)
        return value


def compound(
    kind: str, weight: Weight, value: np.floating, *parts: OptimizerValue, inverse_loss_scale: bool = False, in_type_of_weight: bool = False
) -> Scalar:
    """The scalar of one kind for one weight.

    Args:
        kind: the beginning of its name, as "scaledLearningRate0".
        weight: the weight.
        value: its value, float32.
        parts: the optimizer's values in it.
        inverse_loss_scale: see Scalar.
        in_type_of_weight: whether it is streamed in the weight's type, not in float32, if it isn't constant.
    """
    const = all(part.isConst() for part in parts)
    rounded = np.float16(value) if in_type_of_weight and not const and weight.dtype == FLOAT16 else np.float32(value)
    suffix = f"specific___{weight.id}" if weight.specific else f"default___{TYPE_NAMES[weight.dtype]}"
    return Scalar(name=f"{kind}___{suffix}", value=rounded, const=const, inverse_loss_scale=inverse_loss_scale)


def by_kind(*scalars: Scalar) -> dict[str, Scalar]:
    """Scalars by the beginning of their names."""
    return {scalar.name.split("___", 1)[0]: scalar for scalar in scalars}


def state_type(type: DataType, weight: Weight) -> np.dtype[np.generic]:
    """The type of a weight's accumulator or momentum: UNDEFINED is the weight's own.

    Raises:
        popart_exception: if it isn't FLOAT, FLOAT16 or UNDEFINED.
    """
    types = {DataType.UNDEFINED: weight.dtype, DataType.FLOAT: FLOAT32, DataType.FLOAT16: FLOAT16}
    if type not in types:
        raise popart_exception(
            f"Unsupported data type for tensor {weight.id}, {type.name}: only FLOAT16 and FLOAT are supported for a state"
        )
    return types[type]
