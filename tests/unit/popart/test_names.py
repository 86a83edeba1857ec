"""The names that PopART reserves."""

from __future__ import annotations

import inspect

from tilestep.popart import names


def test_each_function_gives_the_beginning_of_a_name() -> None:
    prefixes = {name: function() for name, function in inspect.getmembers(names, callable) if name.startswith("reserved")}
    assert len(prefixes) == 50
    assert len(set(prefixes.values())) == 50
    assert all(prefix.endswith("_") for prefix in prefixes.values())


def test_some_names_that_programs_write_out() -> None:
    assert names.reservedGradientPrefix() == "Gradient___"
    assert names.reservedAccl1Prefix() + "w" == "Accl1___w"
    assert names.reservedDefaultScaledLearningRate0Prefix() + "FLOAT" == "scaledLearningRate0___default___FLOAT"
    assert names.reservedLossScalingPrefix() == "lossScaling_"
