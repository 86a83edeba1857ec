"""`tensorflow.python.ipu.ipu_outfeed_queue`: what a loop or a pipeline says in each step."""

from __future__ import annotations

import enum
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any, final

import numpy as np

from tilestep.tensorflow.tf_private import graphs, sessions
from tilestep.tensorflow.tracing import Sent, current_scope
from tilestep.tensorflow.untyped import Operation, Structure, Tensor, tf
from tilestep.train import OutfeedQueue
from tilestep.train.numbers import whole_number
from tilestep.train.untyped import jax


class IPUOutfeedMode(enum.Enum):
    """Whether a queue keeps all steps' values, or the last one's."""

    ALL = "all"
    LAST = "last"


@final
class IPUOutfeedQueue:
    """Takes values out of a loop: `enqueue` in its body, `dequeue` outside.

    Args:
        outfeed_mode: ALL keeps each step's values, LAST those of the newest step.
        device_ordinal: of the IPU's device, which is 0.
        buffer_depth: 1 or more; it has no effect: the queue takes all.
        options: no effect.
    Raises: ValueError for another mode or depth.
    """

    def __init__(
        self, outfeed_mode: IPUOutfeedMode | None = None, device_ordinal: int | None = None, buffer_depth: int = 1, **options: Any
    ) -> None:
        del device_ordinal, options
        mode = IPUOutfeedMode.ALL if outfeed_mode is None else outfeed_mode
        if not isinstance(mode, IPUOutfeedMode):
            raise ValueError(f"outfeed_mode is {mode!r}: it must be IPUOutfeedMode.ALL or IPUOutfeedMode.LAST")
        whole_number("buffer_depth", buffer_depth, least=1)
        self.mode = mode
        self.queue = OutfeedQueue("all" if mode is IPUOutfeedMode.ALL else "last")
        self.structure: Structure = None
        self.specs: list[Any] = []  # of what is sent, once it is known
        self.replicas: int | None = None  # of the program that sends, once it has devices
        self.sources: list[Callable[[bool], None]] = []  # each appends to `waiting` what it has for this queue
        self.waiting: list[list[Any]] = []  # arrays [steps, ...] of such
        self._graph = None if tf.executing_eagerly() else graphs.outermost()

    @property
    def enqueued(self) -> bool:
        """Whether a program sends to the queue."""
        return bool(self.specs)

    def enqueue(self, tensors: Structure) -> Operation:
        """Sends tensors out of a step, in the body of a loop. Returns: a node, which the body returns or lets others depend on.

        Raises: ValueError for a second call in one graph, and outside of a body.
        """
        flat = [tf.identity(each) for each in tf.nest.flatten(tensors)]  # of the body itself, also if they come from around it
        scope = current_scope()
        if scope is None or not scope.is_body:
            raise ValueError("IPUOutfeedQueue.enqueue() was called outside of a loop's body: call it in the function given to loops.repeat")
        if any(sent.queue is self for sent in scope.sent):
            raise ValueError("IPUOutfeedQueue.enqueue() was called twice in one body: enqueue all values at once, as a tuple or dict")
        scope.sent.append(Sent(queue=self, structure=tensors, tensors=flat))
        self.will_get(tensors, flat)
        return tf.group(*flat, name="enqueue")

    def will_get(self, structure: Structure, tensors: list[Tensor]) -> None:
        """A program sends such tensors."""
        self.structure, self.specs = structure, [tf.TensorSpec(each.shape, each.dtype) for each in tensors]

    def dequeue(self, wait_for_completion: bool = False) -> Structure:
        """What programs have sent and nobody has taken yet.

        In mode ALL each tensor has a leading axis of steps; with several replicas an axis of replicas follows. While a program runs it is
        what has been computed so far.

        Args: wait_for_completion: whether to wait for the end of a program that runs.
        Raises: ValueError if nothing sends to the queue; QueueError in mode LAST when there is nothing new.
        """
        if not self.specs:
            raise ValueError("IPUOutfeedQueue.dequeue() was called before any program that enqueues: compile that first")

        def take(*session: Any) -> list[Any]:
            del session
            return self._taken(wait_for_completion)

        if self._graph is None:
            return tf.nest.pack_sequence_as(self.structure, [tf.constant(each) for each in take()])
        made = sessions.node(self._graph, take, [], [spec.dtype for spec in self.specs], "outfeed_dequeue", beside=True)
        made = list(made) if isinstance(made, list | tuple) else [made]
        for tensor, spec in zip(made, self.specs, strict=True):
            if self.replicas is not None:
                tensor.set_shape([*([None] if self.mode is IPUOutfeedMode.ALL else []), *([None] * (self.replicas > 1)), *spec.shape])
        return tf.nest.pack_sequence_as(self.structure, made)

    @property
    def deleter(self) -> Operation:
        """A node that forgets what was not taken."""

        def forget(session: Any) -> list[Any]:
            del session
            self._taken(False)
            return []

        return sessions.node(self._graph, forget, [], [], "outfeed_delete")

    def __iter__(self) -> Iterator[Structure]:
        """The values of each step, in eager mode and in mode ALL. Raises: RuntimeError otherwise."""
        if self._graph is not None or self.mode is IPUOutfeedMode.LAST:
            raise RuntimeError("an IPUOutfeedQueue can be iterated in eager mode and in mode ALL alone: use dequeue()")
        for values in self.queue:
            yield tf.nest.pack_sequence_as(self.structure, [tf.constant(each) for each in self._own_dtypes(values)])

    def _taken(self, wait: bool) -> list[Any]:
        for source in self.sources:
            source(wait)
        parts, self.waiting = self.waiting, []
        values: Any = [np.concatenate(each) for each in zip(*parts, strict=True)] if parts else self.queue.dequeue(wait)
        if parts and self.mode is IPUOutfeedMode.LAST:
            values = [each[-1] for each in values]
        if values is None:
            extra = (0,) if self.replicas in (None, 1) else (0, self.replicas)
            return [np.zeros((*extra, *spec.shape), spec.dtype.as_numpy_dtype) for spec in self.specs]
        return self._own_dtypes(values)

    def _own_dtypes(self, values: Any) -> list[Any]:
        return [
            np.asarray(value).astype(spec.dtype.as_numpy_dtype, copy=False)
            for value, spec in zip(jax.tree.leaves(values), self.specs, strict=True)
        ]


def divided(queues: Sequence[tuple[IPUOutfeedQueue, int]]) -> OutfeedQueue:
    """The runtime's queue of a body that sends to several: each gets its own of what is taken out. Args: queues: and arrays of each."""
    common, lock = OutfeedQueue(), threading.Lock()

    def divide(wait: bool) -> None:
        with lock:
            values = common.dequeue(wait)
            leaves = jax.tree.leaves(values)
            for queue, count in queues:
                own, leaves = leaves[:count], leaves[count:]
                if own and len(own[0]):
                    queue.waiting.append(own)

    for queue, _ in queues:
        queue.sources.append(divide)
    return common
