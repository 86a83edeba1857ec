"""A rule for all parameters, put together from the weights' own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np

from tilestep.popart.exceptions import popart_exception, popart_internal_exception, popart_runtime_error
from tilestep.popart.names import reservedAcclPrefix, reservedAccumPrefix, reservedFinalReducedGradPrefix
from tilestep.popart.optimizers.clipping import clip_groups, clipped
from tilestep.popart.optimizers.gradients import COUNTER
from tilestep.popart.optimizers.rule import Arrays, OptimizerState, UpdateContext, UpdateRule, as_arrays, changed
from tilestep.popart.optimizers.scalars import FLOAT16, FLOAT32, Hyper, Scalar, Weight
from tilestep.popart.optimizers.weight_rule import WeightRule

if TYPE_CHECKING:
    from tilestep.popart.optimizers.optimizer import Optimizer


def assemble(optimizer: Optimizer, context: UpdateContext) -> UpdateRule:
    """The rule of `optimizer` for the parameters of `context`.

    Raises:
        popart_exception: if the optimizer can't serve the session: a parameter's type, a group of clipping, automatic loss scaling.
    """
    if context.automatic_loss_scaling is not None and optimizer.lossScaling().isConst():
        raise popart_exception("[AutomaticLossScale transform] The optimizer must have non-const loss scaling")
    weights = {id: _weight(id, param, optimizer) for id, param in context.params.items()}
    rules = {id: optimizer.weight_rule(weight, context) for id, weight in weights.items()}
    rule = _Rule(
        optimizer=optimizer.clone(),
        context=context,
        weights=weights,
        rules=rules,
        groups=clip_groups(optimizer.getClipNormSettings(), tuple(weights)),
        loss_scaling=optimizer.loss_scaling_scalar(context.loss_dtype),
    )
    return UpdateRule(
        init=rule.init,
        loss_scale=rule.loss_scale,
        observe=rule.observe,
        accumulate=rule.accumulate,
        update=rule.update,
        with_values=rule.with_values,
        values=rule.values,
        owners=rule.owners(),
        accumulators=rule.accumulators(),
    )


def _weight(id: str, param: jax.ShapeDtypeStruct, optimizer: Optimizer) -> Weight:
    dtype = np.dtype(param.dtype)
    if dtype not in (FLOAT32, FLOAT16):
        raise popart_exception(f"Unsupported data type for tensor {id}, {dtype}: only FLOAT16 and FLOAT are supported by optimizers")
    return Weight(id=id, shape=tuple(param.shape), dtype=dtype, specific=optimizer.hasSpecific(id))


@dataclass(frozen=True, kw_only=True)
class _Rule:
    """What UpdateRule's functions have in common."""

    optimizer: Optimizer
    context: UpdateContext
    weights: Mapping[str, Weight]
    rules: Mapping[str, WeightRule]
    groups: tuple[tuple[tuple[str, ...], float], ...]
    loss_scaling: Scalar

    def _scalars(self) -> dict[str, Scalar]:
        used = {scalar.name: scalar for rule in self.rules.values() for scalar in rule.scalars}
        return {**used, self.loss_scaling.name: self.loss_scaling}

    def _counts(self) -> bool:
        return self.context.accumulates and self.context.running_mean

    def _hyper(self, state: OptimizerState) -> Hyper:
        automatic = self.context.automatic_loss_scaling
        return Hyper(arrays=state.hyper, factor=None if automatic is None else automatic.factor(state.tensors))

    def init(self, params: Mapping[str, jax.Array]) -> OptimizerState:
        arrays = as_arrays(params)
        tensors = {name: tensor for id, rule in self.rules.items() for name, tensor in rule.init(arrays[id]).items()}
        if self._counts():
            tensors[COUNTER] = jnp.zeros((), jnp.float32)
        if self.context.automatic_loss_scaling is not None:
            tensors.update(self.context.automatic_loss_scaling.init())
        return OptimizerState(hyper={name: jnp.asarray(s.value) for name, s in self._scalars().items() if not s.const}, tensors=tensors)

    def loss_scale(self, state: OptimizerState) -> jax.Array:
        hyper = self._hyper(state)
        value = jnp.asarray(hyper(self.loss_scaling), jnp.float32)
        return value if hyper.factor is None else value * hyper.factor

    def observe(self, state: OptimizerState, gradients: Sequence[jax.Array]) -> OptimizerState:
        automatic = self.context.automatic_loss_scaling
        return state if automatic is None else changed(state, tensors=automatic.observe(state.tensors, gradients))

    def accumulate(self, state: OptimizerState, gradients: Mapping[str, jax.Array]) -> OptimizerState:
        hyper, tensors = self._hyper(state), dict(state.tensors)
        for id, rule in self.rules.items():
            if id not in gradients:
                raise popart_internal_exception(f"The gradient of {id} is missing; there are {', '.join(gradients) or 'none'}")
            tensors.update(rule.accumulate(hyper, tensors, jnp.asarray(gradients[id])))
        if self._counts():
            tensors[COUNTER] = tensors[COUNTER] + 1.0
        return OptimizerState(hyper=state.hyper, tensors=tensors)

    def update(self, state: OptimizerState, params: Mapping[str, jax.Array]) -> tuple[Arrays, OptimizerState]:
        hyper, tensors, arrays = self._hyper(state), dict(state.tensors), as_arrays(params)
        updaters: Arrays = {}
        for id, rule in self.rules.items():
            updaters[id], changes = rule.prepare(hyper, tensors, arrays[id])
            tensors.update(changes)
        updaters = clipped(updaters, self.groups)
        finished: Arrays = {}  # apart, because weights may share a tensor that all read before the first changes it
        for id, rule in self.rules.items():
            arrays[id], changes = rule.finish(hyper, tensors, arrays[id], updaters[id])
            finished.update(changes)
        tensors.update(finished)
        if self._counts():
            tensors[COUNTER] = jnp.zeros_like(tensors[COUNTER])
        if self.context.automatic_loss_scaling is not None:
            tensors.update(self.context.automatic_loss_scaling.update(tensors))
        kept = {name: tensor for name, tensor in tensors.items() if not name.startswith(reservedFinalReducedGradPrefix())}
        return arrays, OptimizerState(hyper=state.hyper, tensors=kept)

    def with_values(self, state: OptimizerState, optimizer: Optimizer) -> OptimizerState:
        self.optimizer.validReplacement(optimizer)
        new = {s.name: s for weight in self.weights.values() for s in optimizer.scalars(weight, self.context).values()}
        new[self.loss_scaling.name] = optimizer.loss_scaling_scalar(self.context.loss_dtype)
        for name, old in self._scalars().items():
            if old.const and old.value != new[name].value:
                raise popart_runtime_error(
                    f"New optimizer is not a valid replacement. {name} is constant at {old.value} and would become {new[name].value}"
                )
        return changed(state, hyper={name: jnp.asarray(new[name].value, old.dtype) for name, old in state.hyper.items()})

    def owners(self) -> dict[str, str]:
        names = {id: list(jax.eval_shape(rule.init, self.context.params[id])) for id, rule in self.rules.items()}
        counts = Counter(name for made in names.values() for name in made)
        return {name: id for id, made in names.items() for name in made if counts[name] == 1}

    def accumulators(self) -> frozenset[str]:
        if not self.context.accumulates:
            return frozenset()
        shapes = jax.eval_shape(self.init, dict(self.context.params)).tensors
        return frozenset(name for name in shapes if name.startswith((reservedAccumPrefix(), reservedAcclPrefix())))

    def values(self, state: OptimizerState) -> Arrays:
        return {**state.hyper, **state.tensors, "finalLossScale": self.loss_scale(state)}
