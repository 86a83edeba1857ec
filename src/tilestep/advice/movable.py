"""Programs that can run on the CPU instead: what is the IPU's own stays."""

from __future__ import annotations

from tilestep.advice.evidence import Evidence
from tilestep.advice.jits import jit_of


def is_movable(evidence: Evidence, key: int) -> bool:
    """Whether jax.default_device can move a program, and should.

    It doesn't move one that is jitted for a device. A training step, or whatever makes a part of its state, has that on the IPU. What only
    reads the state, as an evaluation does, can go.
    """
    return not jit_of(evidence.programs[key]).has_device and not _comes_back(evidence, key)


def _comes_back(evidence: Evidence, key: int) -> bool:
    """Whether a program takes what was made of its own results, perhaps by others: one step of several."""
    waiting, seen = [key], set[int]()
    while waiting:
        further = evidence.takers.get(waiting.pop(), set()) - seen
        seen |= further
        waiting += further
    return key in seen
