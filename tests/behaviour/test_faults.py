"""Limits of the system, signals and children: each run in a process of its own, which must tell its user what happened, and go on."""

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.processes import PROCESS_TIMEOUT_WALL_S, ROOT, clean_environ, run_python

LIMITS = """
    import json, os, resource, signal, sys
    import numpy as np
    from tilestep.errors import CheckpointError
    from tilestep.train import Checkpoints, InfeedQueue, loop_state, repeat

    folder = sys.argv[1]
    def step(w, x):
        return w + x
    def told(error, **more):
        state = loop_state(error)
        carry = None if state is None else float(state.carry[0])
        print(json.dumps({"error": type(error).__name__, "text": str(error), "notes": getattr(error, "__notes__", []),
                          "steps": state and state.steps, "carry": carry, **more}), flush=True)
    def run(name, limit):
        # A run has done 4 of 12 steps, with a save after each four. Then there is a limit. Then it goes on without one.
        kept = {}
        def elements(limited):
            for number in range(12):
                if limited and number == 4:
                    limit(kept)
                yield np.float32(number)
        def loop(steps, limited=False):
            saves = Checkpoints(os.path.join(folder, name), every=4)
            with InfeedQueue(lambda: elements(limited), prefetch_depth=1) as infeed:
                return repeat(steps, step, np.zeros(300_000, np.float32), infeed, chunk=4, checkpoints=saves)
        loop(4)
        try:
            loop(12, limited=True)
        except Exception as error:
            for number, limits in kept.items():
                resource.setrlimit(number, limits)
            if os.geteuid() == 65534:
                os.seteuid(0)
            told(error, saved=Checkpoints(os.path.join(folder, name)).steps())
        os.chmod(os.path.join(folder, name, "process-0"), 0o755)
        print(json.dumps(float(loop(12)[0])), flush=True)
    def limited(number, most):
        def set_limit(kept):
            kept[number] = resource.getrlimit(number)
            resource.setrlimit(number, (most(), kept[number][1]))
        return set_limit
    def read_only(kept):
        os.chmod(os.path.join(folder, "read-only", "process-0"), 0o555)
        if os.geteuid() == 0:
            os.seteuid(65534)  # root may write everywhere
    repeat(4, step, np.zeros(300_000, np.float32), InfeedQueue([np.float32(0)] * 4), chunk=4)  # compiles: that needs files
    os.chmod(folder, 0o755)
    run("full disk", limited(resource.RLIMIT_FSIZE, lambda: 1_000_000))
    run("files", limited(resource.RLIMIT_NOFILE, lambda: 3))
    run("read-only", read_only)
    def needs_memory():
        yield from np.arange(6, dtype=np.float32)
        pages = int(open("/proc/self/statm").read().split()[0])
        before = resource.getrlimit(resource.RLIMIT_AS)
        resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + 2**28, before[1]))
        try:
            np.ones(2**30, np.uint8)
        finally:
            resource.setrlimit(resource.RLIMIT_AS, before)
    try:
        repeat(12, step, np.zeros(1, np.float32), InfeedQueue(needs_memory), chunk=2)
    except MemoryError as error:
        told(error)
    def stops():
        for number in range(12):
            if number == 7:
                os.kill(os.getpid(), signal.SIGSTOP)
            yield np.float32(number)
    print(json.dumps(float(repeat(12, step, np.zeros(1, np.float32), InfeedQueue(stops), chunk=2)[0])))
"""


@pytest.fixture(scope="module")
def limits() -> Iterator[list[Any]]:
    """What the program has told, line by line. At its end it stops itself once, and SIGCONT makes it go on.

    Its folder is none of pytest's, which another user may not look into.
    """
    with tempfile.TemporaryDirectory() as folder:
        yield limited(folder)


def limited(folder: str) -> list[Any]:
    command = [sys.executable, "-c", textwrap.dedent(LIMITS), folder]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=clean_environ({"JAX_PLATFORMS": "cpu"})) as process:
        _, status = os.waitpid(process.pid, os.WUNTRACED)
        process.send_signal(signal.SIGCONT)
        out, err = process.communicate(timeout=PROCESS_TIMEOUT_WALL_S)
    assert (os.WIFSTOPPED(status), process.returncode) == (True, 0), err.decode()
    return [json.loads(line) for line in out.splitlines()]


