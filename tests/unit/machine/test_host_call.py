"""What a call of PopART adds: the figures of two published runs, and where bytes pass."""

import pytest

from tilestep.machine import load_machine, waited_seconds
from tilestep.machine.sources import HOST_CALL

LATENCY = 10e-6  # of a link, of both machines


def test_a_card_s_call_takes_the_published_time() -> None:
    """ResNet-50 at batch 1: 320.6 us with host data, 273.7 without (graphcore/PopRT). Two transfers wait 10 each."""
    card = load_machine("c600")
    link = card.host_cycles(to_ipus=150_528, to_host=2_000) / card.ipu.clock_hz
    waited = waited_seconds(card, streams=2, to_ipus=150_528, to_host=2_000)
    assert link + 2 * LATENCY + waited == pytest.approx(1 / 3118.8 - 1 / 3653, rel=0.01)


def test_results_of_an_ipu_machine_take_the_published_time() -> None:
    """8.8 MB: 3.1 ms (graphcore/examples, EfficientDet), which none of the figures but the copy's check was taken from."""
    machine = load_machine("m2000")
    link = machine.host_cycles(to_host=8_800_000) / machine.ipu.clock_hz
    assert link + waited_seconds(machine, streams=1, to_ipus=0, to_host=8_800_000) == pytest.approx(3.1e-3, rel=0.06)


def test_bytes_pass_the_gateway_s_memory_of_an_ipu_machine_only() -> None:
    size = 7_061_250  # a millisecond from the host to the gateway
    there = [waited_seconds(load_machine(name), streams=1, to_ipus=size, to_host=0) for name in ("bow-2000", "c600")]
    assert there[0] - there[1] == pytest.approx(1e-3)


def test_each_stream_but_the_first_of_a_direction_waits_for_the_link() -> None:
    machine = load_machine("c600")
    alone, five = (waited_seconds(machine, streams=streams, to_ipus=8, to_host=8) for streams in (2, 5))
    assert five - alone == pytest.approx(3 * LATENCY)


def test_a_batch_that_was_fetched_before_waits_for_its_streams_alone() -> None:
    assert waited_seconds(load_machine("m2000"), streams=3, to_ipus=10**9, to_host=10**9, prefetched=True) == pytest.approx(LATENCY)


def test_figures_of_a_call_have_sources() -> None:
    assert all(len(figure.source) > 20 and figure.doubt and 0 < figure.uncertainty < 1 for figure in HOST_CALL.values())


def test_negative_bytes_are_refused() -> None:
    with pytest.raises(ValueError, match="1 streams of -1 B to the IPUs and 0 B to the host: each must be 0 or more"):
        waited_seconds(load_machine("c600"), streams=1, to_ipus=-1, to_host=0)
