"""Two programs that save into one directory at once: the second one is refused, until the first ends."""

import os
import re
import subprocess
import sys
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest

from tilestep.errors import CheckpointError
from tilestep.train import Checkpoints, InfeedQueue, repeat

# As `locked` does it, without an import of JAX.
HOLDER = """
import fcntl, os, sys
file = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
fcntl.lockf(file, fcntl.LOCK_EX)
os.pwrite(file, f"pid {os.getpid()} on host7".encode(), 0)
print("ready", flush=True)
sys.stdin.read()
"""


@pytest.mark.process
def test_a_program_that_saves_where_another_one_does_is_refused_until_that_is_dead(tmp_path: Path) -> None:
    (tmp_path / "process-0").mkdir()
    command = [sys.executable, "-S", "-c", HOLDER, str(tmp_path / "process-0" / "lock")]
    refused = "process-0 is being saved to by another program .pid {} on host7.: one directory belongs to one run: wait for its end"
    steps: list[int] = []

    def data() -> list[np.float32]:
        steps.append(1)
        return [np.float32(1)] * 4

    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        with pytest.raises(CheckpointError, match=refused.format(holder.pid)):
            Checkpoints(tmp_path).save(1, jnp.zeros(2))
        with InfeedQueue(data) as infeed, pytest.raises(CheckpointError, match=refused.format(holder.pid)):
            repeat(4, lambda carry, x: carry + x, jnp.float32(0), infeed, checkpoints=Checkpoints(tmp_path, every=1))
        assert not steps  # nothing has begun
        holder.kill()
    assert Checkpoints(tmp_path).steps() == []
    assert repeat(4, lambda c: c + 1, jnp.float32(0), checkpoints=Checkpoints(tmp_path, every=1)) == 4


def test_two_runs_of_one_process_are_kept_apart_and_one_after_another_are_not(tmp_path: Path) -> None:
    other = Checkpoints(tmp_path)

    def data() -> object:
        yield np.float32(1)
        with pytest.raises(CheckpointError, match=re.escape(f"another run of this process (pid {os.getpid()})")):
            other.save(7, jnp.zeros(2))
        yield np.float32(1)

    with InfeedQueue(data, prefetch_depth=1) as infeed:
        repeat(2, lambda carry, x: carry + x, jnp.float32(0), infeed, chunk=1, checkpoints=Checkpoints(tmp_path, every=1))
    other.save(7, jnp.zeros(2))
    other.wait()
    Checkpoints(tmp_path, background=False).save(8, jnp.zeros(2))
    assert other.steps() == [2, 7, 8]
