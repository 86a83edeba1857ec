"""`tensorflow.python.ipu`'s queues: a dataset for each step, how fast it is (`dataset_benchmark`), and what each step says."""

import enum
import json
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any, final

import numpy as np

from tilestep import train
from tilestep.errors import QueueError
from tilestep.tensorflow.tf_private import graphs, sessions
from tilestep.tensorflow.tracing import Sent, current_scope
from tilestep.tensorflow.untyped import Graph, Operation, Session, Structure, Tensor, tf, v1
from tilestep.train import InfeedQueue, OutfeedQueue
from tilestep.train.numbers import whole_number
from tilestep.train.untyped import jax


@final
class IPUInfeedQueue:
    """Feeds the elements of a `tf.data.Dataset` to `loops.repeat`, `while_loop` and `pipelining_ops.pipeline`.

    Args: prefetch_depth: elements that are made ahead, 1 to 255; None: 3. device_ordinal, options: no effect.
    Raises: ValueError for shapes that are not fixed, or a depth out of its bounds.
    """

    def __init__(self, dataset: Any, device_ordinal: int | None = None, prefetch_depth: int | None = None, **options: Any) -> None:
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
        self._iterator, self._next = (iter(dataset), []) if self._graph is None else _iterator_in(self._graph, dataset)
        self._initializer: Operation | None = None
        if self._graph is not None:  # before a session has run: it wants no change of the iterator's node afterwards
            with self._graph.as_default(), tf.device("/CPU:0"), tf.control_dependencies([self._iterator.initializer]):
                self._initializer = sessions.node(self._graph, self._begin, [], [], "infeed_begin")

    @property
    def initializer(self) -> Operation | None:
        """A node that begins the dataset. None in eager mode, where the first program begins it. Raises: ValueError at the second time."""
        if self._given:
            raise ValueError("the initializer of an IPUInfeedQueue can be got once: keep it")
        self._given = self._graph is not None
        return self._initializer

    def next_element(self) -> Structure:
        """The next element, in a function of TensorFlow 2."""
        return next(self._iterator)

    def opened(self, replicas: int) -> InfeedQueue:
        """What loops of the runtime take. Raises: QueueError before the initializer has run, and for another number of replicas."""
        wanted = None if replicas == 1 else replicas
        if self._session is None:
            raise QueueError("the IPUInfeedQueue has not begun: session.run(queue.initializer) comes before the loop")
        if self._queue is None:
            session, element = self._session, self._next
            self._queue = InfeedQueue(
                lambda: map(tuple, sessions.elements(session, element)), prefetch_depth=self._depth, replicas=wanted, copy=False
            )
        if self._queue.replicas != wanted:
            raise QueueError(
                f"the IPUInfeedQueue feeds a program of {self._queue.replicas or 1} replicas, and cannot feed one of {replicas}: give that "
                "a queue of its own"
            )
        return self._queue

    def _begin(self, session: Session) -> list[Any]:
        if self._queue is not None:
            self._queue.close()
        self._queue, self._session = None, session
        return []


def _iterator_in(graph: Graph, dataset: Any) -> tuple[Any, list[Tensor]]:
    """(an iterator in a session's graph, the tensors of its next element)."""
    with graph.as_default(), tf.device("/CPU:0"):
        iterator = v1.data.make_initializable_iterator(dataset)
        return iterator, tf.nest.flatten(iterator.get_next())


