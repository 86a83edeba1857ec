"""A last layer that is tied may be a stage on the first stage's IPUs, where what is tied is held once."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import optax
import pytest

import tilestep
from tests.unit.planner.small_models import classifier, embed, head, shape
from tilestep.machine import changed_machine
from tilestep.planner.estimates import Estimates
from tilestep.planner.model import Model, bytes_of
from tilestep.planner.replay import pipeline_of, played, split
from tilestep.planner.space import Candidate, candidates
from tilestep.settings import read_settings

CUT = (0, 1, 2, 3)


def tied_embed(params: Any, tokens: Any, label: Any) -> Any:
    return embed(params["words"], tokens, label)


def tied_head(params: Any, x: Any, label: Any) -> Any:
    return head(params["words"].T @ params["mix"], x, label)


def model() -> Model:
    small = classifier([16, 16])
    words = {"words": shape(32, 16)}
    ties = [((0, ("words",)), (2, ("words",)))]
    layers, params = [tied_embed, small.layers[1], tied_head], [words, small.params[1], {**words, "mix": shape(32, 8)}]
    return Model(layers, params, small.microbatch, None, None, None, ties)


@pytest.mark.slow
def test_replicas_of_a_folded_pipeline_divide_the_state_and_take_what_running_them_takes() -> None:
    machine, optimizer, tied = changed_machine(read_settings().machine, num_ipus=4), optax.adam(0.1), model()
    state = [bytes_of([leaf for leaf in jax.tree.leaves(jax.eval_shape(optimizer.init, own)) if leaf.size > 1]) for own in tied.params]
    estimates = Estimates(tied, state, machine, [1], [2], 4)
    every: list[Candidate] = candidates(
        estimates.cuts([CUT]),
        num_ipus=4,
        global_batch=4,
        microbatches=[2],
        schedules=["interleaved"],
        recompute=[None],
        offload=["state"],
        divides_state=True,
    )
    assert {(each.folded, each.num_ipus, each.divides_state) for each in every if each.stages == CUT} == {
        (False, 3, False),
        (True, 2, False),
        (True, 4, True),
    }
    folded = next(each for each in every if each.folded and each.divides_state)
    assert folded.text == (
        "3 stages (1+1+1 layers), the last on the first's IPUs x 2 replicas, 1 microbatch of 2, interleaved, state offloaded, state divided"
    )
    play = played(tied, folded, optimizer, machine)
    assert estimates.least_cycles(folded) <= play.cycles
    assert estimates.least_fullness(folded) <= play.shown.fullness
    batch = np.zeros((1, 2, 2), np.int32)
    with tilestep.dry_run():
        devices = jax.devices("ipu")
        pipeline = pipeline_of(tied, folded, optimizer, devices)
        params = jax.tree.map(lambda leaf: np.zeros(leaf.shape, leaf.dtype), list(tied.params))
        run_state, losses = pipeline.step(pipeline.init(split(tied, folded, params, devices)), (batch, batch))
        jax.block_until_ready((run_state, losses))
        with tilestep.profile() as profile:
            jax.block_until_ready(pipeline.step(run_state, (batch, batch)))
    assert profile.emulated_cycles == play.cycles
    assert profile.groups[0].peak_tile_bytes == sum(play.parts.values())


def test_what_is_tied_counts_once_where_it_is_held_once() -> None:
    tied = model()
    assert tied.copied([0, 2], 1) == 32 * 16 * 4
    assert tied.copied([1, 2], 1) == 0
