"""Waits that say what they wait for."""

from __future__ import annotations

import subprocess
import sys
import threading

import numpy as np
import pytest

from tilestep.train import OutfeedQueue, patience
from tilestep.train.patience import Patience


def test_a_wait_says_once_what_it_waits_for_after_ten_seconds(capsys: pytest.CaptureFixture[str]) -> None:
    now = [100.0]
    wait = Patience(lambda: "rain", clock=lambda: now[0])
    for moment, left in ((109.9, pytest.approx(0.1)), (110.0, 0), (121.0, None)):
        now[0] = moment
        assert wait.left_wall_s == left
        wait.look()
    assert capsys.readouterr().err == "tilestep: thread MainThread has waited 10 s for rain\n"


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


def test_a_full_queue_with_another_thread_waits_and_says_for_what(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(patience, "SAY_WALL_S", 0.0)
    over, calls = threading.Event(), []
    reader = threading.Thread(target=over.wait)
    reader.start()

    def check() -> None:
        calls.append(None)
        if len(calls) > 2:
            raise Enough

    try:
        with pytest.raises(Enough):
            full().make_room(1, check)
    finally:
        over.set()
        reader.join()
    assert capsys.readouterr().err.endswith("for room in an OutfeedQueue: it holds 4 steps, and another thread has to read them\n")
