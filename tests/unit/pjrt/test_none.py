"""One build of the C extensions serves all Pythons from 3.11 on, whichever Python's headers it was made with."""

import sys
from collections.abc import Callable

import pytest

from tilestep.pjrt import _native
from tilestep.train import _feeds


@pytest.mark.parametrize(
    "call",
    [lambda: _native.count_dry(0), lambda: _feeds.get(0, 999, 0.0)],
    ids=["pjrt", "train"],
)
def test_a_function_that_returns_none_gives_a_reference_to_it(call: Callable[[], None]) -> None:
    """From Python 3.12 on None is immortal and its count stays as it is. In 3.11 a lost reference in each call would free it in the end."""
    calls = 10_000
    before = sys.getrefcount(None)
    for _ in range(calls):
        assert call() is None
    assert abs(sys.getrefcount(None) - before) < calls // 10
