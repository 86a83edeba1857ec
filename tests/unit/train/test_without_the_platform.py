"""The runtime by itself: on JAX's CPU platform it starts no emulator, and runs no compiler but XLA's."""

import re

import pytest

from tests.processes import ROOT, run_python

PROGRAM = """
import subprocess, sys
started = []
sys.addaudithook(lambda event, args: started.append(args[0]) if event in ("subprocess.Popen", "os.posix_spawn", "os.exec") else None)
import tilestep.train
emulator = [f"tilestep.{name}" for name in ("machine", "program", "cost", "plan", "sim", "report", "pjrt")]
assert not [name for name in sys.modules if name.startswith(tuple(emulator))], "imported with the runtime"
import jax, numpy as np, optax
from tilestep.train import InfeedQueue, OutfeedQueue, Pipeline, repeat
outfeed = OutfeedQueue()
def body(carry, x):
    outfeed.enqueue(carry)
    return carry + x
assert repeat(4, body, np.float32(0), InfeedQueue([np.float32(1)] * 4), outfeed) == 4
pipeline = Pipeline([lambda w, x: w * x, lambda w, x: (w * x).sum()], optax.sgd(0.5), 4, device_mapping=[0, 0])
pipeline.step(pipeline.init([np.float32(1), np.float32(1)]), np.ones((4, 3), np.float32))
assert [device.platform for device in jax.devices()] == ["cpu"] * len(jax.devices())
assert not tilestep.hints.listens("ipu"), "an emulator has started"
print(started)
"""


@pytest.mark.slow
@pytest.mark.process
def test_the_runtime_starts_no_emulator_and_no_compiler() -> None:
    environ = {"JAX_PLATFORMS": "cpu", "PATH": "/nowhere", "CC": "/nowhere/cc"}
    ended = run_python("-c", PROGRAM, environ=environ)
    assert (ended.returncode, ended.stdout) == (0, "[]\n"), ended.stderr


def test_the_runtime_does_not_ask_for_the_platform_by_name() -> None:
    """An emulator makes itself known by a hint (`hints.listens`)."""
    comparison = re.compile(r"""[=!]= ["']ipu["']""")
    assert [str(path) for path in (ROOT / "src/tilestep/train").rglob("*.py") if comparison.search(path.read_text(encoding="utf-8"))] == []
