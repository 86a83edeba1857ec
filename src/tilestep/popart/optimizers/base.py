"""What all optimizers have: values that may be replaced, a loss scaling, and clipping.

Source of behaviour and messages: PopART's optimizer.cpp, and what sgd.cpp, adam.cpp and adaptive.cpp have in common.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import ClassVar, Self

import numpy as np

from tilestep.popart.exceptions import popart_exception, popart_runtime_error
from tilestep.popart.optimizers.clipping import ClipNormSettings
from tilestep.popart.optimizers.context import UpdateContext
from tilestep.popart.optimizers.scalars import TYPE_NAMES, Scalar, Weight
from tilestep.popart.optimizers.values import OptimizerValue, OptimizerValueMap, ValueKind, known, read_values, shortest
from tilestep.popart.optimizers.weight_rule import WeightRule


class OptimizerBase(ABC):
    """The values of an optimizer, and what a family of optimizers makes of them."""

    _family: ClassVar[str]  # the name that messages give it
    _kinds: ClassVar[Mapping[str, ValueKind]]  # by key of insertSpecific, and lossScaling, in the order in which messages list them
    _aliases: ClassVar[Mapping[str, str]] = {}  # other keys of the constructor
    _unchecked: ClassVar[frozenset[str]] = frozenset()  # values that the original doesn't look at before a replacement

    def __init__(self, values: object, clip_norm_settings: Sequence[ClipNormSettings]) -> None:
        keys = {_constructor_key(name): name for name in self._kinds} | dict(self._aliases)
        given = known(read_values(values), keys, f"Invalid {self._family} key, {{key}}, the allowed keys are ( {{keys}} )")
        chosen = {name: OptimizerValue(kind.default, True) for name, kind in self._kinds.items()}
        chosen |= {keys[key]: value for key, value in given.items()}
        self._loss_scaling = chosen.pop("lossScaling")
        if self._loss_scaling.val() == 0.0 or np.isnan(self._loss_scaling.val()):
            raise popart_exception("Loss scaling cannot be 0")
        self._clip_norm_settings = [settings.copy() for settings in clip_norm_settings]
        self._check(chosen)
        self._values = {name: OptimizerValueMap(value) for name, value in chosen.items()}

    @abstractmethod
    def scalars(self, weight: Weight, context: UpdateContext) -> dict[str, Scalar]:
        """Every compound scalar of a weight, by kind; no update uses all."""

    @abstractmethod
    def weight_rule(self, weight: Weight, context: UpdateContext) -> WeightRule:
        """How a weight is updated in a session."""

    @abstractmethod
    def _check_modes(self, other: OptimizerBase) -> None:
        """Check what is no value: an optimizer's modes. Raises: popart_runtime_error for one that a replacement may not change."""

    def _check_together(self, values: Mapping[str, OptimizerValue]) -> None:
        """Refuse values that make sense, but not together."""
        del values

    def learningRates(self) -> OptimizerValueMap:
        """The learning rates."""
        return self._values["learningRate"]

    def weightDecays(self) -> OptimizerValueMap:
        """The weight decays."""
        return self._values["weightDecay"]

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
        return any(values.hasSpecific(id) for values in self._values.values())

    def insertSpecific(self, id: str, values: Mapping[str, tuple[float, bool]], /) -> None:
        """Give weight `id` values of its own: learningRate, weightDecay, and others of the family.

        A value that isn't given is the default. A session that exists already doesn't see them.

        Raises:
            popart_exception: for a key that doesn't exist, a value that makes no sense, or a weight that has values of its own already.
        """
        refused = f"Invalid key {{key}} in {self._family}::insertSpecific. Permitted keys are ( {{keys}} )"
        given = known(read_values(values), self._values, refused)
        own = {name: given.get(name, values_of.getDefault()) for name, values_of in self._values.items()}
        self._check(own)
        for name, values_of in self._values.items():
            values_of.insertSpecific(id, own[name])

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

    def validReplacement(self, other: OptimizerBase) -> None:
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
        if other._family != self._family:
            raise no_replacement(f"Can not replace optimizer of type {self._family} with new optimizer of type {other._family}")
        self._check_modes(other)
        _valid("loss scaling", lambda: self._loss_scaling.validReplacement(other._loss_scaling))
        for name, values in self._values.items():
            if name not in self._unchecked:
                _valid(self._kinds[name].plural, partial(values.validReplacement, other._values[name]))

    def _of(self, weight: Weight) -> dict[str, OptimizerValue]:
        """A weight's values."""
        return {name: values.get(weight.id) for name, values in self._values.items()}

    def _check(self, values: Mapping[str, OptimizerValue]) -> None:
        """Refuse what makes no sense. Source: runValueChecks of the original's families."""
        rate = values["learningRate"]
        if rate.val() < 0:
            raise popart_exception(f"Negative learning rate ({shortest(rate)}) in {self._family}, bailing as this might be a user error.")
        if rate.val() == 0 and rate.isConst():
            raise popart_exception(f"Constant, zero learning rate in {self._family}, bailing as this might be a user error.")
        for name, value in values.items():
            kind = self._kinds[name]
            quoted = f"{kind.singular} ({shortest(value)}) in {self._family}"
            if kind.positive and value.val() <= 0:
                raise popart_exception(f"Non-positive {quoted} is not supported")
            if kind.singular and value.val() < 0:
                raise popart_exception(f"Negative {quoted}, bailing as this might be a user error")
        self._check_together(values)


def no_replacement(reason: str) -> popart_runtime_error:
    """The error that a new optimizer can't take an old one's place in a program."""
    return popart_runtime_error(f"New optimizer is not a valid replacement. {reason}")


def _constructor_key(name: str) -> str:
    """The key of the constructor for one of insertSpecific's. Source: the original's fromDefaultMap."""
    return name if name in ("lossScaling", "nesterov") else f"default{name[0].upper()}{name[1:]}"


def _valid(label: str, check: Callable[[], None]) -> None:
    try:
        check()
    except popart_exception as error:
        raise no_replacement(f"Problem with {label}. {error}") from error
