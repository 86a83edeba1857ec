"""`tensorflow.python.ipu.pipelining_ops`: models in stages on several IPUs."""

import enum
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from tilestep.errors import UnsupportedError
from tilestep.tensorflow.compilation import node_name, require_compilation
from tilestep.tensorflow.ipu.optimizers import GradientAccumulationReductionMethod, accumulator_dtype, reduction_of
from tilestep.tensorflow.ipu.queues import fed
from tilestep.tensorflow.pipeline import Levels, Pipeline, TracedOptimizer
from tilestep.tensorflow.tracing import Scope, trace
from tilestep.tensorflow.untyped import Operation, Tensor, tf
from tilestep.train.numbers import whole_number

PipelineSchedule = enum.IntEnum("PipelineSchedule", "Grouped Interleaved Sequential", start=0)
# Each of them is full recomputation here.
RecomputationMode = enum.Enum("RecomputationMode", "Auto RecomputeThenBackpropagate RecomputeAndBackpropagateInterleaved", start=0)
PipelineStageOptions = dict  # no effect: `IPUConfig` has the options of all programs


class OptimizerFunctionOutput(NamedTuple):
    """What an optimizer function returns."""

    opt: Any
    loss: Tensor  # one of the last stage's outputs
    compute_gradients_args: Any = None
    compute_gradients_kwargs: Any = None
    apply_gradients_args: Any = None
    apply_gradients_kwargs: Any = None
    variables: Any = None
    tape: Any = None
    gradient_capture_context: Any = None
    captured_gradient_outfeed: Any = None


def pipeline(
    computational_stages: Sequence[Any],
    gradient_accumulation_count: int | None = None,
    gradient_accumulation_dtype: Any = None,
    repeat_count: int = 1,
    batch_serialization_iterations: int = 1,
    inputs: Sequence[Any] | None = None,
    infeed_queue: Any = None,
    outfeed_queue: Any = None,
    optimizer_function: Callable[..., OptimizerFunctionOutput] | None = None,
    device_mapping: Sequence[Any] | None = None,
    pipeline_schedule: PipelineSchedule | None = None,
    recomputation_mode: RecomputationMode | None = None,
    forward_propagation_stages_poplar_options: Any = None,
    backward_propagation_stages_poplar_options: Any = None,
    weight_update_poplar_options: Any = None,
    offload_weight_update_variables: bool | None = None,
    replicated_optimizer_state_sharding: bool = False,
    offload_activations: bool | None = None,
    offload_gradient_accumulation_buffers: bool | None = None,
    replicated_weight_sharding: bool | None = None,
    offload_weights: bool | None = None,
    continuous_weight_updates: bool = False,
    outfeed_loss: bool = False,
    accumulate_outfeed: bool = False,
    accumulate_outfeed_dtype: Any = None,
    outfeed_mask: Sequence[bool] | None = None,
    reduction_method: Any = GradientAccumulationReductionMethod.SUM,
    name: str | None = None,
) -> Operation:
    """Runs a model in stages, each on its own IPU, which work on different microbatches at once.

    Arguments are those of the original and of `tilestep.train.Pipeline`. Options of Poplar, of single stages and of the memory of
    accumulators and weights have no effect.

    Args:
        computational_stages: functions; a list of them are concurrent stages, whose outputs are joined.
        gradient_accumulation_dtype: of accumulators: None (that of the variable), a dtype, or a function of the variable.
        inputs: arguments of the first stage before the infeed's element.
        optimizer_function: of the last stage's outputs; None: inference.
        recomputation_mode: None: activations are kept, unless the configuration has `allow_recompute`.
        offload_weight_update_variables: whether slots wait in the host's memory; None: where devices have their own.
        outfeed_mask: of the last stage's outputs, those that the outfeed does not get.
    Returns: a node.
    Raises: UnsupportedError for what is refused, outside of `ipu_compiler.compile`, and for what XLA cannot lower; ValueError and
        TypeError as `tilestep.train.Pipeline`.
    """
    if batch_serialization_iterations != 1 or continuous_weight_updates:
        raise UnsupportedError(
            "pipeline() has neither batch_serialization_iterations nor continuous_weight_updates here: leave them away, or write the "
            "pipeline with tilestep.train.Pipeline"
        )
    compilation = require_compilation("pipelining_ops.pipeline")
    first = [tf.convert_to_tensor(each) for each in inputs or ()]
    levels = _traced(computational_stages, first, infeed_queue, compilation)
    last = [tensor for each in levels[-1] for tensor in each.results]
    optimizer = None if optimizer_function is None else _traced_optimizer(optimizer_function, levels, last, gradient_accumulation_dtype)
    chosen = {key: accumulator_dtype(gradient_accumulation_dtype, each).as_numpy_dtype for key, each in _learned(levels).items()}
    shown = [last[optimizer.loss]] if outfeed_loss and optimizer is not None else last
    if outfeed_mask is not None:
        shown = [each for each, hidden in zip(shown, outfeed_mask, strict=True) if not hidden]
    if outfeed_queue is not None:
        outfeed_queue.will_get(shown[0] if len(shown) == 1 else shown, shown)
    indices = tf.nest.flatten(device_mapping or [])
    options: dict[str, Any] = {
        "gradient_accumulation_count": whole_number("gradient_accumulation_count", gradient_accumulation_count, least=1),
        "pipeline_schedule": PipelineSchedule(pipeline_schedule or 0).name.lower(),
        "device_mapping": None if device_mapping is None else list(device_mapping),
        "accumulate_outfeed": accumulate_outfeed,
        "accumulate_outfeed_dtype": None if accumulate_outfeed_dtype is None else tf.as_dtype(accumulate_outfeed_dtype).as_numpy_dtype,
        "outfeed_mask": None if outfeed_mask is None else list(outfeed_mask),
        "offload_activations": bool(offload_activations),
        "recompute": None if recomputation_mode is None else "full",
    }
    if optimizer is not None:
        options |= {
            "reduction": reduction_of(reduction_method),
            "outfeed_loss": outfeed_loss,
            "offload_optimizer_state": offload_weight_update_variables,
            "shard_optimizer_state": replicated_optimizer_state_sharding,
            "gradient_accumulation_dtype": lambda path, variable: chosen.get(path, variable.dtype),
        }
    made = Pipeline(
        levels=levels,
        inputs=first,
        optimizer=optimizer,
        infeed=infeed_queue,
        outfeed=outfeed_queue,
        repeat_count=whole_number("repeat_count", repeat_count, least=1),
        shards=max(indices) + 1 if indices else sum(map(len, levels)),
        options=options,
    )
    compilation.append(made)
    return tf.no_op(name=name or "pipeline")


