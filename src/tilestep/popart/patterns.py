"""Patterns: the rewritings of a graph that PopART knows, which of them are on, and why none of them changes anything here.

XLA and the emulator's planner rewrite programs by their own rules, and JAX makes gradients, so a session computes the same values whichever
patterns are on. What is checked is what the original checks: names, and that patterns without which it could not run stay on.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, cast, final

from tilestep.messages import nearest, shown
from tilestep.popart.enums import PatternsLevel
from tilestep.popart.exceptions import popart_exception


@dataclass(frozen=True, kw_only=True)
class Pattern:
    """One rewriting.

    Attributes:
        usual: whether it is on at PatternsLevel.Default.
        mandatory: whether it cannot be switched off.
        why: it has no effect, as a part of a sentence.
    """

    usual: bool = True
    mandatory: bool = False
    why: str


def _why(why: str, *, must: str = "", on: str = "", off: str = "") -> dict[str, Pattern]:
    """Patterns that have no effect for one reason. Args: must, on, off: names, separated by spaces."""
    return {
        **{name: Pattern(mandatory=True, why=why) for name in must.split()},
        **{name: Pattern(why=why) for name in on.split()},
        **{name: Pattern(usual=False, why=why) for name in off.split()},
    }


_TABLE: Final = {
    **_why(
        "JAX makes the gradient",
        must=(
            "AbsGradOp Atan2Arg0GradOp Atan2Arg1GradOp ConvDataGrad ConvFlipWeightsGradOp CosGradOp DivArg0GradOp DivArg1GradOp "
            "ExpGradOp Expm1GradOp FmodArg0GradOp Log1pGradOp LogGradOp MatMulLhsGradOp MatMulRhsGradOp MulArgGradOp PowArg0GradOp "
            "PowArg1GradOp ReciprocalGradOp SinGradOp SqrtGradOp SubtractArg1GradOp"
        ),
        on="ConvFlipWeightsDoubleFlip NlllWithSoftmaxGradDirect SoftmaxGradDirect SplitGradOpToConcat",
    ),
    **_why("one replica has nothing to reduce", must="AllReduceToIdentity"),
    **_why(
        "the operator is computed in one piece",
        must="ConvTranspose CoshOp MatMulOp RandomNormalLikeOpPattern RandomUniformLikeOpPattern ZerosLikeOpPattern",
        on="DecomposeBinaryConstScalar PackedDataBlock SplitOp UpsampleToResize",
        off="LSTMOp Slice2SliceSubsample",
    ),
    **_why("XLA decides whether to expand or to convert first", on="ExpandCast"),
    **_why("the emulator's planner decides which tiles hold an accumulator", on="InitAccumulate"),
    **_why("norms of a weight are taken of the whole weight", on="LambSerialisedWeight"),
    **_why("loops are JAX's", must="LoopScanOut ScanToLoop"),
    **_why(
        "XLA removes what does nothing",
        on="NegativeOneScale OpToIdentity PostNRepl PreUniRepl SumToAdd TransposeToIdentityOrReshapePattern",
    ),
    **_why("XLA fuses a sum of padded tensors", on="PadSum"),
    **_why("the loss scale has the type of the loss", on="RemoveUnnecessaryLossGradCast"),
    **_why("the emulator's planner splits what does not fit", off="SplitGather TiedGather TiedGatherAccumulate"),
}
PATTERNS: Final[Mapping[str, Pattern]] = MappingProxyType(dict(sorted(_TABLE.items())))
IN_PLACE: Final[Mapping[str, Pattern]] = MappingProxyType(
    _why("XLA decides what is updated in place", on="InPlace", off="UpdateInplacePrioritiesForIpu")
)
EXCLUDABLE: Final = (  # names that Builder.excludePatterns takes besides
    *IN_PLACE,
    "AdamDecompose",
    "AdaptiveDecompose",
    "ContiguateIpuCopyIndicesPattern",
    "SGD0Decompose",
    "SGD1Decompose",
    "SGD2Decompose",
    "ViewSimplifyPattern",
)


class _Switch:
    """An attribute that switches one pattern."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __get__(self, patterns: Patterns | None, owner: type) -> bool:
        if patterns is None:
            raise AttributeError(f"{self.name} is an attribute of a Patterns object")
        return patterns.isPatternEnabled(self.name)

    def __set__(self, patterns: Patterns, value: bool) -> None:
        if not hasattr(type(value), "__bool__"):
            raise TypeError(f"Patterns.{self.name} must be True or False, not {shown(value)}")
        patterns.enablePattern(self.name, bool(value))


