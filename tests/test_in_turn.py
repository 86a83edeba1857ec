"""Programs that run in turn in one process find what they would find in a process of their own."""

from pathlib import Path

import pytest

from tests.in_turn import in_turn
from tests.processes import ROOT

CHANGES_MUCH = """
import os, signal, sys, warnings
import jax
import own_module
jax.config.update("jax_enable_x64", True)
os.environ["MINE"] = "1"
sys.path.append("/nowhere")
sys.excepthook = signal.signal(signal.SIGTERM, signal.SIG_IGN)
sys.stdout.close()
warnings.simplefilter("error")
os.chdir("/")
raise SystemExit(3)
"""
LOOKS = """
import os, signal, sys, warnings
import jax
print("own_module" in sys.modules, jax.config.jax_enable_x64, os.environ.get("MINE"), "/nowhere" in sys.path, os.getcwd())
print(signal.getsignal(signal.SIGTERM) == signal.SIG_DFL, sys.argv, hasattr(sys, "last_value"), jax.devices()[0].platform)
warnings.warn("careful")
1 / 0
"""


def test_a_program_finds_nothing_of_those_before_it(tmp_path: Path) -> None:
    (tmp_path / "own_module.py").write_text("")
    with in_turn() as run:
        for _ in range(2):
            assert run("-c", CHANGES_MUCH, "a", folder=tmp_path).returncode == 3
            done = run("-c", LOOKS, "b", environ={"JAX_PLATFORMS": "cpu"})
            assert done.returncode == 1
            assert done.stdout == f"False False None False {ROOT}\nTrue ['-c', 'b'] False cpu\n"
            told, _, trace = done.stderr.partition("Traceback")
            assert "UserWarning: careful" in told
            assert trace.endswith('  File "<string>", line 7, in <module>\nZeroDivisionError: division by zero\n')
        for count in (2, 3):
            code = "import jax; print([device.id for device in jax.devices('ipu')])"
            assert run("-c", code, environ={"JAX_IPU_DEVICE_COUNT": str(count)}).stdout == f"{list(range(count))}\n"


@pytest.mark.slow
def test_a_program_that_ends_the_process_is_told_and_the_next_one_runs() -> None:
    with in_turn() as run:
        with pytest.raises(AssertionError, match="the process has ended"):
            run("-c", "import os; os._exit(7)")
        assert run("-c", "import sys; print(sys.stdin.read()); sys.exit('gone')", text_in="given").stdout == "given\n"
