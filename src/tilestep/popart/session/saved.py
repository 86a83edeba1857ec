"""The model that `modelToHost` writes: initialisers with the device's values, some of them in files of their own."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, final

import numpy as np
import onnx

from tilestep.popart.builder import external
from tilestep.popart.exceptions import popart_exception, popart_runtime_error
from tilestep.popart.session.reading import Model
from tilestep.popart.typed_tensors import typed_tensor

Array = np.ndarray[Any, Any]


@final
class SavedModel:
    """A session's model with the places of its initialisers.

    An array of the optimiser's state that belongs to an initialiser in a file is written to the end of that file, once; later it has its
    place there.
    """

    def __init__(self, model: Model) -> None:
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
