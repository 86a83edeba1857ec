"""An optimizer's values: each is constant, or one that `updateOptimizerFromHost` may change, and may differ by tensor.

Source of names, defaults and messages: PopART's optimizervalue.cpp and optimizervaluemap.cpp. Values are float32, as there.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, final

import numpy as np

from tilestep.messages import shown
from tilestep.popart.exceptions import popart_exception


@final
class OptimizerValue:
    """One value, and whether it is frozen into the program.

    Args:
        val: the value, which is rounded to float32, or a pair (value, whether it is constant). Without it the value is 0.
        isConst: True if no later optimizer may have another value; without it True, but False if no value is given either.
    """

    __slots__ = ("_const", "_value")

    def __init__(self, val: float | tuple[float, bool] | None = None, isConst: bool | None = None) -> None:
        if isinstance(val, tuple):
            val, isConst = val
        self._value = np.float32(0.0 if val is None else val)
        # As in C++: without arguments it may change, with a value alone it is constant.
        self._const = val is not None if isConst is None else bool(isConst)

    def val(self) -> float:
        """The value, a float32 as a Python number."""
        return float(self._value)

    @property
    def float32(self) -> np.float32:
        """The value, for arithmetic in float32 as the original's."""
        return self._value

    def isConst(self) -> bool:
        """Whether the value is frozen into the program."""
        return self._const

    def validReplacement(self, other: OptimizerValue) -> None:
        """Check that `other` may take this value's place in a program.

        Raises:
            popart_exception: if one is constant and the other isn't, or both are and differ.
        """
        if self._const != other._const:
            raise popart_exception("Can not replace a constant value with a non constant value.")
        if self._const and self._value != other._value:
            raise popart_exception("Values are constant but do not match.")

    def __repr__(self) -> str:
        return f"OptimizerValue(val={self._value}, isConst={self._const})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, OptimizerValue):
            return NotImplemented
        return self._const == other._const and (not self._const or self._value == other._value)

    def __hash__(self) -> int:
        return hash((self._const, float(self._value) if self._const else None))


@final
class OptimizerValueMap:
    """A default value, and the values of tensors that have one of their own."""

    __slots__ = ("_default", "_specific")

    def __init__(self, default: OptimizerValue, specific: Mapping[str, OptimizerValue] | None = None) -> None:
        self._default = default
        self._specific = dict(specific or {})

    def __repr__(self) -> str:
        return f"OptimizerValueMap({self._default!r}, {dict(sorted(self._specific.items()))!r})"

    def get(self, id: str) -> OptimizerValue:
        """The value for tensor `id`: its own, else the default."""
        return self._specific.get(id, self._default)

    def getDefault(self) -> OptimizerValue:
        """The value of the tensors that have none of their own."""
        return self._default

    def getSpecifics(self) -> dict[str, OptimizerValue]:
        """The values of the tensors that have one of their own, by id."""
        return dict(self._specific)

    def hasSpecific(self, id: str | None = None) -> bool:
        """Whether tensor `id` has a value of its own; without an id, whether any has."""
        return bool(self._specific) if id is None else id in self._specific

    def insertSpecific(self, id: str, value: OptimizerValue) -> None:
        """Give tensor `id` a value of its own.

        Raises:
            popart_exception: if it has one already.
        """
        if id in self._specific:
            raise popart_exception(
                f"Attempt to insert specific value for optimization Tensor {id} failed as there is already a specific value for {id}."
            )
        self._specific[id] = value

    def validReplacement(self, other: OptimizerValueMap) -> None:
        """Check that `other` may take this map's place in a program.

        Raises:
            popart_exception: naming the tensor whose value may not change.
        """
        try:
            self._default.validReplacement(other._default)
        except popart_exception as error:
            raise popart_exception(f"Default value is not a valid replacement. {error}") from error
        if len(self._specific) != len(other._specific):
            raise popart_exception("Replacement OptimizerValueMap has a different number of specific tensors.")
        for id, value in self._specific.items():
            if id not in other._specific:
                raise popart_exception(f"Could not find tensor {id} in replacement OptimizerValueMap.")
            try:
                value.validReplacement(other._specific[id])
            except popart_exception as error:
                raise popart_exception(f"OptimizerValue for tensor {id} is not a valid replacement. {error}") from error


def read_values(values: object) -> dict[str, OptimizerValue]:
    """A program's dictionary of (value, whether it is constant) by key, in the order of the keys.

    Raises:
        popart_exception: if it is no such dictionary.
    """
    if not isinstance(values, Mapping):
        raise popart_exception(f"An optimizer's values are a dictionary of (value, whether it is constant), not {type(values).__name__}")
    read: dict[str, OptimizerValue] = {}
    for key, pair in values.items():  # a program's own object
        if not isinstance(key, str):
            raise popart_exception(f"A key in the optimizer map input must be a py::str, not {key!r}")
        read[key] = _pair(key, pair)
    return dict(sorted(read.items()))


def _pair(key: str, pair: Any) -> OptimizerValue:
    if not isinstance(pair, tuple):
        raise popart_exception(f"A value in the optimizer map must be a py::tuple, (value, whether it is constant), not {pair!r} for {key}")
    try:
        value, const = pair
        return OptimizerValue(float(value), bool(const))
    except (TypeError, ValueError, OverflowError) as error:
        raise popart_exception(f"The optimizer's value {key} is (a number, whether it is constant), not {shown(pair)}") from error


@dataclass(frozen=True)
class ScalarKind:
    """One of the values of a family of optimizers.

    Args:
        default: the value if a program gives none; it is constant.
        plural: what the message about a replacement calls the values of all weights.
        singular: what the message about a negative value calls it; "" if no message does.
        positive: whether 0 is refused as negative values are.
    """

    default: float
    plural: str
    singular: str = ""
    positive: bool = field(default=False, kw_only=True)


def known(given: Mapping[str, OptimizerValue], keys: Collection[str], unknown: str) -> Mapping[str, OptimizerValue]:
    """`given` as it is.

    Args:
        given: the program's values by key.
        keys: each key that is allowed.
        unknown: the message about a key that isn't allowed; it has {key} and {keys}.

    Raises:
        popart_exception: if a key isn't allowed.
    """
    for key in given:
        if key not in keys:
            raise popart_exception(unknown.format(key=key, keys=" ".join(keys)))
    return given


def shortest(value: OptimizerValue) -> str:
    """A value as messages print it: the shortest decimal that is this float32."""
    return str(np.float32(value.val()))
