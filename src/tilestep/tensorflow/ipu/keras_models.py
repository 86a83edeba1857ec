"""Keras models on the IPU: `fit`, `evaluate` and `predict` of models that are made in `IPUStrategy.scope()`.

Keras keeps its own loop over epochs, its callbacks, metrics and checkpoints. An execution of `steps_per_execution` steps is one call of
`tilestep.train.repeat`.
"""

import contextlib
import contextvars
import functools
import sys
import types
import warnings
import weakref
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from typing import Any, Final, NamedTuple

from tilestep.errors import DatasetError, UnsupportedError
from tilestep.tensorflow.compilation import Function
from tilestep.tensorflow.ipu.config import placement
from tilestep.tensorflow.ipu.optimizers import GradientAccumulationOptimizerV2
from tilestep.tensorflow.ipu.queues import IPUOutfeedQueue
from tilestep.tensorflow.tf_private import graphs
from tilestep.tensorflow.tf_private.eager import element_specs
from tilestep.tensorflow.tracing import combined, current_scope
from tilestep.tensorflow.untyped import Structure, tf
from tilestep.train.numbers import whole_number

_FORMER: Final = "tensorflow.python.keras.optimizer_v2.optimizer_v2"  # where Keras 2's optimisers were, in TensorFlow itself


class _Accumulation(NamedTuple):
    """Options of a model. Attributes: count: steps for each update. scale: whether gradients are divided by all that are added up."""

    count: int = 1
    scale: bool = False
    options: Mapping[str, Any] = types.MappingProxyType({})


_models: Final[weakref.WeakKeyDictionary[Any, _Accumulation]] = weakref.WeakKeyDictionary()  # those on the IPU
_is_inside: Final = contextvars.ContextVar("tilestep_tensorflow_models", default=False)


@contextlib.contextmanager
def models_on_ipu() -> Iterator[None]:
    """Models that are made inside are on the IPU. One of Keras 3 raises an UnsupportedError there."""
    other = sys.modules.get("keras")
    if other is not None and not other.Model.__module__.startswith("tf_keras"):
        _watch(other.Model, _refuse)
    around = _is_inside.set(True)
    try:
        yield
    finally:
        _is_inside.reset(around)


@functools.cache
def _watch(model_class: Any, made: Callable[[Any], Any]) -> None:
    """From now on `made` is told of each model that is being made on the IPU. A second call changes nothing."""
    init = model_class.__init__

    @functools.wraps(init)
    def __init__(self: Any, *arguments: Any, **options: Any) -> None:
        if _is_inside.get():
            made(self)
        init(self, *arguments, **options)

    model_class.__init__ = __init__


def _refuse(model: Any) -> None:
    raise UnsupportedError("a model of Keras 3 cannot be on the IPU: make it with tf.keras, or with tf_keras, which are Keras 2")


@functools.cache
def extend_keras() -> None:
    """From now on models can be on the IPU. A second call changes nothing. Raises: UnsupportedError for Keras 3."""
    model_class = tf.keras.Model
    if not model_class.__module__.startswith("tf_keras"):
        raise UnsupportedError(
            "IPUStrategy needs Keras 2, and tf.keras is Keras 3: set TF_USE_LEGACY_KERAS=1, or do not set it, before TensorFlow is imported"
        )
    adapter: Any = import_module("tf_keras.src.engine.data_adapter")
    optimizers: Any = import_module("tf_keras.src.optimizers.utils")
    handler, sum_gradients = adapter.get_data_handler, optimizers.all_reduce_sum_gradients

    @functools.wraps(handler)
    def get_data_handler(*arguments: Any, **options: Any) -> Any:
        found = handler(*arguments, **options)
        if options.get("model") in _models:
            _require_data(found)
        return found

    @functools.wraps(sum_gradients)
    def all_reduce_sum_gradients(grads_and_vars: Any) -> Any:
        scope = current_scope()
        if scope is None or scope.compilation is not None:
            return sum_gradients(grads_and_vars)
        return list(grads_and_vars) if scope.combined else combined("sum", grads_and_vars)

    for mode in ("train", "test", "predict"):
        setattr(model_class, f"make_{mode}_function", _making(mode, getattr(model_class, f"make_{mode}_function")))
    for name, method in _METHODS.items():
        setattr(model_class, name, method)
    _watch(model_class, lambda model: _models.setdefault(model, _Accumulation()))
    adapter.get_data_handler, optimizers.all_reduce_sum_gradients = get_data_handler, all_reduce_sum_gradients
    if _FORMER in sys.modules:  # a program asks whether an optimiser is one of it; its own functions need the class of before
        optimizer = import_module("tf_keras.src.optimizers.optimizer").Optimizer
        sys.modules[_FORMER].__class__ = type("Former", (types.ModuleType,), {"OptimizerV2": property(lambda _: optimizer)})


def _require_data(handler: Any) -> None:
    adapter, dataset = handler._adapter, handler._dataset
    if adapter.has_partial_batch():
        raise ValueError(
            f"the data have a partial batch: give a batch_size that divides them (it is {adapter.batch_size()}), because a program on "
            "the IPU has fixed shapes"
        )
    for spec in tf.nest.flatten(dataset.element_spec):
        if adapter.batch_size() is None and isinstance(dataset, tf.data.Dataset) and not spec.shape.is_fully_defined():
            raise ValueError(
                f"the dataset has elements of shape {spec.shape}, and a program on the IPU has fixed shapes: batch with "
                "dataset.batch(n, drop_remainder=True)"
            )
    if handler.inferred_steps is None:
        raise ValueError("the size of the data is not known: give the number of steps (steps_per_epoch, validation_steps or steps)")


