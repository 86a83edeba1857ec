"""Programs that find their place in a cluster by themselves, under a real mpirun and in Slurm's environment; and how they end and go on."""

import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.processes import clean_environ
from tilestep.train import Checkpoints

from .several import ROOT, Ended, free_port, started

PROGRAM = Path(__file__).with_name("processes_in_clusters.py")
LIMIT_WALL_S = 600.0  # on a machine however busy
MOST_STEPS = 10_000_000  # which take longer than any test
MPIRUN = "mpirun --allow-run-as-root --oversubscribe --mca oob_tcp_if_include lo"  # process 0 listens where mpirun does


@pytest.fixture
def mpirun() -> list[str]:
    """The words before a program's that start it under Open MPI."""
    if shutil.which("mpirun") is None:
        reason = "no mpirun: apt-get install openmpi-bin"
        pytest.fail(reason) if os.environ.get("CLUSTER_CHECKS") == "required" else pytest.skip(reason)
    return MPIRUN.split()


def environ() -> dict[str, str]:
    return clean_environ({"PYTHONPATH": str(ROOT), "JAX_PLATFORMS": "cpu"})


def in_slurm(*arguments: object) -> list[Ended]:
    """How two processes of a step of Slurm on localhost ended."""
    place = f"SLURM_JOB_ID=7 SLURM_STEP_NODELIST=localhost SLURM_NTASKS=2 JAX_COORDINATOR_PORT={free_port()}".split()
    program = [sys.executable, "-W", "error", str(PROGRAM), *map(str, arguments)]
    commands = [["env", *place, f"SLURM_PROCID={k}", f"SLURM_LOCALID={k}", *program] for k in range(2)]
    return started(commands, limit_wall_s=LIMIT_WALL_S)


def test_in_slurm_sigterm_to_one_process_saves_one_step_in_all_and_ends_them_with_143(tmp_path: Path) -> None:
    """JAX agrees on the step after which all end, some time after the signal."""
    ended = in_slurm(60, tmp_path, MOST_STEPS, 1000, "term 1")
    assert sorted(line for end in ended for line in end.lines) == ["joined 0 2", "joined 1 2"]
    assert [end.status for end in ended] == [128 + signal.SIGTERM] * 2, ended
    parts = [{folder.name for folder in (tmp_path / "kept" / f"process-{k}").iterdir() if folder.is_dir()} for k in range(2)]
    assert parts[0] == parts[1]
    last = Checkpoints(tmp_path / "kept").steps()[-1]
    assert (40 <= last < MOST_STEPS, last % 10) == (True, 0)  # where a chunk ends
    assert not [line for end in ended for line in end.err.splitlines() if "died" in line or "InfeedQueue" in line], ended


@pytest.mark.slow
def test_under_mpirun_the_others_name_the_process_whose_dataset_blocks(tmp_path: Path, mpirun: list[str]) -> None:
    """Three processes, which find their places by themselves. The third one's dataset goes on when the two others have named it."""
    os.mkfifo(tmp_path / "pipe")
    files = ["--output-filename", str(tmp_path / "said")]  # mpirun's own output has parts of lines from several processes
    command = [*mpirun, *files, "-n", "3", sys.executable, "-W", "error", str(PROGRAM), "60", str(tmp_path), "100", "1000", "block 2"]
    words = re.compile(
        r"tilestep: process 2 of 3 \(pid \d+ on \S+\) has waited \d+ s for the next elements of its InfeedQueue: the dataset "
    )
    named, seen = list[str](), ""
    with subprocess.Popen(command, env=environ(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
        assert running.stderr is not None
        assert running.stdout is not None
        for line in running.stderr:
            assert "died" not in line, line
            seen += line
            named = words.findall(seen)
            if len(named) == 2:
                (tmp_path / "pipe").write_text("go on")
                break
        _, err = running.communicate(timeout=LIMIT_WALL_S)
    assert (running.returncode, len(named)) == (0, 2), err
    lines = said(tmp_path)
    assert sorted(line for line in lines if line.startswith("joined")) == [f"joined {process} 3" for process in range(3)]
    assert len({line.split()[2] for line in digests(lines)}) == 1


def said(folder: Path) -> list[str]:
    """What each process has written to stdout, when it ran last."""
    return [line for file in sorted(folder.glob("said/*/rank.*/stdout")) for line in file.read_text(encoding="utf-8").splitlines()]


def digests(lines: list[str]) -> list[str]:
    """What each process said of the result."""
    return sorted(line for line in lines if line.startswith("ended"))
