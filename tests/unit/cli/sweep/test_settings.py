"""The product of a sweep, and what is refused before any work."""

from __future__ import annotations

from pathlib import Path

import pytest

from tilestep.cli import main
from tilestep.cli.program import ScriptProgram
from tilestep.cli.sweep.settings import settings_of

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
        (["--ipus", "4,"], "has an empty value"),
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
