"""The log: levels, parts and destinations."""

import re
from pathlib import Path

import pytest

from tilestep.popart.diagnostics import log as module
from tilestep.popart.diagnostics.log import PARTS, Level, getLogger, log, logged, warn
from tilestep.popart.exceptions import popart_exception


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_LOG", module._Log())


def test_warnings_are_written_and_less_is_not(capsys: pytest.CaptureFixture[str]) -> None:
    logger = getLogger()
    logger.debug("one")
    logger.info("two")
    logger.warn("three")
    logger.error("four")
    logger.critical("five")
    lines = capsys.readouterr().err.splitlines()
    assert [line.split(" popart:python ")[1].split(" ", 1)[1] for line in lines] == ["W: three", "E: four", "C: five"]


def test_a_line_has_time_part_and_process(capsys: pytest.CaptureFixture[str]) -> None:
    warn("look", "devicex")
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z popart:devicex \d+\.\d+ W: look\n", capsys.readouterr().err)


def test_levels_of_all_parts_and_of_one(capsys: pytest.CaptureFixture[str]) -> None:
    getLogger().setLevel("TRACE")
    assert all(logged(part, Level.TRACE) for part in PARTS)
    getLogger("session").setLevel("OFF")
    log("session", Level.CRITICAL, "silent")
    log("ir", Level.TRACE, "heard")
    assert capsys.readouterr().err.endswith("T: heard\n")
    assert not logged("session", Level.CRITICAL)


def test_what_is_no_level_or_part() -> None:
    with pytest.raises(popart_exception, match="Unknown log level 'LOUD': it must be one of TRACE"):
        getLogger().setLevel("LOUD")
    with pytest.raises(popart_exception, match="Unknown logger 'poplar': it must be all, or one of session"):
        getLogger("poplar").setLevel("INFO")


def test_variables_set_level_destination_and_parts(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "levels.json"
    config.write_text('{"popart:ir": "ERR"}')
    monkeypatch.setenv("POPART_LOG_LEVEL", "INFO")
    monkeypatch.setenv("POPART_LOG_CONFIG", str(config))
    monkeypatch.setenv("POPART_LOG_DEST", "stdout")
    log("session", Level.INFO, "shown")
    log("ir", Level.WARN, "hidden")
    out, err = capsys.readouterr()
    assert (out.count("\n"), "I: shown" in out, err) == (1, True, "")
    monkeypatch.setenv("POPART_LOG_DEST", str(tmp_path / "log.txt"))
    log("session", Level.INFO, "filed")
    log("session", Level.INFO, "too")
    assert [line.split(" ", 3)[3] for line in (tmp_path / "log.txt").read_text().splitlines()] == ["I: filed", "I: too"]


def test_variables_that_do_nothing_are_noted_once(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("POPART_DOT_CHECKS", "FINAL")
    monkeypatch.setenv("POPART_LOG_LEVL", "INFO")
    warn("one")
    warn("two")
    messages = [line.split(" W: ")[1] for line in capsys.readouterr().err.splitlines()]
    assert [message.split(":")[0] for message in messages[:1]] == ["Variable POPART_DOT_CHECKS has no effect"]
    assert messages[1:] == ["Variable POPART_LOG_LEVL does not exist; the nearest that does is POPART_LOG_LEVEL.", "one", "two"]
