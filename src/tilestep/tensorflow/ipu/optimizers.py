"""`tensorflow.python.ipu`'s `optimizers` and `gradient_accumulation`: optimisers over the gradients of replicas, or of several steps."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Any, cast

from tilestep.messages import shown
from tilestep.tensorflow.accumulation import Update
from tilestep.tensorflow.lowering import combined
from tilestep.tensorflow.tracing import current_scope, name_of, trace
from tilestep.tensorflow.untyped import Operation, Tensor, tf, v1
from tilestep.train.gradients.accumulation import Reduction
from tilestep.train.numbers import whole_number

GradientsAndVariables = Sequence[tuple[Tensor | None, Any]]


class GradientAccumulationReductionMethod(enum.Enum):
    """How the gradients of several steps become one."""

    SUM = 0
    MEAN = 1
    RUNNING_MEAN = 2


def reduction_of(method: Any) -> Reduction:
    """The runtime's name. Args: method: one of these, or its name in any case. Raises: ValueError for another one."""
    name = method.name if isinstance(method, GradientAccumulationReductionMethod) else str(method)
    if name.upper() not in GradientAccumulationReductionMethod.__members__:
        raise ValueError(f"reduction_method is {shown(method)}: it must be SUM, MEAN or RUNNING_MEAN")
    return cast("Reduction", name.lower())


class _Wrapping(v1.train.Optimizer):
    """An optimiser around another one, whose gradients and slots are the latter's."""

    def __init__(self, opt: Any, name: str) -> None:
        super().__init__(False, name)
        self._opt = opt

    def compute_gradients(self, loss: Tensor, var_list: Any = None, **options: Any) -> GradientsAndVariables:
        if isinstance(self._opt, v1.train.Optimizer):
            return self._opt.compute_gradients(loss, var_list, **options)
        variables = v1.trainable_variables() if var_list is None else list(var_list)
        return list(zip(v1.gradients(loss, variables), variables, strict=True))  # Keras wants a tape

    def apply_gradients(self, grads_and_vars: GradientsAndVariables, global_step: Any = None, name: str | None = None) -> Operation:
        if isinstance(self._opt, v1.train.Optimizer):
            return self._opt.apply_gradients(grads_and_vars, global_step, name)
        made = self._opt.apply_gradients([pair for pair in grads_and_vars if pair[0] is not None])
        return made if global_step is None else tf.group(made, global_step.assign_add(1))

    def get_slot(self, *arguments: Any, **options: Any) -> Any:
        return self._opt.get_slot(*arguments, **options)

    def get_slot_names(self, *arguments: Any, **options: Any) -> Any:
        return self._opt.get_slot_names(*arguments, **options)

    def variables(self) -> Any:
        return self._opt.variables()


class CrossReplicaOptimizer(_Wrapping):
    """Updates with the mean over replicas of the gradients, so that all replicas do the same update. Args: opt: of `tf.train`."""

    def __init__(self, opt: Any, name: str = "CrossReplicaOptimizer") -> None:
        super().__init__(opt, name)

    def apply_gradients(self, grads_and_vars: GradientsAndVariables, global_step: Any = None, name: str | None = None) -> Operation:
        scope = current_scope()
        if scope is not None:
            scope.combined = True  # an optimiser of Keras would add them up
        try:
            return super().apply_gradients(combined("mean", grads_and_vars), global_step, name)
        finally:
            if scope is not None:
                scope.combined = False


