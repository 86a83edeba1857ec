"""The table of versions, against a pipeline that is followed cycle by cycle."""

from collections.abc import Sequence

import numpy as np
import pytest

from tests.together import each
from tilestep.popart import popart_exception
from tilestep.popart.session.staging import SessionStage, Staging
from tilestep.popart.session.stale.versions import Versions

COUNT = 9


def staging(readers: Sequence[Sequence[str]], loss: int | None = None) -> Staging:
    """Stages that read weights. Args: readers: the weights of each stage."""
    stages = [
        SessionStage(number=number, ipu=number, nodes=(), reads=(), variables=tuple(names), gives=())
        for number, names in enumerate(readers)
    ]
    last = len(stages) - 1 if loss is None else loss
    return Staging(kind="pipelined", stages=tuple(stages), num_ipus=len(stages), loss_stage=last)


def by_cycles(readers: Sequence[Sequence[str]]) -> dict[tuple[str, int, int, str], int]:
    """(weight, stage, microbatch, "forward" or "backward") -> its version, as PopART's cycles make it.

    Cycle c runs each stage s for microbatch c - s, in the order of stages; stage 2L - s is the backward of s, and the stage L is both. The
    last gradient of a weight, that of the first stage that reads it, updates it.
    """
    last = len(readers) - 1
    updates = {name: 0 for names in readers for name in names}
    first = {name: min(stage for stage, names in enumerate(readers) if name in names) for name in updates}
    found: dict[tuple[str, int, int, str], int] = {}
    for cycle in range(COUNT + 2 * last):
        for stage in range(2 * last + 1):
            m = cycle - stage
            if not 0 <= m < COUNT:
                continue
            if stage <= last:
                found.update({(name, stage, m, "forward"): updates[name] for name in readers[stage]})
            if stage >= last:
                own = 2 * last - stage
                found.update({(name, own, m, "backward"): updates[name] for name in readers[own]})
                for name in readers[own]:
                    updates[name] += first[name] == own
    return found


@pytest.mark.slow
@each(
    "readers",
    [
        (("a",), ("b",)),
        (("a",), ("b",), ("c",)),
        (("a",), ("b",), ("c",), ("d",)),
        (("a",), ("b",), ("a",)),
        (("a",), ("a", "b"), (), ("a", "b")),
        ((), ("a",), (), ("a",), ("b",)),
    ],
)
def test_versions_are_those_of_the_cycles(readers: Sequence[Sequence[str]]) -> None:
    names = sorted({name for own in readers for name in own})
    plan = staging(readers)
    versions = Versions(plan, names)
    expected = by_cycles(readers)
    variables = {name: np.float32(0) for name in names}
    rings = versions.begin(variables)
    for m in range(COUNT):
        for stage in plan.stages:
            forward, backward = (read(rings, variables, stage) for read in (versions.forward, versions.backward))
            for name in stage.variables:
                assert forward[name] == expected[name, stage.number, m, "forward"]
                assert backward[name] == expected[name, stage.number, m, "backward"]
        variables = {name: np.float32(m + 1) for name in names}
        rings = versions.pushed(rings, variables)


def test_a_weight_that_is_read_after_the_loss_is_refused() -> None:
    with pytest.raises(popart_exception, match=r"^Pipeline stage 2 reads the weight a, and stage 1 before it computes the loss"):
        Versions(staging([("a",), ("b",), ("a",)], loss=1), ["a", "b"])
    assert Versions(staging([("a",), ("b",), ("c",)], loss=1), ["a", "b"]).delays[2] == {}
