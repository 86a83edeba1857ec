"""What all optimizers have: loss scaling, clipping, values that may be replaced, and a rule.

Source of behaviour and messages: PopART's optimizer.cpp.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import ClassVar, Self

import jax
import numpy as np
import optax

from tilestep.popart.enums import MeanReductionStrategy, ReductionType
from tilestep.popart.exceptions import popart_exception, popart_runtime_error
from tilestep.popart.optimizers.as_optax import as_optax
from tilestep.popart.optimizers.assembly import assemble
from tilestep.popart.optimizers.clipping import ClipNormSettings
from tilestep.popart.optimizers.rule import UpdateContext, UpdateRule
from tilestep.popart.optimizers.scalars import TYPE_NAMES, Scalar, Weight
from tilestep.popart.optimizers.values import OptimizerValue, OptimizerValueMap
from tilestep.popart.optimizers.weight_rule import WeightRule


class Optimizer(ABC):
    """How weights change by their gradients. Use SGD, Adam or Adaptive."""

    _kind: ClassVar[str]  # the name that messages give it
    _unchecked: ClassVar[frozenset[str]] = frozenset()  # values that the original doesn't look at before a replacement
    _loss_scaling: OptimizerValue
    _clip_norm_settings: list[ClipNormSettings]

    def _begin(self, loss_scaling: OptimizerValue, clip_norm_settings: Sequence[ClipNormSettings]) -> None:
        if loss_scaling.val() == 0.0 or np.isnan(loss_scaling.val()):
            raise popart_exception("Loss scaling cannot be 0")
        self._loss_scaling = loss_scaling
        self._clip_norm_settings = [settings.copy() for settings in clip_norm_settings]

    @abstractmethod
    def value_maps(self) -> dict[str, OptimizerValueMap]:
        """The values that may differ by weight, by the words that a refused replacement calls them."""

    @abstractmethod
    def scalars(self, weight: Weight, context: UpdateContext) -> dict[str, Scalar]:
        """Every compound scalar of a weight, by kind; no update uses all."""

    @abstractmethod
    def weight_rule(self, weight: Weight, context: UpdateContext) -> WeightRule:
        """How a weight is updated in a session."""

    def lossScaling(self) -> OptimizerValue:
        """What the loss' gradient is multiplied by before the backward pass."""
        return self._loss_scaling

    def getLossScalingVal(self) -> float:
        """The loss scaling that the program gave."""
        return self._loss_scaling.val()

    def getClipNormSettings(self) -> list[ClipNormSettings]:
        """The groups of weights that are clipped."""
        return list(self._clip_norm_settings)

    def hasSpecific(self, id: str | None = None) -> bool:
        """Whether weight `id` has values of its own; without an id, whether any has."""
        return any(values.hasSpecific(id) for values in self.value_maps().values())

    def clone(self) -> Self:
        """An optimizer that later changes of this one don't change."""
        return copy.deepcopy(self)

    def of_weights(self, ids: Collection[str]) -> Self:
        """A copy for some of the weights: its groups of clipping name no others."""
        own = self.clone()
        groups = own._clip_norm_settings
        for group in groups:
            group.weightIds = [id for id in group.weightIds if id in ids]
        own._clip_norm_settings = [group for group in groups if group.weightIds or group.getMode() is ClipNormSettings.Mode.ClipAllWeights]
        return own

    def loss_scaling_scalar(self, dtype: np.dtype[np.generic]) -> Scalar:
        """The loss scaling as a tensor of the session, named after the loss' type."""
        value = np.float32(self._loss_scaling.val())
        return Scalar(name=f"lossScaling_{TYPE_NAMES.get(np.dtype(dtype), 'FLOAT')}", value=value, const=self._loss_scaling.isConst())

    def rule(self, context: UpdateContext) -> UpdateRule:
        """The pure functions that update a session's parameters.

        Raises:
            popart_exception: if the optimizer can't serve the session.
        """
        return assemble(self, context)

    def as_optax(
        self,
        *,
        accumulation_factor: int = 1,
        reduction: ReductionType = ReductionType.Sum,
        mean_strategy: MeanReductionStrategy = MeanReductionStrategy.Post,
        replication_factor: int = 1,
        reduce: Callable[[jax.Array], jax.Array] | None = None,
    ) -> optax.GradientTransformation:
        """This optimizer for a training loop of one's own: an optax transformation over any tree of parameters.

        A parameter's name, for `insertSpecific` and clipping, is its path in the tree, joined by "/": `{"w": ...}` has "w". Gradients are
        those of the loss times the optimizer's loss scaling.

        Args:
            accumulation_factor: calls per update; the others return zeros.
            reduction, mean_strategy: whether gradients of these calls and of replicas are summed or averaged, and when.
            replication_factor: replicas.
            reduce: sums an array over replicas, as `lambda x: jax.lax.psum(x, "replicas")`.
        """

        context = UpdateContext(
            params={},
            accumulation_factor=accumulation_factor,
            reduction=reduction,
            mean_strategy=mean_strategy,
            replication_factor=replication_factor,
            reduce=reduce,
        )
        return as_optax(self, context)

    def validReplacement(self, other: Optimizer) -> None:
        """Check that `other` may take this optimizer's place in a compiled program.

        Raises:
            popart_runtime_error: naming what differs and may not.
        """
        mine, theirs = self._clip_norm_settings, other._clip_norm_settings
        if len(mine) != len(theirs):
            raise no_replacement("Clip norm settings do not match.")
        for index, (old, new) in enumerate(zip(mine, theirs, strict=True)):
            if old != new:
                raise no_replacement(f"Clip norm settings at index {index} do not match.")
        if other._kind != self._kind:
            raise no_replacement(f"Can not replace optimizer of type {self._kind} with new optimizer of type {other._kind}")
        self._check_modes(other)
        _check("loss scaling", lambda: self._loss_scaling.validReplacement(other._loss_scaling))
        theirs_by_label = other.value_maps()
        for label, values in self.value_maps().items():
            if label not in self._unchecked:
                _check(label, partial(values.validReplacement, theirs_by_label[label]))

    def _check_modes(self, other: Optimizer) -> None:
        """Check what is no value: an optimizer's modes."""
        del other


def no_replacement(reason: str) -> popart_runtime_error:
    """The error that a new optimizer can't take an old one's place in a program."""
    return popart_runtime_error(f"New optimizer is not a valid replacement. {reason}")


def _check(label: str, problem: Callable[[], None]) -> None:
    try:
        problem()
    except popart_exception as error:
        raise no_replacement(f"Problem with {label}. {error}") from error
