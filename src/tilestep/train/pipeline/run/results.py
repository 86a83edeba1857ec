"""What a pipeline returns of the last stage's outputs, and the queues that get what comes out of a run."""

import functools
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, final

import jax
from jax.typing import DTypeLike

from tilestep.train.feeds.outfeed_queue import OutfeedQueue
from tilestep.train.pipeline.compile.watched.watch_keys import Key
from tilestep.train.pipeline.run.progress import NO_ELEMENTS, Elements
from tilestep.train.pipeline.run.sightings import WatchedResults
from tilestep.train.schedules.schedule import Schedule
from tilestep.train.untyped import Pytree, Spec
from tilestep.train.untyped import jax as _jax


@final
@dataclass(frozen=True, kw_only=True)
class Results:
    """The selection.

    Raises:
        TypeError, ValueError: for settings that contradict each other.
    """

    schedule: Schedule
    training: bool
    loss: bool  # whether it is the loss alone
    mask: tuple[bool, ...] | None  # for each item that the last level returns, whether it is hidden; None: none is
    summed: bool  # whether it is sums over microbatches
    dtype: DTypeLike | None  # dtype of the sums; None: that of the values

    def __post_init__(self) -> None:
        if self.loss and not self.training:
            raise ValueError("outfeed_loss is True, but a pipeline without an optimizer has no loss: give an optimizer")
        if self.loss and self.mask is not None:
            raise ValueError(
                "outfeed_loss and outfeed_mask are given: the loss is sent in place of what the mask would hide; leave one away"
            )
        mask: tuple[Any, ...] = self.mask or ()
        if not all(isinstance(hidden, bool) for hidden in mask):
            raise TypeError(f"outfeed_mask is {list(mask)}: it must be a list of bool, True for what is hidden")
        if self.dtype is not None and not self.summed:
            raise ValueError("accumulate_outfeed_dtype is given, but accumulate_outfeed is False: it is of the sums; set it to True")

    @property
    def elements(self) -> int:
        """How many a queue gets of one run."""
        return 1 if self.summed else self.schedule.microbatches

    @property
    def is_nothing(self) -> bool:
        """Whether all is hidden."""
        return self.mask is not None and all(self.mask)

    def given_out(self, trees: Sequence[Pytree]) -> list[frozenset[int]]:
        """For each stage of the last level, the indices of its leaves that are given out. A mask of another number of items hides none.

        Args: trees: as in `of`.
        """
        sizes = [_jax.tree.structure(tree).num_leaves for tree in trees]
        if self.loss:
            return [frozenset() for _ in sizes]
        if self.mask is not None and len(self.mask) != sum(len(_jax.tree.structure(tree).children()) for tree in trees):
            return [frozenset(range(size)) for size in sizes]
        given: list[set[int]] = [set() for _ in sizes]
        for stage, indices, _ in self._shown(trees):
            given[stage].update(indices)
        return [frozenset(own) for own in given]

    def numbers(self, replicas: int) -> tuple[int, ...]:
        """The shape of what is one number for each microbatch and replica."""
        return (*(() if self.summed else (self.schedule.microbatches,)), *(() if replicas == 1 else (replicas,)))

    def for_queue(self, outputs: Pytree) -> Pytree:
        """With an axis of elements."""
        return _jax.tree.map(lambda leaf: leaf[None], outputs) if self.summed else outputs

    def require(self, trees: Sequence[Pytree]) -> None:
        """Raises: ValueError if the mask is of another number of items than what the stages of the last level return."""
        if self.mask is not None:
            self._shown(trees)

    def queued(self, row: Sequence[Sequence[Spec]], trees: Sequence[Pytree]) -> Pytree:
        """Shapes and dtypes of what a queue gets. Args: row: those of what one microbatch gives; and trees: as in `of`."""
        return _jax.eval_shape(lambda one: self.for_queue(self.of([one] * self.schedule.microbatches, trees)), row)

    def of(self, rows: Sequence[Sequence[Sequence[jax.Array]]], trees: Sequence[Pytree]) -> Pytree:
        """One tree of what all microbatches gave.

        Args: rows: of each microbatch, the leaves of what each stage of the last level returned; in training after it [the loss]. kinds: of
            each of these stages the tree of its items.
        Raises: ValueError if the mask is of another number of items.
        """
        if self.loss:
            return self._together([row[1] for row in rows])[0]
        shown = [
            _jax.tree.unflatten(structure, self._together([[row[stage][index] for index in indices] for row in rows]))
            for stage, indices, structure in self._shown(trees)
        ]
        return shown[0] if len(shown) == 1 else tuple(shown)

    def _shown(self, trees: Sequence[Pytree]) -> list[tuple[int, list[int], Any]]:
        """(stage of the last level, indices of the leaves, structure) of each item that is given out."""
        items: list[Any] = []
        for stage, tree in enumerate(trees):
            structure = _jax.tree.structure(tree)
            items += [(stage, *_jax.tree.flatten(item)) for item in _jax.tree.unflatten(structure, range(structure.num_leaves))]
        if self.mask is not None and len(self.mask) != len(items):
            raise ValueError(f"outfeed_mask has {len(self.mask)} entries, but the last stage returns {len(items)} items: give one for each")
        return [item for index, item in enumerate(items) if self.mask is None or not self.mask[index]]

    def of_stacked(self, stacks: Sequence[Sequence[jax.Array]], trees: Sequence[Pytree]) -> Pytree:
        """`of` where each leaf has all microbatches along its first axis."""
        if self.loss:
            return self._summed(stacks[1])[0]
        shown = [
            _jax.tree.unflatten(structure, self._summed([stacks[stage][index] for index in indices]))
            for stage, indices, structure in self._shown(trees)
        ]
        return shown[0] if len(shown) == 1 else tuple(shown)

    def _summed(self, leaves: Sequence[jax.Array]) -> list[jax.Array]:
        return [_total(leaf, self.dtype) for leaf in leaves] if self.summed else list(leaves)

    def _together(self, rows: Sequence[Sequence[jax.Array]]) -> list[jax.Array]:
        if not rows[0]:
            return []
        return _summed(rows, self.dtype) if self.summed else _stacked(rows)


