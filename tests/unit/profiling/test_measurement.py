"""What a measurement's recording says about blocks: the names that filters choose, within a bound."""

from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from tests.unit.figures.reader.recorded import larger, liveness, run_of, step, two_stages
from tests.unit.sim.toy import Host, program
from tilestep import RecordingError
from tilestep.engine_options import EngineOptions
from tilestep.figures.reader import Report
from tilestep.pjrt.running.player import Begin
from tilestep.plan import Liveness, Program
from tilestep.profiling import measurement
from tilestep.profiling.measurement import Measurement, measurement_of


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


@dataclass(frozen=True, kw_only=True)
class FakeSource:
    """A source of a program that counts how often it is planned."""

    program: Program
    hlo: bytes
    code: bytes = b""
    options: None = None
    planned: list[bytes] = field(default_factory=list[bytes], compare=False)

    @property
    def name(self) -> str:
        return self.program.name

    @property
    def fingerprint(self) -> str:
        return f"{len(self.code):064x}"

    @property
    def text(self) -> str:
        return "HloModule"

    def detail(self, text: str | None) -> tuple[Program, Liveness]:
        self.planned.append(self.hlo)
        return self.program, replace(liveness(), lives=())


def _recorded(*programs: Program, sources: Any) -> Report:
    host = Host(on=larger())
    for called in programs:
        host.run(called)
    begin = Begin(host.start, None)
    found = measurement_of(host.system, begin, host.system.mark(), EngineOptions(), {})
    return Report(replace(found, sources={host.key(called): source for called, source in zip(programs, sources, strict=True)}).recording())


def test_programs_of_one_source_are_planned_once() -> None:
    planned: list[bytes] = []
    first, equal, other = (program(step("a", "", cycles)) for cycles in (5, 5, 6))
    sources = [FakeSource(program=each, hlo=hlo, planned=planned) for each, hlo in ((first, b"1"), (equal, b"2"), (other, b"3"))]
    found = _recorded(first, equal, other, sources=sources)
    assert planned == [b"1", b"3"]
    assert [each.detailed for each in found.compilation.programs] == [True] * 3


def test_the_lives_of_values_are_those_of_the_programs_of_most_cycles(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measurement, "MOST_IN_DETAIL", 2)
    full = program(step("a", "", 1), name="full", resident_bytes=900)
    programs = (full, *(program(step("a", "", cycles), name=f"p{cycles}") for cycles in (30, 10, 20)))
    found = _recorded(*programs, sources=[FakeSource(program=each, hlo=b"", code=each.name.encode()) for each in programs])
    assert [each.name for each in found.compilation.programs if each.detailed] == ["full", "p30", "p20"]
