"""`tensorflow.python.ipu.ipu_strategy`: TensorFlow 2's functions and Keras models on the IPU."""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, final

from tilestep.tensorflow.compilation import node_name
from tilestep.tensorflow.functions import Function
from tilestep.tensorflow.tf_private.eager import element_specs, watch_functions
from tilestep.tensorflow.tf_private.keras import extend_keras, models_on_ipu
from tilestep.tensorflow.untyped import Structure, tf


@final
class IPUStrategyV1:
    """Runs functions on the IPUs that `IPUConfig` has chosen. Keras models that are made in `scope()` train and infer there.

    Args:
        ipu_device, cpu_device: no effect: there is one device of each.
        enable_dataset_iterators, enable_keras_extensions: no effect.
    Raises: UnsupportedError for Keras 3.
    """

    def __init__(
        self,
        ipu_device: str = "/device:IPU:0",
        cpu_device: str = "/device:CPU:0",
        enable_dataset_iterators: bool = True,
        enable_keras_extensions: bool = True,
    ) -> None:
        watch_functions()
        extend_keras()
        self._functions: weakref.WeakKeyDictionary[Any, dict[Any, tuple[Function, list[Any]]]] = weakref.WeakKeyDictionary()

    @property
    def num_replicas_in_sync(self) -> int:
        """1, as the original has it; `IPUConfig` divides the IPUs into replicas."""
        return 1

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

        Args:
            fn: a `tf.function`. Inside of another one that is being traced, any function.
            args, kwargs: its arguments: tensors and arrays; iterators, models, numbers and other objects of Python.
            options: no effect.
        Returns: what it returns, as tensors.
        Raises: ValueError for a function that is no `tf.function`; UnsupportedError for what XLA cannot lower; DatasetError when an
            iterator ends.
        """
        kwargs = dict(kwargs or {})
        if not tf.executing_eagerly():
            return fn(*args, **kwargs)
        function = getattr(fn, "python_function", None)
        if function is None:
            raise ValueError(
                "IPUStrategy.run(fn, ...) does not support eager execution: make fn a tf.function, or call strategy.run inside of one"
            )
        flat = tf.nest.flatten((list(args), kwargs))
        values = [each for each in flat if _is_array(each)]
        key = tuple(map(_identity, flat))
        made = self._functions.setdefault(fn, {})
        if key not in made:

            def call(*tensors: Any) -> Any:
                given = iter(tensors)
                leaves = [next(given) if _is_array(each) else each for each in flat]
                positional, named = tf.nest.pack_sequence_as((list(args), kwargs), leaves)
                return function(*positional, **named)

            specs = [tf.TensorSpec(each.shape, each.dtype) for each in map(tf.convert_to_tensor, values)]
            program = Function(call, specs, node_name(function))
            made[key] = program, [next((index for index, each in enumerate(flat) if each is one), one) for one in program.taken]
            program.taken.clear()
        program, places = made[key]
        taken = [flat[place] if isinstance(place, int) else place for place in places]
        return program([tf.convert_to_tensor(each).numpy() for each in values], taken)


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
