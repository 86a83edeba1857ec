"""An optimizer: its values, and the rule that they make: pure functions over a state, put together from the weights' own rules."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, ClassVar, NamedTuple, Self, cast

import jax
import jax.numpy as jnp
import numpy as np
import optax

from tilestep.popart.enums import MeanReductionStrategy, ReductionType
from tilestep.popart.exceptions import popart_exception, popart_internal_exception, popart_runtime_error
from tilestep.popart.names import reservedFinalReducedGradPrefix
from tilestep.popart.optimizers.clipping import ClipNormSettings, clip_groups, clipped
from tilestep.popart.optimizers.loss_scaling import FACTOR
from tilestep.popart.optimizers.scalars import FLOAT16, FLOAT32, TYPE_NAMES, Arrays, Hyper, Scalar, Weight
from tilestep.popart.optimizers.values import OptimizerValue, OptimizerValueMap, ScalarKind, known, read_values, shortest
from tilestep.popart.optimizers.weight_rule import COUNTER, OptimizerState, UpdateContext, WeightRule, changed


class Optimizer(ABC):
    """How weights change by their gradients. Use SGD, Adam or Adaptive."""

    _family: ClassVar[str]  # the name that messages give it
    _kinds: ClassVar[Mapping[str, ScalarKind]]  # by key of insertSpecific, and lossScaling, in the order in which messages list them
    _aliases: ClassVar[Mapping[str, str]] = {}  # other keys of the constructor
    _unchecked: ClassVar[frozenset[str]] = frozenset()  # values that the original doesn't look at before a replacement

    def __init__(self, values: object, clip_norm_settings: Sequence[ClipNormSettings]) -> None:
        keys = {_constructor_key(name): name for name in self._kinds} | dict(self._aliases)
        given = known(read_values(values), keys, f"Invalid {self._family} key, {{key}}, the allowed keys are ( {{keys}} )")
        chosen = {name: OptimizerValue(kind.default, True) for name, kind in self._kinds.items()}
        chosen |= {keys[key]: value for key, value in given.items()}
        self._loss_scaling = chosen.pop("lossScaling")
        if self._loss_scaling.val() == 0.0 or np.isnan(self._loss_scaling.val()):
            raise popart_exception("Loss scaling cannot be 0")
        self._clip_norm_settings = [settings.copy() for settings in clip_norm_settings]
        self._check(chosen)
        self._values = {name: OptimizerValueMap(value) for name, value in chosen.items()}

    @abstractmethod
    def scalars(self, weight: Weight, context: UpdateContext) -> dict[str, Scalar]:
        """Every compound scalar of a weight, by kind; no update uses all."""

    @abstractmethod
    def weight_rule(self, weight: Weight, context: UpdateContext) -> WeightRule:
        """How a weight is updated in a session."""

    @abstractmethod
    def _check_modes(self, other: Optimizer) -> None:
        """Check what is no value: an optimizer's modes. Raises: popart_runtime_error for one that a replacement may not change."""

    def _check_together(self, values: Mapping[str, OptimizerValue]) -> None:
        """Refuse values that make sense, but not together."""
        del values

    def learningRates(self) -> OptimizerValueMap:
        """The learning rates."""
        return self._values["learningRate"]

    def weightDecays(self) -> OptimizerValueMap:
        """The weight decays."""
        return self._values["weightDecay"]

    def lossScaling(self) -> OptimizerValue:
        """What the loss' gradient is multiplied by before the backward pass."""
        return self._loss_scaling

    def getLossScalingVal(self) -> float:
        """The loss scaling that the program gave."""
        return self._loss_scaling.val()

    def getClipNormSettings(self) -> list[ClipNormSettings]:
        """The groups of weights that are clipped."""
        return list(self._clip_norm_settings)

    def hasSpecific(self, id: str | None = None) -> bool:
        """Whether weight `id` has values of its own; without an id, whether any has."""
        return any(values.hasSpecific(id) for values in self._values.values())

    def insertSpecific(self, id: str, values: Mapping[str, tuple[float, bool]], /) -> None:
        """Give weight `id` values of its own: learningRate, weightDecay, and others of the family.

        A value that isn't given is the default. A session that exists already doesn't see them.

        Raises:
            popart_exception: for a key that doesn't exist, a value that makes no sense, or a weight that has values of its own already.
        """
        refused = f"Invalid key {{key}} in {self._family}::insertSpecific. Permitted keys are ( {{keys}} )"
        given = known(read_values(values), self._values, refused)
        own = {name: given.get(name, values_of.getDefault()) for name, values_of in self._values.items()}
        self._check(own)
        for name, values_of in self._values.items():
            values_of.insertSpecific(id, own[name])

    def clone(self) -> Self:
        """An optimizer that later changes of this one don't change."""
        return copy.deepcopy(self)

    def of_weights(self, ids: Collection[str]) -> Self:
        """A copy for some of the weights: its groups of clipping name no others."""
        own = self.clone()
        groups = own._clip_norm_settings
        for group in groups:
            group.weightIds = [id for id in group.weightIds if id in ids]
        own._clip_norm_settings = [group for group in groups if group.weightIds or group.getMode() is ClipNormSettings.Mode.ClipAllWeights]
        return own

    def loss_scaling_scalar(self, dtype: np.dtype[np.generic]) -> Scalar:
        """The loss scaling as a tensor of the session, named after the loss' type."""
        value = np.float32(self._loss_scaling.val())
        return Scalar(name=f"lossScaling_{TYPE_NAMES.get(np.dtype(dtype), 'FLOAT')}", value=value, const=self._loss_scaling.isConst())

    def validReplacement(self, other: Optimizer) -> None:
        """Check that `other` may take this optimizer's place in a compiled program.

        Raises:
            popart_runtime_error: naming what differs and may not.
        """
        mine, theirs = self._clip_norm_settings, other._clip_norm_settings
        if len(mine) != len(theirs):
            raise no_replacement("Clip norm settings do not match.")
        for index, (old, new) in enumerate(zip(mine, theirs, strict=True)):
            if old != new:
                raise no_replacement(f"Clip norm settings at index {index} do not match.")
        if other._family != self._family:
            raise no_replacement(f"Can not replace optimizer of type {self._family} with new optimizer of type {other._family}")
        self._check_modes(other)
        _valid("loss scaling", lambda: self._loss_scaling.validReplacement(other._loss_scaling))
        for name, values in self._values.items():
            if name not in self._unchecked:
                _valid(self._kinds[name].plural, partial(values.validReplacement, other._values[name]))

    def rule(self, context: UpdateContext) -> UpdateRule:
        """The pure functions that update a session's parameters.

        Raises:
            popart_exception: if the optimizer can't serve the session: a parameter's type, a group of clipping, automatic loss scaling.
        """
        if context.automatic_loss_scaling is not None and self._loss_scaling.isConst():
            raise popart_exception("[AutomaticLossScale transform] The optimizer must have non-const loss scaling")
        weights = {id: self._weight(id, param) for id, param in context.params.items()}
        return UpdateRule(
            optimizer=self.clone(),
            context=context,
            weights=weights,
            rules={id: self.weight_rule(weight, context) for id, weight in weights.items()},
            groups=clip_groups(self._clip_norm_settings, tuple(weights)),
            loss_scaling=self.loss_scaling_scalar(context.loss_dtype),
        )

    def as_optax(
        self,
        *,
        accumulation_factor: int = 1,
        reduction: ReductionType = ReductionType.Sum,
        mean_strategy: MeanReductionStrategy = MeanReductionStrategy.Post,
        replication_factor: int = 1,
        reduce: Callable[[jax.Array], jax.Array] | None = None,
    ) -> optax.GradientTransformation:
        """This optimizer for a training loop of one's own: an optax transformation over any tree of parameters.

        A parameter's name, for `insertSpecific` and clipping, is its path in the tree, joined by "/": `{"w": ...}` has "w". Gradients are
        those of the loss times the optimizer's loss scaling.

        Args:
            accumulation_factor: calls per update; the others return zeros.
            reduction, mean_strategy: whether gradients of these calls and of replicas are summed or averaged, and when.
            replication_factor: replicas.
            reduce: sums an array over replicas, as `lambda x: jax.lax.psum(x, "replicas")`.
        """
        return update_transformation(
            lambda params: self.rule(
                UpdateContext(
                    params=params,
                    accumulation_factor=accumulation_factor,
                    reduction=reduction,
                    mean_strategy=mean_strategy,
                    replication_factor=replication_factor,
                    reduce=reduce,
                )
            ),
            accumulation_factor=accumulation_factor,
        )

    def _weight(self, id: str, param: jax.ShapeDtypeStruct) -> Weight:
        dtype = np.dtype(param.dtype)
        if dtype not in (FLOAT32, FLOAT16):
            raise popart_exception(f"Unsupported data type for tensor {id}, {dtype}: only FLOAT16 and FLOAT are supported by optimizers")
        return Weight(id=id, shape=tuple(param.shape), dtype=dtype, specific=self.hasSpecific(id))

    def _of(self, weight: Weight) -> dict[str, OptimizerValue]:
        """A weight's values."""
        return {name: values.get(weight.id) for name, values in self._values.items()}

    def _check(self, values: Mapping[str, OptimizerValue]) -> None:
        """Refuse what makes no sense. Source: runValueChecks of the original's families."""
        rate = values["learningRate"]
        if rate.val() < 0:
            raise popart_exception(f"Negative learning rate ({shortest(rate)}) in {self._family}, bailing as this might be a user error.")
        if rate.val() == 0 and rate.isConst():
            raise popart_exception(f"Constant, zero learning rate in {self._family}, bailing as this might be a user error.")
        for name, value in values.items():
            kind = self._kinds[name]
            quoted = f"{kind.singular} ({shortest(value)}) in {self._family}"
            if kind.positive and value.val() <= 0:
                raise popart_exception(f"Non-positive {quoted} is not supported")
            if kind.singular and value.val() < 0:
                raise popart_exception(f"Negative {quoted}, bailing as this might be a user error")
        self._check_together(values)


