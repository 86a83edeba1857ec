"""onnx's own runner of its tests, over the two ways that tilestep runs a model: node by node, and as one program."""

from __future__ import annotations

import io
import unittest
import warnings
from collections.abc import Iterable, Sequence
from contextlib import redirect_stdout
from functools import cache
from typing import Any, Final

import jax
import numpy as np
import onnx
from onnx.backend.base import BackendRep
from onnx.backend.test.loader import load_model_tests
from onnx.backend.test.runner import Runner

from tilestep.onnx import OnnxModel, import_onnx
from tilestep.onnx.backend import TilestepBackend
from tilestep.onnx.values import SequenceValue

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
        model = self._model
        names = [spec.name for spec in model.inputs]
        given = dict(zip(names, inputs, strict=True))
        known = {name: given[name] for name in model.static_inputs}
        traced = {name: _traced(value) for name, value in given.items() if name not in known}

        def program(params: Any, traced: Any, key: Any) -> Any:
            return model.fn(params, *({**known, **traced}[name] for name in names), key=key)

        with jax.enable_x64(True):
            outputs = jax.jit(program)(model.params, traced, jax.random.key(0))
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


def models_of_nodes() -> dict[str, onnx.ModelProto]:
    """The models of onnx's tests of operators, by the test's name."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # as above: whoever asks first has them made
        return {test.name: test.model for test in load_model_tests(kind="node")}  # pyright: ignore[reportReturnType]


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
