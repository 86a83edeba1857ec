"""The door of the command line: every command is there, with its exit code, and a run has the random numbers of plain Python."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

import tilestep
from tests.processes import clean_environ
from tilestep.cli import main


@pytest.mark.parametrize("arguments", [[], ["machine"], ["machines", "--jsn"], ["machines", "a", "b"]])
def test_wrong_arguments_leave_with_2_and_say_what_there_is(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    out, err = capsys.readouterr()
    assert (caught.value.code, out) == (2, "")
    assert err.startswith("usage: tilestep")


def test_help_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["--help"])
    out = capsys.readouterr().out
    assert caught.value.code == 0
    assert "\n    machines " in out
    assert "\n    run " in out
    assert re.search(r"\n    bench-data\s+measure", out) is not None  # on a line of its own, or before what it does


def test_the_version_is_the_packages(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--version"])
    assert capsys.readouterr().out == f"tilestep {tilestep.__version__}\n"


PROGRAM = """
import importlib.util, sys
import numpy as np
print("jax" in sys.modules, importlib.util.find_spec("jax").name, "jax" in sys.modules)
np.random.seed(0)
print(np.random.rand())
import {first}
print(np.random.rand(), sys.modules["jax"].__spec__.name, "jax" in sys.modules)
import jax
from jax import lax
print(np.random.rand(), jax.lax is lax, jax.__spec__.loader is not None)
np.random.seed(0)
print(np.random.rand(), float(jax.numpy.ones(3).sum()))
"""


@pytest.mark.few(1)
@pytest.mark.process
@pytest.mark.parametrize("first", ["jax", "jax.numpy as jnp"])
def test_a_program_draws_the_numbers_that_it_draws_in_plain_python(first: str, tmp_path: Path) -> None:
    script = tmp_path / "program.py"
    script.write_text(PROGRAM.format(first=first))
    commands = [sys.executable, str(script)], [sys.executable, "-m", "tilestep", "run", str(script)]
    plain, ours = (
        subprocess.run(command, capture_output=True, text=True, check=True, env=clean_environ({"JAX_PLATFORMS": "cpu"})).stdout
        for command in commands
    )
    assert ours.splitlines() == plain.splitlines()


@pytest.mark.process
def test_a_program_that_never_imports_jax_draws_nothing_more() -> None:
    code = "import numpy as np; np.random.seed(0); print(np.random.rand())"
    done = subprocess.run([sys.executable, "-m", "tilestep", "run", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "0.5488135039273248\n"  # NumPy's first number of seed 0
