"""Variables stay on the device between programs: TensorFlow gets them back when somebody else uses them.

What reads and what changes a variable look alike from here. So TensorFlow gets the newest value before, and what it holds is compared
before the next program. Of a session's run it is known before it begins which variables nodes outside of programs use in it: programs hold
no edge to variables. In TensorFlow 2 both ask for a variable's handle.
"""

import itertools
import threading
import weakref
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Final, final

import numpy as np

from tilestep.tensorflow.tf_private import graphs, sessions
from tilestep.tensorflow.untyped import Graph, Operation, Session, Tensor, tf, v1
from tilestep.train.untyped import jax


class Home:
    """Where variables are between programs, by their names: a session, or TensorFlow 2."""

    def __init__(self, read: Callable[[Sequence[str]], Sequence[Any]], assign: Callable[[Mapping[str, Any]], None]) -> None:
        self._read, self._assign = read, assign  # TensorFlow's values pass as NumPy's arrays
        self._lock = threading.RLock()
        self._arrays: dict[str, Any] = {}  # the newest values, on the devices where they are, or NumPy's
        self._newer: set[str] = set()  # those that TensorFlow has not got
        self._touched: set[str] = set()  # those that others may have changed
        self._shared: Collection[str] = ()  # those that others use while the program runs

    def take(self, names: Sequence[str]) -> dict[str, Any]:
        """The newest values, on the devices or NumPy's. Raises: tf.errors.FailedPreconditionError for a variable without one."""
        with self._lock:
            read = [name for name in names if name in self._touched or name not in self._arrays]
            for name, value in zip(read, self._read(read) if read else (), strict=True):
                if name not in self._arrays or not _same(value, np.asarray(self._arrays[name])):
                    self._arrays[name] = value
            self._touched.difference_update(names)
            return {name: self._arrays[name] for name in names}

    def put(self, arrays: Mapping[str, Any], lost: Iterable[str]) -> None:
        """A program has made new values. Args: lost: of those that it had and that are no more, TensorFlow's are the values."""
        with self._lock:
            self.forget(*lost)
            self._arrays.update(arrays)
            self._newer.update(name for name, array in arrays.items() if isinstance(array, jax.Array))
            self.touch(self._shared)

    def touch(self, names: Collection[str]) -> None:
        """Others are about to read or change variables."""
        with self._lock:
            self._touched.update(names)
            own = [name for name in names if name in self._newer]
            if own:
                self._assign({name: np.asarray(self._arrays[name]) for name in own})
                self._newer.difference_update(own)

    def share(self, names: Collection[str]) -> None:
        """Others use these variables from now on, and no others."""
        self.touch({*self._shared, *names})
        self._shared = names

    def forget(self, *names: str) -> None:
        """Values are no more."""
        with self._lock:
            for name in names:
                self._arrays.pop(name, None)
                self._newer.discard(name)
                self._touched.discard(name)


def _same(value: np.ndarray, other: np.ndarray) -> bool:
    """Whether they are equal bit for bit, but for the 64 bits that JAX leaves away."""
    return value.shape == other.shape and value.astype(other.dtype).tobytes() == other.tobytes()


@final
class Residency:
    """The variables of one graph that programs use."""

    def __init__(self) -> None:
        self._variables: dict[str, tuple[Tensor, Operation]] = {}  # the value, and a node that assigns what is fed to it
        self._homes: weakref.WeakKeyDictionary[Session, Home] = weakref.WeakKeyDictionary()
        self._runs: dict[tuple[Operation, ...], Collection[str]] = {}

    def home(self, session: Session) -> Home:
        """Where a session has them."""
        if session not in self._homes:
            this = weakref.ref(session)

            def read(names: Sequence[str]) -> Sequence[Any]:
                return sessions.run_unseen(this(), [self._variables[name][0] for name in names])

            def assign(arrays: Mapping[str, Any]) -> None:
                nodes = [self._variables[name][1] for name in arrays]
                sessions.run_unseen(this(), nodes, dict(zip([node.inputs[1] for node in nodes], arrays.values(), strict=True)))

            self._homes[session] = Home(read, assign)
        return self._homes[session]

    def name_of_handle(self, handle: Tensor) -> str:
        """As programs know a variable, which one uses from now on."""
        if handle.name not in self._variables:
            with handle.graph.as_default(), tf.init_scope(), tf.device("/CPU:0"), v1.control_dependencies(None):
                spec = graphs.variable_spec(handle)
                assign = tf.raw_ops.AssignVariableOp(resource=handle, value=v1.placeholder(spec.dtype, spec.shape))
                self._variables[handle.name] = _read(handle), assign
                self._runs.clear()
        return handle.name

    def used(self, graph: Graph, fetches: Any) -> Collection[str]:
        """Names of variables that nodes outside of programs use in a run."""
        given = [each for each in tf.nest.flatten(fetches, expand_composites=True) if each is not None]
        elements = [graph.as_graph_element(each, allow_tensor=True, allow_operation=True) for each in given]
        ends = tuple(getattr(each, "op", each) for each in elements)
        if ends not in self._runs:
            own = {each for value, assign in self._variables.values() for each in (value.op, assign)}
            nodes = [each for each in graphs.ancestors([], ends, []) if each not in own]
            inputs = {tensor.name for each in nodes for tensor in each.inputs}
            self._runs[ends] = [name for name in self._variables if name in inputs]
        return self._runs[ends]


_residencies: Final[weakref.WeakKeyDictionary[Graph, Residency]] = weakref.WeakKeyDictionary()


def residency_of(graph: Graph) -> Residency:
    """The variables of a session's graph."""
    return _residencies.setdefault(graph, Residency())


def using(session: Session, fetches: Any) -> None:
    """A session runs these from now on; None: nothing."""
    residency = residency_of(session.graph)
    residency.home(session).share(residency.used(session.graph, fetches))


_variable_names: Final[dict[int, str]] = {}  # those of TensorFlow 2, by the id of a handle
_handles: Final[dict[str, weakref.ref[Tensor]]] = {}


def name_of_handle(handle: Tensor, variable: Any) -> str:
    """As programs know a variable of TensorFlow 2. Args: variable: None if it is not known."""
    key, base = id(handle), "variable" if variable is None else variable.name
    if key not in _variable_names:
        name = next(name for count in itertools.count() if (name := f"{base}_{count}" if count else base) not in _handles)
        _variable_names[key], _handles[name] = name, weakref.ref(handle)
        weakref.finalize(handle, _forget, key).atexit = False
    return _variable_names[key]


def _forget(key: int) -> None:
    name = _variable_names.pop(key)
    del _handles[name]
    ON_DEVICES.forget(name)


def touched(handle: Tensor) -> None:
    """Somebody outside of programs is about to read or change the variable of a handle."""
    if (name := _variable_names.get(id(handle))) is not None:
        ON_DEVICES.touch([name])


def _read(handle: Tensor) -> Tensor:
    return tf.raw_ops.ReadVariableOp(resource=handle, dtype=graphs.variable_spec(handle).dtype)


def _assign(arrays: Mapping[str, Any]) -> None:
    for name, array in arrays.items():
        handle = _handles[name]()
        value = array.astype(graphs.variable_spec(handle).dtype.as_numpy_dtype, copy=False)
        tf.raw_ops.AssignVariableOp(resource=handle, value=value)


ON_DEVICES: Final = Home(lambda names: [_read(_handles[name]()).numpy() for name in names], _assign)
