"""What a session of several stages takes, against what it must."""

from __future__ import annotations

from typing import Final

import pytest

from tests.unit.popart.session.emulation.models import Chain, emulated, off_chip, options
from tilestep import popart

PATTERNS: Final = ("full", "singlePipeline", "replicaAndLadder")


def _cycles(stages: int, microbatches: int) -> int:
    return emulated(Chain(ipus=range(stages), width=64, rows=16), options(accumulation=microbatches)).cycles()


@pytest.mark.slow
@pytest.mark.parametrize("stages", [2, 4])
def test_each_microbatch_beyond_the_fill_takes_one_cycle_of_the_slowest_stage(stages: int) -> None:
    total = 2 * stages - 1  # stages with those of the backward pass, of which the last forward's and the first backward's are one
    few, more, many = (_cycles(stages, depth) for depth in (total, total + 3, total + 6))
    cycle, rest = divmod(more - few, 3)
    assert rest == 0
    assert many - more == more - few
    assert total * cycle < few < (total + total - 1) * cycle  # D + S - 1 cycles, in which a stage has less to do while it fills


@pytest.mark.slow
def test_a_balanced_pipeline_is_faster_than_its_stages_one_after_the_other() -> None:
    chain = Chain(ipus=range(3), width=128, rows=128)
    pipelined = emulated(chain, options(accumulation=9)).cycles()
    one_by_one = emulated(chain, options(pipelined=False, accumulation=9)).cycles()
    assert one_by_one > 1.5 * pipelined


@pytest.mark.slow
def test_recomputation_lowers_bytes_per_tile_where_microbatches_wait_and_takes_time() -> None:
    chain = Chain(ipus=range(3), width=64, rows=64, layers=3)
    kept = emulated(chain, options(accumulation=8), tiles=4)
    again = emulated(chain, options(accumulation=8, autoRecomputation=popart.RecomputationType.Pipeline), tiles=4)
    assert all(again.tile_bytes(ipu) < kept.tile_bytes(ipu) for ipu in (0, 1))
    assert again.tile_bytes(0) < 0.9 * kept.tile_bytes(0)
    assert again.cycles() > kept.cycles()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("accumulation", "pipelined"),
    [(8, True), *(pytest.param(*rest, marks=pytest.mark.slow) for rest in ((0, True), (0, False), (8, False)))],
)
def test_single_pipeline_is_never_slower_than_full(accumulation: int, pipelined: bool) -> None:
    chosen = options(pipelined=pipelined, accumulation=accumulation)
    full, single = (
        emulated(Chain(ipus=range(3)), chosen, pattern=pattern, batches=1 if accumulation else 8).cycles() for pattern in PATTERNS[:2]
    )
    assert single <= full


@pytest.mark.slow
@pytest.mark.parametrize(("phases", "training"), [(8, False), (6, True)])
def test_phases_that_load_as_long_as_they_compute_are_faster_on_replica_and_ladder(phases: int, training: bool) -> None:
    chain = Chain(ipus=[0, 1] * (phases // 2), width=256, rows=128, layers=4, shared=True, phased=True)
    chosen = options(phases=phases, replicas=2, weightTensorLocationSettings=off_chip())
    full, ladder = (emulated(chain, chosen, num_ipus=4, tiles=64, pattern=pattern, training=training).cycles() for pattern in PATTERNS[::2])
    assert full > 1.3 * ladder
