"""A process that ends at a random moment, in the midst of everything, never hangs; no signal takes it down but the one that was sent."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.processes import PROCESS_TIMEOUT_WALL_S, clean_environ

LEAVER = Path(__file__).with_name("leaver.py")
INTERRUPTED = {-signal.SIGINT, 1}  # 1: it came while an import ran that makes an error of its own of it
WAYS = {
    "return": {0},
    "exit": {7},
    "exit in a thread": {0},
    "raise": {1},
    "terminate": {-signal.SIGTERM},
    "terminate handled": {7},
    "interrupt": INTERRUPTED,
}
BATCHES, BATCH = 20, 10


def leave(seed: int) -> None:
    """One process; each way to end comes once in seven. Half of the signals that no handler takes come while it still starts: what a
    handler raises there may be lost in JAX's start, after which the program goes on.
    """
    way = list(WAYS)[seed % len(WAYS)]
    since = "start" if way == "terminate" and seed // len(WAYS) % 2 else "ready"
    command = [sys.executable, str(LEAVER), str(seed), way, since]
    result = subprocess.run(command, env=clean_environ(), capture_output=True, text=True, timeout=PROCESS_TIMEOUT_WALL_S, check=False)
    told = f"seed {seed}, {way} since {since}: exit status {result.returncode}\n{result.stderr[-6000:]}"
    assert result.returncode in WAYS[way], told
    assert "Fatal Python error" not in result.stderr, told
    assert "Timeout (" not in result.stderr, told


@pytest.mark.slow
@pytest.mark.timeout(BATCH * PROCESS_TIMEOUT_WALL_S)
@pytest.mark.parametrize("batch", range(BATCHES))
def test_the_process_ends_well_at_many_random_moments(batch: int) -> None:
    for seed in range(100 + batch * BATCH, 100 + (batch + 1) * BATCH):
        leave(seed)