class GradientAccumulationOptimizerV2(_Wrapping):
    """Adds up the gradients of several steps of `loops.repeat`, and lets any optimiser update once for them.

    Args:
        opt: of `tf.train`, or a Keras optimiser with `apply_gradients`; it may be a `CrossReplicaOptimizer`.
        num_mini_batches: steps for each update, 1 or more; the loop's steps are a multiple of it.
        offload_weight_update_variables: whether slots are in the host's memory between updates; None: where devices have their own.
        replicated_optimizer_state_sharding: no effect.
        dtype: of accumulators: None (that of the variable), a dtype, or a function of the variable that returns one.
        reduction_method: SUM, MEAN or RUNNING_MEAN.
    Raises: ValueError for a number below 1, or another method.
    """

    def __init__(
        self,
        opt: Any,
        num_mini_batches: int,
        offload_weight_update_variables: bool | None = None,
        replicated_optimizer_state_sharding: bool = False,
        dtype: Any = None,
        reduction_method: Any = GradientAccumulationReductionMethod.SUM,
        name: str = "GradientAccumulationOptimizerV2",
    ) -> None:
        super().__init__(opt, name)
        self._count = whole_number("num_mini_batches", num_mini_batches, least=1)
        self._offload = offload_weight_update_variables
        self._dtype = dtype
        self._reduction = reduction_of(reduction_method)

    def apply_gradients(self, grads_and_vars: GradientsAndVariables, global_step: Any = None, name: str | None = None) -> Operation:
        """Raises: FailedPreconditionError outside of `loops.repeat`, or if its steps are no multiple of the count."""
        scope = current_scope()
        steps = None if scope is None else scope.accumulates
        if scope is None or steps is None or steps % self._count:
            raise tf.errors.FailedPreconditionError(
                None,
                None,
                f"{type(self).__name__} with {self._count} mini batches works in loops.repeat whose number of steps is a multiple of that"
                + ("" if steps is None else f", but it has {steps}")
                + "; a pipeline accumulates by itself, so give it the optimizer alone",
            )
        pairs = [(tf.convert_to_tensor(gradient), variable) for gradient, variable in grads_and_vars if gradient is not None]
        gradients, variables = ([pair[index] for pair in pairs] for index in range(2))
        dtypes = [accumulator_dtype(self._dtype, variable) for variable in variables]

        def apply(*accumulated: Tensor) -> Operation:
            pairs = list(zip(accumulated, variables, strict=True))
            return super(GradientAccumulationOptimizerV2, self).apply_gradients(pairs, global_step)

        specs = [tf.TensorSpec(gradient.shape, dtype) for gradient, dtype in zip(gradients, dtypes, strict=True)]
        traced = trace(f"{type(self).__name__}_update", apply, specs, scope=scope.inner())
        names = [name_of(variable.handle, scope) for variable in variables]
        update = Update(
            traced=traced,
            gradients=gradients,
            names=names,
            extra=[outside for outside, _ in traced.captured if getattr(outside, "graph", None) is gradients[0].graph],
            count=self._count,
            reduction=self._reduction,
            offload=self._offload,
            dtypes={key: dtype.as_numpy_dtype for key, dtype in zip(names, dtypes, strict=True)},
        )
        scope.updates.append(update)
        return tf.no_op(name=name or "accumulate")


class CrossReplicaGradientAccumulationOptimizerV2(GradientAccumulationOptimizerV2):
    """`GradientAccumulationOptimizerV2` whose update has the mean over replicas of the accumulated gradients."""

    def __init__(self, opt: Any, num_mini_batches: int, *arguments: Any, **options: Any) -> None:
        super().__init__(CrossReplicaOptimizer(opt), num_mini_batches, *arguments, **options)


class GradientAccumulationOptimizer(GradientAccumulationOptimizerV2):
    """Adds up the gradients of several steps for gradient descent or momentum. Slots stay on the device.

    Raises: ValueError for another optimiser.
    """

    def __init__(self, opt: Any, num_mini_batches: int, verify_usage: bool = True, name: str = "GradientAccumulationOptimizer") -> None:
        inner = opt._opt if isinstance(opt, CrossReplicaOptimizer) else opt
        if verify_usage and not isinstance(inner, v1.train.GradientDescentOptimizer | v1.train.MomentumOptimizer):
            raise ValueError(
                f"GradientAccumulationOptimizer wraps GradientDescentOptimizer and MomentumOptimizer alone, not {type(inner).__name__}: "
                "use GradientAccumulationOptimizerV2"
            )
        super().__init__(opt, num_mini_batches, offload_weight_update_variables=False, name=name)


class CrossReplicaGradientAccumulationOptimizer(GradientAccumulationOptimizer):
    """`GradientAccumulationOptimizer` whose update has the mean over replicas of the accumulated gradients."""

    def __init__(self, opt: Any, num_mini_batches: int, *arguments: Any, **options: Any) -> None:
        super().__init__(CrossReplicaOptimizer(opt), num_mini_batches, *arguments, **options)


def accumulator_dtype(dtype: Any, variable: Any) -> Any:
    """Of one variable. Args: dtype: None, a dtype, or a function of the variable."""
    chosen = dtype(variable) if callable(dtype) and not isinstance(dtype, tf.DType | type) else dtype
    return variable.dtype.base_dtype if chosen is None else tf.as_dtype(chosen)
