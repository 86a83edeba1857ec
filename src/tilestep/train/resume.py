"""What a loop or a pipeline had done when an exception ended it: the exception carries it."""

import contextlib
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Final, cast

from tilestep.train.untyped import Pytree

WHERE_KEPT: Final = ContextVar("where_kept", default="tilestep.train.loop_state(error) has the {state}")  # a front end has its own words


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
    """The progress of the loop or pipeline that an exception has ended.

    Args:
        error: an exception of a loop: of the dataset, of the feeds, of a step, or LoopInterrupt at Ctrl-C. Or any exception of a pipeline's
            `step` or `run`.

    Returns:
        The carry and the number of steps done, with which the loop or pipeline can go on. None if `error` did not end one, or the carry is
        lost.
    """
    return cast("LoopState | None", getattr(error, "tilestep_loop_state", None))


def tell_loop_state(
    error: BaseException, *, name: str, carry: Pytree, steps: int, units: str = "steps", state: str = "carry", more: str = ""
) -> None:
    """From now on `loop_state(error)` says this, and a note does. Not of an exception that has no place for it, or lets nobody write to it.

    Args: name, units, state: words for the loop, its steps and its carry. more: what follows in the note.
    """
    with contextlib.suppress(Exception):
        error.tilestep_loop_state = LoopState(carry=carry, steps=steps)  # pyrefly: ignore[missing-attribute]
        error.add_note(f"{name} had done {steps:,} {units}; {WHERE_KEPT.get().format(state=state)} after them{more}")
