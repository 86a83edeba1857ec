"""`tilestep run --popart`: a program that imports popart runs as it is."""

from __future__ import annotations

from pathlib import Path
from subprocess import CompletedProcess

import pytest

from tests.processes import run_python

PROGRAM = """
import sys
import popart
import jax
from tilestep.popart.session.emulation import Emulation

print(popart.__name__, sys.argv[1:], __name__, jax.devices()[0].platform)
device = popart.DeviceManager().createIpuModelDevice({"numIPUs": 2, "tilesPerIPU": 4})
machine = Emulation(device.machine(), name="session").machine
print(machine.name, machine.num_ipus, machine.ipu.num_tiles, machine.sync_pattern)
"""


@pytest.fixture
def program(tmp_path: Path) -> str:
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    return str(path)


def tilestep_run(*words: str) -> CompletedProcess[str]:
    return run_python("-m", "tilestep", "run", *words)


def test_the_program_gets_tilesteps_popart_and_its_own_arguments(program: str) -> None:
    done = tilestep_run("--popart", program, "--machine", "a")
    assert (done.returncode, done.stdout.splitlines(), done.stderr) == (
        0,
        ["tilestep.popart ['--machine', 'a'] __main__ cpu", "m2000 2 4 full"],
        "",
    )


def test_without_the_flag_there_is_no_popart(program: str) -> None:
    done = tilestep_run(program)
    assert done.returncode == 1
    assert "No module named 'popart'" in done.stderr


@pytest.mark.parametrize(
    ("words", "machine"),
    [
        (["--machine", "bow-2000"], "bow-2000 2 1472 full"),
        (["--machine", "bow-2000", "--tiles", "20"], "bow-2000 2 20 full"),
        (["--machine", "bow-2000", "--sync-pattern", "singlePipeline"], "bow-2000 2 1472 singlePipeline"),
    ],
)
def test_a_machine_on_the_command_line_wins_and_says_so(program: str, words: list[str], machine: str) -> None:
    done = tilestep_run(*words, "--popart", program)
    assert (done.returncode, done.stdout.splitlines()[1]) == (0, machine)
    assert "tilestep: sessions are emulated on machine bow-2000, which --machine or TILESTEP_MACHINE names" in done.stderr


@pytest.mark.parametrize("words", [["--tiles", "20"], ["--sync-pattern", "full"]])
def test_what_changes_a_machine_needs_one(program: str, words: list[str]) -> None:
    done = tilestep_run(*words, "--popart", program)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"tilestep run: {words[0]} changes the machine of --machine with --popart")


@pytest.mark.parametrize("words", [["--dry-run"], ["--json", "x.json"], ["--report", "folder"], ["--all"], ["--ipus", "2"]])
def test_options_that_say_nothing_of_a_popart_program_are_refused(program: str, words: list[str], tmp_path: Path) -> None:
    done = run_python("-m", "tilestep", "run", *words, "--popart", program, folder=tmp_path)
    assert done.returncode == 2
    assert f"{words[0]} doesn't go with --popart: " in done.stderr
    assert not done.stdout
    assert {path.name for path in tmp_path.iterdir()} == {"program.py"}


def test_the_programs_exit_code_is_the_commands(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text("import popart, sys\nsys.exit(7)\n")
    assert tilestep_run("--popart", str(tmp_path / "program.py")).returncode == 7


def test_code_and_modules_run_as_scripts_do() -> None:
    done = tilestep_run("--popart", "-c", "import popart; print(popart.__name__)")
    assert (done.returncode, done.stdout) == (0, "tilestep.popart\n")
