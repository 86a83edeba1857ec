"""What a loop or a pipeline had done when an exception ended it: the exception carries it."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import cast

from tilestep.train.untyped import Pytree


@dataclass(frozen=True, kw_only=True)
class LoopState:
    """What a loop had done when an exception ended it.

    Attributes:
        carry: what the last step done has returned. Of a pipeline, its state after the last update done.
        steps: how many steps of the loop, or updates of this call of the pipeline, were done.
    """

    carry: Pytree
    steps: int


def loop_state(error: BaseException) -> LoopState | None:
    """What the loop or the pipeline had done that `error` has ended; None if it did not end one, or if the carry is lost.

    The exceptions of a loop are those of the dataset, of the feeds, and Ctrl-C (LoopInterrupt); those of a pipeline are all that its `step`
    and `run` raise. The loop or pipeline can go on with the state's carry.
    """
    return cast("LoopState | None", getattr(error, "tilestep_loop_state", None))


def tell_loop_state(error: BaseException, *, carry: Pytree, steps: int, note: str | None = None) -> None:
    """From now on `loop_state(error)` says this. Not of an exception that has no place for it, or lets nobody write to it."""
    with contextlib.suppress(Exception):
        error.tilestep_loop_state = LoopState(carry=carry, steps=steps)  # pyright: ignore[reportAttributeAccessIssue]
        if note is not None:
            error.add_note(note)