def _making(mode: str, make: Callable[..., Any]) -> Callable[..., Any]:
    """Keras' method that makes the function for a mode, with those of models on the IPU."""

    @functools.wraps(make)
    def made(self: Any, force: bool = False) -> Any:
        if self not in _models:
            return make(self, force)
        if force or getattr(self, f"{mode}_function") is None:
            setattr(self, f"{mode}_function", _function(self, mode))
        return getattr(self, f"{mode}_function")

    return made


def _function(model: Any, mode: str) -> Callable[[Any], Structure]:
    if model.run_eagerly:
        raise RuntimeError("Keras models cannot run eagerly in IPUStrategy: leave run_eagerly away when calling compile")
    programs: dict[Any, tuple[Function, IPUOutfeedQueue | None]] = {}
    accumulation = _models[model]

    def execute(iterator: Any) -> Structure:
        steps = 1 if model._steps_per_execution is None else int(model._steps_per_execution.numpy())
        replicas = placement(1).count
        each = replicas * (accumulation.count if mode == "train" else 1)
        if steps % each:
            raise RuntimeError(
                f"an execution of {steps} steps cannot be divided among {replicas} replicas that update once for {each // replicas} "
                f"steps: set steps_per_execution, and the steps of an epoch, to a multiple of {each}"
            )
        key = tuple((tuple(each.shape), each.dtype) for each in element_specs(iterator))
        if key not in programs:
            outfeed = IPUOutfeedQueue() if mode == "predict" else None
            programs[key] = _program(model, mode, iterator, accumulation, replicas, outfeed), outfeed
        program, outfeed = programs[key]
        try:
            result = program([], [iterator], steps // replicas)
        except DatasetError as error:
            raise tf.errors.OutOfRangeError(None, None, str(error)) from error  # Keras ends the epoch, and says so
        if outfeed is not None:
            leading = 2 + (replicas > 1)
            return tf.nest.map_structure(lambda values: tf.reshape(values, [-1, *values.shape[leading:]]), outfeed.dequeue())
        return model.get_metrics_result() if replicas > 1 else result  # those that replicas have added up

    return execute


def _program(model: Any, mode: str, iterator: Any, accumulation: _Accumulation, replicas: int, outfeed: IPUOutfeedQueue | None) -> Function:
    """A step of a model, whose optimiser updates once for several of them."""

    def step() -> Structure:
        element = next(iterator)
        with graphs.for_xla():
            result = getattr(model, f"{mode}_step")(element)
            getattr(model, f"_{mode}_counter").assign_add(1)
        if outfeed is None:
            return result
        outfeed.enqueue(result)
        return None

    with contextlib.ExitStack() as after:
        if mode == "train" and accumulation.count > 1:
            own, apply = vars(model.optimizer), model.optimizer.apply_gradients
            factor = 1 / (accumulation.count * replicas) if accumulation.scale else 1
            scaled = types.SimpleNamespace(apply_gradients=lambda pairs: apply([(each * factor, variable) for each, variable in pairs]))
            accumulator = GradientAccumulationOptimizerV2(scaled, accumulation.count, **accumulation.options)
            own["apply_gradients"] = lambda grads_and_vars, **options: accumulator.apply_gradients(grads_and_vars)
            after.callback(own.pop, "apply_gradients")
        made = Function(step, (), f"{model.name}_{mode}")
    made.taken.clear()
    return made


def _set_gradient_accumulation_options(
    model: Any,
    gradient_accumulation_steps_per_replica: int | None = None,
    experimental_normalize_gradients: bool | None = None,
    gradient_accumulation_reduction_method: Any = "sum",
    gradient_accumulation_count: int | None = None,
    **options: Any,
) -> None:
    """Updates once for several steps; `steps_per_execution` is a multiple of them times the replicas.

    Args:
        experimental_normalize_gradients: whether gradients are divided by that product.
        gradient_accumulation_count: the steps' former name.
        options: of `GradientAccumulationOptimizerV2`.
    Raises: UnsupportedError for a model that was made outside of `IPUStrategy.scope()`.
    """
    if model not in _models:
        raise UnsupportedError(f"model {model.name} is not on the IPU: make it in IPUStrategy.scope()")
    steps = gradient_accumulation_steps_per_replica or gradient_accumulation_count
    count = 1 if steps is None else whole_number("gradient_accumulation_steps_per_replica", steps, least=1)
    own = {"reduction_method": gradient_accumulation_reduction_method, **options}
    GradientAccumulationOptimizerV2(None, count, **own)  # it says what is wrong
    _models[model] = _Accumulation(count, bool(experimental_normalize_gradients), own)
    model.train_function = None  # it is made again


def _no_pipelines(*arguments: Any, **options: Any) -> Any:
    raise UnsupportedError(
        "Keras models are not pipelined here: write the stages as functions for pipelining_ops.pipeline in TensorFlow 1 "
        "(tilestep run --tensorflow=1), or in JAX for tilestep.train.Pipeline"
    )


PipelineStage = _no_pipelines  # the original's `keras` has the name


def _no_effect(model: Any, *arguments: Any, **options: Any) -> None:
    warnings.warn(
        "options of a Keras model's queues and callbacks have no effect here: the runtime's queues are used, and callbacks come after each "
        "execution of steps_per_execution steps",
        UserWarning,
        stacklevel=2,
    )


_METHODS: Final = {
    "set_gradient_accumulation_options": _set_gradient_accumulation_options,
    **dict.fromkeys(("set_infeed_queue_options", "set_outfeed_queue_options", "set_asynchronous_callbacks"), _no_effect),
    **dict.fromkeys((f"{verb}_pipeline_stage_assignment" for verb in ("set", "get", "reset")), _no_pipelines),
    **dict.fromkeys(("set_pipelining_options", "print_pipeline_stage_assignment_summary"), _no_pipelines),
}
