"""A session's executables: its compiled program and its variables in files."""

from __future__ import annotations

import os
from pathlib import Path

import jax

from tilestep.popart.session.calls.prepared import Prepared
from tilestep.popart.stepio import PyWeightsIO


class ExecutableCalls(Prepared):
    """Methods about executables."""

    def compileAndExport(self, filename: str) -> None:
        """Compiles the session's program and writes it to a file. A folder gets a file of its own.

        Raises: popart_exception for a device whose executables are not saved, OutOfMemoryException, OSError.
        """
        self._engine.require_saves()
        self.prepareDevice(loadEngine=False)
        self._engine.save(os.fspath(filename), jax.eval_shape(self._first_carry), self._weights.outgoing)

    def saveExecutable(self, path: str, savePopartMetadata: bool = True, saveVariables: bool = True) -> None:
        """Writes the prepared program to a file.

        Args:
            savePopartMetadata: it always is in the file, which can't be loaded without it.
            saveVariables: whether the weights are in it.
        Raises: as `compileAndExport`.
        """
        self._require_prepared("serializeExecutable")
        self._engine.save(os.fspath(path), jax.eval_shape(self._first_carry), self._weights.outgoing if saveVariables else None)

    def saveVariables(self, path: str) -> None:
        """Writes the weights and the optimiser's state alone to a file, which `loadExecutable` takes. Raises: as `compileAndExport`."""
        self._require_prepared("serializeTensorData")
        self._engine.save_variables(os.fspath(path), self._weights.outgoing)

    def loadExecutable(self, filename: str) -> None:
        """Takes the program of a file for the next `prepareDevice`, and its weights.

        Raises:
            popart_exception: if the file can't be opened.
            popart_runtime_error: if it is damaged or of another session.
            poplar_exception: if it was compiled for another sync pattern than the device's.
        """
        weights = self._engine.load(Path(filename), jax.eval_shape(self._first_carry))
        if weights is not None:
            self._weights.write(PyWeightsIO(weights))

    def updateEngineCache(self) -> None:
        """Does nothing: each `prepareDevice` looks into the folder of kept executables anew."""
