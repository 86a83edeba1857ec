"""SessionOptions has the original's fields, with its types and defaults."""

import pytest

from tilestep.popart.enums import MeanReductionStrategy, RecomputationType, ReductionType
from tilestep.popart.options import SessionOptions
from tilestep.popart.options.fields import fields_of
from tilestep.popart.options.table import PROGRAM


def test_defaults_are_the_originals(options: SessionOptions) -> None:
    assert (options.accumulationFactor, options.replicatedGraphCount, options.globalReplicationFactor) == (1, 1, 1)
    assert options.accumulationAndReplicationReductionType is ReductionType.Sum
    assert options.meanAccumulationAndReplicationReductionStrategy is MeanReductionStrategy.Post
    assert options.autoRecomputation is RecomputationType.NoRecompute
    assert (options.executionPhaseSettings.phases, options.executionPhaseSettings.stages) == (0, 2)
    assert (options.cachePath, options.enableEngineCaching) == ("session_cache", False)


def test_explicit_ir_is_three_options(options: SessionOptions) -> None:
    options.enableExplicitIR(True)
    assert (options.useHostCopyOps, options.enableExplicitMainLoops, options.explicitRecomputation) == (True, True, True)
    options.enableExplicitIR(False)
    assert options.changed() == {}


def test_old_names_set_the_new_ones_and_say_so(options: SessionOptions, capsys: pytest.CaptureFixture[str]) -> None:
    options.defaultPrefetchBufferingDepth = 3
    assert "defaultPrefetchBufferingDepth has been deprecated" in capsys.readouterr().err
    options.prefetchBufferingDepthMap = {"x": 2}
    assert "prefetchBufferingDepthMap has been deprecated" in capsys.readouterr().err
    options.serializedPoprithmsAnnealGraphsDir = "here"
    assert (options.defaultBufferingDepth, options.bufferingDepthMap, options.serializedPoprithmsShiftGraphsDir) == (3, {"x": 2}, "here")
    assert (options.defaultPrefetchBufferingDepth, options.prefetchBufferingDepthMap) == (3, {"x": 2})
    assert options.serializedPoprithmsAnnealGraphsDir == "here"


def test_a_cache_directory_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POPART_CACHE_DIR", "/one")
    assert (SessionOptions().enableEngineCaching, SessionOptions().cachePath) == (True, "/one")
    monkeypatch.setenv("POPXL_CACHE_DIR", "/two")
    assert SessionOptions().cachePath == "/two"


def test_options_that_change_no_program_share_executables(options: SessionOptions) -> None:
    options.cachePath, options.enableOutlining, options.logDir = "elsewhere", False, "here"
    options.engineOptions["autoReport.all"] = "true"
    assert options.of_program() == {}
    options.accumulationAndReplicationReductionType = ReductionType.Mean
    options.numIOTiles = 8
    options.matmulOptions = {"partialsType": "half"}
    assert options.of_program() == {
        "accumulationAndReplicationReductionType": "Mean",
        "matmulOptions": {"partialsType": "half"},
        "numIOTiles": 8,
    }
    assert fields_of(SessionOptions).keys() >= PROGRAM
