"""The chunks of a loop's plan: those that are ready, the one that is being gathered, and how many there have been."""

from collections import deque
from typing import final

from tilestep.train.feeds.chunks import Arrays, Chunk, ChunkPlan, Filling


@final
class Lineup:
    """The chunks of a loop's plan. The feeder's lock guards it.

    Args:
        depth: chunks that are made ahead.
        replicas: elements of a step.
    Attributes:
        plan: of the last loop that began.
        filling: the chunk that is being gathered.
        ready: chunks on their devices.
        error: why a chunk could not be put on its devices.
    """

    def __init__(self, *, depth: int, replicas: int) -> None:
        self.plan: ChunkPlan | None = None
        self.filling: Filling | None = None
        self.ready: deque[Chunk] = deque()
        self.error: BaseException | None = None
        self._depth, self._replicas = depth, replicas
        self._made = self._taken = 0  # since the plan began

    def differs(self, plan: ChunkPlan) -> bool:
        """Whether chunks that are ready do not fit a loop that begins with this plan."""
        return (plan is not self.plan and plan != self.plan) or self._taken % plan.period > 0 or self.error is not None

    def restart(self) -> None:
        """The plan begins with its first chunk."""
        self._made = self._taken = 0

    def wants_more(self) -> bool:
        """Whether another chunk is to be gathered, and none is."""
        return self.plan is not None and self.filling is None and self.error is None and len(self.ready) < self._depth

    def needed(self, plan: ChunkPlan, *, has_ended: bool) -> int:
        """Elements of the next chunk. Args: has_ended: no more elements come, so one step's do if the plan takes the last ones alone."""
        return self._replicas * (1 if plan.partial and has_ended else plan.steps(self._made))

    def can_never_come(self, stored: int, *, has_ended: bool) -> bool:
        """Whether the chunk that a loop waits for, and that is not ready, will never be. Args: stored: elements without a chunk."""
        if self.error is not None:
            return True
        if not has_ended or self.plan is None:
            return False
        count = stored + (self.filling.count if self.filling is not None else 0)
        return count < self._replicas * (1 if self.plan.partial else self.plan.steps(self._taken))

    def start_filling(self) -> Filling:
        """The next chunk, to be gathered."""
        assert self.plan is not None
        self.filling = Filling(self.plan, self._made, self.plan.steps(self._made) * self._replicas)
        return self.filling

    def add(self, chunk: Chunk) -> None:
        """The chunk that was being gathered is ready."""
        self.filling = None
        self._made += 1
        self.ready.append(chunk)

    def take(self) -> Chunk:
        """The next chunk, which is ready."""
        self._taken += 1
        return self.ready.popleft()

    def take_apart(self) -> list[Arrays]:
        """The elements of all chunks, in their order. No chunk is left."""
        pieces = [[array[: chunk.elements] for array in chunk.on_host] for chunk in self.ready]
        if self.filling is not None:
            self.filling.is_wanted = False
            if self.filling.count:
                pieces.append(self.filling.elements())
        self.ready.clear()
        self.filling = None
        return pieces
