"""Waits that say what they wait for."""

import ast
import re
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from tests.faults import PATIENCE_WALL_S, Clock, Stderr
from tilestep.train import OutfeedQueue, patience
from tilestep.train.patience import Aloud


def test_a_wait_says_what_it_waits_for_after_ten_seconds_and_then_every_minute(capsys: pytest.CaptureFixture[str]) -> None:
    clock = Clock(100.0)
    wait = Aloud(lambda: "rain", clock=clock)
    for moment, left in ((109.9, pytest.approx(0.1)), (110.0, 0), (121.0, 49.0), (170.0, 0), (171.0, 59.0)):
        clock.now_wall_s = moment
        assert wait.left_wall_s == left
        wait.look()
    said = "tilestep: thread MainThread has waited {} s for rain\n"
    assert capsys.readouterr().err == said.format(10) + said.format(70)


def test_another_thread_says_what_one_waits_for_that_cannot_look(monkeypatch: pytest.MonkeyPatch) -> None:
    """Here after no time at all; and one that is over says nothing."""
    monkeypatch.setattr(patience, "SAY_WALL_S", 0.0)
    monkeypatch.setattr(sys, "stderr", stderr := Stderr("rain"))
    with Aloud(lambda: "rain"):
        assert stderr.said.wait(PATIENCE_WALL_S)
    patience.say_what_is_due()
    assert re.fullmatch(r"tilestep: thread MainThread has waited \d+ s for rain\n?", stderr.getvalue())


@pytest.mark.slow
def test_all_waits_of_the_runtime_have_an_end_or_are_told() -> None:
    """Where its text blocks without a time-out, it is within `Aloud`, or the list says what ends it."""
    found: set[str] = set()
    for path in sorted(TRAIN.rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        told = {id(inner) for node in ast.walk(tree) if isinstance(node, ast.With) and "aloud" in ast.unparse(node.items[0]).lower()
                for inner in ast.walk(node)}  # fmt: skip
        for node in ast.walk(tree):
            call = node.func if isinstance(node, ast.Call) and not node.args and not node.keywords else None
            if isinstance(call, ast.Attribute) and call.attr in ("join", "wait", "result"):
                blocks = True
            else:
                blocks = isinstance(node, ast.Attribute) and node.attr == "block_until_ready"
            if blocks and id(node) not in told:
                found.add(f"{path.relative_to(TRAIN)}: {ast.unparse(node)}")
    assert found == set(ENDING)


TRAIN = Path(patience.__file__).parent
ENDING = {
    "checkpoints/checkpoints.py: checkpoints.wait()": "tells it itself",
    "checkpoints/checkpoints.py: self._checkpoints.wait()": "tells it itself",
    "checkpoints/checkpoints.py: self.wait()": "tells it itself",
    "feeds/prefetch.py: self._condition.wait()": "of a thread that has nothing to do, for which nobody waits",
    "feeds/staging.py: self._over.wait()": "another thread copies memory",
    "pipeline/compile/executables.py: future.result()": "it is done",
    "schedules/partition.py: _jax.block_until_ready": "of a layer that is timed by itself, with its data there",
}


class Enough(Exception):
    """Ends a wait."""


def full() -> OutfeedQueue:
    outfeed = OutfeedQueue(buffer_depth=4)
    outfeed.deliver(np.zeros((4, 1), np.float32), 4)
    return outfeed


ALONE = """
import numpy as np
from tilestep.train import OutfeedQueue
outfeed = OutfeedQueue(buffer_depth=4)
outfeed.deliver(np.zeros((4, 1), np.float32), 4)
outfeed.make_room(1)
"""


@pytest.mark.process
def test_a_full_queue_without_another_thread_is_an_error() -> None:
    done = subprocess.run([sys.executable, "-c", ALONE], capture_output=True, text=True, timeout=120)
    last = done.stderr.splitlines()[-1]
    assert last == (
        "tilestep.errors.QueueError: the OutfeedQueue is full, and the program has no other thread that could read it: it holds the values "
        "of 4 steps, the next chunk has 1, and buffer_depth is 4; read it in another thread, or choose when_full='drop', or a greater "
        "buffer_depth"
    )


def test_a_full_queue_with_another_thread_waits_and_says_for_what(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patience, "SAY_WALL_S", 0.0)
    monkeypatch.setattr(sys, "stderr", stderr := Stderr("read them\n"))
    over = threading.Event()
    reader = threading.Thread(target=over.wait)
    reader.start()
    limit = time.monotonic() + PATIENCE_WALL_S

    def check() -> None:
        if stderr.said.is_set() or time.monotonic() > limit:
            raise Enough

    try:
        with pytest.raises(Enough):
            full().make_room(1, check)
    finally:
        over.set()
        reader.join()
    assert stderr.getvalue().endswith("for room in an OutfeedQueue: it holds 4 steps, and another thread has to read them\n")
