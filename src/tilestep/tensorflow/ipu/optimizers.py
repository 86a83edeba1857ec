"""`tensorflow.python.ipu`'s `optimizers` and `gradient_accumulation`: optimisers over the gradients of replicas, or of several steps.

Over several steps, an optimiser of TensorFlow becomes one of optax, which `tilestep.train` wraps.
"""

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import optax

from tilestep.messages import shown
from tilestep.tensorflow.jax_private.primitive import Program
from tilestep.tensorflow.tracing import Scope, Traced, combined, current_scope, lower, name_of, trace
from tilestep.tensorflow.untyped import Graph, Operation, Tensor, tf, v1
from tilestep.train import gradient_accumulation
from tilestep.train.gradients.accumulation import Reduction
from tilestep.train.numbers import whole_number
from tilestep.train.untyped import Pytree

GradientsAndVariables = Sequence[tuple[Tensor | None, Any]]
Arrays = Mapping[str, Any]  # by the names of variables


GradientAccumulationReductionMethod = enum.Enum("GradientAccumulationReductionMethod", "SUM MEAN RUNNING_MEAN", start=0)


def reduction_of(method: Any) -> Reduction:
    """The runtime's name. Args: method: one of these, or its name in any case. Raises: ValueError for another one."""
    name = method.name if isinstance(method, GradientAccumulationReductionMethod) else str(method)
    if name.upper() not in GradientAccumulationReductionMethod.__members__:
        raise ValueError(f"reduction_method is {shown(method)}: it must be SUM, MEAN or RUNNING_MEAN")
    return cast("Reduction", name.lower())


@dataclass(frozen=True, kw_only=True, eq=False)
class Update:
    """What an optimiser does once for `count` steps.

    The body of a loop ends at `gradients` in `graph`; `names` are those of their variables. What the optimiser does with them is traced by
    itself: a function of gradients, variables and slots. It has captured `extra` of the body, such as a learning rate.
    """

    traced: Traced  # its `apply_gradients` as a function of gradients
    graph: Graph
    gradients: Sequence[Tensor]
    names: Sequence[str]
    extra: Sequence[Tensor]
    count: int
    offload: bool | None
    options: Mapping[str, Any]  # further ones of `gradient_accumulation`

    @property
    def slots(self) -> list[str]:
        """Names of variables that the update uses beside those of the gradients."""
        return [name for name in self.traced.handles if name not in self.names]

    def optimizer(self, steps: int | None) -> optax.GradientTransformationExtraArgs:
        """The optimiser as a loop of so many steps takes it; None: it is not known how many. Its state is the slots, which the loop has.

        Raises: FailedPreconditionError for steps that are no multiple of the count; UnsupportedError for what XLA cannot lower.
        """
        if steps is None or steps % self.count:
            raise _failed(
                f"an optimizer accumulates {self.count} steps, and the loop has {steps or 'an unknown number'}: give it a multiple of "
                f"{self.count}"
            )
        inputs = [*self.traced.arguments, *(inside for _, inside in self.traced.captured)]
        program = lower(self.traced, inputs, [], self.traced.operations)

        def update(gradients: Pytree, state: Pytree, params: Pytree = None, *, extra: Sequence[Any] = ()) -> tuple[Pytree, Pytree]:
            return changes(program, [*(gradients[name] for name in self.names), *extra], params, state)

        own = optax.GradientTransformationExtraArgs(lambda _: {}, update)  # pyrefly: ignore[bad-argument-type]
        return gradient_accumulation(own, self.count, offload_optimizer_state=False, **self.options)


def _failed(why: str) -> Exception:
    return tf.errors.FailedPreconditionError(None, None, why)


def changes(program: Program, values: Sequence[Any], params: Arrays, slots: Arrays) -> tuple[dict[str, Any], dict[str, Any]]:
    """(changes of variables, new slots). Args: program: an optimiser's, of gradients and other values. params: the variables."""
    _, new = program(values, {**slots, **params})
    changed = {name: new[name].astype(old.dtype) - old for name, old in params.items()}
    return changed, {name: new[name].astype(old.dtype) if name in new else old for name, old in slots.items()}


class _Wrapping(v1.train.Optimizer):
    """An optimiser around another one, whose gradients and slots are the latter's."""

    def __init__(self, opt: Any, name: str | None = None) -> None:
        super().__init__(False, name or type(self).__name__)
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
    """Updates with the mean over replicas of the gradients, so that all replicas do the same update."""

    def apply_gradients(self, grads_and_vars: GradientsAndVariables, global_step: Any = None, name: str | None = None) -> Operation:
        scope = current_scope() or Scope()
        scope.combined = True  # an optimiser of Keras would add them up
        try:
            return super().apply_gradients(combined("mean", grads_and_vars), global_step, name)
        finally:
            scope.combined = False


