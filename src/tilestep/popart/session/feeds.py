"""Arrays of a step's inputs and anchors: shapes, sizes, types."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, final

import jax
import numpy as np

from tilestep.onnx.interpreter.values import Array
from tilestep.popart.dataflow import Anchor
from tilestep.popart.enums import AnchorReturnTypeId
from tilestep.popart.exceptions import popart_runtime_error
from tilestep.popart.session.model.graph import narrowed
from tilestep.popart.session.plan import SessionPlan
from tilestep.popart.stepio import PyStepIO, store

_TENSOR_TYPES: Final = {np.dtype(np.int64): np.dtype(np.int32)}  # array's type -> tensor's type; it is converted without a word


@final
class Feeds:
    """Shapes of the arrays of one session."""

    def __init__(self, plan: SessionPlan) -> None:
        self._inputs: Mapping[str, jax.ShapeDtypeStruct] = plan.graph.inputs
        # Initialisers among the model's inputs may be given arrays; as in the original, these are not read.
        declared = {entry.name for entry in plan.graph.proto.graph.input}
        self._initialised = {name for name in plan.graph.variables if name in declared}
        self._plan = plan
        self._replicas = {name: 1 if name in plan.replication.broadcast else plan.replication.count for name in self._inputs}
        self._shapes = {name: (*self._lead(name), *spec.shape) for name, spec in self._inputs.items()}
        self._sizes = {name: math.prod(shape) for name, shape in self._shapes.items()}
        looked_at = {anchor.name for anchor in plan.anchors}
        self._unread = {name for name in self._inputs if name not in looked_at | plan.graph.read}
        self._anchors: dict[str, tuple[Anchor, jax.ShapeDtypeStruct]] = {}
        for anchor in plan.anchors:
            kind = plan.type_of(anchor.name)
            assert kind is not None
            self._anchors[anchor.name] = (anchor, kind)

    def _lead(self, name: str) -> tuple[int, ...]:
        """Dimensions in front of an input's own."""
        return tuple(size for size in (self._plan.batches, self._plan.accumulation, self._replicas[name]) if size != 1)

    def _leading(self, anchor: Anchor) -> list[int]:
        """Dimensions in front of an anchor's own."""
        plan = self._plan
        return anchor.leading(batches=plan.batches, accumulation=plan.accumulation, replicas=plan.replication.count)

    def step_types(self) -> dict[str, jax.ShapeDtypeStruct]:
        """Shapes and dtypes of a step's inputs, as the program takes them."""
        shapes = self._shapes
        if self._plan.synthetic:
            shapes = {name: (*((self._replicas[name],) if self._replicas[name] > 1 else ()), *s.shape) for name, s in self._inputs.items()}
        return {name: jax.ShapeDtypeStruct(shape, self._inputs[name].dtype) for name, shape in shapes.items()}

    def anchor_arrays(self) -> dict[str, Array]:
        """New arrays for the anchors, with anything in them."""
        arrays: dict[str, Array] = {}
        for name, (anchor, kind) in self._anchors.items():
            arrays[name] = np.empty([*(size for size in self._leading(anchor) if size != 1), *kind.shape], kind.dtype)
        return arrays

    def require(self, io: PyStepIO) -> None:
        """Raises: popart_runtime_error for an array with another number of elements, and for an input that the model does not have."""
        for name, array in io.inputs.items():
            if name in self._initialised:
                kind = self._plan.type_of(name)
                assert kind is not None
                expected = math.prod((*kind.shape, self._plan.batches, self._plan.accumulation, self._plan.replication.count))
                self._require_size(name, "input", expected, array.size, kind.shape)
                continue
            if name not in self._inputs:
                raise popart_runtime_error(self._unknown(name))
            self._require_size(name, "input", self._sizes[name], array.size, self._inputs[name].shape)
        for name, array in io.outputs.items():
            if name not in self._anchors:
                continue
            anchor, kind = self._anchors[name]
            leading = math.prod(self._leading(anchor))
            more = f"\nThe anchor return type is  {anchor.kind.name}"
            if anchor.kind == AnchorReturnTypeId.EveryN:
                more += f"\nThe return period is {anchor.period}"
            self._require_size(name, "output", leading * math.prod(kind.shape), array.size, kind.shape, more)

    def _unknown(self, name: str) -> str:
        if self._plan.type_of(name) is not None:
            return (
                f"The tensor '{name}' has been provided as one of the inputs to the stepIO, but it is not registered as one of the inputs "
                f"to the model, which are {', '.join(self._inputs) or 'none'}. Please check this tensor and your stepIO."
            )
        return (
            f"Testing that the buffer provided by user for input Tensor {name} has the correct number of elements, But there is no Tensor "
            f"named {name} in the Ir's main Graph, and it does not exist in the original ONNX Model. The inputs are "
            f"{', '.join(self._inputs) or 'none'}."
        )

    def _require_size(self, name: str, what: str, expected: int, given: int, shape: Sequence[int], more: str = "") -> None:
        if expected == given:
            return
        raise popart_runtime_error(
            f"Unexpected number of {what} elements for Tensor {name}. Expected {expected}, but received {given}.\n"
            "To disable this check at your own risk, use IStepIO::enableRuntimeAsserts.\n"
            f"This with, \n   replication  factor = {self._plan.replication.count}\n   accumulation factor = {self._plan.accumulation}\n"
            f"   batches per step    = {self._plan.batches}\n   Tensor nelms        = {math.prod(shape)}{more}"
        )

    def step_inputs(self, io: PyStepIO) -> dict[str, Array]:
        """The arrays of a step in the program's shapes and types.

        Without its checks a shorter array is read again from its begin, as the original reads it.

        Raises: popart_runtime_error for a missing one that an operator reads, or one of another size or type.
        """
        left_out = self._unread - io.inputs.keys()
        types = self.step_types() if left_out else {}
        arrays = {
            name: np.zeros(shape, types[name].dtype)
            if name in left_out
            else self._whole(name, self._typed(name, io.input(name)), io.checks)
            for name, shape in self._shapes.items()
        }
        return {name: array.reshape(self._shapes[name]) for name, array in arrays.items()}

    def _whole(self, name: str, array: Array, checks: bool) -> Array:
        """An array with as many elements as a step reads."""
        size, piece = self._sizes[name], math.prod(self._inputs[name].shape)
        if array.size == size:
            return array
        if checks or 0 in (size, array.size) or size % array.size or array.size % piece:
            self._require_size(name, "input", size, array.size, self._inputs[name].shape)
        return np.resize(array, size)

    def microbatch_input(self, name: str, read: Callable[[str], Array]) -> Array:
        """An input of one microbatch, from a function that is called for each replica; zeros for one that no operator reads.

        Raises: popart_runtime_error for another size or type.
        """
        if name in self._unread:
            spec = self._inputs[name]
            return np.zeros(spec.shape if self._replicas[name] == 1 else (self._replicas[name], *spec.shape), spec.dtype)
        if self._replicas[name] == 1:
            return self._piece(name, read(name))
        return np.stack([self._piece(name, read(name)) for _ in range(self._replicas[name])])

    def _piece(self, name: str, array: Array) -> Array:
        """An array of one microbatch of one replica."""
        spec = self._inputs[name]
        size = math.prod(spec.shape)
        if array.size != size:
            raise popart_runtime_error(
                f"Unexpected number of input elements for Tensor {name}. Expected {size}, but received {array.size}."
            )
        return self._typed(name, array).reshape(spec.shape)

    def _typed(self, name: str, array: Array) -> Array:
        dtype = self._inputs[name].dtype
        if array.dtype == dtype:
            return array
        if _TENSOR_TYPES.get(array.dtype) == dtype:
            return narrowed(name, array, casts=True)
        raise popart_runtime_error(
            f"Type discrepancy for tensor {name}. User provided : {array.dtype.name.upper()} and expected : {np.dtype(dtype).name.upper()}"
            f". Consider a custom copy here, such as array.astype({np.dtype(dtype).name!r})"
        )


def deliver(values: Mapping[str, Any], io: PyStepIO) -> None:
    """Copies a step's anchors into the caller's arrays. Raises: popart_runtime_error for one that is missing or can't hold them."""
    for name, value in values.items():
        store(name, np.asarray(value), io.output(name))
