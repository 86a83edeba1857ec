"""Clipping by the norm of a group of weights' gradients.

Source: PopART's clipnormsettings.cpp and clipweightgradientsbynorm.cpp. What is clipped there depends on the optimizer: for SGD the very
tensor that is subtracted from the weight (with momentum the velocity, which itself stays as it is), for Adam the gradient before both
momentums. The norm is of that tensor as it is: SGD's still has the loss scaling in it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from enum import Enum
from typing import final

import jax
import jax.numpy as jnp

from tilestep.popart.exceptions import popart_exception
from tilestep.popart.optimizers.scalars import Arrays


@final
class ClipNormSettings:
    """A bound of the norm over a group of weights' gradients. Make one with `clipWeights` or `clipAllWeights`.

    Args:
        weightIds: the group's tensors.
        maxNorm: the largest norm, a positive number.
    """

    class Mode(Enum):
        """Whether a group is of named weights, or of all."""

        ClipSpecifiedWeights = 0
        ClipAllWeights = 1

    def __init__(self, weightIds: Sequence[str], maxNorm: float, *, mode: Mode = Mode.ClipSpecifiedWeights) -> None:
        self.weightIds = list(weightIds)
        self.maxNorm = float(maxNorm)
        self._mode = mode

    @staticmethod
    def clipWeights(weightIds: Sequence[str], maxNorm: float, /) -> ClipNormSettings:
        """A bound of the norm over the tensors `weightIds`."""
        return ClipNormSettings(weightIds, maxNorm)

    @staticmethod
    def clipAllWeights(maxNorm: float, /) -> ClipNormSettings:
        """A bound of the norm over all weights of the model; it allows no other group."""
        return ClipNormSettings([], maxNorm, mode=ClipNormSettings.Mode.ClipAllWeights)

    def getMode(self) -> Mode:
        """Whether the group is of named weights, or of all."""
        return self._mode

    def getMaxNorm(self) -> float:
        """The largest norm."""
        return self.maxNorm

    def getWeightIds(self) -> list[str]:
        """The group's tensors.

        Raises:
            popart_exception: if the group is of all weights.
        """
        if self._mode is not ClipNormSettings.Mode.ClipSpecifiedWeights:
            raise popart_exception("ClipNormSettings.getWeightIds should only be called for a group made by clipWeights.")
        return self.weightIds

    def copy(self) -> ClipNormSettings:
        """Settings that later changes of these don't change."""
        return ClipNormSettings(self.weightIds, self.maxNorm, mode=self._mode)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ClipNormSettings):
            return NotImplemented
        same_norm = math.isclose(self.maxNorm, other.maxNorm, rel_tol=1e-6)
        return self._mode is other._mode and self.weightIds == other.weightIds and same_norm

    def __hash__(self) -> int:
        return hash((self._mode, tuple(self.weightIds)))

    def __repr__(self) -> str:
        if self._mode is ClipNormSettings.Mode.ClipAllWeights:
            return f"ClipNormSettings.clipAllWeights({self.maxNorm})"
        return f"ClipNormSettings.clipWeights({self.weightIds}, {self.maxNorm})"


def clip_groups(settings: Sequence[ClipNormSettings], weights: Sequence[str]) -> tuple[tuple[tuple[str, ...], float], ...]:
    """Each group's weights and largest norm.

    Raises:
        popart_exception: if a group of all weights has others beside it, or a group names what is no weight.
    """
    if len(settings) > 1 and any(group.getMode() is ClipNormSettings.Mode.ClipAllWeights for group in settings):
        raise popart_exception(
            "Multiple clip groups specified, but one has the mode 'ClipAllWeights': "
            "ClipNormSettings.clipAllWeights(...) must be the only group."
        )
    groups: list[tuple[tuple[str, ...], float]] = []
    for group in settings:
        ids = tuple(weights) if group.getMode() is ClipNormSettings.Mode.ClipAllWeights else tuple(group.getWeightIds())
        for id in ids:
            if id not in weights:
                raise popart_exception(f"Could not find a varupdate op for tensor {id}: the optimizer changes {', '.join(weights)}")
        groups.append((ids, group.getMaxNorm()))
    return tuple(groups)


def global_norm(arrays: Sequence[jax.Array]) -> jax.Array:
    """The norm over several arrays, a scalar in their type. Each array's sum of squares is made in float32, then rounded to its type."""
    squares = [jnp.sum(jnp.square(array.astype(jnp.float32))).astype(array.dtype) for array in arrays]
    return jnp.sqrt(sum(squares[1:], squares[0]))


def clipped(updaters: Mapping[str, jax.Array], groups: Sequence[tuple[tuple[str, ...], float]]) -> Arrays:
    """The updaters, those of each group multiplied by `max_norm / max(max_norm, norm of the group)`, group after group."""
    results = dict(updaters)
    for ids, max_norm in groups:
        norm = global_norm([results[id] for id in ids])
        factor = max_norm / jnp.maximum(norm, max_norm)
        results.update({id: results[id] * factor.astype(results[id].dtype) for id in ids})
    return results