def no_replacement(reason: str) -> popart_runtime_error:
    """The error that a new optimizer can't take an old one's place in a program."""
    return popart_runtime_error(f"New optimizer is not a valid replacement. {reason}")


def _constructor_key(name: str) -> str:
    """The key of the constructor for one of insertSpecific's. Source: the original's fromDefaultMap."""
    return name if name in ("lossScaling", "nesterov") else f"default{name[0].upper()}{name[1:]}"


def _valid(label: str, check: Callable[[], None]) -> None:
    try:
        check()
    except popart_exception as error:
        raise no_replacement(f"Problem with {label}. {error}") from error


@dataclass(frozen=True, kw_only=True, eq=False)
class UpdateRule:
    """The pure functions of one optimizer in one session; all but `with_values` may be traced.

    Per batch a session calls `accumulate` once for each microbatch (once if nothing is accumulated) and then `update`. Between the two the
    state may hold gradients under names of their own; before and after a batch its structure is that of `init`.

    Args:
        optimizer: the optimizer, which nobody changes any more.
        context: the session.
        weights: the parameters, by id.
        rules: the rule of each.
        groups: the parameters that are clipped together, and their largest norm.
        loss_scaling: the optimizer's.
    """

    optimizer: Optimizer
    context: UpdateContext
    weights: Mapping[str, Weight]
    rules: Mapping[str, WeightRule]
    groups: tuple[tuple[tuple[str, ...], float], ...]
    loss_scaling: Scalar

    def _scalars(self) -> dict[str, Scalar]:
        used = {scalar.name: scalar for rule in self.rules.values() for scalar in rule.scalars.values()}
        return {**used, self.loss_scaling.name: self.loss_scaling}

    def _counts(self) -> bool:
        return self.context.accumulates and self.context.running_mean

    def _factor(self, state: OptimizerState) -> jax.Array | None:
        """What the loss scaling is multiplied with; None without automatic loss scaling."""
        return None if self.context.automatic_loss_scaling is None else state.tensors[FACTOR]

    def _hypers(self, state: OptimizerState) -> dict[str, Hyper]:
        factor = self._factor(state)
        return {id: Hyper(scalars=rule.scalars, arrays=state.hyper, factor=factor) for id, rule in self.rules.items()}

    def init(self, params: Mapping[str, jax.Array]) -> OptimizerState:
        """The state before the first update."""
        arrays = as_arrays(params)
        tensors = {name: tensor for id, rule in self.rules.items() for name, tensor in rule.init(arrays[id]).items()}
        if self._counts():
            tensors[COUNTER] = jnp.zeros((), jnp.float32)
        if self.context.automatic_loss_scaling is not None:
            tensors.update(self.context.automatic_loss_scaling.init())
        return OptimizerState(hyper={name: jnp.asarray(s.value) for name, s in self._scalars().items() if not s.const}, tensors=tensors)

    def loss_scale(self, state: OptimizerState) -> jax.Array:
        """Scalar float32 that the loss' gradient begins with."""
        factor = self._factor(state)
        hyper = Hyper(scalars={"loss_scaling": self.loss_scaling}, arrays=state.hyper, factor=factor)
        value = jnp.asarray(hyper["loss_scaling"], jnp.float32)
        return value if factor is None else value * factor

    def observe(self, state: OptimizerState, gradients: Sequence[jax.Array]) -> OptimizerState:
        """Automatic loss scaling looks at one microbatch's tracked gradients."""
        automatic = self.context.automatic_loss_scaling
        return state if automatic is None else changed(state, tensors=automatic.observe(state.tensors, gradients))

    def accumulate(self, state: OptimizerState, gradients: Mapping[str, jax.Array]) -> OptimizerState:
        """A microbatch's gradients arrive, by parameter id."""
        hypers, tensors = self._hypers(state), dict(state.tensors)
        for id, rule in self.rules.items():
            if id not in gradients:
                raise popart_internal_exception(f"The gradient of {id} is missing; there are {', '.join(gradients) or 'none'}")
            tensors.update(rule.accumulate(hypers[id], tensors, jnp.asarray(gradients[id])))
        if self._counts():
            tensors[COUNTER] = tensors[COUNTER] + 1.0
        return OptimizerState(hyper=state.hyper, tensors=tensors)

    def update(self, state: OptimizerState, params: Mapping[str, jax.Array]) -> tuple[Arrays, OptimizerState]:
        """The new parameters and the new state."""
        hypers, tensors, arrays = self._hypers(state), dict(state.tensors), as_arrays(params)
        updaters: Arrays = {}
        for id, rule in self.rules.items():
            updaters[id], changes = rule.prepare(hypers[id], tensors, arrays[id])
            tensors.update(changes)
        updaters = clipped(updaters, self.groups)
        finished: Arrays = {}  # apart, because weights may share a tensor that all read before the first changes it
        for id, rule in self.rules.items():
            arrays[id], changes = rule.finish(hypers[id], tensors, arrays[id], updaters[id])
            finished.update(changes)
        tensors.update(finished)
        if self._counts():
            tensors[COUNTER] = jnp.zeros_like(tensors[COUNTER])
        if self.context.automatic_loss_scaling is not None:
            tensors.update(self.context.automatic_loss_scaling.update(tensors))
        kept = {name: tensor for name, tensor in tensors.items() if not name.startswith(reservedFinalReducedGradPrefix())}
        return arrays, OptimizerState(hyper=state.hyper, tensors=kept)

    def with_values(self, state: OptimizerState, optimizer: Optimizer) -> OptimizerState:
        """The state with a new optimizer's values. May not be traced.

        Raises:
            popart_runtime_error: where a constant would change.
        """
        self.optimizer.validReplacement(optimizer)
        new = {s.name: s for weight in self.weights.values() for s in optimizer.scalars(weight, self.context).values()}
        new[self.loss_scaling.name] = optimizer.loss_scaling_scalar(self.context.loss_dtype)
        for name, old in self._scalars().items():
            if old.const and old.value != new[name].value:
                raise popart_runtime_error(
                    f"New optimizer is not a valid replacement. {name} is constant at {old.value} and would become {new[name].value}"
                )
        return changed(state, hyper={name: jnp.asarray(new[name].value, old.dtype) for name, old in state.hyper.items()})

    @cached_property
    def owners(self) -> Mapping[str, str]:
        """Names of the state's tensors of single parameters, each with its parameter's."""
        names = {id: list(jax.eval_shape(rule.init, self.context.params[id])) for id, rule in self.rules.items()}
        counts = Counter(name for made in names.values() for name in made)
        return {name: id for id, made in names.items() for name in made if counts[name] == 1}

    def values(self, state: OptimizerState) -> Arrays:
        """Every tensor that a program may ask for by the original's names, `finalLossScale` too."""
        return {**state.hyper, **state.tensors, "finalLossScale": self.loss_scale(state)}


