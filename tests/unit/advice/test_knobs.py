"""Knobs of a machine, and settings of them in words."""

from __future__ import annotations

import pytest

from tests.unit.sim.toy import MACHINE
from tilestep.advice.knobs import KNOBS, setting_of, turned
from tilestep.errors import SpecError
from tilestep.machine.assemble import FIELD_KINDS, value_of


def test_a_setting_turns_a_field() -> None:
    for text, path, value in (
        ("host.link=x2", "host.to_ipus_bytes_per_second", 2e6),
        ("host.link=x2", "host.to_host_bytes_per_second", 2e6),
        (" host.latency = /4 ", "host.link_latency_seconds", 1.25e-6),
        ("host.load=0.5", "host.load_seconds", 0.5),
        ("host.load_seconds=x0.5", "host.load_seconds", 50e-6),
        ("sync.pattern=singlePipeline", "sync_pattern", "singlePipeline"),
        ("amp=x2", "ipu.macs_per_cycle_float", 32),
        ("amp=/32", "ipu.macs_per_cycle_float", 1),
        ("sram=2048", "ipu.tile.sram_bytes", 2048),
        ("streaming-memory=x3", "host.remote_buffer_bytes_per_second", 3e6),
    ):
        assert value_of(turned(MACHINE, setting_of(text)), path) == value, text


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("host.link", "must be of the form KNOB=xFACTOR"),
        ("host.lonk=x2", "knob 'host.lonk' does not exist; the nearest that does is 'host.link'"),
        ("num_ipus=2", "knob 'num_ipus' cannot be turned"),
        ("ipu.clock_hz=x2", "knob 'ipu.clock_hz' cannot be turned"),
        ("host.link=x0", "its factor must be more than 0"),
        ("host.link=/0", "its factor must be more than 0"),
        ("host.link=fast", "'fast' is neither a factor, such as x2 or /2, nor a number"),
        ("host.link=nan", "the value must be finite"),
        ("host.link=inf", "the value must be finite"),
        ("sync.pattern=x2", "sync.pattern is a word, full or singlePipeline or replicaAndLadder"),
        ("sync.pattern=some", "sync.pattern must be one of full, singlePipeline, replicaAndLadder"),
        ("family.matmul=3", "the cost of a family is turned by a factor, such as family.matmul=/2"),
    ],
)
def test_a_wrong_setting_is_told(text: str, problem: str) -> None:
    with pytest.raises(SpecError, match=problem):
        setting_of(text)


def test_a_value_out_of_bounds_is_told() -> None:
    with pytest.raises(SpecError, match=r"host.link=x1e\+09: host.to_ipus_bytes_per_second would be 1e\+15 B/s|must be"):
        turned(MACHINE, setting_of("host.link=1"))


def test_a_setting_reads_as_it_was_written() -> None:
    for text in ("host.link=x2", "host.link=/2", "family.matmul=/2", "sync.pattern=full"):
        assert str(setting_of(text)) == text, text


def test_every_knob_turns_fields_that_exist() -> None:
    assert all(path in FIELD_KINDS for knob in KNOBS.values() for path in knob.fields)
    assert all(knob.fields for knob in KNOBS.values())
