"""A session's weights: to the device and back, to programs' arrays, and to a model's file."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import jax

from tilestep.files import write_file
from tilestep.popart.exceptions import popart_runtime_error
from tilestep.popart.session.calls.prepared import Prepared
from tilestep.popart.session.reading import read_model
from tilestep.popart.stepio import PyWeightsIO


class WeightCalls(Prepared):
    """Methods about weights."""

    _in_sync = False  # whether the host has what is on the device

    def weightsFromHost(self) -> None:
        """Sends the weights and the optimiser's state to the device."""
        self._require_prepared("weightsFromHost()")
        if self._synthetic.off:
            self._carry = self._first_carry()
            self._figures.weights_from_host()
        self._weights_sent, self._in_sync = True, False

    def weightsToHost(self) -> None:
        """Receives the weights and the optimiser's state from the device; `readWeights` gives them out."""
        carry = self._require_prepared("weightsToHost()")
        if not self._synthetic.off:
            return
        self._figures.weights_to_host()
        values = {**carry.variables, **({} if carry.optimizer is None else carry.optimizer.tensors)}
        self._weights.receive(jax.device_get(values))
        self._in_sync = True

    def readWeights(self, weightsIo: PyWeightsIO) -> None:
        """Copies what `weightsToHost` has received. Raises: popart_runtime_error for an array of another size."""
        self._weights.read(weightsIo)

    def writeWeights(self, weightsIo: PyWeightsIO) -> None:
        """Takes arrays for the next `weightsFromHost`. Raises: popart_runtime_error where weights are constant, or for another shape."""
        if self._options.constantWeights and not self._training:
            raise popart_runtime_error(
                "Cannot call writeWeights when constantWeights is set. Set `constantWeights` to False in the `SessionOption`s when "
                "initialising the session to enable this behaviour."
            )
        self._weights.write(weightsIo)

    def resetHostWeights(self, modelProtoOrFilename: Any, ignoreWeightsInModelWithoutCorrespondingHostWeight: bool = False) -> None:
        """Takes a model's initialisers for the next `weightsFromHost`.

        Raises: popart_runtime_error where weights are constant or do not fit, popart_exception for a model that can't be read.
        """
        self._require_prepared("resetHostWeights")
        if self._options.constantWeights and not self._training:
            raise popart_runtime_error("Cannot call resetHostWeights when constantWeights is set")
        self._weights.reset(read_model(modelProtoOrFilename), ignore_unknown=ignoreWeightsInModelWithoutCorrespondingHostWeight)
        self._weights_sent = False

    def modelToHost(self, fn: str) -> None:
        """Writes the model with its weights, and the optimiser's state as further initialisers, to a file.

        What stands in a file of its own is written there. Raises: popart_exception if that file is not there.
        """
        self.weightsToHost()
        model = self._saved.with_values(self._weights.of_groups)
        write_file(Path(fn), model.SerializeToString())
        if not self._options.constantWeights or self._training:
            self._weights.outgoing = dict(self._weights.of_groups)

    def updateExternallySavedTensorLocations(self, fromLocation: str, toLocation: str) -> None:
        """Copies what stands in one file beside the model to another, where `modelToHost` writes it from then on.

        Raises: popart_runtime_error if the new file exists, the old one does not, or nothing of the model stands in it.
        """
        self._saved.moved(os.fspath(fromLocation), os.fspath(toLocation))

    def copyDeviceWeightsToHost(self) -> None:
        """Receives the weights, unless the host has them already; the next `weightsFromHost` sends these."""
        if not self._in_sync:
            self.weightsToHost()
        self._weights.outgoing = dict(self._weights.of_groups)

    def markHostWeightsOutOfSync(self) -> None:
        """Says that the device has other weights than the host. A run says it, too."""
        self._in_sync = False

    def markHostWeightsInSync(self) -> None:
        """Says that the host has the device's weights."""
        self._in_sync = True

    def areHostWeightsInSync(self) -> bool:
        """Whether the host has the device's weights."""
        return self._in_sync

    def broadcastWeights(self, rootRank: int = 0) -> None:
        """Gives all processes the weights of one: there is one process. Raises: popart_runtime_error for a rank other than 0."""
        if rootRank != 0:
            raise popart_runtime_error(f"broadcastWeights: rootRank is {rootRank}, and the only process has rank 0")
