"""Processes that tell each other by a store of keys and values which of them is held up."""

from __future__ import annotations

import os
import re
import threading

import pytest

from tilestep.train.patience import Patience, longest_wait, wait
from tilestep.train.processes.peers import Peers


class Store:
    """JAX's, in this process."""

    def __init__(self) -> None:
        self.values: dict[str, str] = {}

    def published(self, prefix: str) -> list[tuple[str, str]]:
        return [(key, value) for key, value in self.values.items() if key.startswith(prefix)]

    def peers(self, me: int, waits: list[tuple[str, float, float] | None]) -> Peers:
        """Args: waits: of each look."""
        rest = iter(waits)
        return Peers(me, 2, 20.0, publish=self.values.__setitem__, published=self.published, wait=lambda: next(rest))


def test_a_process_that_waits_long_is_named_once_for_each_wait() -> None:
    store = Store()
    first = store.peers(0, [None] * 5)
    second = store.peers(1, [("a dataset", 5.0, 19.9), ("a dataset", 5.0, 25.0), ("a dataset", 5.0, 30.0), None, ("a dataset", 80.0, 21.0)])
    said: list[list[str]] = []
    for _ in range(5):
        assert second.look() == []  # of itself
        said.append(first.look())
    line = rf"process 1 of 2 \(pid {os.getpid()} on \S+\) has waited {{}} s for a dataset"
    assert [len(lines) for lines in said] == [0, 1, 0, 0, 1]
    assert re.fullmatch(line.format(25), said[1][0])
    assert re.fullmatch(line.format(21), said[4][0])


def test_processes_that_do_not_wait_say_nothing_to_the_store() -> None:
    store = Store()
    assert store.peers(0, [None]).look() == []
    assert store.peers(1, [("a dataset", 5.0, 1.0)]).look() == []
    assert store.values == {}


@pytest.mark.parametrize(
    "value", ["", "[]", "{", "[1]", '["a", "b", 1, 1, "h"]', '["a", 1, [], 1, "h"]', "[" * 5000, '["a", 1, 1, "p", "h"]']
)
def test_what_no_process_says_is_ignored(value: str) -> None:
    store = Store()
    store.values = {"tilestep/held_up/1": value, "tilestep/held_up/x": '["a", 1, 1, 1, "h"]'}
    assert store.peers(0, [None]).look() == []


def test_what_a_process_says_is_shown_on_one_line() -> None:
    store = Store()
    store.values = {"tilestep/held_up/1": '["\\u001b[2J\\n", 1, 30, 7, "host"]'}
    assert store.peers(0, [None]).look() == [r"process 1 of 2 (pid 7 on host) has waited 30 s for \x1b[2J\n"]


def test_the_waits_of_loops_are_known_and_those_of_readers_are_not() -> None:
    """A reader waits because a loop does."""
    seen = list[object]()
    times = iter([5.0, 5.0, 9.0, 9.0, 9.0, 9.0])
    patience = Patience("room", clock=lambda: next(times))

    class Look(threading.Condition):
        """What a wait is held up by: it looks, and does not wait."""

        def wait(self, timeout: float | None = None) -> bool:
            seen.append(longest_wait())
            return True

    looking = Look()
    wait(looking, None, patience)
    wait(looking, lambda: None, patience)
    assert seen == [None, ("room", 5.0, 4.0)]
    assert longest_wait() is None
