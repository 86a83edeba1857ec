"""The product of a sweep, and what is refused before any work."""

import dataclasses
from pathlib import Path

import pytest

from tilestep.cli import main
from tilestep.cli.program import ScriptProgram
from tilestep.cli.sweep.runs import SettingRun, keep, kept
from tilestep.cli.sweep.setting import Measured
from tilestep.cli.sweep.settings import SweepPoint, settings_of

PROGRAM = ScriptProgram(name="train.py", arguments=("--batch", "{batch}", "--json={}", '{"a": 1}'))


def test_settings_are_the_product_and_name_the_command_that_runs_each() -> None:
    settings = settings_of(
        PROGRAM, machines=["bow-2000", "bow-pod16"], ipus=[4, 16], env=[("SEED", ["a b"])], values=[("batch", ["8", "16"])], items="{batch}"
    )
    assert [tuple(setting.cells().values()) for setting in settings[:3]] == [
        ("bow-2000", "4", "a b", "8"),
        ("bow-2000", "4", "a b", "16"),
        ("bow-2000", "16", "a b", "8"),
    ]
    assert len(settings) == 8
    assert settings[1].command(PROGRAM, None) == (
        """SEED='a b' tilestep run --machine bow-2000 --ipus 4 train.py --batch 16 '--json={}' '{"a": 1}'"""
    )
    environ = settings[-1].environ({})
    assert environ == {"SEED": "a b", "JAX_PLATFORMS": "ipu,cpu", "TILESTEP_MACHINE": "bow-pod16", "JAX_IPU_DEVICE_COUNT": "16"}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["{x}"], "{x} has no values: give them by --set x=VALUE,VALUE..."),
        ([], "nothing varies: give --machine, --ipus, --env or --set"),
        (["--machine", "bow-2001"], "did you mean 'bow-2000'?"),
        (["--ipus", "4,257"], "'257' must be a whole number, 1 to 256"),
        (["--ipus", "4,4"], "has '4' twice"),
        (["--ipus", "4,"], "'4,' has an empty value: give values with commas between them"),
        (["--machine", ","], "argument --machine: the list is empty: give values with commas between them"),
        (["--set", "x=1"], "no argument of the program has {x}"),
        (["--set", "x"], "must be NAME=VALUE,VALUE..."),
        (["--set", "x=1", "--set", "x=2"], "--set x is given twice"),
        (["--env", "JAX_IPU_DEVICE_COUNT=2", "--ipus", "4"], "--env JAX_IPU_DEVICE_COUNT: the sweep sets this variable itself"),
        (["--env", "JAX_IPU_DEVICE_COUNT=4,2000"], "'2000': it must be a whole number, 1 to 256"),
        (["--ipus", "4", "--items", "some"], "--items: 'some' must be a whole number"),
        (["--ipus", "4", "--plot", "a.gif"], "--plot a.gif: its name must end with .png or .svg"),
        (["--ipus", "4", "--csv", "a", "--json", "./a"], "--json, --csv name the same file"),
    ],
)
def test_a_bad_argument_is_refused_before_any_work(
    words: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("train.py").write_text("raise AssertionError\n")
    places = [word for word in words if word == "{x}"]
    options = [word for word in words if word != "{x}"]
    try:
        code: object = main(["sweep", *options, "train.py", *places])
    except SystemExit as end:
        code = end.code
    out, err = capsys.readouterr()
    assert (code, out) == (2, "")
    assert message in err


def test_what_is_kept_is_of_this_script_with_these_words(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("pass\n")
    run = SettingRun(
        setting=SweepPoint(machine="a/b.toml", ipus=4), program=ScriptProgram(name=str(script), arguments=("8",)), environ={"A": "1"}
    )
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
    run = SettingRun(setting=SweepPoint(ipus=4), program=ScriptProgram(name="train.py"), environ={})
    keep(run, Measured(outcome="killed", error="its process was ended by SIGKILL"), tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_what_is_kept_is_of_the_machine_that_the_settings_say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "own.toml"
    file.write_text('inherits = "bow-2000"\nnum_ipus = 2\n')
    run = SettingRun(setting=SweepPoint(ipus=1), program=ScriptProgram(name="train.py"), environ={"TILESTEP_MACHINE": str(file)})
    keep(run, Measured(outcome="fits"), tmp_path)
    assert kept(run, tmp_path) == Measured(outcome="fits")
    monkeypatch.setenv("JAX_IPU_MODEL_NUM_TILES", "8")  # of the user's shell, and no option of the sweep
    assert kept(run, tmp_path) is None
    monkeypatch.delenv("JAX_IPU_MODEL_NUM_TILES")
    file.write_text('inherits = "bow-2000"\nnum_ipus = 4\n')
    assert kept(run, tmp_path) is None
