"""How many samples an update of a loop has, which its progress bar and an emulator's profile show."""

from collections.abc import Sequence
from typing import final

from tilestep import hints
from tilestep.train.feeds.chunks import Chunk
from tilestep.train.feeds.infeed_queue import InfeedQueue
from tilestep.train.gradients.accumulation import effective_batch_size
from tilestep.train.loop.program_cache import LoopPrograms
from tilestep.train.loop.update_pattern import MicrobatchCounter
from tilestep.train.offload import platform_of
from tilestep.train.replicas.replicas import Replicas
from tilestep.train.untyped import Pytree
from tilestep.train.untyped import jax as _jax


@final
class UpdateSize:
    """The size of an update, as far as it is known while the loop runs.

    Args:
        name: of the loop's programs.
        count: microbatches for each update.
        infeed: their source.
        replicas: of the loop.
        loop: if its programs check that each step adds one microbatch. None: the number of samples is not known.
    """

    def __init__(self, name: str, count: int, infeed: InfeedQueue | None, replicas: Replicas | None, loop: LoopPrograms | None) -> None:
        self._name, self._count, self._infeed, self._replicas, self._loop = name, count, infeed, replicas, loop
        self._microbatch: int | None = None  # samples

    def began(self, chunk: Chunk) -> None:
        """The loop's first program has been traced. Args: chunk: its elements."""
        if self._infeed is not None and self._loop is not None and not self._loop.unsteady:
            self._microbatch = _samples_of(chunk, self._infeed, self._replicas)

    def ended(self, carry: Pytree, steps: int) -> None:
        """The loop has done `steps` steps: tells an emulator of its platform."""
        if hints.listens(platform_of(carry)):
            hints.accumulated(self.batch, steps)

    @property
    def batch(self) -> hints.EffectiveBatch:
        """The size, as an emulator is told it."""
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
    name: str, counters: Sequence[MicrobatchCounter], infeed: InfeedQueue | None, replicas: Replicas | None, loop: LoopPrograms | None
) -> UpdateSize | None:
    """The size for a carry with these counters; None without counters, or if their counts differ. The other arguments: see UpdateSize."""
    counts = {counter.count for counter in counters}
    return UpdateSize(name, counts.pop(), infeed, replicas, loop) if len(counts) == 1 else None


def _samples_of(chunk: Chunk, infeed: InfeedQueue, replicas: Replicas | None) -> int | None:
    """Samples of a microbatch: the common length of its arrays' leading axes.

    None if there is no such length: lengths differ, one array is a scalar, or no array has another axis.
    """
    axis = 1 if infeed.replicas is None else 2  # after that of steps, and that of a step's elements
    shapes = [leaf.shape[axis:] for leaf in _jax.tree.leaves(chunk.on_device)]
    lengths = {shape[0] if shape else 0 for shape in shapes}
    if len(lengths) != 1 or not min(lengths) or max(map(len, shapes)) < 2:
        return None
    return lengths.pop() * (infeed.elements_per_step if replicas is None else 1)  # a body without replicas gets them all
