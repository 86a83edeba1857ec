"""Commands where stdout, stderr, stdin or the working directory is gone, full, or no longer read: a line at most, never a traceback."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.forked import run_python
from tests.processes import PROCESS_TIMEOUT_WALL_S, clean_environ
from tilestep.cli import main

NOTHING_RAN = "tilestep: nothing ran on bow-2000"
LONG = "9" * 5000
HARD_TO_READ = "\x1b[31m\n\u202e"


def shell(script: str, *, folder: Path | None = None, **variables: str) -> subprocess.CompletedProcess[str]:
    """Runs a line of sh in which $TILESTEP and $PYTHON are commands; its stdout and stderr come back."""
    commands = {"TILESTEP": f"{sys.executable} -m tilestep", "PYTHON": sys.executable}
    environ = clean_environ(os.environ) | commands | variables
    environ.pop("PYTHONUNBUFFERED", None)
    return subprocess.run(
        ("bash", "-c", script), cwd=folder, env=environ, capture_output=True, text=True, timeout=PROCESS_TIMEOUT_WALL_S, check=False
    )


def refusal(words: Sequence[str], capsys: pytest.CaptureFixture[str]) -> str:
    """The message with which a command refuses its words; in this process, because it ends before anything runs."""
    try:
        code: object = main(words)
    except SystemExit as ended:
        code = ended.code
    printed = capsys.readouterr()
    assert (code, printed.out) == (2, "")
    return printed.err


@pytest.mark.parametrize("command", ["machines", pytest.param("machines bow-2000", marks=pytest.mark.slow), "machines --json"])
def test_a_command_whose_output_nobody_reads_ends_quietly(command: str) -> None:
    done = shell(f"(sleep 0.5; $TILESTEP {command}; echo $? >&2) | true")
    assert done.stderr == "1\n"


@pytest.mark.parametrize("command", ["machines", pytest.param("machines bow-2000", marks=pytest.mark.slow), "machines --json"])
def test_a_command_whose_output_has_no_room_says_so_in_a_line(command: str) -> None:
    done = shell(f"$TILESTEP {command} >/dev/full")
    assert (done.returncode, done.stderr) == (1, "tilestep: stdout cannot be written: No space left on device\n")


@pytest.mark.parametrize("command", ["machines", "machines bow-2000", "machines --json", "run -c 0"])
def test_a_command_without_stdout_or_stdin_ends_well(command: str) -> None:
    done = shell(f"$TILESTEP {command} >&- <&-")
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr == "" or done.stderr.startswith(f"\n{NOTHING_RAN}")


def test_a_command_without_stderr_keeps_its_exit_status() -> None:
    assert shell("$TILESTEP machines nowhere.toml 2>&-; echo $?").stdout == "2\n"
    assert shell("$TILESTEP run -c 'print(1)' 2>&-; echo $?").stdout == "1\n0\n"


@pytest.mark.parametrize("program", ["print(1)", "for k in range(100_000): print(k)", "import sys; print(1); sys.exit(3)"])
def test_a_program_whose_output_nobody_reads_ends_as_under_python(program: str, tmp_path: Path) -> None:
    (tmp_path / "prints.py").write_text(program)
    plain, ours = (shell(f"({start} prints.py; echo $? >&2) | true", folder=tmp_path) for start in ("$PYTHON", "$TILESTEP run"))
    before, _, after = ours.stderr.partition(f"\n{NOTHING_RAN}")
    assert before + after.partition("\n")[2] == plain.stderr


def test_a_summary_that_nobody_reads_is_not_missed() -> None:
    assert shell("($TILESTEP run -c 0 2>&1 >/dev/null; echo $? >&3) 3>&2 | true").stderr == "0\n"


IN_NO_FOLDER = "import os, sys, tilestep.__main__; os.rmdir(os.getcwd()); sys.exit(tilestep.__main__.main())"
GONE = "the working directory is gone (No such file or directory): go to one that exists, or name files by absolute paths"


@pytest.mark.parametrize(
    ("command", "told"),
    [
        ("run nofile.py", f"tilestep run: {GONE}"),
        ("run -m no_such_module", f"tilestep run: {GONE}"),
        ("run --json profile.json -c 0", f"tilestep run: {GONE}"),
        ("run --report report -c 0", f"tilestep run: {GONE}"),
        ("run --machine mine.toml -c 0", "tilestep run: --machine: mine.toml: the machine's description cannot be read: No such file"),
        ("machines mine.toml", "tilestep machines: mine.toml: the machine's description cannot be read: No such file or directory"),
        ("bench-data my_data:batches", f"tilestep bench-data: my_data:batches: {GONE}"),
        ("bench-data my_data.py:batches", f"tilestep bench-data: my_data.py:batches: {GONE}"),
    ],
)
def test_a_working_directory_that_is_gone_is_told_in_a_line(command: str, told: str, tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    done = run_python("-c", IN_NO_FOLDER, *shlex.split(command), folder=gone)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(told)
    assert done.stderr.count("\n") == 1


def test_an_automatic_report_into_a_working_directory_that_is_gone_is_refused(tmp_path: Path) -> None:
    options = json.dumps({"autoReport.all": "true"})
    done = shell("mkdir gone && cd gone && rmdir ../gone && $TILESTEP run -c 0", folder=tmp_path, POPLAR_ENGINE_OPTIONS=options)
    assert done.returncode == 2
    assert done.stderr.startswith(
        "tilestep run: POPLAR_ENGINE_OPTIONS: autoReport.directory is '.': it must be an absolute path: the working"
    )


@pytest.mark.parametrize("command", ["run -c 'print(1)'", "run -m timeit -n 1 -r 1 'print(1)'", "run {folder}/one.py", "machines"])
def test_what_needs_no_working_directory_runs_without(command: str, tmp_path: Path) -> None:
    (tmp_path / "one.py").write_text("print(1)\n")
    done = shell(f"mkdir gone && cd gone && rmdir ../gone && $TILESTEP {command.format(folder=tmp_path)}", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout.startswith("1\n") or "bow-2000" in done.stdout


@pytest.mark.parametrize(
    "words",
    [
        ("run", HARD_TO_READ),
        ("run", f"--{HARD_TO_READ}", "-c", "0"),
        ("run", "-m", HARD_TO_READ),
        ("run", "--machine", HARD_TO_READ, "-c", "0"),
        ("run", "--machine", f"{HARD_TO_READ}.toml", "-c", "0"),
        ("run", "--ipus", HARD_TO_READ, "-c", "0"),
        ("run", "--json", f"nowhere/{HARD_TO_READ}/p.json", "-c", "0"),
        ("run", "--report", f"README.md/{HARD_TO_READ}", "-c", "0"),
        ("machines", HARD_TO_READ),
        ("bench-data", f"{HARD_TO_READ}:batches"),
        ("bench-data", f"{HARD_TO_READ}.py:batches"),
        ("bench-data", "--epochs", HARD_TO_READ, "a:b"),
        (HARD_TO_READ,),
    ],
    ids=lambda words: " ".join(words).replace(HARD_TO_READ, "X"),
)
def test_no_control_character_of_the_command_line_comes_back(words: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    told = refusal(words, capsys)
    assert r"\x1b[31m" in told
    assert all(line.isprintable() for line in told.splitlines()), told


@pytest.mark.parametrize(
    "words", [("run", "9" * 5000), ("run", "--ipus", "9" * 5000, "-c", "0"), ("bench-data", "--epochs", "9" * 5000, "a:b")]
)
def test_words_of_any_length_are_refused(words: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    assert len(refusal(words, capsys)) < 2000


def test_markup_in_a_machine_s_file_is_printed_as_it_stands(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "mine.toml").write_text('inherits = "c600"\nname = "[/red] :smile:"\n')
    assert main(["machines", str(tmp_path / "mine.toml")]) == 0
    assert capsys.readouterr().out.startswith("[/red] :smile:: c600, changed by")


def test_ctrl_c_before_the_program_runs_ends_quietly() -> None:
    code = f"""
import os, signal, sys
import tilestep.cli
from tilestep.cli import run
run.choose_platform = lambda: os.kill(os.getpid(), {int(signal.SIGINT)})
sys.exit(tilestep.cli.main(["run", "-c", "print('never')"]))
"""
    done = run_python("-c", code)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")
