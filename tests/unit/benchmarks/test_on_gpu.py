"""The script for a GPU says what it could do where there is none."""

import shutil
import subprocess
import sys

import pytest

from tests.processes import PROCESS_TIMEOUT_WALL_S, ROOT, clean_environ

pytestmark = pytest.mark.process


def on_gpu(*words: str, **environ: str) -> subprocess.CompletedProcess[str]:
    command = [str(ROOT / "benchmarks" / "on_gpu.sh"), *words]
    return subprocess.run(command, env=clean_environ(environ), capture_output=True, text=True, timeout=PROCESS_TIMEOUT_WALL_S, check=False)


@pytest.mark.skipif(shutil.which("nvidia-smi") is not None, reason="there may be a GPU")
def test_without_a_gpu_it_ends_with_one_line_and_a_status_of_its_own() -> None:
    done = on_gpu()
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr == "on_gpu.sh: there is no GPU here, so nothing was tried; --rehearse runs the same on the CPU\n"


def test_another_option_is_refused() -> None:
    done = on_gpu("--fast")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "on_gpu.sh: --fast is no option: it takes --rehearse or nothing\n"


@pytest.mark.slow
def test_it_rehearses_on_the_cpu() -> None:
    done = on_gpu("--rehearse", PYTHON=sys.executable)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1] == "on_gpu.sh: rehearsed on the CPU: all tests passed; it is still not tried on a GPU"
