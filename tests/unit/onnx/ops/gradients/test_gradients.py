"""Gradients of every operator that has them, against differences in float64; and which operators have none."""

from zlib import crc32

import pytest

from tests.unit.onnx.ops.gradients import arrays, elementwise, layers
from tests.unit.onnx.ops.gradients.constant import NOT_DIFFERENTIABLE
from tests.unit.onnx.ops.gradients.slopes import Case, require_slopes
from tilestep.onnx.coverage import coverage
from tilestep.onnx.interpreter.registry import all_operators

SMOOTH = [*elementwise.SMOOTH, *arrays.SMOOTH, *layers.SMOOTH]
KINKS = [*elementwise.KINKS, *arrays.KINKS, *layers.KINKS]


# Operators whose programs take long to compile, and that leave derivatives to JAX. If, Loop and Scan have tests of their gradients.
LONG = {
    *("Adagrad", "Adam", "Attention", "CausalConvWithState", "DeformConv", "DFT", "FlexAttention", "GridSample", "GRU", "If"),
    *("LinearAttention", "Loop", "LSTM", "MaxRoiPool", "Momentum", "RNN", "RoiAlign", "Scan", "SequenceMap", "STFT"),
    *("SVMClassifier", "SVMRegressor", "SwiGLU"),
}


def of_half_of_them(cases: list[Case], *, others: bool = False) -> list[Case]:
    """The first case of each second operator, drawn by its name, that is not in LONG; or the others."""
    first = {(given.domain, given.name): number for number, given in reversed(list(enumerate(cases))) if is_quick(given.name)}
    return [given for number, given in enumerate(cases) if (first.get((given.domain, given.name)) == number) != others]


def is_quick(name: str) -> bool:
    return name not in LONG and crc32(name.encode()) % 2 == 0


def test_each_operator_has_a_case_or_a_reason() -> None:
    covered = {(row.domain, row.name) for row in coverage() if row.covered} | all_operators().keys()
    own = {key for key in covered if not key[0] or key[0].startswith("ai.onnx")}
    assert {(given.domain, given.name) for given in SMOOTH} == own - NOT_DIFFERENTIABLE.keys()
    assert own >= NOT_DIFFERENTIABLE.keys()


def test_derivatives_are_slopes() -> None:
    require_slopes(of_half_of_them(SMOOTH))


def test_derivatives_are_between_the_slopes_where_there_are_two() -> None:
    require_slopes(of_half_of_them(KINKS))


@pytest.mark.process  # asks for the bodies of functions
@pytest.mark.slow
def test_derivatives_of_further_cases_are_slopes() -> None:
    require_slopes(of_half_of_them(SMOOTH, others=True))
    require_slopes(of_half_of_them(KINKS, others=True))