def dataset_benchmark(
    dataset: Any,
    number_of_epochs: int,
    elements_per_epochs: int,
    print_stats: bool = True,
    apply_debug_options: bool = True,
    do_memcpy: bool = True,
) -> Tensor:
    """Takes elements from a dataset as fast as it gives them, without any device.

    Args: print_stats: whether each epoch's figures are printed. do_memcpy: whether elements are copied. apply_debug_options: no effect.
    Returns:
        string[1], JSON of {"epochs": [...]}. Each epoch has elements_processed, total_bytes_processed, time_elapsed (seconds),
        elements_per_second and bandwidth (1e9 bytes per second). In a graph it is a tensor that measures when it is run.
    Raises: as `tilestep.train.dataset_benchmark`.
    """

    def measure(elements: Any) -> Any:
        epochs = json.loads(train.dataset_benchmark(elements, number_of_epochs, elements_per_epochs, copy=do_memcpy))["epochs"]
        if print_stats:
            for number, epoch in enumerate(epochs):
                print(f"epoch {number}: {epoch['elements_per_second']:.1f} elements/s, {epoch['bandwidth']:.3f} GB/s")
        return np.array([json.dumps({"epochs": epochs}).encode()], dtype=object)

    if tf.executing_eagerly():
        return tf.constant(measure(dataset.as_numpy_iterator))
    graph = graphs.outermost()
    iterator, element = _iterator_in(graph, dataset)

    def run(session: Session) -> Any:
        return [measure(lambda: sessions.elements(session, element))]

    with graph.as_default(), tf.device("/CPU:0"), tf.control_dependencies([iterator.initializer]):
        return sessions.node(graph, run, [], [tf.TensorSpec([1], tf.string)], "dataset_benchmark")[0]


def infeed_benchmark(
    infeed_queue: IPUInfeedQueue, number_of_epochs: int, elements_per_epochs: int, print_stats: bool = True, do_memcpy: bool = True
) -> Tensor:
    """`dataset_benchmark` of a queue's dataset, from its beginning."""
    return dataset_benchmark(infeed_queue.dataset, number_of_epochs, elements_per_epochs, print_stats, True, do_memcpy)


def as_arguments(element: Structure) -> tuple[list[Any], dict[str, Any]]:
    """The (positional, keyword) arguments that an element becomes."""
    if isinstance(element, dict) and all(isinstance(key, str) for key in element):
        return [], element
    return (list(element) if isinstance(element, tuple | list) else [element]), {}


def fed(function: Callable[..., Any], infeed: IPUInfeedQueue | None, num_first: int) -> tuple[Callable[..., Any], list[Any]]:
    """(a function as one of flat tensors: so many first ones, then those of the infeed's element; specs of the latter)."""
    if infeed is None:
        return function, []
    spec = infeed.spec

    def flat(*tensors: Tensor) -> Structure:
        elements, keywords = as_arguments(tf.nest.pack_sequence_as(spec, tensors[num_first:]))
        return function(*tensors[:num_first], *elements, **keywords)

    return flat, tf.nest.flatten(spec)


IPUOutfeedMode = enum.Enum("IPUOutfeedMode", {"ALL": "all", "LAST": "last"})


