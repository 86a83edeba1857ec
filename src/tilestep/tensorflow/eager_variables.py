"""Variables of TensorFlow 2 stay on the device between programs, until somebody outside of programs uses their memory.

What reads and what changes a variable look alike from here: both ask for its handle. So TensorFlow gets the newest value before, and what
it holds is compared before the next program.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, final

import numpy as np

from tilestep.tensorflow.tf_private import graphs
from tilestep.tensorflow.untyped import Tensor
from tilestep.train.untyped import jax


@dataclass(kw_only=True, eq=False)
class _Variable:
    """Attributes: array: its newest value, on devices. newer: TensorFlow has not got it. touched: TensorFlow's may have changed."""

    handle: weakref.ref[Tensor]
    array: Any = None
    newer: bool = False
    touched: bool = False


@final
class OnDevices:
    """The variables that programs use. It has the interface of a session's `Residency`, whose session is this."""

    def __init__(self) -> None:
        self._variables: dict[str, _Variable] = {}
        self._names: dict[int, str] = {}  # by the id of a handle
        self._lock = threading.RLock()

    def add(self, handle: Tensor, variable: Any) -> str:
        """A program uses the variable of a handle. Args: variable: None if it is not known. Returns: its name here."""
        with self._lock:
            if id(handle) not in self._names:
                base = "variable" if variable is None else variable.name
                name, count = base, 1
                while name in self._variables:
                    name, count = f"{base}_{count}", count + 1
                self._names[id(handle)] = name
                self._variables[name] = _Variable(handle=weakref.ref(handle))
                weakref.finalize(handle, self._forget, id(handle)).atexit = False
            return self._names[id(handle)]

    def _forget(self, key: int) -> None:
        with self._lock:
            del self._variables[self._names.pop(key)]

    def take(self, session: Any, names: Sequence[str]) -> dict[str, Any]:
        """The newest values of variables, on the devices where they are, or NumPy's."""
        del session
        with self._lock:
            for name in names:
                variable = self._variables[name]
                if variable.array is None or variable.touched:
                    value = np.asarray(graphs.read_variable(variable.handle()))
                    if variable.array is None or not _same(value, np.asarray(variable.array)):
                        variable.array = value
                    variable.touched = False
            return {name: self._variables[name].array for name in names}

    def put(self, session: Any, arrays: Mapping[str, Any], written: Iterable[str]) -> None:
        """A program has made new values. Args: arrays: of all that it took. written: those that it may have changed."""
        del session
        with self._lock:
            for name in written:
                self._variables[name].array = arrays[name]
                self._variables[name].newer = isinstance(arrays[name], jax.Array)

    def lose(self, session: Any, names: Iterable[str]) -> None:
        """A program that failed has taken the arrays over: what TensorFlow has is the value."""
        del session
        with self._lock:
            for name in names:
                self._variables[name].array, self._variables[name].newer = None, False

    def touched(self, handle: Tensor) -> None:
        """Somebody outside of programs is about to read or change a variable."""
        name = self._names.get(id(handle))
        if name is None:
            return
        with self._lock:
            variable = self._variables[name]
            variable.touched = True
            if variable.newer:
                variable.newer = False
                spec = graphs.variable_spec(handle)
                graphs.assign_variable(handle, np.asarray(variable.array).astype(spec.dtype.as_numpy_dtype, copy=False))


def _same(value: np.ndarray, other: np.ndarray) -> bool:
    """Whether they are equal bit for bit, but for the 64 bits that JAX leaves away."""
    return value.shape == other.shape and value.astype(other.dtype).tobytes() == other.tobytes()


ON_DEVICES: Final = OnDevices()
