"""Commands where stdout, stderr, stdin or the working directory is gone, full, or no longer read: a line at most, never a traceback."""

import contextlib
import json
import os
import shlex
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.in_turn import RunPython
from tests.processes import PROCESS_TIMEOUT_WALL_S, clean_environ
from tilestep.cli import main

NOTHING_RAN = "tilestep: nothing ran on bow-2000"
LONG = "9" * 5000
HARD_TO_READ = "\x1b[31m\n\u202e"


def shell(script: str, *, folder: Path | None = None, **variables: str) -> subprocess.CompletedProcess[str]:
    """Runs a line of sh in which $TILESTEP and $PYTHON are commands; its stdout and stderr come back."""
    commands = {"TILESTEP": f"{sys.executable} -m tilestep", "PYTHON": sys.executable}
    environ = clean_environ() | commands | variables
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


COMMANDS = (["machines"], ["machines", "bow-2000"], ["machines", "--json"])


def test_a_command_whose_output_nobody_reads_ends_quietly(capsys: pytest.CaptureFixture[str]) -> None:
    for words in COMMANDS:
        read, write = os.pipe()
        os.close(read)
        with open(write, "w") as nobody, contextlib.redirect_stdout(nobody), pytest.raises(SystemExit) as ended:
            main(words)
        assert (ended.value.code, capsys.readouterr()) == (1, ("", ""))


def test_a_command_whose_output_has_no_room_says_so_in_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    for words in COMMANDS:
        with open("/dev/full", "w") as full, contextlib.redirect_stdout(full), pytest.raises(SystemExit) as ended:
            main(words)
        assert (ended.value.code, capsys.readouterr().err) == (1, "tilestep: stdout cannot be written: No space left on device\n")


def test_a_command_without_stdout_or_stdin_ends_well(capsys: pytest.CaptureFixture[str]) -> None:
    for words in COMMANDS:
        with contextlib.redirect_stdout(None):
            assert main(words) == 0
        assert capsys.readouterr() == ("", "")
    with contextlib.redirect_stderr(None):
        assert main(["machines", "nowhere.toml"]) == 2


@pytest.mark.process
def test_a_program_whose_output_nobody_reads_ends_as_under_python(tmp_path: Path) -> None:
    (tmp_path / "prints.py").write_text("for k in range(100_000): print(k)")
    plain, ours = (shell(f"({start} prints.py; echo $? >&2) | true", folder=tmp_path) for start in ("$PYTHON", "$TILESTEP run"))
    before, _, after = ours.stderr.partition(f"\n{NOTHING_RAN}")
    assert before + after.partition("\n")[2] == plain.stderr


UNREAD = """
import os, sys
from tilestep.cli import main
read, write = os.pipe()
os.close(read)
sys.stderr = open(write, "w")
status = main(["run", "-c", "0"])
print(status, sys.stderr.closed)
sys.stderr.close()
"""


def test_a_summary_that_nobody_reads_is_not_missed(run_python: RunPython) -> None:
    done = run_python("-c", UNREAD)
    assert (done.returncode, done.stdout, done.stderr) == (0, "0 False\n", "")


IN_NO_FOLDER = "import os, sys, tilestep.__main__; os.rmdir(os.getcwd()); sys.exit(tilestep.__main__.main())"
GONE = "the working directory is gone (No such file or directory): go to one that exists, or name files by absolute paths"


def test_a_working_directory_that_is_gone_is_told_in_a_line(run_python: RunPython, tmp_path: Path) -> None:
    for command, told in (
        ("run nofile.py", f"tilestep run: {GONE}"),
        ("run -m no_such_module", f"tilestep run: {GONE}"),
        ("run --json profile.json -c 0", f"tilestep run: {GONE}"),
        ("run --report report -c 0", f"tilestep run: {GONE}"),
        ("run --machine mine.toml -c 0", "tilestep run: --machine: mine.toml: the machine's description cannot be read: No such file"),
        ("machines mine.toml", "tilestep machines: mine.toml: the machine's description cannot be read: No such file or directory"),
        ("bench-data my_data:batches", f"tilestep bench-data: my_data:batches: {GONE}"),
        ("bench-data my_data.py:batches", f"tilestep bench-data: my_data.py:batches: {GONE}"),
    ):
        done = without_folder(run_python, command, tmp_path)
        assert (done.returncode, done.stdout) == (2, ""), command
        assert done.stderr.startswith(told)
        assert done.stderr.count("\n") == 1


def without_folder(run_python: RunPython, command: str, folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """Runs a command whose working directory is removed before it begins."""
    (folder / "gone").mkdir()
    return run_python("-c", IN_NO_FOLDER, *shlex.split(command), folder=folder / "gone", environ=variables)


def test_an_automatic_report_into_a_working_directory_that_is_gone_is_refused(run_python: RunPython, tmp_path: Path) -> None:
    options = json.dumps({"autoReport.all": "true"})
    done = without_folder(run_python, "run -c 0", tmp_path, POPLAR_ENGINE_OPTIONS=options)
    assert done.returncode == 2
    assert done.stderr.startswith(
        "tilestep run: POPLAR_ENGINE_OPTIONS: autoReport.directory is '.': it must be an absolute path: the working"
    )


def test_what_needs_no_working_directory_runs_without(run_python: RunPython, tmp_path: Path) -> None:
    (tmp_path / "one.py").write_text("print(1)\n")
    for command in ("run -c 'print(1)'", "run -m timeit -n 1 -r 1 'print(1)'", f"run {tmp_path}/one.py", "machines"):
        done = without_folder(run_python, command, tmp_path)
        assert done.returncode == 0, done.stderr
        assert "Traceback" not in done.stderr
        assert done.stdout.startswith("1\n") or "bow-2000" in done.stdout


def test_no_control_character_of_the_command_line_comes_back(capsys: pytest.CaptureFixture[str]) -> None:
    for words in (
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
    ):
        told = refusal(words, capsys)
        assert r"\x1b[31m" in told, words
        assert all(line.isprintable() for line in told.splitlines()), told


def test_words_of_any_length_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    for words in (("run", LONG), ("run", "--ipus", LONG, "-c", "0"), ("bench-data", "--epochs", LONG, "a:b")):
        assert len(refusal(words, capsys)) < 2000


def test_markup_in_a_machine_s_file_is_printed_as_it_stands(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "mine.toml").write_text('inherits = "c600"\nname = "[/red] :smile:"\n')
    assert main(["machines", str(tmp_path / "mine.toml")]) == 0
    assert capsys.readouterr().out.startswith("[/red] :smile:: c600, changed by")


def test_ctrl_c_before_the_program_runs_ends_quietly(run_python: RunPython) -> None:
    code = """
import os, signal, sys
import tilestep.cli
from tilestep.cli import run
own = run.choose_platform
def interrupted():
    run.choose_platform = own
    os.kill(os.getpid(), signal.SIGINT)
run.choose_platform = interrupted
sys.exit(tilestep.cli.main(["run", "-c", "print('never')"]))
"""
    done = run_python("-c", code)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")