def as_arrays(params: Mapping[str, object]) -> Arrays:
    """The parameters as JAX's arrays."""
    return {id: jnp.asarray(param) for id, param in params.items()}


RuleOf = Callable[[Mapping[str, jax.ShapeDtypeStruct]], UpdateRule]  # parameters by name -> their rule


class Accumulating(NamedTuple):
    """The state of a transformation that accumulates gradients of several calls.

    Args:
        microbatches: gradients since the last update, int32.
        optimizer: the rule's state.
    """

    microbatches: jax.Array
    optimizer: OptimizerState


def joined(path: Sequence[Any]) -> str:
    """A parameter's path in its tree, joined by "/": `{"w": ...}` has "w"."""
    return jax.tree_util.keystr(tuple(path), simple=True, separator="/")


def last_key(path: Sequence[Any]) -> str:
    """The last key of a parameter's path in its tree."""
    return str(getattr(path[-1], "key", path[-1]))


def update_transformation(
    rule_of: RuleOf, *, accumulation_factor: int = 1, name_of: Callable[[Sequence[Any]], str] = joined
) -> optax.GradientTransformation:
    """A transformation of gradients into what is added to the parameters. Its state is the rule's, or `Accumulating`.

    Gradients are those of the loss times the optimizer's loss scaling.

    Args:
        rule_of: the rule for the parameters of a tree.
        accumulation_factor: calls per update; the others return zeros.
        name_of: a parameter's name, from its path in the tree.
    """

    def named_leaves(tree: Any) -> tuple[Arrays, Any]:
        """The leaves by name, in the tree's order, and its structure."""
        flat: Any = jax.tree_util.tree_flatten_with_path(tree)
        leaves, structure = flat
        return {name_of(path): jnp.asarray(leaf) for path, leaf in leaves}, structure

    def rule_for(named: Arrays) -> UpdateRule:
        return rule_of({name: jax.ShapeDtypeStruct(param.shape, param.dtype) for name, param in named.items()})

    def init(params: Any) -> OptimizerState | Accumulating:
        named, _ = named_leaves(params)
        state = rule_for(named).init(named)
        return state if accumulation_factor <= 1 else Accumulating(jnp.zeros((), jnp.int32), state)

    def update(gradients: Any, state: Any, params: Any = None) -> tuple[Any, OptimizerState | Accumulating]:
        if params is None:
            raise popart_exception("update(gradients, state, params) needs the parameters: weight decay and Lamb's norms look at them")
        named, tree = named_leaves(params)
        rule = rule_for(named)
        accumulated = rule.accumulate(state if accumulation_factor <= 1 else state.optimizer, named_leaves(gradients)[0])

        def last() -> tuple[Arrays, OptimizerState]:
            new, updated = rule.update(accumulated, named)
            return {name: new[name] - param for name, param in named.items()}, updated

        if accumulation_factor <= 1:
            steps, updated = last()
            return jax.tree.unflatten(tree, list(steps.values())), updated
        count = state.microbatches + 1
        none = {name: jnp.zeros_like(param) for name, param in named.items()}
        steps, updated = jax.lax.cond(count == accumulation_factor, last, lambda: (none, accumulated))
        return jax.tree.unflatten(tree, [steps[name] for name in named]), Accumulating(count % accumulation_factor, updated)

    return optax.GradientTransformation(cast("Any", init), cast("Any", update))  # optax's types have no room for a state's own
