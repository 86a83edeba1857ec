"""Processes that tell each other by a store of keys and values which of them is held up."""

import os
import re
import threading

import pytest

from tests.faults import Clock
from tilestep.train.patience import Aloud, longest_wait, wait
from tilestep.train.processes.peers import Peers


def test_a_process_that_waits_long_is_named_once_for_each_wait() -> None:
    first, second = Peers(0, 2, 20.0), Peers(1, 2, 20.0)
    published: dict[str, str] = {}
    said: list[list[str]] = []
    for wait_s in (("a dataset", 5.0, 19.9), ("a dataset", 5.0, 25.0), ("a dataset", 5.0, 30.0), None, ("a dataset", 80.0, 21.0)):
        published.update([own] if (own := second.say(wait_s)) else [])
        assert second.heard([*published.items()]) == []  # of itself
        said.append(first.heard([*published.items()]))
    line = rf"process 1 of 2 \(pid {os.getpid()} on \S+\) has waited {{}} s for a dataset"
    assert [len(lines) for lines in said] == [0, 1, 0, 0, 1]
    assert re.fullmatch(line.format(25), said[1][0])
    assert re.fullmatch(line.format(21), said[4][0])


def test_processes_that_do_not_wait_say_nothing() -> None:
    assert Peers(0, 2, 20.0).say(None) is None
    assert Peers(1, 2, 20.0).say(("a dataset", 5.0, 1.0)) is None


@pytest.mark.parametrize(
    "value", ["", "[]", "{", "[1]", '["a", "b", 1, 1, "h"]', '["a", 1, [], 1, "h"]', "[" * 5000, '["a", 1, 1, "p", "h"]']
)
def test_what_no_process_says_is_ignored(value: str) -> None:
    assert Peers(0, 2, 20.0).heard([("tilestep/held_up/1", value), ("tilestep/held_up/x", '["a", 1, 1, 1, "h"]')]) == []


def test_what_a_process_says_is_shown_on_one_line() -> None:
    published = [("tilestep/held_up/1", '["\\u001b[2J\\n", 1, 30, 7, "host"]')]
    assert Peers(0, 2, 20.0).heard(published) == [r"process 1 of 2 (pid 7 on host) has waited 30 s for \x1b[2J\n"]


def test_the_waits_of_loops_are_known_and_those_of_readers_are_not() -> None:
    """A reader waits because a loop does."""
    seen = list[object]()
    clock = Clock(5.0)
    aloud = Aloud("room", clock=clock)
    clock.now_wall_s = 9.0

    class Look(threading.Condition):
        """What a wait is held up by: it looks, and does not wait."""

        def wait(self, timeout: float | None = None) -> bool:
            seen.append(longest_wait())
            return True

    looking = Look()
    wait(looking, None, aloud)
    wait(looking, lambda: None, aloud)
    assert seen == [None, ("room", 5.0, 4.0)]
    assert longest_wait() is None
