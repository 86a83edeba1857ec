"""How many samples an update of a loop is of, for who watches: the loop's bar, and an emulator's profile."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, final

from tilestep import hints
from tilestep.train.feeds.chunks import Chunk
from tilestep.train.feeds.infeed_queue import InfeedQueue
from tilestep.train.gradients.accumulation import effective_batch_size
from tilestep.train.loop.program_cache import Loop
from tilestep.train.loop.update_pattern import Counter
from tilestep.train.offload import platform_of
from tilestep.train.replicas.replicas import Replicas
from tilestep.train.untyped import jax as _jax


@final
class UpdateSize:
    """What an update of a loop is of, as far as it is known while the loop runs.

    Args:
        name: of the loop's programs.
        count: microbatches for each update.
        infeed: where they come from.
        replicas: that the loop has.
        paced: the loop, if it finds out whether each of its steps adds one microbatch; otherwise samples are not known.
    """

    def __init__(self, name: str, count: int, infeed: InfeedQueue | None, replicas: Replicas | None, paced: Loop | None) -> None:
        self._name, self._count, self._infeed, self._replicas, self._paced = name, count, infeed, replicas, paced
        self._microbatch: int | None = None  # samples

    def began(self, chunk: Chunk) -> None:
        """The loop's first program has been traced, for this chunk."""
        if self._infeed is not None and self._paced is not None and not self._paced.unsteady:
            self._microbatch = _samples_of(chunk, self._infeed, self._replicas)

    def ended(self, carry: Any, steps: int) -> None:
        """The loop has done so many steps: an emulator of its platform is told."""
        if hints.listens(platform_of(carry)):
            hints.accumulated(self.batch, steps)

    @property
    def batch(self) -> hints.EffectiveBatch:
        """What is known."""
        copies = 1 if self._replicas is None else self._replicas.count
        return hints.EffectiveBatch(
            loop=self._name,
            microbatch=self._microbatch,
            count=self._count,
            replicas=copies,
            microbatches=effective_batch_size(1, self._count, copies),
            samples=None if self._microbatch is None else effective_batch_size(self._microbatch, self._count, copies),
        )

    def __str__(self) -> str:
        batch = self.batch
        return f"{batch.microbatches:,} microbatches an update" if batch.samples is None else f"{batch.samples:,} samples an update"


def update_size(
    name: str, counting: Sequence[Counter], infeed: InfeedQueue | None, replicas: Replicas | None, paced: Loop | None
) -> UpdateSize | None:
    """That of a loop in whose carry `counting` accumulate; None if nothing does, or not all alike. The others are as for UpdateSize."""
    counts = {counter.count for counter in counting}
    return UpdateSize(name, counts.pop(), infeed, replicas, paced) if len(counts) == 1 else None


def _samples_of(chunk: Chunk, infeed: InfeedQueue, replicas: Replicas | None) -> int | None:
    """Samples of a microbatch: the length that the leading axes of its arrays have in common.

    None if they have none: lengths differ, one is a scalar, or no array has another axis.
    """
    axis = 1 if infeed.replicas is None else 2  # after that of steps, and that of a step's elements
    shapes = [leaf.shape[axis:] for leaf in _jax.tree.leaves(chunk.on_device)]
    lengths = {shape[0] if shape else 0 for shape in shapes}
    if len(lengths) != 1 or not min(lengths) or max(map(len, shapes)) < 2:
        return None
    return lengths.pop() * (infeed.elements_per_step if replicas is None else 1)  # a body without replicas gets them all
