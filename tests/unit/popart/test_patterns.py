"""Patterns: names and levels are the original's."""

from typing import Any

import pytest

from tests.together import each
from tilestep.popart.enums import PatternsLevel
from tilestep.popart.exceptions import popart_exception
from tilestep.popart.patterns import IN_PLACE, PATTERNS, Patterns

ATTRIBUTES = {"SoftMaxGradDirect": "SoftmaxGradDirect", "NlllWithSoftMaxGradDirect": "NlllWithSoftmaxGradDirect", "InPlace": "InPlace"}
ALL_OFF = {name for name, pattern in PATTERNS.items() if not pattern.usual}
MANDATORY = {name for name, pattern in PATTERNS.items() if pattern.mandatory}


def on(patterns: Patterns) -> set[str]:
    return set(repr(patterns).split())


def test_levels() -> None:
    assert on(Patterns()) == on(Patterns(PatternsLevel.Default)) == (PATTERNS.keys() - ALL_OFF) | {"InPlace"}
    assert on(Patterns(level=PatternsLevel.All)) == {*PATTERNS, "InPlace"}
    assert on(Patterns(PatternsLevel.Minimal)) == MANDATORY
    assert on(Patterns(PatternsLevel.NoPatterns)) == set()
    assert {"LSTMOp", "Slice2SliceSubsample", "SplitGather", "TiedGather", "TiedGatherAccumulate"} == ALL_OFF


def test_names_and_dicts() -> None:
    assert on(Patterns(["PostNRepl", "InPlace"])) == {"PostNRepl", "InPlace"}
    assert on(Patterns([])) == set()
    assert on(Patterns({"PostNRepl": False, "LSTMOp": True})) == (on(Patterns()) - {"PostNRepl"}) | {"LSTMOp"}


@pytest.mark.parametrize("wrong", ["PostNRepl", 3])
def test_other_arguments_are_a_type_error(wrong: Any) -> None:
    with pytest.raises(TypeError, match=r"incompatible constructor arguments"):
        Patterns(wrong)


@each("attribute", ATTRIBUTES)
def test_an_attribute_switches_its_pattern(attribute: str) -> None:
    patterns, name = Patterns(PatternsLevel.NoPatterns), ATTRIBUTES[attribute]
    setattr(patterns, attribute, True)
    assert getattr(patterns, attribute) is True
    assert on(patterns) == {name}


@each("name", [*PATTERNS, *IN_PLACE])
def test_every_pattern_can_be_switched_on_and_the_optional_ones_off(name: str) -> None:
    patterns = Patterns(PatternsLevel.NoPatterns)
    assert patterns.enablePattern(name, True).isPatternEnabled(name)
    if name in MANDATORY:
        with pytest.raises(popart_exception, match=r"is mandatory"):
            patterns.enablePattern(name, False)
    else:
        assert not patterns.enablePattern(name, False).isPatternEnabled(name)


@pytest.mark.parametrize(
    "call", [lambda p: p.isPatternEnabled("Inplace"), lambda p: p.enablePattern("Inplace", True), lambda p: Patterns(["Inplace"])]
)
def test_an_unknown_name_is_an_error_that_says_the_nearest(call: Any) -> None:
    with pytest.raises(popart_exception, match=r"^Unknown pattern Inplace. Did you mean InPlace"):
        call(Patterns())


def test_a_session_refuses_patterns_without_a_mandatory_one() -> None:
    Patterns(PatternsLevel.Minimal).require_supported()
    Patterns().require_supported()
    none = Patterns(PatternsLevel.NoPatterns)
    with pytest.raises(popart_exception, match=r"^Pattern 'AbsGradOp' must be enabled"):
        none.require_supported()
    none.enableRuntimeAsserts(False)
    none.require_supported()