@final
class IPUOutfeedQueue:
    """Takes values out of a loop: `enqueue` in its body, `dequeue` outside.

    Args: outfeed_mode: ALL keeps each step's values, LAST those of the newest step. The others have no effect: it takes all.
    Raises: ValueError for another mode or depth.
    """

    def __init__(
        self, outfeed_mode: IPUOutfeedMode | None = None, device_ordinal: int | None = None, buffer_depth: int = 1, **options: Any
    ) -> None:
        whole_number("buffer_depth", buffer_depth, least=1)
        mode = IPUOutfeedMode.ALL if outfeed_mode is None else outfeed_mode
        if not isinstance(mode, IPUOutfeedMode):
            raise ValueError(f"outfeed_mode is {mode!r}: it must be IPUOutfeedMode.ALL or IPUOutfeedMode.LAST")
        self._all = mode is IPUOutfeedMode.ALL
        self.queue = OutfeedQueue("all" if self._all else "last")
        self.structure: Structure = None
        self.specs: list[Any] = []  # known once something is sent
        self.replicas: int | None = None  # known once the program that sends has devices
        self.sources: list[Callable[[bool], None]] = []  # each puts what it has for this queue into it
        self._graph = None if tf.executing_eagerly() else graphs.outermost()

    @property
    def enqueued(self) -> bool:
        """Whether a program sends to the queue."""
        return bool(self.specs)

    def enqueue(self, tensors: Structure) -> Operation:
        """Sends tensors out of a step, in the body of a loop. Returns: a node, which the body returns or lets others depend on.

        Raises: ValueError for a second call in one graph, and outside of a body.
        """
        flat = [tf.identity(each) for each in tf.nest.flatten(tensors)]  # tensors from around the body become its own
        if graphs.infers_shapes():
            return tf.group(*flat)
        scope = current_scope()
        if scope is None or not scope.is_body:
            raise ValueError("IPUOutfeedQueue.enqueue() was called outside of a loop's body: call it in the function given to loops.repeat")
        if any(sent.queue is self for sent in scope.sent):
            raise ValueError("IPUOutfeedQueue.enqueue() was called twice in one body: enqueue all values at once, as a tuple or dict")
        scope.sent.append(Sent(self, v1.get_default_graph(), flat))
        self.will_get(tensors, flat)
        return tf.group(*flat, name="enqueue")

    def will_get(self, structure: Structure, tensors: list[Tensor]) -> None:
        """A program sends such tensors."""
        self.structure, self.specs = structure, [tf.TensorSpec(each.shape, each.dtype) for each in tensors]

    def dequeue(self, wait_for_completion: bool = False) -> Structure:
        """What programs have sent and nobody has taken yet: while one runs, what has been computed so far, or all of it if this waits.

        In mode ALL each tensor has a leading axis of steps; with several replicas an axis of replicas follows.
        Raises: ValueError if nothing sends to the queue; QueueError in mode LAST when there is nothing new.
        """
        if not self.specs:
            raise ValueError("IPUOutfeedQueue.dequeue() was called before any program that enqueues: compile that first")
        if self._graph is None:
            return self._packed(self._taken(wait_for_completion))
        leading = None if self.replicas is None else [None] * (self._all + (self.replicas > 1))
        specs = [tf.TensorSpec(None if leading is None else [*leading, *spec.shape], spec.dtype) for spec in self.specs]
        made = sessions.node(self._graph, lambda _: self._taken(wait_for_completion), [], specs, "outfeed_dequeue", beside=True)
        return tf.nest.pack_sequence_as(self.structure, made)

    def __iter__(self) -> Iterator[Structure]:
        """The values of each step, in eager mode and in mode ALL. Raises: RuntimeError otherwise."""
        if self._graph is not None or not self._all:
            raise RuntimeError("an IPUOutfeedQueue can be iterated in eager mode and in mode ALL alone: use dequeue()")
        for values in self.queue:
            yield self._packed(self._own_dtypes(values))

    def _packed(self, values: Sequence[Any]) -> Structure:
        return tf.nest.pack_sequence_as(self.structure, [tf.constant(each) for each in values])

    def _taken(self, wait: bool) -> list[Any]:
        for source in self.sources:
            source(wait)
        values = self.queue.dequeue(wait)
        if values is None:
            extra = (0,) if self.replicas in (None, 1) else (0, self.replicas)
            return [np.zeros((*extra, *spec.shape), spec.dtype.as_numpy_dtype) for spec in self.specs]
        return self._own_dtypes(values)

    def _own_dtypes(self, values: Any) -> list[Any]:
        dtypes = [spec.dtype.as_numpy_dtype for spec in self.specs]
        return [np.asarray(value).astype(dtype, copy=False) for value, dtype in zip(jax.tree.leaves(values), dtypes, strict=True)]


def common(queues: Sequence[IPUOutfeedQueue]) -> OutfeedQueue:
    """The runtime's queue of a body that sends to several at once, as a tuple: each gets its own of what is taken out."""
    made, lock = OutfeedQueue(), threading.Lock()

    def divide(wait: bool) -> None:
        with lock:
            for queue, values in zip(queues, made.dequeue(wait) or (), strict=False):
                queue.queue.deliver(values, len(values[0]))

    for queue in queues:
        queue.sources.append(divide)
    return made
