"""onnx's own tests of each operator: node by node, and compiled with what the demand analysis makes static."""

from __future__ import annotations

from typing import Any

import pytest

from tests.conformance.onnx.suite import DIFFERENT, Case, folders, node_tests, read_folder, require_same, sampled, value
from tilestep.onnx import OnnxError
from tilestep.onnx.backend import TilestepBackend


class Compiled(TilestepBackend):
    compiled = True


WAYS = [pytest.param(TilestepBackend, id="eager"), pytest.param(Compiled, id="compiled")]


def run(case: Case, backend: type[TilestepBackend]) -> None:
    """Raises: AssertionError, OnnxError for a test that does not pass."""
    model, runs = case
    ready = backend.prepare(model)
    for inputs, outputs in runs:
        found = ready.run([value(given) for given in inputs])
        assert len(found) == len(outputs)
        for one, other in zip(found, outputs, strict=True):
            require_same(one, value(other))


def failures(names: list[str], backend: type[TilestepBackend]) -> dict[str, str]:
    found: dict[str, str] = {}
    for name in names:
        try:
            run(node_tests()[name], backend)
        except (AssertionError, OnnxError) as error:
            found[name] = str(error).strip().split("\n")[0]
    return found


def unexpected(names: list[str], backend: type[TilestepBackend]) -> tuple[dict[str, str], set[str]]:
    """(tests that fail and should pass, tests that pass and should fail)."""
    found = failures(names, backend)
    return {name: why for name, why in found.items() if name not in DIFFERENT}, (DIFFERENT.keys() & set(names)) - found.keys()


def test_expected_differences_are_tests_of_onnx() -> None:
    assert DIFFERENT.keys() - node_tests().keys() == set()


@pytest.mark.parametrize("backend", WAYS)
def test_a_sample_of_the_operators_tests_passes(backend: type[TilestepBackend]) -> None:
    assert unexpected(sampled(list(node_tests())), backend) == ({}, set())


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("backend", WAYS)
def test_all_of_the_operators_tests_pass(backend: type[TilestepBackend]) -> None:
    assert len(node_tests()) > 1800
    assert unexpected(sorted(node_tests()), backend) == ({}, set())


def sampled_folders() -> list[Any]:
    return [pytest.param(name, id=name, marks=() if number % 11 == 0 else pytest.mark.slow) for number, name in enumerate(folders())]


@pytest.mark.parametrize("backend", WAYS)
@pytest.mark.parametrize("name", sampled_folders())
def test_models_in_files_pass(name: str, backend: type[TilestepBackend]) -> None:
    _, case = read_folder(name)
    run(case, backend)
