"""A session's variables on the host: their first values, those for the device and from it, and the model that `modelToHost` writes."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, final

import jax
import numpy as np
import onnx

from tilestep.onnx.interpreter.demand import statistics
from tilestep.onnx.interpreter.values import Array
from tilestep.popart.builder import external
from tilestep.popart.builder.external import array_of
from tilestep.popart.builder.loading import GivenModel
from tilestep.popart.exceptions import noted, popart_exception, popart_runtime_error
from tilestep.popart.optimizers import Optimizer, UpdateRule
from tilestep.popart.session.model.graph import SessionGraph, narrow_dtype, narrowed
from tilestep.popart.session.model.replication import Replication
from tilestep.popart.stepio import PyWeightsIO, store
from tilestep.popart.tensors import typed_tensor


def shared_by_replicas(graph: SessionGraph, rule: UpdateRule | None, optimizer: Optimizer | None) -> Replication:
    """The replicas of a graph, with the optimiser's state, and with what each has of its own.

    These are variables and state of several groups, and statistics, which each replica keeps of what it sees. Clipping by a norm over
    weights of which some are of groups makes replicas change all weights in ways of their own.
    """
    replication = graph.replication
    if replication.count == 1:
        return replication
    owners = {} if rule is None else rule.owners
    grouped = {name for name in graph.variables if replication.is_grouped(name)}
    kept = statistics(graph.graph) & graph.variables.keys()  # in inference, too, batch norms may keep them
    own = grouped | kept | {name for name, weight in owners.items() if weight in grouped}
    if optimizer is not None and optimizer.getClipNormSettings() and grouped:
        own = {*graph.variables, *owners}
    return replication.with_state(owners, own)


def first_values(graph: SessionGraph, rule: UpdateRule | None, trained: Sequence[str], replication: Replication) -> dict[str, Array]:
    """First values of variables, and of the optimiser's state, as the host gives them: those of a saved model where it has them.

    Raises: popart_exception for a value of another shape, and for a weight that has the name of the state.
    """
    variables = dict(graph.given)
    if rule is None:
        return variables
    tensors = _first_state(graph, rule, trained, replication)
    for name in sorted({name for node in graph.proto.graph.node for name in node.input} & graph.variables.keys()):
        if name in tensors:  # in a saved model no node reads those
            raise popart_exception(f"A weight is called '{name}', as a tensor of the optimiser's state is: call the weight otherwise")
    saved = {tensor.name: tensor for tensor in graph.proto.graph.initializer if tensor.name in tensors}
    for name, tensor in saved.items():
        array = array_of(tensor)
        if array.shape != tensors[name].shape:
            raise popart_exception(
                f"The model's '{name}' has shape {list(array.shape)}, and the optimiser's has {list(tensors[name].shape)}"
            )
        tensors[name] = array.astype(tensors[name].dtype)
    return variables | tensors


def _first_state(graph: SessionGraph, rule: UpdateRule, trained: Sequence[str], replication: Replication) -> dict[str, Array]:
    """The optimiser's state as the host gives it."""
    if not replication.own.intersection(trained):
        state = rule.init({name: graph.variables[name] for name in trained})  # pyrefly: ignore[bad-argument-type]
        return {name: np.asarray(value) for name, value in state.tensors.items()}
    each: Any = {
        name: np.broadcast_to(replication.on_device(name, graph.given[name]), (replication.count, *graph.variables[name].shape))
        for name in trained
    }
    state = jax.vmap(rule.init)(each)
    own = {name: np.asarray(value) for name, value in state.tensors.items()}
    return {name: replication.of_groups(name, value if name in replication.own else value[0]) for name, value in own.items()}


_MISMATCH: Final = "Trying to reset weights using tensor with non matching tensor info. Tensor ID:"


@final
class HostWeights:
    """Sets of arrays by name, as PopART has them. An array of which groups of replicas have their own has the groups in front.

    Attributes:
        outgoing: what `weightsFromHost` sends. `writeWeights`, `resetHostWeights` and `modelToHost` change it.
        incoming: what `weightsToHost` has received last. `readWeights` copies from it. All replicas' values, where settings say so.
        of_groups: the same in the form of `outgoing`.
    """

    def __init__(self, first: Mapping[str, Array], constants: Mapping[str, Array], replication: Replication) -> None:
        """Args: first: the variables' first values. constants: initialisers that no transfer can change."""
        self._constants, self._replication = constants, replication
        self.outgoing: dict[str, Array] = dict(first)
        self.of_groups: dict[str, Array] = {}
        self.incoming: dict[str, Array] = {}
        self.receive({name: replication.on_device(name, array) for name, array in first.items()})

    def receive(self, kept: Mapping[str, Any]) -> None:
        """Takes what was on the device."""
        self.of_groups = {name: np.array(self._replication.of_groups(name, array)) for name, array in kept.items()}
        self.incoming = {
            name: self.of_groups[name] if self._replication.count == 1 else np.array(self._replication.returned(name, array))
            for name, array in kept.items()
        }

    def read(self, into: PyWeightsIO) -> None:
        """Copies received values into the caller's arrays; names that are no variables stay as they are.

        Raises: popart_runtime_error for an array of another size or type.
        """
        for name, array in into.weights.items():
            if name in self.incoming:
                _copy(name, self.incoming[name], array)

    def write(self, values: PyWeightsIO) -> None:
        """Takes the caller's values for the next transfer to the device; none of them if one does not fit.

        Raises: popart_runtime_error for an array of another shape or type, popart_exception for a value beyond 32 bits.
        """
        known = {name: array for name, array in values.weights.items() if name in self.outgoing}
        fitting = {name: self._replication.taken(name, array, self.outgoing[name]) for name, array in known.items()}
        self.outgoing.update({name: _fitting(name, array, self.outgoing[name]) for name, array in fitting.items()})

    def reset(self, model: GivenModel, *, ignore_unknown: bool) -> None:
        """Takes the initialisers of a model for the next transfer to the device; none of them if one does not fit.

        Raises: popart_runtime_error for an initialiser that is no variable, unless `ignore_unknown`; and for one of another shape or type.
            MissingDataError for one in a file that is not there or may not be read.
        """
        new: dict[str, Array] = {}
        for tensor in model.proto.graph.initializer:
            value = array_of(tensor)
            if tensor.name in self.outgoing:
                new[tensor.name] = _fitting(tensor.name, value, self.outgoing[tensor.name])
            elif tensor.name in self._constants:
                self._require_same(tensor.name, value)
            elif not ignore_unknown:
                raise noted(
                    popart_runtime_error(f"resetWeights, no tensor '{tensor.name}' in tensors"),
                    "The session's model has no such initialiser. Set ignoreWeightsInModelWithoutCorrespondingHostWeight to leave it out.",
                )
        self.outgoing.update(new)

    def _require_same(self, name: str, value: Array) -> None:
        if not np.array_equal(value, self._constants[name]):
            raise popart_runtime_error(
                f"Tensor '{name}' decides shapes, so it can't change after the session was made: make another session"
            )


