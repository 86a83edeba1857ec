"""`tilestep sweep`: rows of what fits, fails and does not fit; what is kept; what a run that does not fit points to."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.in_turn import run_python as run_in_turn
from tests.processes import PROCESS_TIMEOUT_WALL_S, clean_environ
from tests.processes import run_python as run_alone
from tilestep.cli import main

pytestmark = pytest.mark.process
PROGRAM = """
import sys
import jax, jax.numpy as jnp
size = int(sys.argv[1])
step = jax.jit(lambda x: x @ x)
x = jnp.ones((size, size))
for _ in range(4):
    x = step(x)
print(float(x[0, 0]))
"""


def test_rows_fit_do_not_fit_or_have_failed_and_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "step.py").write_text(PROGRAM)
    words = ("sweep", "--set", "n=64,20000,many", "--items", "8", "--processes", "2", "--out", "kept", "--json", "s.json")
    monkeypatch.chdir(tmp_path)
    assert main([*words, "step.py", "{n}"]) == 0
    first = capsys.readouterr()
    fits, over, failed = json.loads((tmp_path / "s.json").read_text())["rows"]
    assert (fits["outcome"], fits["num_ipus"], fits["error"]) == ("fits", 4, "")
    assert fits["items_per_s"] == 8 / fits["step_s"]
    assert over["outcome"] == "does not fit"
    assert f"does not fit: {over['needed_bytes'] / over['available_bytes']:.3g}x" in first.out
    assert (failed["outcome"], failed["error"]) == ("failed", "ValueError: invalid literal for int() with base 10: 'many'")
    assert "the smallest that fits (4 IPUs, " in first.out
    assert "\n  tilestep run step.py 64\n" in first.out
    alone = run_in_turn("-m", "tilestep", "run", "--dry-run", "--json", "p.json", "step.py", "64", folder=tmp_path)
    assert alone.returncode == 1  # it reads a value, which a sweep takes for zero
    profile = json.loads((tmp_path / "p.json").read_text())
    assert fits["needed_bytes"] == profile["verdict"]["needed_bytes"]
    assert fits["step_s"] == profile["steady"]["step_cycles"] / profile["machine"]["clock_hz"]

    assert len(list((tmp_path / "kept").iterdir())) == 3
    assert main([*words, "step.py", "{n}"]) == 0
    again = capsys.readouterr()
    assert "3 of 3 settings are in kept" in again.err
    assert again.out == first.out


@pytest.mark.slow
def test_ctrl_c_keeps_what_is_done(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "never")
    (tmp_path / "step.py").write_text(
        "import sys\nif sys.argv[1] == 'b': open('never', 'w').close(), open('never').read()\nsys.exit('no')\n"
    )
    words = ("-m", "tilestep", "sweep", "--set", "n=a,b", "--processes", "1", "--out", "kept", "step.py", "{n}")
    sweep = subprocess.Popen(
        (sys.executable, *words), cwd=tmp_path, env=clean_environ(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    with open(tmp_path / "never"):  # it is opened when the second setting runs, so the first is done
        sweep.send_signal(signal.SIGINT)
        out, err = sweep.communicate(timeout=PROCESS_TIMEOUT_WALL_S)
    assert sweep.returncode == 130
    assert "Ctrl-C: 1 of 2 settings are done; the same command goes on from them" in err
    assert " failed " in out
    assert len(list((tmp_path / "kept").iterdir())) == 1


@pytest.mark.slow
def test_a_run_that_does_not_fit_ends_with_the_sweep_that_would_find_where_it_does(tmp_path: Path) -> None:
    (tmp_path / "step.py").write_text(PROGRAM.replace("print", "id"))
    words = ("-m", "tilestep", "run", "--machine", "bow-2000", "--dry-run", "step.py")
    sweep = "tilestep sweep --machine bow-2000 --ipus 16,64,256 step.py 20000"
    assert sweep in run_alone(*words, "20000", folder=tmp_path).stderr.splitlines()[-1]
    assert "tilestep sweep" not in run_alone(*words, "64", folder=tmp_path).stderr
