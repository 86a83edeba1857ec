"""The order of what the host does, before it is emulated time."""

from __future__ import annotations

from collections.abc import Callable

from tilestep.pjrt.running.journal import Journal
from tilestep.settings import read_settings


class _Noticed(int):
    """The number of a value. When it is looked up something else happens, as if another thread had its turn then."""

    then: Callable[[], None]

    def __hash__(self) -> int:
        self.then()
        return int(self)


def test_other_threads_may_add_to_it_while_copies_are_put_in_order() -> None:
    journal = Journal(read_settings({}))
    journal.put(1, 0, 64, False)
    others = iter(range(10, 20))
    source = _Noticed(1)
    source.then = lambda: next((journal.put(value, 0, 64, False) for value in others), None)
    for target in (2, 3):
        journal.copy(source, target, 1, False)
    journal.replay(wait=True)
    assert not journal._entries
    assert all(journal.system.knows(value) for value in (1, 2, 3, 10))