@_jax.jit
def _stacked(rows: Sequence[Sequence[jax.Array]]) -> list[jax.Array]:
    return [_jax.numpy.stack(column) for column in zip(*rows, strict=True)]


def _sum(rows: Sequence[Sequence[jax.Array]], dtype: DTypeLike | None) -> list[jax.Array]:
    columns = [[leaf if dtype is None else leaf.astype(dtype) for leaf in column] for column in zip(*rows, strict=True)]
    return [functools.reduce(operator.add, column) for column in columns]


_summed: Any = _jax.jit(_sum, static_argnums=1)
_total: Any = _jax.jit(lambda leaf, dtype: leaf.sum(0, dtype=dtype or leaf.dtype), static_argnums=1)


@final
class Outlets:
    """The queues of a run. None of them: nobody gets anything but the caller.

    Args:
        results, watched_results: of the pipeline; None: it watches nothing.
        outfeed, watched: queues, or None.
    """

    def __init__(
        self,
        results: Results,
        watched_results: WatchedResults | None,
        outfeed: OutfeedQueue | None = None,
        watched: OutfeedQueue | None = None,
    ) -> None:
        self._results, self._outfeed = results, outfeed
        self._seen = None if watched is None or watched_results is None else (watched, watched_results)

    def make_room(self, check: Callable[[], None]) -> None:
        """Waits until the queues have room for what one update gives. Args: check: is called meanwhile, and may raise."""
        if self._outfeed is not None:
            self._outfeed.make_room(self._results.elements, check)
        if self._seen is not None:
            watched, results = self._seen
            watched.make_room(results.elements, check)

    def accept(self, row: Callable[[], Sequence[Sequence[Spec]]], trees: Sequence[Pytree], seen: Callable[[], dict[Key, Spec]]) -> None:
        """Finds out before the first update, which could not be undone, whether the queues take what will come out.

        Args: as the engine's `Accept` has them.
        Raises: ValueError if the outfeed's mask does not fit, or a queue has had other elements before.
        """
        self._results.require(trees)
        if self._outfeed is not None:
            self._outfeed.require_alike(lambda: self._results.queued(row(), trees))
        if self._seen is not None:
            watched, results = self._seen
            watched.require_alike(lambda: _jax.eval_shape(results.for_queue, seen()))

    def elements(self, outputs: Pytree, values: dict[Key, Any]) -> tuple[Elements, Elements]:
        """What the queues get of an update. Args: outputs: the last stages' results. values: what is watched."""
        of_outfeed = NO_ELEMENTS if self._outfeed is None else Elements(self._results.for_queue(outputs), self._results.elements)
        if self._seen is None:
            return of_outfeed, NO_ELEMENTS
        return of_outfeed, Elements(self._seen[1].for_queue(values), self._seen[1].elements)
