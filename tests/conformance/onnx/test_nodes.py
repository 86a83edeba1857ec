"""onnx's own tests, by onnx's own runner: node by node, and as one program with what the demand analysis makes static."""

from __future__ import annotations

import pytest

from tests.conformance.onnx.differences import AS_A_PROGRAM, MODELS_AS_PROGRAMS, MODELS_IN_FILES, NODE_BY_NODE, TESTS_OF_OPERATORS
from tests.conformance.onnx.profile import is_for_accelerators
from tests.conformance.onnx.runner import FOLDERS, OneProgramBackend, failures, models_of_nodes, names_of
from tilestep.onnx.backend import TilestepBackend

SAMPLED = 17  # one of so many runs in `make test`
WAYS = [pytest.param(TilestepBackend, NODE_BY_NODE, id="node-by-node"), pytest.param(OneProgramBackend, AS_A_PROGRAM, id="one-program")]
FOR_ACCELERATORS, BY_VALUES = 1787, 23


def sampled(names: list[str]) -> list[str]:
    return sorted({*names[::SAMPLED], *(AS_A_PROGRAM.keys() & set(names[:: SAMPLED // 3]))})


@pytest.mark.parametrize(("backend", "differences"), WAYS)
def test_a_sample_of_the_operators_tests_passes(backend: type[TilestepBackend], differences: dict[str, str]) -> None:
    names = sampled(names_of(backend))
    assert failures(backend, names).keys() == differences.keys() & set(names)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize(("backend", "differences"), WAYS)
def test_all_of_the_operators_tests_pass_but_those_with_a_reason(backend: type[TilestepBackend], differences: dict[str, str]) -> None:
    names = names_of(backend)
    assert len(names) == TESTS_OF_OPERATORS
    assert failures(backend, names).keys() == differences.keys()


def test_nearly_all_tests_that_accelerators_can_run_are_expected_to_pass() -> None:
    profile = {name for name, model in models_of_nodes().items() if is_for_accelerators(model)}
    assert len(profile) == FOR_ACCELERATORS
    eager, compiled = profile - NODE_BY_NODE.keys(), profile - AS_A_PROGRAM.keys()
    assert len(eager) == FOR_ACCELERATORS - 4  # of training's dropout
    assert len(eager) - len(compiled) == BY_VALUES


def test_models_in_files_pass_as_a_sample() -> None:
    names = names_of(TilestepBackend, FOLDERS)
    assert failures(TilestepBackend, names[::SAMPLED], FOLDERS) == {}
    assert failures(OneProgramBackend, names[1::SAMPLED], FOLDERS).keys() == MODELS_AS_PROGRAMS.keys() & set(names[1::SAMPLED])


@pytest.mark.slow
def test_all_models_in_files_pass() -> None:
    names = names_of(TilestepBackend, FOLDERS)
    assert len(names) == MODELS_IN_FILES
    assert failures(TilestepBackend, names, FOLDERS) == {}
    assert failures(OneProgramBackend, names, FOLDERS).keys() == MODELS_AS_PROGRAMS.keys()
