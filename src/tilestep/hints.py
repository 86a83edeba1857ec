"""What a runtime may tell an emulator, without knowing whether one is there. Imports nothing of the rest."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Final

INFEED_TARGET: Final = "tilestep_infeed"  # what a program calls to take an element from its device's queue, and to send one
OUTFEED_TARGET: Final = "tilestep_outfeed"
UNKNOWN_ZERO_TARGET: Final = "tilestep_unknown_zero"  # what gives zeros that no compiler can fold

_serial = itertools.count(1)
_group: ContextVar[tuple[str, int] | None] = ContextVar("tilestep_program_group", default=None)


@contextlib.contextmanager
def program_group(name: str) -> Iterator[None]:
    """Says that the programs dispatched inside are one program per IPU.

    Between members of a group an emulated IPU neither reloads its program nor pays the host's cost of a dispatch;
    together they need the resident values, the sum of their code and the largest of their transients. What one member
    makes and another takes in the same entry stays on the chip, and goes over IPU-Links to another IPU. Groups of one
    name are one group, also when entered again; the innermost group counts. Where no emulator listens nothing happens.

    Args: name: identifies the group; not empty.
    Raises: ValueError if `name` is empty.
    """
    if not name:
        raise ValueError("program_group() needs a name that is not empty")
    token = _group.set((name, next(_serial)))
    try:
        yield
    finally:
        _group.reset(token)


# The innermost group's name and the serial number of this entry into it, or None outside of any group. Runs no bytecode: a Ctrl-C
# cannot come between a run and what is noted of it.
current_group: Callable[[], tuple[str, int] | None] = _group.get
