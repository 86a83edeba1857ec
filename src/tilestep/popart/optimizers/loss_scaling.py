"""Automatic loss scaling: the loss scaling doubles while gradients are small, and halves when too many are near float16's largest number.

Source: PopART's automaticlossscaling.cpp, histogramx.cpp and lossscaleupdatex.cpp. What a session does:

1. `AutomaticLossScaling.of(settings, ...)` once, given to UpdateContext(automatic_loss_scaling=...);
2. `tracked_tensors(...)` once: the forward tensors whose gradients are looked at;
3. `rule.observe(state, gradients)` for each microbatch, before or after `rule.accumulate`, with those gradients (loss-scaled, float16);
4. nothing else: `rule.update` adapts the factor after it has used the old one, and `rule.loss_scale` has it in.

State, by the original's names: `lossScaleUpdateFactor` (float32 scalar, what the optimizer's loss scaling is multiplied with),
`Accum___autoLossScaleStats` (float32 [2], gradients below and from the edge on, of the batch so far), and, if the period exceeds 1,
`Histogram_counter` (int32 scalar, microbatches of the period so far, less 1).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import jax
import jax.numpy as jnp
import numpy as np

from tilestep.popart.enums import GradientTensorTrackingMethod
from tilestep.popart.exceptions import popart_exception
from tilestep.popart.optimizers.scalars import Arrays
from tilestep.popart.options import AutomaticLossScalingSettings

FACTOR: Final = "lossScaleUpdateFactor"
STATISTICS: Final = "Accum___autoLossScaleStats"
COUNTER: Final = "Histogram_counter"
_WHERE: Final = "[AutomaticLossScale transform]"
_LARGEST_FLOAT16: Final = 65504.0


@dataclass(frozen=True, kw_only=True)
class AutomaticLossScaling:
    """How the loss scaling follows the gradients. All but `of` may be traced.

    Args:
        edge: an absolute value from which on a gradient is large.
        threshold: the part of large gradients above which the loss scaling halves.
        period: updates of weights per look at the gradients.
        accumulation: microbatches per update.
        reduce: sums an array over the replicas; None without replicas.
    """

    edge: float
    threshold: float
    period: int = 1
    accumulation: int = 1
    reduce: Callable[[jax.Array], jax.Array] | None = None

    @classmethod
    def of(
        cls, settings: AutomaticLossScalingSettings, *, accumulation: int = 1, reduce: Callable[[jax.Array], jax.Array] | None = None
    ) -> AutomaticLossScaling:
        """What a session's settings ask for."""
        location, threshold = settings.binEdgeLocation, settings.thresholdUpperCountProportion
        edge = float(np.float16(_LARGEST_FLOAT16 * location))  # as the original's comparison has it: a tiny location is an edge of 0
        return cls(edge=edge, threshold=threshold, period=settings.updatePeriod, accumulation=accumulation, reduce=reduce)

    def init(self) -> Arrays:
        """The state before the first update."""
        arrays = {FACTOR: jnp.ones((), jnp.float32), STATISTICS: jnp.zeros((2,), jnp.float32)}
        return {**arrays, COUNTER: jnp.asarray(-1, jnp.int32)} if self.period > 1 else arrays

    def observe(self, tensors: Mapping[str, jax.Array], gradients: Sequence[jax.Array]) -> Arrays:
        """What changes when one microbatch's gradients are looked at."""
        counts = sum((self._counts(gradient) for gradient in gradients), jnp.zeros((2,), jnp.float32))
        if self.period <= 1:
            return {STATISTICS: tensors[STATISTICS] + counts}
        counter = (tensors[COUNTER] + 1) % (self.accumulation * self.period)
        looks = counter < self.accumulation
        return {STATISTICS: tensors[STATISTICS] + jnp.where(looks, counts, 0.0), COUNTER: counter}

    def update(self, tensors: Mapping[str, jax.Array]) -> Arrays:
        """What changes once per update of the weights."""
        statistics = tensors[STATISTICS]
        lower, upper = statistics if self.reduce is None else self.reduce(statistics)
        # With a threshold of 1 nothing is too many, unless all gradients are large: the original's 1 / 0 times 0 is no number either.
        bound = self.threshold / (1.0 - self.threshold) * lower if self.threshold < 1 else jnp.where(lower > 0, jnp.inf, jnp.nan)
        factor = tensors[FACTOR] * jnp.where(upper > bound, 0.5, 2.0)
        if self.period > 1:
            factor = jnp.where(tensors[COUNTER] < self.accumulation, factor, tensors[FACTOR])
        return {FACTOR: factor.astype(jnp.float32), STATISTICS: jnp.zeros_like(statistics)}

    def _counts(self, gradient: jax.Array) -> jax.Array:
        """[2] gradients below the edge, and the rest: those that are no number too."""
        lower = jnp.sum((jnp.abs(gradient.astype(jnp.float32)) < self.edge).astype(jnp.float32))
        return jnp.stack([lower, gradient.size - lower])


