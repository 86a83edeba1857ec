"""Which version of a weight each stage reads in a pipeline without accumulation, and the old versions that are kept for it.

Version k of a weight is that after k updates of a run. Let L be the stage of the loss. In PopART's cycles, stage s runs the forward of
microbatch m in cycle m + s and its backward in cycle m + 2L - s. A weight is updated in the cycle in which the last of its gradients is
there, which is m + 2L - u where u is the first stage that reads it. Within a cycle stages run in the order of their numbers, so a stage
sees the updates of earlier cycles and of the stages before it:

    forward of m in stage s     version max(0, m - (2L - s - u))    max(0, m - 2(L - s)) for a weight that one stage reads
    backward of m in stage s    version max(0, m - (s - u))         m for a weight that one stage reads

A run ends with a flush, so versions begin with 0 in each run. Source: PopART, popprograms.cpp and pipeline.cpp.
"""

from collections.abc import Collection, Mapping
from typing import Any, NamedTuple, final

import jax
import jax.numpy as jnp
import numpy as np

from tilestep.popart.exceptions import popart_exception
from tilestep.popart.session.model.graph import Values
from tilestep.popart.session.staging import SessionStage, Staging


class Rings(NamedTuple):
    """What a run keeps of old weights.

    Attributes:
        count: microbatches since the begin of the run, an int32 scalar.
        old: by name: [versions, ...], where version k stands at k modulo their number. Weights that are read at once are left out.
    """

    count: Any
    old: Values


class Delay(NamedTuple):
    """By how many updates a stage's version of a weight is older than the newest one."""

    forward: int
    backward: int


@final
class Versions:
    """The versions of trained weights.

    Attributes:
        delays: by a stage's number and a weight's name.
    """

    def __init__(self, staging: Staging, trained: Collection[str]) -> None:
        """Raises: popart_exception for a weight that is also read after the stage of the loss."""
        self.delays = _delays(staging, trained)
        depths: dict[str, int] = {}
        for of_stage in self.delays.values():
            for name, delay in of_stage.items():
                depths[name] = max(depths.get(name, 0), *delay)
        self._depths: Mapping[str, int] = {name: depth + 1 for name, depth in depths.items() if depth}

    def begin(self, variables: Values) -> Rings:
        """The rings at the begin of a run: each version is that of the variables."""
        old = {name: jnp.broadcast_to(variables[name], (depth, *variables[name].shape)) for name, depth in self._depths.items()}
        return Rings(jnp.zeros((), jnp.int32), old)

    def pushed(self, rings: Rings, variables: Values) -> Rings:
        """The rings after a microbatch. Args: variables: after its update."""
        count = rings.count + np.int32(1)
        old = {
            name: jax.lax.dynamic_update_index_in_dim(ring, variables[name], count % self._depths[name], 0)
            for name, ring in rings.old.items()
        }
        return Rings(count, old)

    def forward(self, rings: Rings, variables: Values, stage: SessionStage) -> Values:
        """The weights that forward of a stage reads. Args: variables: the newest ones."""
        return {name: self._version(rings, variables, name, delay.forward) for name, delay in self.delays[stage.number].items()}

    def backward(self, rings: Rings, variables: Values, stage: SessionStage) -> Values:
        """The weights that backward of a stage reads. Args: variables: the newest ones."""
        return {name: self._version(rings, variables, name, delay.backward) for name, delay in self.delays[stage.number].items()}

    def _version(self, rings: Rings, variables: Values, name: str, delay: int) -> Any:
        if delay == 0:
            return variables[name]
        index = jnp.maximum(rings.count - np.int32(delay), 0) % self._depths[name]
        return jax.lax.dynamic_index_in_dim(rings.old[name], index, 0, keepdims=False)


def _delays(staging: Staging, trained: Collection[str]) -> Mapping[int, Mapping[str, Delay]]:
    last, first = staging.loss_stage, dict[str, int]()
    for stage in staging.stages:
        for name in stage.variables:
            if name in trained:
                first.setdefault(name, stage.number)
    delays: dict[int, dict[str, Delay]] = {}
    for stage in staging.stages:
        own = [name for name in stage.variables if name in first]
        if own and stage.number > last:
            raise popart_exception(
                f"Pipeline stage {stage.number} reads the weight {own[0]}, and stage {last} before it computes the loss. Without gradient "
                "accumulation nothing says which version of the weight it would read: let it run in the loss's stage or before, or set "
                "enableGradientAccumulation"
            )
        delays[stage.number] = {
            name: Delay(forward=2 * last - stage.number - first[name], backward=stage.number - first[name]) for name in own
        }
    return delays
