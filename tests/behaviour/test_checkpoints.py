"""Saves at a program's end, and a kill of one of two processes. Kills at random moments: test_faults.py."""

import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest

from tests.processes import run_python
from tilestep.train import Checkpoints

from .several import started
from .test_processes import run_program

PROCESSES = Path(__file__).with_name("processes_checkpoints.py")


@pytest.mark.slow
def test_the_end_of_a_program_waits_for_what_is_being_saved(tmp_path: Path) -> None:
    """And says on stderr what could not be saved: here files may have a megabyte."""
    program = """
        import resource, sys, numpy as np
        from tilestep.train import Checkpoints
        kept = Checkpoints(sys.argv[1])
        kept.save(1, {"w": np.ones(2_000_000)})
        if sys.argv[2] == "full":
            kept.wait()
            resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, resource.RLIM_INFINITY))
            kept.save(2, {"w": np.ones(2_000_000)})
    """
    for folder, said in (("own", ""), ("full", "tilestep: the checkpoint of step 2 in ")):
        done = run_python("-c", textwrap.dedent(program), str(tmp_path / folder), folder, environ={"JAX_PLATFORMS": "cpu"})
        assert done.returncode == 0, done.stderr
        told = [line for line in done.stderr.splitlines() if line.startswith("tilestep: ")]
        assert len(told) == bool(said), done.stderr
        assert all(line.startswith(said) and line.endswith("File too large") for line in told), told
    assert Checkpoints(tmp_path / "own").restore(like={"w": np.zeros(2_000_000)})["w"].sum() == 2_000_000


@pytest.mark.slow
def test_two_processes_go_on_with_equal_bits_when_one_was_killed(tmp_path: Path) -> None:
    """A loop with replicas, where process 0 dies amid a step, and a pipeline with a stage in each, where it dies amid an update."""

    def ended(folder: str, dies_at: int) -> list[str]:
        return [line for end in run_program(PROCESSES, 2, tmp_path / folder, dies_at) for line in end.out.splitlines() if "ended" in line]

    whole = ended("whole", -1)
    assert len(whole) == 2
    for dies_at in (27, 60 + 18):
        assert ended("killed", dies_at) == []
    assert ended("killed", -1) == whole


PROGRAM = """
import os, signal, sys, warnings
import numpy as np
from tilestep.train import Checkpoints
checkpoints = Checkpoints(sys.argv[1])
checkpoints.save(1, np.ones(3_000_000))
warnings.simplefilter("ignore")
child = os.fork()
if child == 0:
    signal.alarm(60)  # a child that waits for a thread of its parent is killed
    checkpoints.wait()
    os._exit(0)
print(os.waitpid(child, 0)[1], checkpoints.latest())
"""


def test_a_forked_child_does_not_wait_for_its_parents_checkpoint(tmp_path: Path) -> None:
    (ended,) = started([[sys.executable, "-c", PROGRAM, str(tmp_path)]], limit_wall_s=300)
    assert ended.lines == ["0 1"], ended