@dataclass(frozen=True, kw_only=True)
class ForwardNode:
    """An operation of the forward graph.

    Args:
        op_type: its type, as "MatMul".
        inputs: the names of its inputs; "" for one that is left out.
        outputs: the names of its outputs.
    """

    op_type: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...] = ()


_PRODUCTS: Final = frozenset({"MatMul", "Gemm", "Conv", "ConvTranspose", "MultiConv"})
_VIEWS: Final = frozenset(
    {
        *("Reshape", "Transpose", "Squeeze", "Unsqueeze", "Flatten", "Slice", "Identity", "Concat", "Split", "Expand", "Detach"),
        *("Pad", "Subsample"),
    }
)
_LOSSES: Final = frozenset({"Nll", "L1", "IdentityLoss"})


def tracked_tensors(
    settings: AutomaticLossScalingSettings, nodes: Iterable[ForwardNode], *, variables: Collection[str], float16_gradients: Collection[str]
) -> tuple[str, ...]:
    """The forward tensors whose gradients are looked at, each once, in the order of the graph.

    The original chooses among the operations of its backward graph. A forward tensor that several operations read has one gradient for each
    there, and their sum here.

    Args:
        settings: the session's.
        nodes: the forward operations.
        variables: the parameters.
        float16_gradients: the tensors that have a gradient, of float16.

    Raises:
        popart_exception: if nothing is left to look at.
    """
    method = settings.gradientTensorTrackingMethod
    if settings.toTrackTensors is not None:
        return tuple(dict.fromkeys(settings.toTrackTensors))
    reads = _reads_of_products if method is GradientTensorTrackingMethod.ConvAndMatmulGradients else _reads_that_count
    left = _without_losses(list(nodes))
    found = [name for node in left for name in reads(node, variables) if name in float16_gradients]
    if not found:
        raise popart_exception(f"{_WHERE} No tracked gradient tensors of type fp16 were found.")
    return tuple(dict.fromkeys(found))


def _without_losses(nodes: Sequence[ForwardNode]) -> list[ForwardNode]:
    """The operations but for losses, whose gradients look at the loss scaling, and a softmax that is part of one."""
    into_loss = {name for node in nodes if node.op_type in _LOSSES for name in node.inputs}
    return [
        node for node in nodes if node.op_type not in _LOSSES and not (node.op_type == "Softmax" and into_loss.intersection(node.outputs))
    ]


def _reads_of_products(node: ForwardNode, variables: Collection[str]) -> tuple[str, ...]:
    return node.inputs[:2] if node.op_type in _PRODUCTS else ()


def _reads_that_count(node: ForwardNode, variables: Collection[str]) -> tuple[str, ...]:
    """The inputs whose gradient is no view of another one, and is computed without a look at a parameter or at the loss scaling itself.

    A product's gradient has the other factor's transpose in it, which is a tensor of its own.
    """
    if node.op_type in _PRODUCTS:
        return node.inputs
    if node.op_type in _VIEWS:
        return ()
    return tuple(name for name in node.inputs if not any(other in variables for other in node.inputs if other != name))
