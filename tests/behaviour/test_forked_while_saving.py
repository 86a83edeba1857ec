"""A child that is forked while a checkpoint is written has not the thread that writes it."""

from __future__ import annotations

import sys
from pathlib import Path

from .several import started

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
