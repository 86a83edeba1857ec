"""What a rule does for one weight."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import jax

from tilestep.popart.optimizers.rule import Arrays
from tilestep.popart.optimizers.scalars import Hyper, Scalar


class WeightRule(Protocol):
    """The update of one weight. `tensors` are all tensors of the state; a method returns those that it changes."""

    @property
    def scalars(self) -> tuple[Scalar, ...]:
        """The compound scalars that the update uses."""
        ...

    def init(self, param: jax.Array) -> Arrays:
        """The weight's tensors before the first update."""
        ...

    def accumulate(self, hyper: Hyper, tensors: Mapping[str, jax.Array], gradient: jax.Array) -> Arrays:
        """A microbatch's gradient arrives."""
        ...

    def prepare(self, hyper: Hyper, tensors: Mapping[str, jax.Array], param: jax.Array) -> tuple[jax.Array, Arrays]:
        """The first half of the update: returns what clipping scales, and what changes."""
        ...

    def finish(self, hyper: Hyper, tensors: Mapping[str, jax.Array], param: jax.Array, updater: jax.Array) -> tuple[jax.Array, Arrays]:
        """The second half, with what clipping has left: returns the new weight, and what changes."""
        ...
