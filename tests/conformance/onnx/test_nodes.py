"""onnx's own tests, by onnx's own runner: node by node, and as one program with what the demand analysis makes static."""

import pytest
from onnx.backend.test.case.test_case import TestCase

from tests.conformance.onnx.differences import AS_A_PROGRAM, MODELS_AS_PROGRAMS, MODELS_IN_FILES, NODE_BY_NODE, TESTS_OF_OPERATORS
from tests.conformance.onnx.profile import is_for_accelerators
from tests.conformance.onnx.runner import (
    FOLDERS,
    OneProgramBackend,
    case_in_a_file,
    cases_of,
    failures,
    models_of_nodes,
    names_of,
    runs_as_one_program,
)
from tests.together import named, one_program
from tilestep.onnx import OnnxError
from tilestep.onnx.backend import TilestepBackend

WAYS = [pytest.param(TilestepBackend, NODE_BY_NODE, id="node-by-node"), pytest.param(OneProgramBackend, AS_A_PROGRAM, id="one-program")]
FOR_ACCELERATORS, BY_VALUES = 1787, 23
# Modules of onnx's tests that run in `make test`, with the names of their tests: of operators whose inputs have to be known, that have
# graphs, sequences and text, that are functions of others, or that have no test of values beside these.
QUICK = {
    "blackmanwindow": "blackmanwindow",
    "center_crop_pad": "center_crop_pad",
    "col2im": "col2im",
    "compress": "compress",
    "deformconv": "deform_conv",
    "groupnormalization": "group_normalization",
    "hammingwindow": "hammingwindow",
    "hannwindow": "hannwindow",
    "if_": "if",
    "loop": "loop",
    "optionalgetelement": "optional_get_element",
    "optionalhaselement": "optional_has_element",
    "rangeop": "range",
    "rmsnormalization": "rms_normalization",
    "scan": "scan",
    "sequence_map": "sequence_map",
    "sequenceinsert": "sequence_insert",
    "string_split": "string_split",
    "stringnormalizer": "strnormalizer",
    "tfidfvectorizer": "tfidfvectorizer",
    "topk": "top_k",
}
QUICK_FILES = (
    "BatchNorm2d_momentum_eval",
    "ConvTranspose2d",
    "Embedding",
    "PixelShuffle",
    "expand_shape_model4",
    "gradient_of_add_and_mul",
)


@pytest.fixture(scope="module")
def some() -> list[TestCase]:
    return [*cases_of(QUICK), *map(case_in_a_file, QUICK_FILES)]


def test_some_of_the_tests_pass_as_one_program(some: list[TestCase]) -> None:
    with one_program():
        for case in some:
            if case.name not in AS_A_PROGRAM:
                with named(case.name):
                    runs_as_one_program(case)
            elif case.name not in NODE_BY_NODE:
                with pytest.raises((OnnxError, TypeError)):
                    runs_as_one_program(case)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize(("backend", "differences"), WAYS)
def test_all_of_the_operators_tests_pass_but_those_with_a_reason(backend: type[TilestepBackend], differences: dict[str, str]) -> None:
    names = names_of(backend)
    assert len(names) == TESTS_OF_OPERATORS
    assert failures(backend, names).keys() == differences.keys()


@pytest.mark.slow
def test_nearly_all_tests_that_accelerators_can_run_are_expected_to_pass() -> None:
    profile = {name for name, model in models_of_nodes().items() if is_for_accelerators(model)}
    assert len(profile) == FOR_ACCELERATORS
    eager, compiled = profile - NODE_BY_NODE.keys(), profile - AS_A_PROGRAM.keys()
    assert len(eager) == FOR_ACCELERATORS - 4  # of training's dropout
    assert len(eager) - len(compiled) == BY_VALUES


@pytest.mark.slow
def test_all_models_in_files_pass() -> None:
    names = names_of(TilestepBackend, FOLDERS)
    assert len(names) == MODELS_IN_FILES
    assert failures(TilestepBackend, names, FOLDERS) == {}
    assert failures(OneProgramBackend, names, FOLDERS).keys() == MODELS_AS_PROGRAMS.keys()
