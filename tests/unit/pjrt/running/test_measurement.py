"""What a measurement's recording says about blocks: the names that filters choose, within a bound."""

from __future__ import annotations

import pytest

from tests.unit.report.reader.recorded import run_of, two_stages
from tilestep import RecordingError
from tilestep.engine_options import EngineOptions
from tilestep.pjrt.running import measurement
from tilestep.pjrt.running.journal import Begin
from tilestep.pjrt.running.measurement import Measurement, measurement_of


def measured(engine: EngineOptions) -> Measurement:
    host = run_of(two_stages())
    return measurement_of(host.system, Begin(host.start, None), host.system.mark(), engine, {})


def test_names_that_the_filters_choose_are_in_the_manifest() -> None:
    found = measured(EngineOptions(blocks="stage_a|stage", programs="two.*")).recording(journal=False)
    assert (found.manifest["blocks"], found.manifest["block_programs"]) == (["stage_a"], ["two_stages"])
    assert not {"blocks", "block_programs"} & measured(EngineOptions()).recording(journal=False).manifest.keys()


def test_too_many_names_are_refused_with_the_option(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measurement, "_MOST_NAMES", 13)
    told = "engine option profiler.blocks.filter chooses 2 names of 14 characters together: a recording holds 13; filter for fewer"
    with pytest.raises(RecordingError, match=f"^{told}$"):
        measured(EngineOptions(blocks="stage.*")).recording(journal=False)


def test_no_filter_takes_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    long = "a" * 5000
    monkeypatch.setattr(measurement, "_scopes", lambda _: [f"jit(f)/{long}b/add", f"jit(f)/{long}/add"])
    assert measured(EngineOptions(blocks="(a+)+$")).recording(journal=False).manifest["blocks"] == [long]
    with pytest.raises(RecordingError, match=r"^engine option profiler\.blocks\.filter chooses nothing: a text of 5,00\d characters takes"):
        measured(EngineOptions(blocks="(.*b?){900}$")).recording(journal=False)