class GradientAccumulationOptimizerV2(_Wrapping):
    """Adds up the gradients of several steps of `loops.repeat`, and lets any optimiser update once for them.

    Args:
        opt: of `tf.train`, or a Keras optimiser with `apply_gradients`; it may be a `CrossReplicaOptimizer`.
        offload_weight_update_variables: whether slots are in the host's memory between updates; None: where devices have their own.
        dtype: of accumulators: None (that of the variable), a dtype, or a function of the variable that returns one.
    """

    def __init__(
        self,
        opt: Any,
        num_mini_batches: int,
        offload_weight_update_variables: bool | None = None,
        replicated_optimizer_state_sharding: bool = False,
        dtype: Any = None,
        reduction_method: Any = GradientAccumulationReductionMethod.SUM,
        name: str | None = None,
    ) -> None:
        super().__init__(opt, name)
        self._count = whole_number("num_mini_batches", num_mini_batches, least=1)
        self._offload = offload_weight_update_variables
        self._dtype = dtype
        self._reduction = reduction_of(reduction_method)

    def apply_gradients(self, grads_and_vars: GradientsAndVariables, global_step: Any = None, name: str | None = None) -> Operation:
        """Raises: FailedPreconditionError outside of `loops.repeat`, whose steps are a multiple of the count."""
        scope = current_scope()
        if scope is None or not scope.accumulates:
            name = type(self).__name__
            raise _failed(f"{name} works in loops.repeat; a pipeline accumulates by itself, so give it the optimizer alone")
        pairs = [pair for pair in grads_and_vars if pair[0] is not None]
        gradients, variables = [tf.convert_to_tensor(gradient) for gradient, _ in pairs], [variable for _, variable in pairs]
        names = [name_of(variable.handle, scope) for variable in variables]
        dtypes = {name: accumulator_dtype(self._dtype, variable) for name, variable in zip(names, variables, strict=True)}

        def apply(*accumulated: Tensor) -> Operation:
            return super(GradientAccumulationOptimizerV2, self).apply_gradients(list(zip(accumulated, variables, strict=True)), global_step)

        specs = [tf.TensorSpec(gradient.shape, dtype) for gradient, dtype in zip(gradients, dtypes.values(), strict=True)]
        traced = trace(f"{type(self).__name__}_update", apply, specs, scope=Scope(compilation=scope.compilation, variables=scope.variables))
        scope.updates.append(
            Update(
                traced=traced,
                graph=gradients[0].graph,
                gradients=gradients,
                names=names,
                extra=[tf.identity(outside) for outside, _ in traced.captured],  # tensors from around the body become its own
                count=self._count,
                offload=self._offload,
                options={"reduction": self._reduction, "dtype": lambda path, _: dtypes[path].as_numpy_dtype},
            )
        )
        return tf.no_op(name=name or "accumulate")


class GradientAccumulationOptimizer(GradientAccumulationOptimizerV2):
    """The same for gradient descent or momentum, whose slots stay on the device. Raises: ValueError for another optimiser."""

    def __init__(self, opt: Any, num_mini_batches: int, verify_usage: bool = True, name: str | None = None) -> None:
        inner = opt._opt if isinstance(opt, CrossReplicaOptimizer) else opt
        if verify_usage and not isinstance(inner, v1.train.GradientDescentOptimizer | v1.train.MomentumOptimizer):
            raise ValueError(
                f"GradientAccumulationOptimizer wraps GradientDescentOptimizer and MomentumOptimizer alone, not {type(inner).__name__}: "
                "use GradientAccumulationOptimizerV2"
            )
        super().__init__(opt, num_mini_batches, offload_weight_update_variables=False, name=name)


def CrossReplicaGradientAccumulationOptimizer(opt: Any, *arguments: Any, **options: Any) -> GradientAccumulationOptimizer:
    """`GradientAccumulationOptimizer` whose update has the mean over replicas of the accumulated gradients."""
    return GradientAccumulationOptimizer(CrossReplicaOptimizer(opt), *arguments, **options)


def CrossReplicaGradientAccumulationOptimizerV2(opt: Any, *arguments: Any, **options: Any) -> GradientAccumulationOptimizerV2:
    """`GradientAccumulationOptimizerV2` whose update has the mean over replicas of the accumulated gradients."""
    return GradientAccumulationOptimizerV2(CrossReplicaOptimizer(opt), *arguments, **options)


def accumulator_dtype(dtype: Any, variable: Any) -> Any:
    """Of one variable. Args: dtype: None, a dtype, or a function of the variable."""
    chosen = dtype(variable) if callable(dtype) and not isinstance(dtype, tf.DType | type) else dtype
    return variable.dtype.base_dtype if chosen is None else tf.as_dtype(chosen)
