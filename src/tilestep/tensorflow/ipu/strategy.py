"""`tensorflow.python.ipu.ipu_strategy`: TensorFlow 2's functions and Keras models on the IPU."""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, final

from tilestep.tensorflow.compilation import Function, node_name
from tilestep.tensorflow.ipu.keras_models import extend_keras, models_on_ipu
from tilestep.tensorflow.tf_private.eager import element_specs, watch_functions
from tilestep.tensorflow.untyped import Structure, tf


@final
class IPUStrategyV1:
    """Runs functions on the IPUs that `IPUConfig` has chosen. Keras models that are made in `scope()` train and infer there.

    Args: arguments, options: the original's; no effect. Raises: UnsupportedError for Keras 3.
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:
        watch_functions()
        extend_keras()
        self._functions: weakref.WeakKeyDictionary[Any, dict[Any, tuple[Function, list[Any]]]] = weakref.WeakKeyDictionary()

    num_replicas_in_sync = 1  # as the original has it; `IPUConfig` divides the IPUs into replicas

    @contextlib.contextmanager
    def scope(self) -> Iterator[IPUStrategyV1]:
        """Keras models that are made inside are on the IPU."""
        with models_on_ipu():
            yield self

    def run(
        self, fn: Callable[..., Any], args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None, options: Any = None
    ) -> Structure:
        """Runs a `tf.function` as one program on the device.

        A loop over `tf.range` that takes `next(iterator)` or calls `IPUOutfeedQueue.enqueue` is one of the runtime. A function that does so
        without a loop is a step. It is traced again for arguments of other shapes, dtypes or Python values.

        Args: fn: a `tf.function`; inside of another one that is being traced, any function. options: no effect.
        Raises: ValueError for another function; UnsupportedError for what XLA cannot lower; DatasetError when an iterator ends.
        """
        kwargs = dict(kwargs or {})
        if not tf.executing_eagerly():
            return fn(*args, **kwargs)
        if (function := getattr(fn, "python_function", None)) is None:
            raise ValueError(
                "IPUStrategy.run(fn, ...) does not support eager execution: make fn a tf.function, or call strategy.run inside of one"
            )
        flat = tf.nest.flatten((list(args), kwargs))
        key = tuple(map(_identity, flat))
        made = self._functions.setdefault(fn, {})
        values = [tf.convert_to_tensor(each) for each in flat if _is_array(each)]
        if key not in made:

            def call(*tensors: Any) -> Any:
                given = iter(tensors)
                leaves = [next(given) if _is_array(each) else each for each in flat]
                positional, named = tf.nest.pack_sequence_as((list(args), kwargs), leaves)
                return function(*positional, **named)

            program = Function(call, [tf.TensorSpec(each.shape, each.dtype) for each in values], node_name(function))
            made[key] = program, [next((index for index, each in enumerate(flat) if each is one), one) for one in program.taken]
            program.taken.clear()
        program, places = made[key]
        return program([each.numpy() for each in values], [flat[place] if isinstance(place, int) else place for place in places])


IPUStrategy = IPUStrategyV1


def _is_array(leaf: Any) -> bool:
    return isinstance(leaf, tf.Tensor) or (hasattr(leaf, "__array__") and not isinstance(leaf, tf.Variable))


def _identity(leaf: Any) -> Any:
    """What a program depends on."""
    if _is_array(leaf):
        tensor = tf.convert_to_tensor(leaf)
        return tuple(tensor.shape), tensor.dtype
    if isinstance(leaf, tf.data.Iterator):
        return tuple((tuple(each.shape), each.dtype) for each in element_specs(leaf))
    return leaf if isinstance(leaf, int | float | str | bytes | None) else id(leaf)
