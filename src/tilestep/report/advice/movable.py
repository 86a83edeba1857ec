"""Programs that can run on the CPU instead: what is the IPU's own stays."""

from __future__ import annotations

from collections.abc import Mapping

from tilestep.report.advice.evidence import Evidence
from tilestep.report.advice.jits import jit_of
from tilestep.sim.calls import Copy, Dispatch


def is_movable(evidence: Evidence, key: int) -> bool:
    """Whether jax.default_device can move a program, and should.

    It doesn't move one that is jitted for a device. A training step, or whatever makes a part of its state, has that on the IPU. What only
    reads the state, as an evaluation does, can go.
    """
    if jit_of(evidence.programs[key]).has_device:
        return False
    made = {value for call in evidence.dispatches if call.key == key for row in call.results for value in row}
    return made.isdisjoint(evidence.states) and not _comes_back(_takers(evidence), key)


def _takers(evidence: Evidence) -> Mapping[int, set[int]]:
    """By program, those that take what it makes."""
    makers: dict[int, int] = {}
    found: dict[int, set[int]] = {}
    for call in evidence.calls:
        if isinstance(call, Copy) and call.source in makers:
            makers[call.target] = makers[call.source]
        elif isinstance(call, Dispatch):
            for value in (value for row in call.arguments for value in row):
                if value in makers:
                    found.setdefault(makers[value], set()).add(call.key)
            makers.update((value, call.key) for row in call.results for value in row)
    return found


def _comes_back(takers: Mapping[int, set[int]], key: int) -> bool:
    """Whether a program takes what was made of its own results, perhaps by others: one step of several."""
    waiting, seen = [key], set[int]()
    while waiting:
        further = takers.get(waiting.pop(), set()) - seen
        seen |= further
        waiting += further
    return key in seen
