"""Programs of PopART's time get the names that NumPy has dropped; packages do not."""

import numpy as np
import pytest

from tests.together import each
from tilestep.cli.former_numpy import former_numpy


def run(code: str, told: list[str], *, filename: str = "program.py") -> dict[str, object]:
    found: dict[str, object] = {"np": np}
    with former_numpy(told.append):
        exec(compile(code, filename, "exec"), found)
    return found


def test_former_names_are_what_they_were_and_are_told_of_once() -> None:
    """By NumPy 1.16: product is prod, int is Python's, and fromstring reads bytes in this machine's order, into an array of its own."""
    told: list[str] = []
    found = run(
        "from numpy import product\n"
        "a = product([2, 3]); b = np.zeros(2, np.int); c = np.float is float; d = np.NaN\n"
        "e = np.fromstring(bytes([1, 0, 2, 0]), np.uint16); e += 1\n"
        "f = np.fromstring('1 2', sep=' '); g = np.fromstring('a', np.uint8)",
        told,
    )
    assert (found["a"], found["b"].dtype, found["c"]) == (6, np.dtype(int), True)  # type: ignore[attr-defined]
    assert np.isnan(found["d"])  # type: ignore[call-overload]
    assert [found[name].tolist() for name in "efg"] == [[2, 3], [1, 2], [97]]  # type: ignore[attr-defined]
    (line,) = told
    assert line.startswith(f"NumPy {np.__version__} has no np.product any more: tilestep gives it to the program")


def test_a_program_that_uses_none_is_told_nothing() -> None:
    told: list[str] = []
    run("np.fromstring('1 2', sep=' '); np.prod([1]); np.fft.fft([1])", told)
    assert not told


@each("filename", [np.__file__, "/usr/lib/python3/dist-packages/any.py", pytest.__file__])
def test_packages_do_not_see_them(filename: str) -> None:
    told: list[str] = []
    found = run("a = hasattr(np, 'product'), hasattr(np, 'float_')", told, filename=filename)
    assert found["a"] == (False, False)
    with pytest.raises(ValueError, match="binary mode of fromstring"):
        run("np.fromstring(b'ab', np.uint8)", told, filename=filename)
    assert not told


def test_names_that_numpy_never_had_are_errors_and_all_is_gone_afterwards() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'never'"):
        run("np.never", [])
    assert not hasattr(np, "product")
    with pytest.raises(ValueError, match="binary mode of fromstring"):
        np.fromstring(b"ab", np.uint8)
