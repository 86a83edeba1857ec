"""`tensorflow.python.ipu.ipu_infeed_queue`: a dataset that a loop or a pipeline takes its elements from."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, final

from tilestep.errors import QueueError
from tilestep.tensorflow.tf_private import graphs, sessions
from tilestep.tensorflow.untyped import Operation, Session, Structure, tf, v1
from tilestep.train import InfeedQueue
from tilestep.train.numbers import whole_number


@final
class IPUInfeedQueue:
    """Feeds the elements of a `tf.data.Dataset` to `loops.repeat`, `while_loop` and `pipelining_ops.pipeline`.

    Args:
        dataset: its elements have fixed shapes: batch with `drop_remainder=True`.
        device_ordinal: of the IPU's device, which is 0.
        prefetch_depth: elements that are made ahead, 1 to 255; None: 3.
        options: no effect.
    Raises: ValueError for shapes that are not fixed, or a depth out of its bounds.
    """

    def __init__(self, dataset: Any, device_ordinal: int | None = None, prefetch_depth: int | None = None, **options: Any) -> None:
        del device_ordinal, options
        self.spec: Structure = dataset.element_spec
        for spec in tf.nest.flatten(self.spec):
            if not spec.shape.is_fully_defined():
                raise ValueError(
                    f"the dataset has elements of shape {spec.shape}: an IPUInfeedQueue takes fixed shapes alone; batch with "
                    "dataset.batch(n, drop_remainder=True)"
                )
        self._depth = 3 if prefetch_depth is None else whole_number("prefetch_depth", prefetch_depth, least=1, most=255)
        self.dataset = dataset
        self._queue: InfeedQueue | None = None
        self._session: Session | None = None
        self._given = False
        self._graph = None if tf.executing_eagerly() else graphs.outermost()
        self._next: Structure = None
        self._iterator: Any
        if self._graph is None:
            self._iterator = iter(dataset)
        else:
            with self._graph.as_default(), tf.device("/CPU:0"):
                self._iterator = v1.data.make_initializable_iterator(dataset)
                self._next = self._iterator.get_next()

    @property
    def initializer(self) -> Operation | None:
        """A node that begins the dataset, before the first loop. None in eager mode, where the first program begins it.

        Raises: ValueError at the second time.
        """
        if self._graph is None:
            return None
        if self._given:
            raise ValueError("the initializer of an IPUInfeedQueue can be got once: keep it")
        self._given = True
        with self._graph.as_default(), tf.device("/CPU:0"), tf.control_dependencies([self._iterator.initializer]):
            return sessions.node(self._graph, self._begin, [], [], "infeed_begin")

    @property
    def deleter(self) -> Operation:
        """A node that ends the queue."""
        if self._graph is None:
            raise RuntimeError("an IPUInfeedQueue has no deleter outside of a graph: it ends with the last reference to it")
        return sessions.node(self._graph, self._end, [], [], "infeed_end")

    @property
    def number_of_tuple_elements(self) -> int:
        """Arrays of an element."""
        return len(tf.nest.flatten(self.spec))

    def get_next(self) -> Structure:
        """Raises: ValueError, as a loop gives its body the elements as arguments."""
        raise ValueError("IPUInfeedQueue.get_next() is no more: loops.repeat and pipeline give their functions the elements as arguments")

    def arguments(self) -> tuple[list[Any], dict[str, Any]]:
        """Specs of the (positional, keyword) arguments that an element becomes."""
        return _as_arguments(self.spec)

    def next_arguments(self) -> tuple[list[Any], dict[str, Any]]:
        """The (positional, keyword) arguments that the next element becomes, in a function of TensorFlow 2."""
        return _as_arguments(next(self._iterator))

    def opened(self, replicas: int) -> InfeedQueue:
        """What loops of the runtime take. Args: replicas: of the program; it is the same for all programs that use the queue.

        Raises: QueueError before the initializer has run, and for another number of replicas.
        """
        wanted = None if replicas == 1 else replicas
        if self._graph is not None and self._session is None:
            raise QueueError("the IPUInfeedQueue has not begun: session.run(queue.initializer) comes before the loop")
        if self._queue is None:
            self._queue = InfeedQueue(self._elements, prefetch_depth=self._depth, replicas=wanted, copy=False)
        if self._queue.replicas != wanted:
            raise QueueError(
                f"the IPUInfeedQueue feeds a program of {self._queue.replicas or 1} replicas, and cannot feed one of {replicas}: give that "
                "a queue of its own"
            )
        return self._queue

    def _elements(self) -> Iterator[Any]:
        if self._graph is None:
            yield from self.dataset.as_numpy_iterator()
            return
        session = self._session
        while True:
            try:
                element = sessions.run_unseen(session, self._next)
            except tf.errors.OutOfRangeError:
                return
            yield element

    def _begin(self, session: Session) -> list[Any]:
        self._end(session)
        self._session = session
        return []

    def _end(self, session: Session) -> list[Any]:
        del session
        if self._queue is not None:
            self._queue.close()
        self._queue = self._session = None
        return []


def _as_arguments(element: Structure) -> tuple[list[Any], dict[str, Any]]:
    if isinstance(element, dict) and all(isinstance(key, str) for key in element):
        return [], element
    return (list(element) if isinstance(element, tuple | list) else [element]), {}