@final
class Patterns:
    """Which patterns are on.

    Args: patterns: a level; or names of patterns, and no other is on; or a dict of names and whether each is on, with the rest as at
        PatternsLevel.Default. `level` is another name of this argument.
    Raises: popart_exception for a name that no pattern has, or a mandatory pattern that is to be off.
    """

    __slots__ = ("_asserts", "_on")

    PreUniRepl = _Switch("PreUniRepl")
    PostNRepl = _Switch("PostNRepl")
    SoftMaxGradDirect = _Switch("SoftmaxGradDirect")
    NlllWithSoftMaxGradDirect = _Switch("NlllWithSoftmaxGradDirect")
    OpToIdentity = _Switch("OpToIdentity")
    SubtractArg1GradOp = _Switch("SubtractArg1GradOp")
    MulArgGradOp = _Switch("MulArgGradOp")
    MatMulOp = _Switch("MatMulOp")
    MatMulLhsGradOp = _Switch("MatMulLhsGradOp")
    MatMulRhsGradOp = _Switch("MatMulRhsGradOp")
    InPlace = _Switch("InPlace")

    def __init__(
        self,
        patterns: PatternsLevel | Iterable[str] | Mapping[str, bool] = PatternsLevel.Default,
        *,
        level: PatternsLevel | None = None,
    ) -> None:
        given: Any = patterns if level is None else level
        self._asserts = True
        if isinstance(given, PatternsLevel):
            self._on = _of_level(given)
        elif isinstance(given, Mapping):
            self._on = _of_level(PatternsLevel.Default)
            for name, enabled in cast("Mapping[str, bool]", given).items():
                self.enablePattern(name, enabled)
        elif isinstance(given, str) or not isinstance(given, Iterable):
            raise TypeError(f"Patterns: incompatible constructor arguments: {shown(given)} is no level, list of names or dict")
        else:
            self._on = dict.fromkeys(map(_known, cast("Iterable[str]", given)), True)

    def isPatternEnabled(self, name: str) -> bool:
        """Whether a pattern is on. Raises: popart_exception if there is none of that name."""
        return self._on.get(_known(name), False)

    def enablePattern(self, name: str, enabled: bool) -> Patterns:
        """Switches a pattern on or off.

        Returns: the patterns themselves.
        Raises: popart_exception if there is none of that name, or it is mandatory and to be off.
        """
        pattern = PATTERNS.get(_known(name))
        if pattern is not None and pattern.mandatory and not enabled:
            raise popart_exception(f"Pattern '{name}' is mandatory and cannot be disabled")
        self._on[name] = bool(enabled)
        return self

    def enableRuntimeAsserts(self, enabled: bool) -> Patterns:
        """Says whether a session refuses patterns of which a mandatory one is off. Returns: the patterns themselves."""
        self._asserts = bool(enabled)
        return self

    def require_supported(self) -> None:
        """Checks the patterns of a session that is about to be made. Raises: popart_exception for a mandatory one that is off."""
        missing = [name for name, pattern in PATTERNS.items() if pattern.mandatory and not self._on.get(name, False)]
        if self._asserts and missing:
            raise popart_exception(
                f"Pattern '{missing[0]}' must be enabled, as {len(missing)} mandatory ones that are off. "
                "Choose PatternsLevel.Minimal, or call enableRuntimeAsserts(False)."
            )

    def copied(self) -> Patterns:
        """Patterns with the same state."""
        twin = Patterns([])
        twin._on, twin._asserts = dict(self._on), self._asserts
        return twin

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Patterns) and repr(self) == repr(other)

    def __hash__(self) -> int:
        return hash(repr(self))

    def __repr__(self) -> str:
        return " ".join(sorted(name for name, enabled in self._on.items() if enabled))


def require_pattern_name(name: str) -> None:
    """Checks a name that Builder.excludePatterns was given. Raises: popart_exception if no pattern has it."""
    if name not in PATTERNS and name not in EXCLUDABLE:
        raise popart_exception(f"Invalid pattern name '{name}' in excludePatterns.{_hint(name)}")


def _of_level(level: PatternsLevel) -> dict[str, bool]:
    match level:
        case PatternsLevel.NoPatterns:
            return {}
        case PatternsLevel.Minimal:
            return {name: pattern.mandatory for name, pattern in PATTERNS.items()}
        case PatternsLevel.Default:
            return {**{name: pattern.usual for name, pattern in PATTERNS.items()}, "InPlace": True}
        case PatternsLevel.All:
            return {**dict.fromkeys(PATTERNS, True), "InPlace": True}


def _known(name: str) -> str:
    if not isinstance(name, str):
        raise TypeError(f"A pattern is named by a text, not by {shown(name)} ({type(name).__name__})")
    if name in PATTERNS or name in IN_PLACE:
        return name
    raise popart_exception(f"Unknown pattern {name}.{_hint(name)}")


def _hint(name: str) -> str:
    near = nearest(name, (*PATTERNS, *IN_PLACE))
    return f" Did you mean {near}?" if near else ""
