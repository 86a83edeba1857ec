"""Whole spaces of plans, each played: bounds hold for every plan, and the plan that few replays choose is nearly the best of all."""

import itertools
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
import optax
import pytest

from tests.unit.planner.small_models import SmallModel, classifier, residual
from tilestep.machine import MachineSpec, changed_machine, load_machine
from tilestep.planner.estimates import Estimates
from tilestep.planner.model import Model, bytes_of
from tilestep.planner.replay import PlayedCandidate, played
from tilestep.planner.search import search
from tilestep.planner.space import Candidate, Offloaded, Recomputed, ScheduleName, candidates

_REPLAYS = 4
_SCHEDULES: tuple[tuple[ScheduleName, ...], ...] = (("interleaved", "grouped"), ("interleaved", "zero_bubble"))
_CHOICES: tuple[tuple[Recomputed, Offloaded], ...] = ((None, None), ("full", None), (None, "state"))


class Case(NamedTuple):
    """A model on a machine. Attributes: sizes: of microbatches. wrong: spaces in which guesses err."""

    model: SmallModel
    machine: MachineSpec
    batch: int
    sizes: list[int]
    wrong: int = 2


def machine(num_tiles: int, num_ipus: int = 2) -> MachineSpec:
    return changed_machine(load_machine("m2000"), num_ipus=num_ipus, num_tiles=num_tiles)


CASES = {
    "of floats": Case(classifier([32, 32, 64]), machine(16), 8, [1, 4]),
    "of halves": Case(residual(3, 32, 128), machine(4), 16, [4, 8]),
    "uneven": Case(classifier([16, 256, 16]), machine(8), 8, [2, 4]),
    "nearly too large": Case(residual(2, 256, 512, dtype=np.float32), machine(8), 16, [2, 8], wrong=0),
}


class Space(NamedTuple):
    """All candidates of a case, with all that is known of them, and what each takes."""

    every: list[Candidate]
    estimates: Estimates
    plays: list[PlayedCandidate]


def space_of(name: str) -> Space:
    case, optimizer = CASES[name], optax.sgd(0.1, momentum=0.9)
    model = Model(case.model.layers, case.model.params, case.model.microbatch, None)
    state = [bytes_of([leaf for leaf in jax.tree.leaves(jax.eval_shape(optimizer.init, own)) if leaf.size > 1]) for own in model.params]
    estimates = Estimates(model, state, case.machine, [1], case.sizes, case.batch)
    every = candidates(
        estimates.cuts(),
        num_ipus=case.machine.num_ipus,
        global_batch=case.batch,
        microbatches=case.sizes,
        schedules=("interleaved", "grouped", "zero_bubble"),
        recompute=(None, "full"),
        offload=(None, "state"),
    )
    every = [candidate for candidate in every if (candidate.recompute, candidate.offload) in _CHOICES]
    return Space(every, estimates, [played(model, candidate, optimizer, case.machine) for candidate in every])


def part(space: Space, schedules: Sequence[str], choices: Sequence[Any]) -> list[int]:
    """Numbers of the candidates of a smaller space."""
    return [
        number
        for number, each in enumerate(space.every)
        if (each.num_stages == 1 or each.schedule in schedules) and (each.recompute, each.offload) in choices
    ]


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_the_best_of_a_space_lies_within_the_gap_and_the_chosen_plan_is_nearly_as_fast(name: str) -> None:
    """Of 32 spaces, in six of which guesses alone would choose another than the best plan. All plans are played, so times are exact."""
    space, wrong = space_of(name), 0
    for candidate, play in zip(space.every, space.plays, strict=True):
        assert space.estimates.least_cycles(candidate) <= play.cycles, candidate.text
        assert space.estimates.least_fullness(candidate) <= play.shown.fullness, candidate.text
    for schedules, chosen in itertools.product(_SCHEDULES, [*([one] for one in _CHOICES), list(_CHOICES)]):
        numbers = part(space, schedules, chosen)
        expected = [space.estimates.expected(space.every[number]) for number in numbers]
        shown = [space.plays[number].shown for number in numbers]
        found = search(expected, shown.__getitem__, lambda outcome: outcome, most=_REPLAYS)
        true = min(each.cycles for each in shown if each.fits)
        assert found.best is not None
        best = shown[found.best].cycles
        assert min(best, found.least_cycles) <= true
        assert best <= 1.03 * true, (schedules, chosen)
        guessed = shown[min(range(len(numbers)), key=lambda at: (expected[at].fullness > 1, expected[at].cycles))]
        wrong += guessed.cycles > true or not guessed.fits
    assert wrong >= CASES[name].wrong
