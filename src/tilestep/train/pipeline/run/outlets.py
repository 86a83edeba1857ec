"""The queues that get what comes out of a run: the outfeed, and that of what is watched."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, final

from tilestep.train.feeds.outfeed_queue import OutfeedQueue
from tilestep.train.pipeline.compile.watch_keys import Key
from tilestep.train.pipeline.run.progress import NO_ELEMENTS, Elements
from tilestep.train.pipeline.run.results import Results
from tilestep.train.pipeline.run.sightings import WatchedResults
from tilestep.train.untyped import Pytree, Spec
from tilestep.train.untyped import jax as _jax


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