def _copy(name: str, value: Array, target: Array) -> None:
    if value.nbytes != target.nbytes:
        raise popart_runtime_error(
            f"sizes (in bytes) of src ({value.nbytes}) and dst ({target.nbytes}) differ in hostStreamToHost for {name}: it has shape "
            f"{list(value.shape)} and type {value.dtype}"
        )
    store(name, value, target)


def _fitting(name: str, array: Array, old: Array) -> Array:
    if array.shape != old.shape:
        raise popart_runtime_error(f"{_MISMATCH} {name}. It has shape {list(old.shape)}, and the given array has {list(array.shape)}")
    if narrow_dtype(array.dtype) != old.dtype:
        raise popart_runtime_error(f"{_MISMATCH} {name}. It has type {old.dtype}, and the given array has {array.dtype}")
    return np.array(narrowed(name, array, casts=True))


@final
class SavedModel:
    """A session's model with the places of its initialisers.

    An array of the optimiser's state that belongs to an initialiser in a file is written to the end of that file, once; later it has its
    place there.
    """

    def __init__(self, model: GivenModel) -> None:
        self._proto = onnx.ModelProto()
        self._proto.CopyFrom(model.proto)

    def moved(self, old: str, new: str) -> None:
        """Copies the initialisers of one file into another, and writes them there from then on.

        Raises: popart_runtime_error if the new file exists, the old one does not, or no initialiser stands in it.
        """
        start = f"Updating externally saved tensor location from file '{old}' to file '{new}', but file "
        if os.path.exists(new):
            raise popart_runtime_error(f"{start}'{new}' already exists")
        if not os.path.exists(old):
            raise popart_runtime_error(f"{start}'{old}' does not exist")
        names = [
            tensor.name
            for tensor in self._proto.graph.initializer
            if external.is_external(tensor) and Path(external.location_of(tensor)).resolve() == Path(old).resolve()
        ]
        if not names:
            raise popart_runtime_error(f"No ONNX model initializers have external location set to '{old}'")
        external.save(self._proto, names, new, again=True)

    def with_values(self, values: Mapping[str, Array]) -> onnx.ModelProto:
        """A model with values in place of its initialisers; those that it lacks are added. Values of initialisers in files go there.

        Raises: popart_exception if a file is not there any more, or may not be written.
        """
        left = dict(values)
        model = onnx.ModelProto()
        for tensor in self._proto.graph.initializer:
            self._require_file(tensor)
        self._add_state(left)
        model.CopyFrom(self._proto)
        for tensor in model.graph.initializer:
            value = left.pop(tensor.name, None)
            if value is None:
                continue
            typed = value.astype(onnx.helper.tensor_dtype_to_np_dtype(tensor.data_type)).reshape(tuple(tensor.dims))
            if external.is_external(tensor):
                external.overwrite(tensor, typed)
            else:
                tensor.CopyFrom(typed_tensor(typed, tensor.name))
        model.graph.initializer.extend(typed_tensor(value, name) for name, value in left.items())
        return model

    def _require_file(self, tensor: onnx.TensorProto) -> None:
        if external.is_external(tensor) and not os.path.exists(external.location_of(tensor)):
            raise popart_exception(
                f"Unrecognised file name '{external.location_of(tensor)}' for externally stored tensor '{tensor.name}': a location is "
                "absolute, or relative to the working directory. updateExternallySavedTensorLocations gives it another file"
            )

    def _add_state(self, values: Mapping[str, Array]) -> None:
        """Gives the state of initialisers in files its place behind them."""
        homes = {tensor.name: tensor for tensor in self._proto.graph.initializer}
        for name, value in values.items():
            home = homes.get(name.partition("___")[2])
            if name in homes or home is None or not external.is_external(home) or not value.size:
                continue
            external.require_own(home)
            self._proto.graph.initializer.append(typed_tensor(value, name))
            external.save(self._proto, [name], external.location_of(home), append=True)
