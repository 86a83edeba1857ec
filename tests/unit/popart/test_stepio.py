"""Arrays and functions that a step reads from and writes to."""

from typing import Any

import numpy as np
import pytest

from tilestep.popart.exceptions import popart_exception, popart_runtime_error
from tilestep.popart.stepio import PyStepIO, PyStepIOCallback, PyWeightsIO, store

TURNED = np.zeros((3, 2), np.float32).T  # not C-contiguous


@pytest.mark.parametrize(("inputs", "outputs", "word"), [({"x": TURNED}, {}, "input"), ({}, {"x": TURNED}, "output")])
def test_an_array_that_is_not_contiguous_is_refused(inputs: dict[str, object], outputs: dict[str, object], word: str) -> None:
    with pytest.raises(
        popart_exception, match=f"^PyStepIO is unable to use the numpy {word} array for tensor 'x' as it is not c-contiguous"
    ):
        PyStepIO(inputs, outputs)
    with pytest.raises(popart_exception, match=r"^PyWeightsIO is unable to use"):
        PyWeightsIO({"x": TURNED})


def test_what_is_no_array_is_a_type_error() -> None:
    with pytest.raises(TypeError, match="the input of tensor 'x' is a str"):
        PyStepIO({"x": "text"}, {})


@pytest.mark.parametrize(
    ("inputs", "message"), [(5, "the inputs are 5"), (None, "the inputs are None"), ({5: TURNED}, "the inputs have the key 5")]
)
def test_what_is_no_dict_of_arrays_by_name_is_a_type_error(inputs: Any, message: str) -> None:
    with pytest.raises(TypeError, match=f"^PyStepIO: {message}: "):
        PyStepIO(inputs, {})


@pytest.mark.parametrize("given", [[0.0], 0.0, np.float32(0)])
def test_what_can_not_be_written_in_place_is_no_output(given: object) -> None:
    value = np.ones(1, np.float32)
    with pytest.raises(popart_runtime_error, match="for tensor y can't be written in place"):
        store("y", value, PyStepIO({}, {"y": given}).output("y"))
    with pytest.raises(popart_runtime_error, match="for tensor w can't be written in place"):
        store("w", value, PyWeightsIO({"w": given}).weights["w"])


def test_an_output_whose_type_loses_values_is_refused() -> None:
    value, target = np.array([1.5], np.float32), np.zeros(1, np.int32)
    with pytest.raises(popart_runtime_error, match=r"for tensor y\. User provided : INT32 and expected : FLOAT32"):
        store("y", value, target)
    assert target[0] == 0
    wide = np.zeros((1, 1), np.float64)
    store("y", value, wide)
    assert wide[0, 0] == 1.5


def test_functions_are_told_when_an_array_was_used() -> None:
    calls: list[str] = []
    target = np.zeros((2, 1), np.float32)

    def give(name: str, prefetch: bool) -> np.ndarray:
        calls.append(f"input {name} {prefetch}")
        return np.ones(2, np.float32)

    def take(name: str) -> np.ndarray:
        calls.append(f"output {name}")
        return target

    io = PyStepIOCallback(give, lambda name: calls.append(f"read {name}"), take, lambda name: calls.append(f"written {name}"))
    io.write("y", io.read("x") * 3)
    assert calls == ["input x False", "read x", "output y", "written y"]
    assert target.tolist() == [[3], [3]]
    with pytest.raises(popart_runtime_error, match=r"^Unexpected number of output elements for Tensor y. Expected 3, but received 2"):
        io.write("y", np.ones(3, np.float32))
