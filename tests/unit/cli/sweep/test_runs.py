"""What a sweep keeps of a setting, and when it goes on from that."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from tilestep.cli.program import ScriptProgram
from tilestep.cli.sweep.runs import Run, keep, kept
from tilestep.cli.sweep.setting import Measured
from tilestep.cli.sweep.settings import Setting


def test_what_is_kept_is_of_this_script_with_these_words(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("pass\n")
    run = Run(setting=Setting(machine="a/b.toml", ipus=4), program=ScriptProgram(name=str(script), arguments=("8",)), environ={"A": "1"})
    found = Measured(outcome="fits", machine="b", num_ipus=4, needed_bytes=1, available_bytes=2, step_s=0.5)
    assert kept(run, tmp_path) is None
    keep(run, found, tmp_path)
    assert kept(run, tmp_path) == found
    assert kept(dataclasses.replace(run, environ={"A": "2"}), tmp_path) is None
    assert kept(dataclasses.replace(run, trip_count=3), tmp_path) is None
    script.write_text("changed\n")
    assert kept(run, tmp_path) is None
    (tmp_path / run.file_name()).write_text("{")
    assert kept(run, tmp_path) is None


def test_a_killed_setting_is_not_kept(tmp_path: Path) -> None:
    run = Run(setting=Setting(ipus=4), program=ScriptProgram(name="train.py"), environ={})
    keep(run, Measured(outcome="killed", error="its process was ended by SIGKILL"), tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_what_is_kept_is_of_the_machine_that_the_settings_say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "own.toml"
    file.write_text('inherits = "bow-2000"\nnum_ipus = 2\n')
    run = Run(setting=Setting(ipus=1), program=ScriptProgram(name="train.py"), environ={"TILESTEP_MACHINE": str(file)})
    keep(run, Measured(outcome="fits"), tmp_path)
    assert kept(run, tmp_path) == Measured(outcome="fits")
    monkeypatch.setenv("JAX_IPU_MODEL_NUM_TILES", "8")  # of the user's shell, and no option of the sweep
    assert kept(run, tmp_path) is None
    monkeypatch.delenv("JAX_IPU_MODEL_NUM_TILES")
    file.write_text('inherits = "bow-2000"\nnum_ipus = 4\n')
    assert kept(run, tmp_path) is None
