"""onnx's own runner of its tests, over the two ways that tilestep runs a model: node by node, and as one program."""

import importlib
import io
import unittest
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import redirect_stdout
from functools import cache
from pathlib import Path
from typing import Any, Final

import jax
import numpy as np
import onnx
from onnx import numpy_helper
from onnx.backend.base import BackendRep
from onnx.backend.test.case import node
from onnx.backend.test.case.test_case import TestCase
from onnx.backend.test.loader import DATA_DIR, load_model_tests
from onnx.backend.test.runner import Runner

from tests.together import compiled
from tilestep.onnx import OnnxModel, import_onnx
from tilestep.onnx.backend import TilestepBackend
from tilestep.onnx.interpreter.values import SequenceValue

NODES, FOLDERS = (
    "OnnxBackendNodeModelTest",
    ("OnnxBackendSimpleModelTest", "OnnxBackendPyTorchOperatorModelTest", "OnnxBackendPyTorchConvertedModelTest"),
)
_ON_CPU: Final = "_cpu"


class OneProgram(BackendRep):
    """A model whose `fn` is compiled whole. Only the inputs are known that the demand analysis makes static; it never falls back."""

    def __init__(self, model: OnnxModel) -> None:
        super().__init__()
        self._model = model

    def run(self, inputs: Any, **kwargs: Any) -> tuple[Any, ...]:
        """The outputs, as NumPy has them."""
        program, given = program_of(self._model, inputs)
        with jax.enable_x64(True):
            return plain(jax.jit(program)(given))


def program_of(model: OnnxModel, inputs: Sequence[Any]) -> tuple[Callable[[Any], Any], Any]:
    """(the outputs of a model as a function of its parameters and of the inputs that need not be known, these)."""
    names = [spec.name for spec in model.inputs]
    given = dict(zip(names, inputs, strict=True))
    known = {name: given[name] for name in model.static_inputs}
    traced = {name: _traced(value) for name, value in given.items() if name not in known}

    def program(given: Any) -> Any:
        params, traced = given
        return model.fn(params, *({**known, **traced}[name] for name in names), key=jax.random.key(0))

    return program, (model.params, traced)


def plain(outputs: Any) -> tuple[Any, ...]:
    """Outputs as NumPy has them."""
    return tuple(map(_plain, outputs))


def _traced(value: Any) -> Any:
    return SequenceValue(map(_traced, value)) if isinstance(value, list | tuple) else value


def _plain(output: Any) -> Any:
    if isinstance(output, SequenceValue):
        return [_plain(element) for element in output]
    return output if output is None else np.asarray(output)


class OneProgramBackend(TilestepBackend):
    """As a backend of onnx."""

    @classmethod
    def prepare(cls, model: onnx.ModelProto, device: str = "CPU", **kwargs: Any) -> Any:
        """Compiles when it runs."""
        return OneProgram(import_onnx(model))


@cache
def tests_of(backend: type[TilestepBackend]) -> dict[str, type[unittest.TestCase]]:
    """onnx's tests for a backend, by kind."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the functions that compute what is expected
        return Runner(backend).test_cases


def cases_of(prefixes: Mapping[str, str]) -> list[TestCase]:
    """onnx's tests of operators in some of its modules; to make all takes 15 s. Args: prefixes: module -> of its tests' names."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the functions that compute what is expected
        for module in prefixes:
            importlib.import_module(f"onnx.backend.test.case.node.{module}")
    names = tuple(f"test_{prefix}" for prefix in prefixes.values())
    return [case for case in node._NodeTestCases if case.name.startswith(names)]


def case_in_a_file(name: str) -> TestCase:
    """One of onnx's tests that stand in files, with its arrays."""
    (folder,) = Path(DATA_DIR).glob(f"*/test_{name}")
    model = onnx.load(str(folder / "model.onnx"))
    inputs, outputs = (
        [numpy_helper.to_array(onnx.load_tensor(str(path))) for path in sorted((folder / "test_data_set_0").glob(f"{kind}_*.pb"))]
        for kind in ("input", "output")
    )
    return TestCase(
        name=folder.name,
        model_name=name,
        url=None,
        model_dir=None,
        model=model,
        data_sets=[(inputs, outputs)],
        kind="file",
        rtol=1e-3,
        atol=1e-7,
    )


def runs_as_one_program(case: TestCase) -> None:
    """Raises: what is wrong. With those of other tests it is one program, if it is called in `one_program`."""
    model = import_onnx(case.model)
    for inputs, outputs in case.data_sets or ():
        program, given = program_of(model, inputs)
        with jax.enable_x64(True):
            jax.eval_shape(program, given)

        def check(found: Any, outputs: Any = outputs) -> None:
            Runner.assert_similar_outputs(outputs, plain(found), case.rtol, case.atol)

        compiled(program, given, check, wide=True)


def models_of_nodes() -> dict[str, onnx.ModelProto]:
    """The models of onnx's tests of operators, by the test's name."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # as above: whoever asks first has them made
        return {test.name: test.model for test in load_model_tests(kind="node")}


def names_of(backend: type[TilestepBackend], kinds: Iterable[str] = (NODES,)) -> list[str]:
    """Names of the tests, without that of the device."""
    return sorted(name.removesuffix(_ON_CPU) for kind in kinds for name in vars(tests_of(backend)[kind]) if name.endswith(_ON_CPU))


def failures(backend: type[TilestepBackend], names: Sequence[str], kinds: Sequence[str] = (NODES,)) -> dict[str, str]:
    """The tests that do not pass, or that onnx's runner leaves out, each with the last line of what went wrong."""
    chosen = set(names)
    suite = unittest.TestSuite(
        tests_of(backend)[kind](name + _ON_CPU) for kind in kinds for name in names_of(backend, [kind]) if name in chosen
    )
    result = unittest.TestResult()
    with redirect_stdout(io.StringIO()):
        suite.run(result)
    assert result.testsRun == len(chosen)
    wrong = [*result.failures, *result.errors, *result.skipped]
    return {test.id().rpartition(".")[2].removesuffix(_ON_CPU): text.strip().splitlines()[-1] for test, text in wrong}
