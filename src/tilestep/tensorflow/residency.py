"""Variables stay on the device between programs: they go back to the session when it reads them, and come again when it has changed them.

A session's run is looked at before it begins: which variables do nodes outside of programs read or write in it? Programs hold no edge to
variables, so a loop that runs again moves none of them.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, final

import numpy as np

from tilestep.tensorflow.tf_private import graphs, sessions
from tilestep.tensorflow.untyped import Graph, Operation, Session, Tensor, tf, v1

_READS: Final = ("ReadVariableOp", "ResourceGather", "ResourceGatherNd", "VariableShape")
_NEITHER: Final = ("VarIsInitializedOp",)


@dataclass(frozen=True, kw_only=True, eq=False)
class Variable:
    """A variable of a session's graph, with nodes that read it and assign to it."""

    handle: Tensor
    value: Tensor
    new_value: Tensor
    assign: Operation


@dataclass(frozen=True, kw_only=True)
class _Run:
    """What a run does. Attributes: read, written: names of variables that nodes outside of programs read or may write."""

    read: frozenset[str]
    written: frozenset[str]


@dataclass(kw_only=True, eq=False)
class _Values:
    """Of one session. Attributes: arrays: newest values on devices. newer: names of those that the session does not have yet."""

    arrays: dict[str, Any] = field(default_factory=dict)
    newer: set[str] = field(default_factory=set)
    shared: frozenset[str] = frozenset()  # variables that nodes outside of programs use in the run that is going on


@final
class Residency:
    """The variables of one graph that programs use."""

    def __init__(self, graph: Graph) -> None:
        self._graph: weakref.ref[Graph] = weakref.ref(graph)
        self._variables: dict[str, Variable] = {}
        self._values: weakref.WeakKeyDictionary[Session, _Values] = weakref.WeakKeyDictionary()
        self._runs: dict[tuple[Operation, ...], _Run] = {}

    def add(self, handle: Tensor, variable: Any = None) -> str:
        """A program uses the variable of a handle. Args: variable: no effect. Returns: its name."""
        del variable
        if handle.name not in self._variables:
            with handle.graph.as_default(), tf.init_scope(), tf.device("/CPU:0"), v1.control_dependencies(None):
                value = graphs.read_variable(handle)
                new_value = v1.placeholder(value.dtype, graphs.variable_spec(handle).shape)
                self._variables[handle.name] = Variable(
                    handle=handle, value=value, new_value=new_value, assign=graphs.assign_variable(handle, new_value)
                )
                self._runs.clear()
        return handle.name

    def take(self, session: Session, names: Sequence[str]) -> dict[str, Any]:
        """The newest values of variables, on the devices where they are, or NumPy's.

        Raises: tf.errors.FailedPreconditionError for one that has no value yet.
        """
        values = self._of(session)
        self._give_back(session, values, values.shared & values.newer)
        missing = [name for name in names if name not in values.arrays or name in values.shared]
        if missing:
            read = sessions.run_unseen(session, [self._variables[name].value for name in missing])
            values.arrays.update(zip(missing, read, strict=True))
        return {name: values.arrays[name] for name in names}

    def put(self, session: Session, arrays: Mapping[str, Any], written: Iterable[str]) -> None:
        """A program has made new values. Args: arrays: of all that it took. written: those that it may have changed."""
        values = self._of(session)
        values.arrays.update(arrays)
        values.newer.update(written)
        self._give_back(session, values, values.shared & values.newer)

    def lose(self, session: Session, names: Iterable[str]) -> None:
        """A program that failed has taken the arrays over: what the session has is the value."""
        values = self._of(session)
        for name in names:
            values.arrays.pop(name, None)
            values.newer.discard(name)

    def before(self, session: Session, fetches: Any) -> None:
        """A run is about to begin."""
        if self._variables:
            run, values = self._run(fetches), self._of(session)
            values.shared = run.read | run.written
            self._give_back(session, values, values.shared & values.newer)

    def after(self, session: Session, fetches: Any) -> None:
        """It has ended."""
        if self._variables:
            values = self._of(session)
            values.shared = frozenset()
            for name in self._run(fetches).written:
                values.arrays.pop(name, None)

    def _of(self, session: Session) -> _Values:
        return self._values.setdefault(session, _Values())

    def _give_back(self, session: Session, values: _Values, names: Iterable[str]) -> None:
        """Assigns the session what only the device has."""
        names = list(names)
        if not names:
            return
        feed: dict[Any, Any] = {}
        for name in names:
            new_value = self._variables[name].new_value
            feed[new_value] = np.asarray(values.arrays[name]).astype(new_value.dtype.as_numpy_dtype, copy=False)
        sessions.run_unseen(session, [self._variables[name].assign for name in names], feed)
        values.newer.difference_update(names)

    def _run(self, fetches: Any) -> _Run:
        ends = tuple(self._operations(fetches))
        if ends not in self._runs:
            read: set[str] = set()
            written: set[str] = set()
            own = {each for variable in self._variables.values() for each in (variable.value.op, variable.assign)}
            for operation in graphs.ancestors([], ends, []):
                if operation.type in _NEITHER or operation in own:
                    continue
                names = {each.name for each in operation.inputs if each.dtype == tf.resource and each.name in self._variables}
                (read if operation.type in _READS else written).update(names)
            self._runs[ends] = _Run(read=frozenset(read), written=frozenset(written))
        return self._runs[ends]

    def _operations(self, fetches: Any) -> Iterable[Operation]:
        graph = self._graph()
        if graph is None:
            return
        for fetch in tf.nest.flatten(fetches, expand_composites=True):
            if fetch is not None:
                element = graph.as_graph_element(fetch, allow_tensor=True, allow_operation=True)
                yield element if isinstance(element, tf.Operation) else element.op


_residencies: Final[weakref.WeakKeyDictionary[Graph, Residency]] = weakref.WeakKeyDictionary()


def residency_of(graph: Graph) -> Residency:
    """The variables of a session's graph."""
    if graph not in _residencies:
        _residencies[graph] = Residency(graph)
    return _residencies[graph]


@final
class _Watcher:
    def before(self, session: Session, fetches: Any) -> None:
        if session.graph in _residencies:
            _residencies[session.graph].before(session, fetches)

    def after(self, session: Session, fetches: Any) -> None:
        if session.graph in _residencies:
            _residencies[session.graph].after(session, fetches)


def watch_sessions() -> None:
    """From now on sessions give and take variables."""
    sessions.watch(_Watcher())