@pytest.mark.parametrize(
    ("index", "what", "reason"),
    [
        (0, "the checkpoint of step 8 in .* was not saved", "File too large"),
        (1, "(the checkpoint of step 8 in .* was not saved|checkpoints in .* cannot be listed)", "Too many open files"),
        (2, "the checkpoint of step 8 in .* was not saved", "Permission denied"),
    ],
    ids=["full", "files", "read-only"],
)
def test_a_save_that_the_system_refuses_is_told_and_the_run_goes_on_from_the_one_before(
    limits: list[Any], index: int, what: str, reason: str
) -> None:
    """The sum of 0 to 11 is 66. The state after step 8 or 12 is with the error, and step 4 on the disk."""
    told, total = limits[2 * index : 2 * index + 2]
    assert told["error"] == "CheckpointError"
    assert re.fullmatch(f"{what}: {reason}", told["text"]), told
    assert told["carry"] == sum(range(told["steps"]))
    assert (told["steps"] in (8, 12), told["saved"]) == (True, [4])
    if reason != "Too many open files":  # with which the directory cannot be looked at either
        assert told["notes"][-1].endswith("has the checkpoint of step 4, from which the next run goes on")
    assert total == 66


def test_a_dataset_without_memory_is_told_with_the_state(limits: list[Any]) -> None:
    told = limits[6]
    assert told["error"] in ("MemoryError", "_ArrayMemoryError")
    assert (told["steps"], told["carry"]) == (6, 15)


def test_a_process_that_was_stopped_goes_on_as_if_nothing_had_been(limits: list[Any]) -> None:
    """The fixture has seen that it stopped, and made it go on."""
    assert limits[7:] == [66]


FORKS = """
    import multiprocessing, os, sys, warnings
    import numpy as np
    from tilestep.train import Checkpoints, InfeedQueue, repeat
    warnings.filterwarnings("ignore", message=".*fork")  # JAX's, which is right: in its children JAX must not be used
    def square(number):
        return np.float32(number * number)
    def elements():
        with multiprocessing.get_context("fork").Pool(2) as pool:  # as a loader of data with workers
            yield from pool.imap(square, range(40))
    for at in (0, 1):
        saves = Checkpoints(os.path.join(sys.argv[1], str(at)), every=4)
        with InfeedQueue(elements) as infeed:
            print(float(repeat(40, lambda total, x: total + x, np.float32(0), infeed, chunk=4, checkpoints=saves)), flush=True)
    saves.save(50, {"w": np.ones(3_000_000)})
    child = multiprocessing.get_context("fork").Process(target=sys.exit, args=(5,))  # its end looks for saves of its own
    child.start()
    child.join()
    saves.wait()
    print(child.exitcode, saves.steps()[-1])
"""


@pytest.mark.slow
def test_workers_that_a_dataset_forks_leave_the_run_alone_and_end(tmp_path: Path) -> None:
    """The sum of squares of 0 to 39; and a child that is forked amid a save ends with its own status, and does not save."""
    done = run_python("-c", textwrap.dedent(FORKS), str(tmp_path), environ={"JAX_PLATFORMS": "cpu"})
    assert (done.returncode, done.stdout) == (0, "20540.0\n20540.0\n5 50\n"), done.stderr


KILLED = {"three": ("--kills", "3", "--only", "loop"), "fifty": ("--kills", "50")}


@pytest.mark.slow
@pytest.mark.parametrize("number", ["three", pytest.param("fifty", marks=[pytest.mark.slow, pytest.mark.timeout(3600)])])
def test_runs_that_are_killed_at_random_moments_go_on_with_equal_bits(number: str) -> None:
    """Runs of all kinds; of the fast run's three the dataset says how far they are."""
    command = [sys.executable, str(ROOT / "benchmarks" / "kills.py"), *KILLED[number]]
    done = subprocess.run(command, env=clean_environ(), capture_output=True, text=True, timeout=3600, check=False)
    assert (done.returncode, "unequal: none" in done.stdout) == (0, True), done.stdout + done.stderr


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_runs_that_signals_end_at_random_moments_go_on_with_equal_bits() -> None:
    command = [sys.executable, str(ROOT / "benchmarks" / "signals.py"), "--signals", "100"]
    environ = clean_environ({"JAX_PLATFORMS": "cpu"})
    done = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=1800, check=False)
    assert (done.returncode, "unequal: 0" in done.stdout) == (0, True), done.stdout + done.stderr
