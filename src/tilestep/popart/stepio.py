"""Where a step's inputs come from and its anchors go: arrays, or functions that give and take them."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, final

import numpy as np

from tilestep.messages import shown
from tilestep.onnx.interpreter.values import Array
from tilestep.popart.exceptions import popart_exception, popart_runtime_error


class IStepIO:
    """What `session.run` takes."""


@final
class PyStepIO(IStepIO):
    """Inputs and outputs as NumPy arrays.

    An input has the elements of all microbatches of a step, in the order (batch, microbatch, replica, tensor); its shape is free. Outputs
    are written in place: `session.initAnchorArrays()` makes them.
    """

    def __init__(self, inputs: Mapping[str, Any], outputs: Mapping[str, Any]) -> None:
        """Args: inputs: by name. outputs: by name.

        Raises: popart_exception for an array that is not C-contiguous; TypeError for what is no dict of arrays by name.
        """
        self.inputs = {name: _contiguous(name, array, "input") for name, array in _by_name(inputs, "inputs")}
        self.outputs = {name: _contiguous(name, array, "output") for name, array in _by_name(outputs, "outputs")}
        self.checks = True

    def enableRuntimeAsserts(self, enable: bool) -> None:
        """Whether `run` checks the number of elements of each array. False: an array of another size is an error of NumPy."""
        self.checks = bool(enable)

    def input(self, name: str) -> Array:
        """An input. Raises: popart_runtime_error if it was not given."""
        if name not in self.inputs:
            raise popart_runtime_error(f"No tensor {name} provided in PyStepIO's inputs: it has {', '.join(self.inputs) or 'none'}")
        return self.inputs[name]

    def output(self, name: str) -> Array:
        """An output. Raises: popart_runtime_error if it was not given."""
        if name not in self.outputs:
            raise popart_runtime_error(f"No tensor {name} provided in PyStepIO's outputs: it has {', '.join(self.outputs) or 'none'}")
        return self.outputs[name]


@final
class PyStepIOCallback(IStepIO):
    """Inputs and outputs by functions that are called for each microbatch."""

    def __init__(
        self,
        input_callback: Callable[[str, bool], Any],
        input_complete_callback: Callable[[str], Any],
        output_callback: Callable[[str], Any],
        output_complete_callback: Callable[[str], Any],
    ) -> None:
        """Args:
        input_callback: (name, prefetch) -> the array of the next microbatch. None if `prefetch` and there is none yet.
        input_complete_callback: (name): the array has been read.
        output_callback: (name) -> the array to write a microbatch's anchor to.
        output_complete_callback: (name): it has been written.
        """
        self._input, self._input_complete = input_callback, input_complete_callback
        self._output, self._output_complete = output_callback, output_complete_callback

    def read(self, name: str) -> Array:
        """The next microbatch's array, copied. Raises: popart_exception if the function gives none, or one that is not contiguous."""
        array = self._input(name, False)
        if array is None:
            raise popart_runtime_error(f"The input callback gave no array for tensor '{name}' though it was no prefetch")
        copy = np.array(_contiguous(name, array, "input"))
        self._input_complete(name)
        return copy

    def write(self, name: str, value: Array) -> None:
        """Writes a microbatch's anchor.

        Raises: popart_exception for an array that is not contiguous, popart_runtime_error for one that can't hold it.
        """
        array = _contiguous(name, self._output(name), "output")
        if array.size != value.size:
            raise popart_runtime_error(
                f"Unexpected number of output elements for Tensor {name}. Expected {value.size}, but received {array.size}."
            )
        store(name, value, array)
        self._output_complete(name)


@final
class PyWeightsIO:
    """Arrays by name, that `readWeights` fills and `writeWeights` reads."""

    def __init__(self, weights: Mapping[str, Any]) -> None:
        """Args: weights: by name. Raises: popart_exception for an array that is not C-contiguous."""
        self.weights = {name: _contiguous(name, array, "output", "PyWeightsIO") for name, array in weights.items()}


def store(name: str, value: Array, target: Array) -> None:
    """Copies a tensor's value into the caller's array of the same size. Raises: popart_runtime_error if that can't hold it as it is."""
    if not target.flags.writeable:
        raise popart_runtime_error(f"What is given for tensor {name} can't be written in place: give a NumPy array that is not read-only")
    if not np.can_cast(value.dtype, target.dtype, "safe"):
        raise popart_runtime_error(
            f"Type discrepancy for tensor {name}. User provided : {target.dtype.name.upper()} and expected : {value.dtype.name.upper()}. "
            f"Give an array of type {value.dtype.name}: another one would not hold each value"
        )
    target[...] = value.reshape(target.shape)


def _by_name(arrays: object, what: str) -> Iterable[tuple[str, Any]]:
    if not isinstance(arrays, Mapping):
        raise TypeError(f"PyStepIO: the {what} are {shown(arrays)}: they must be a dict of NumPy arrays by the name of their tensor")
    for name, array in arrays.items():
        if not isinstance(name, str):
            raise TypeError(f"PyStepIO: the {what} have the key {shown(name)}: a tensor is named by a text")
        yield name, array


def _contiguous(name: str, given: Any, what: str, owner: str = "PyStepIO") -> Array:
    if not isinstance(given, np.ndarray | np.generic | int | float | list):
        raise TypeError(f"{owner}: the {what} of tensor '{name}' is a {type(given).__name__}: it must be a NumPy array")
    array: Array = np.asarray(given)
    if not array.flags.c_contiguous:
        raise popart_exception(
            f"{owner} is unable to use the numpy {what} array for tensor '{name}' as it is not c-contiguous (a conversion would cost time "
            "unseen, so there is none): give numpy.ascontiguousarray(array)"
        )
    if not isinstance(given, np.ndarray):
        array.flags.writeable = False  # nobody would see what is written to a copy
    return array
