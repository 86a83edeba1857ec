"""An optimizer: its values, and the rule that they make."""

from __future__ import annotations

from collections.abc import Callable

import jax
import optax

from tilestep.popart.enums import MeanReductionStrategy, ReductionType
from tilestep.popart.optimizers.as_optax import update_transformation
from tilestep.popart.optimizers.base import OptimizerBase
from tilestep.popart.optimizers.context import UpdateContext
from tilestep.popart.optimizers.update_rule import UpdateRule


class Optimizer(OptimizerBase):
    """How weights change by their gradients. Use SGD, Adam or Adaptive."""

    def rule(self, context: UpdateContext) -> UpdateRule:
        """The pure functions that update a session's parameters.

        Raises:
            popart_exception: if the optimizer can't serve the session.
        """
        return UpdateRule.of(self, context)

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
