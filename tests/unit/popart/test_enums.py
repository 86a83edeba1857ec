"""Numbers of enumerations have no gaps, and beginnings of names are those that programs write out."""

from enum import Enum

from tests.together import each
from tilestep.popart import enums, names

ALL = [
    kind
    for kind in vars(enums).values()
    if isinstance(kind, type) and issubclass(kind, Enum) and not kind.__name__.startswith("_") and len(kind)
]


@each("kind", ALL)
def test_numbers_are_different_and_without_gaps(kind: type[Enum]) -> None:
    assert sorted(member.value for member in kind) == list(range(len(kind)))


def test_some_names_that_programs_write_out() -> None:
    assert names.reservedGradientPrefix() == "Gradient___"
    assert names.reservedAccl1Prefix() + "w" == "Accl1___w"
    assert names.reservedDefaultScaledLearningRate0Prefix() + "FLOAT" == "scaledLearningRate0___default___FLOAT"
    assert names.reservedLossScalingPrefix() == "lossScaling_"
