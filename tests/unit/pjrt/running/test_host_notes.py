"""What a recording keeps of the host's calls beside their time."""

import threading

import jax
import numpy as np
import pytest

from tilestep.pjrt.running import host_notes
from tilestep.pjrt.running.host_notes import Contents, current_line
from tilestep.sim.calls import HostLine


def number(contents: Contents, values: np.ndarray) -> int:
    return contents.number(values.ctypes.data, values.nbytes)


def test_the_line_is_that_of_the_user_and_not_of_an_installed_package_in_between() -> None:
    found: list[HostLine | None] = []
    jax.tree.map(lambda _: found.append(current_line()), [0])
    jax.make_jaxpr(lambda: found.append(current_line()))()
    assert [line and line[0] for line in found] == [__file__, __file__]


def test_a_thread_without_a_line_of_the_user_has_none() -> None:
    found: list[HostLine | None] = []
    code = compile("found.append(current_line())", "/x/site-packages/jax/_src/x.py", "exec")
    names = {"found": found, "current_line": current_line}
    thread = threading.Thread(target=exec, args=(code, names))
    thread.start()
    thread.join()
    assert found == [None]


def test_equal_bytes_have_one_number_from_their_second_upload_on() -> None:
    contents, values = Contents(), np.arange(10_000, dtype=np.float32)
    first, *again = [number(contents, values.copy()) for _ in range(4)]
    assert first not in again
    assert len(set(again)) == 1


@pytest.mark.parametrize("place", [0, 5_000, 9_999])
def test_other_bytes_have_another_number(place: int) -> None:
    contents, values = Contents(), np.zeros(10_000, np.float32)
    for _ in range(3):
        known = number(contents, values)
    values[place] = 1
    assert len({number(contents, values), number(contents, values), known}) > 1
    assert number(contents, values) != known


def test_bytes_that_are_too_many_are_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_notes, "MOST_WHOLE_UPLOAD_BYTES", 99)
    assert [number(Contents(), np.zeros(100, np.uint8)) for _ in range(3)] == [0, 0, 0]
