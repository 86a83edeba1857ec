"""Real kills: of one process at random moments, and of one of two."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest

from tests.processes import clean_environ, run_python
from tilestep.train import Checkpoints

from .test_processes import run_program

PROCESSES = Path(__file__).with_name("processes_checkpoints.py")

LOOP = """
    import hashlib, sys
    import jax, jax.numpy as jnp, numpy as np
    from tilestep.train import Checkpoints, InfeedQueue, OutfeedQueue, repeat
    outfeed = OutfeedQueue()
    def step(carry, x):
        w, key = carry
        key, own = jax.random.split(key)
        outfeed.enqueue(w.sum())
        return jnp.tanh(w @ x) + 0.1 * jax.random.normal(own, w.shape), key
    data = lambda: (np.random.default_rng(k).normal(size=(40, 40)).astype(np.float32) for k in range(2000))
    carry = jnp.eye(40), jax.random.key(0)
    print("begins", flush=True)
    with InfeedQueue(data) as infeed:
        w, key = repeat(600, step, carry, infeed, outfeed, checkpoints=Checkpoints(sys.argv[1], every=6))
    parts = w, jax.random.key_data(key), outfeed.dequeue()
    print("ended", hashlib.sha256(b"".join(np.asarray(part).tobytes() for part in parts)).hexdigest())
"""


SUICIDE = """
    import os, signal
    def dying(elements, number):
        for index, element in enumerate(elements):
            if index == number:
                os.kill(os.getpid(), signal.SIGKILL)
            yield element
    whole, plain = data, OutfeedQueue()
    data = lambda: dying(whole(), int(sys.argv[2]))
"""


def test_a_loop_that_kills_itself_three_times_goes_on_with_equal_bits(tmp_path: Path) -> None:
    """The last process runs it whole, too, in another directory."""
    head, tail = textwrap.dedent(LOOP).split('print("begins"')
    shorter = f'print("begins"{tail}'.replace("repeat(600", "repeat(90")
    once = f"{head}{textwrap.dedent(SUICIDE)}{shorter}"
    twice = f"{once}data, carry, sys.argv[1] = whole, (jnp.eye(40), jax.random.key(0)), sys.argv[1] + ' whole'\n{shorter}"
    for number in (20, 50, 80):
        killed = run_python("-c", once, str(tmp_path / "killed"), str(number), environ={"JAX_PLATFORMS": "cpu"})
        assert killed.returncode == -signal.SIGKILL, killed.stderr
    done = run_python("-c", twice, str(tmp_path / "killed"), "-1", environ={"JAX_PLATFORMS": "cpu"})
    assert done.returncode == 0, done.stderr
    first, second = (line for line in done.stdout.splitlines() if line.startswith("ended"))
    assert first == second


def test_the_end_of_a_program_waits_for_what_is_being_saved(tmp_path: Path) -> None:
    """And says on stderr what could not be saved: here files may have a megabyte."""
    program = """
        import resource, sys, numpy as np
        from tilestep.train import Checkpoints
        kept = Checkpoints(sys.argv[1])
        kept.save(1, {"w": np.ones(10_000_000)})
        if sys.argv[2] == "full":
            kept.wait()
            resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, resource.RLIM_INFINITY))
            kept.save(2, {"w": np.ones(10_000_000)})
    """
    for folder, said in (("own", ""), ("full", "tilestep: the checkpoint of step 2 in ")):
        done = run_python("-c", textwrap.dedent(program), str(tmp_path / folder), folder, environ={"JAX_PLATFORMS": "cpu"})
        assert done.returncode == 0, done.stderr
        told = [line for line in done.stderr.splitlines() if line.startswith("tilestep: ")]
        assert len(told) == bool(said), done.stderr
        assert all(line.startswith(said) and line.endswith("File too large") for line in told), told
    assert Checkpoints(tmp_path / "own").restore(like={"w": np.zeros(10_000_000)})["w"].sum() == 10_000_000


def loop(directory: Path) -> str:
    done = run_python("-c", textwrap.dedent(LOOP), str(directory), environ={"JAX_PLATFORMS": "cpu"})
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
def test_a_loop_killed_at_twenty_random_moments_goes_on_with_equal_bits(tmp_path: Path) -> None:
    """Whatever is being done then: a chunk, the copy, the digests, the files, their renaming."""
    whole, rng = loop(tmp_path / "whole"), random.Random(5)
    command, environ = [sys.executable, "-c", textwrap.dedent(LOOP), str(tmp_path / "killed")], clean_environ({"JAX_PLATFORMS": "cpu"})
    for _ in range(20):
        with subprocess.Popen(command, stdout=subprocess.PIPE, env=environ) as process:
            assert process.stdout is not None
            process.stdout.readline()
            try:
                process.wait(rng.uniform(0.1, 0.8))
            except subprocess.TimeoutExpired:
                process.send_signal(signal.SIGKILL)
            else:
                break  # it was faster
    assert loop(tmp_path / "killed") == whole


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