def recomputation_checkpoint(tensors: Any, name: str | None = None) -> Any:
    """The tensors as they are."""
    return tensors


def _traced(stages: Sequence[Any], arguments: list[Any], infeed: Any, compilation: Any) -> Levels:
    levels: Levels = []
    for given in stages:
        functions = list(given) if isinstance(given, list | tuple) else [given]
        traced = []
        for each in functions:
            function, specs = fed(each, infeed, len(arguments))
            scope = Scope(compilation=compilation, is_body=True)
            traced.append(trace(node_name(each), function, [*arguments, *specs], scope=scope))
        levels.append(traced)
        if any(each.scope.sent for each in traced):
            raise UnsupportedError(
                f"stage {node_name(functions[0])} calls IPUOutfeedQueue.enqueue(): return the values from the last stage, which pipeline() "
                "sends to its outfeed_queue"
            )
        arguments, infeed = [tensor for each in traced for tensor in each.results], None
    return levels


def _traced_optimizer(function: Callable[..., Any], levels: Levels, last: list[Tensor], dtype: Any) -> TracedOptimizer:
    """The optimizer function, called once; it updates each variable of the stages that can learn by a node of its own."""
    learned = _learned(levels)
    updates: dict[str, tuple[Tensor, Operation]] = {}
    place: list[int] = []

    def apply(*given: Tensor) -> None:
        outputs, gradients = given[: len(last)], given[len(last) :]
        result = function(*outputs)
        if not isinstance(result, OptimizerFunctionOutput):
            raise TypeError(f"the optimizer function returns {type(result).__name__}: it must return an OptimizerFunctionOutput")
        place.extend(index for index, each in enumerate(outputs) if each is result.loss)
        options = dict(result.apply_gradients_kwargs or {})
        for (key, variable), gradient in zip(learned.items(), gradients, strict=True):
            updates[key] = (gradient, result.opt.apply_gradients([(gradient, variable)], **options))

    specs = [tf.TensorSpec(each.shape, each.dtype) for each in last]
    specs += [tf.TensorSpec(each.shape, accumulator_dtype(dtype, each)) for each in learned.values()]
    scope = Scope(compilation=levels[0][0].scope.compilation)
    traced = trace("optimizer", apply, specs, scope=scope)
    if not place:
        raise UnsupportedError("the optimizer function's loss is none of the last stage's outputs: return the loss from the last stage")
    return TracedOptimizer(traced=traced, updates=updates, loss=place[0])


def _learned(levels: Levels) -> dict[str, Any]:
    """Name -> variable of those that the stages use and that can be trained."""
    used = {key for level in levels for each in level for key in each.handles}
    return {each.handle.name: each for each in tf.compat.v1.trainable_variables() if each.handle.name in used}
