"""Memory goes back to the system, and small pieces of it are kept out of use."""

from __future__ import annotations

import platform

import pytest

from tests.processes import run_python

GIVES_BACK = """
import ctypes, threading
from pathlib import Path
from tilestep.train.host_memory import give_back

libc = ctypes.CDLL(None)
libc.malloc.restype, libc.malloc.argtypes, libc.free.argtypes = ctypes.c_void_p, [ctypes.c_size_t], [ctypes.c_void_p]

def resident():
    return 4096 * int(Path("/proc/self/statm").read_text().split()[1])

def work():  # chunks too small to be mapped by themselves, of which some stay, so that the arena cannot shrink
    chunks = [libc.malloc(60_000) for _ in range(1000)]
    for chunk in chunks:
        ctypes.memset(chunk, 1, 60_000)
    for number, chunk in enumerate(chunks):
        if number % 10:
            libc.free(chunk)

thread = threading.Thread(target=work)
thread.start()
thread.join()
before = resident()
assert give_back()
print(before - resident())
"""

HOLDS = """
import ctypes, gc
from tilestep.train.host_memory import hold_pieces

libc = ctypes.PyDLL(None)
libc.malloc.restype, libc.malloc.argtypes, libc.free.argtypes = ctypes.c_void_p, [ctypes.c_size_t], [ctypes.c_void_p]
chunks = [libc.malloc(600) for _ in range(4000)]
scattered = set(chunks[::2])
for chunk in scattered:
    libc.free(chunk)

def of_these():  # how many of what malloc gives lie between chunks in use
    given = [libc.malloc(600) for _ in range(100)]
    count = len(scattered.intersection(given))
    for chunk in given:
        libc.free(chunk)
    return count

before = of_these()
pieces = hold_pieces()
held, count = of_these(), pieces.count
del pieces
gc.collect()
print(before, held, of_these(), count)
"""

needs_glibc = pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="glibc's malloc is what keeps it")


@needs_glibc
def test_what_a_thread_has_freed_goes_back_to_the_system() -> None:
    result = run_python("-c", GIVES_BACK)
    assert result.returncode == 0, result.stderr
    assert int(result.stdout) > 40_000_000  # of 60 million bytes


@needs_glibc
def test_small_pieces_are_held_until_nobody_refers_to_them() -> None:
    result = run_python("-c", HOLDS)
    assert result.returncode == 0, result.stderr
    before, held, after, count = map(int, result.stdout.split())
    assert (before, held) == (100, 0)
    assert after > 90  # the few that were freed last are given out first
    assert 1900 < count < 20_000  # 2,000 of this size, and what importing has left
